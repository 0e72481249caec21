/* dist.c - multi-process operations that do not depend on MPI. */
#include "dist.h"

#include <string.h>

/* Eight bytes at a time, with the mixing steps of SplitMix64. */
uint64_t pare_dist_hash(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = bytes * 0x9e3779b97f4a7c15u;

    while (bytes) {
        size_t n = bytes < 8 ? bytes : 8;
        uint64_t v = 0;

        memcpy(&v, p, n);
        h = (h ^ v) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
        p += n;
        bytes -= n;
    }
    h *= 0x94d049bb133111ebu;
    return h ^ h >> 32;
}

static void sums_to_moments(struct pare_moments *m)
{
    const double *sum = m->work, *square = m->work + m->C;

    m->count = m->work[2 * m->C];
    for (int64_t c = 0; c < m->C; c++) {
        double mean = sum[c] / m->count, var = square[c] / m->count - mean * mean;

        m->mean[c] = mean;
        m->var[c] = var < 0 ? 0 : var; /* NaN stays NaN */
    }
}

/* Sums of x and x^2 in double: the cancellation error is far below float precision. */
int pare_dist_moments(struct pare_dist *d, struct pare_moments *m, struct pare_err *err)
{
    if (!d)
        return 0;
    for (int64_t c = 0; c < m->C; c++) {
        m->work[c] = m->count * m->mean[c];
        m->work[m->C + c] = m->count * (m->var[c] + m->mean[c] * m->mean[c]);
    }
    m->work[2 * m->C] = m->count;
    PARE_TRY(pare_dist_merge_batch(d, PARE_MERGE_SUM, PARE_F64, m->work, 2 * m->C + 1, err));
    sums_to_moments(m);
    return 0;
}

int pare_dist_merge_batch(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype,
                          void *data, int64_t n, struct pare_err *err)
{
    if (how == PARE_MERGE_SUM && !(pare_dist_part(d) > 0))
        memset(data, 0, (size_t)n * pare_dtype_size(dtype));
    return pare_dist_merge(d, how, dtype, data, n, err);
}

/* ---- work distribution ----------------------------------------------------------------------- */

static int do_one(const struct pare_work *w, int64_t i, struct pare_err *err)
{
    return w->fn(w->user, i, (char *)w->results + (size_t)i * w->size, err);
}

int pare_dist_work(struct pare_dist *d, const struct pare_work *w, struct pare_err *err)
{
    int64_t i;

    memset(w->results, 0, (size_t)w->n * w->size);
    for (i = 0; i < w->n && !d; i++)
        PARE_TRY(do_one(w, i, err));
    if (!d)
        return 0;
    PARE_TRY(pare_dist_rewind(d, err));
    for (;;) {
        PARE_TRY(pare_dist_next(d, &i, err));
        if (i >= w->n)
            break;
        PARE_TRY(do_one(w, i, err));
    }
    return pare_dist_gather(d, w->results, (size_t)w->n * w->size, err);
}
