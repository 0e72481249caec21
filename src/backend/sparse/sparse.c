/* sparse.c - sparse weights as lists of nonzero blocks. */
#include "sparse.h"

#include <string.h>

#define SAMPLES 1024
#define STRIP 64 /* columns at a time, so that rows are read by cache lines */

const int pare_sparse_rows[PARE_SPARSE_KINDS] = { 1, 4, 8 };

static inline float weight_at(const struct pare_sparse_from *f, int64_t o, int64_t k)
{
    float w;

    memcpy(&w, (const char *)f->data + (o * f->row + k * f->column) * (int64_t)sizeof(w),
           sizeof(w));
    return w;
}

/* Sample a few weights: are there enough zeros to count all? */
static bool many_zeros(const struct pare_sparse_from *f)
{
    int64_t all = f->O * f->K, step = all / SAMPLES + 1, seen = 0, zeros = 0;

    step |= 1; /* otherwise only some of the taps might be sampled */
    for (int64_t i = 0; i < all; i += step, seen++)
        zeros += weight_at(f, i / f->K, i % f->K) == 0;
    return zeros * 3 > seen;
}

/* used[k], bit r: weight (o + r, k) is not zero. */
static void mark_nonzero(const struct pare_sparse_from *f, int64_t o, int64_t k0, int64_t n,
                         uint8_t *used)
{
    memset(used, 0, (size_t)n);
    for (int r = 0; r < 8 && o + r < f->O; r++)
        for (int64_t k = 0; k < n; k++)
            used[k] |= (uint8_t)((weight_at(f, o + r, k0 + k) != 0) << r);
}

bool pare_sparse_count(const struct pare_sparse_from *f, int64_t blocks[PARE_SPARSE_KINDS])
{
    int64_t ones = 0, fours = 0, eights = 0;
    uint8_t used[STRIP];

    if (f->O < 1 || f->K < 1 || !many_zeros(f))
        return false;
    for (int64_t o = 0; o < f->O; o += 8)
        for (int64_t k0 = 0; k0 < f->K; k0 += STRIP) {
            int64_t n = f->K - k0 < STRIP ? f->K - k0 : STRIP;

            mark_nonzero(f, o, k0, n, used);
            for (int64_t k = 0; k < n; k++) {
                ones += __builtin_popcount(used[k]);
                fours += ((used[k] & 15) != 0) + (used[k] > 15);
                eights += used[k] != 0;
            }
        }
    blocks[0] = ones;
    blocks[1] = fours;
    blocks[2] = eights;
    return true;
}

static bool is_used(const struct pare_sparse_from *f, int64_t o, int rows, int64_t k)
{
    for (int r = 0; r < rows && o + r < f->O; r++)
        if (weight_at(f, o + r, k) != 0)
            return true;
    return false;
}

/* List the blocks of the groups, in order of their columns; with s->at NULL only count them. */
static int64_t list_blocks(const struct pare_sparse_from *f, const struct pare_sparse_make *m,
                           struct pare_sparse *s)
{
    int64_t n = 0;

    for (int64_t g = 0; g < s->groups; g++) {
        s->first[g] = n;
        for (int64_t k = 0; k < f->K; k++) {
            int64_t o = g * s->rows;

            if (!is_used(f, o, s->rows, k))
                continue;
            if (s->at) {
                s->at[n] = m->at ? m->at[k] : (int32_t)k;
                for (int r = 0; r < s->rows && o + r < f->O; r++)
                    s->w[n * s->rows + r] = weight_at(f, o + r, k) *
                                            (m->scale ? m->scale[o + r] : 1);
            }
            n++;
        }
    }
    s->first[s->groups] = n;
    return n;
}

int pare_sparse_make(const struct pare_sparse_from *f, const struct pare_sparse_make *m,
                     struct pare_arena *a, struct pare_sparse *s, struct pare_err *err)
{
    int64_t n;

    *s = (struct pare_sparse){ .rows = m->rows,
                               .O = f->O,
                               .groups = (m->outputs + m->rows - 1) / m->rows };
    s->first = pare_alloc(a, (size_t)s->groups + 1, sizeof(*s->first));
    if (!s->first)
        return pare_no_memory(err, "for sparse weights");
    n = list_blocks(f, m, s);
    s->at = pare_alloc(a, (size_t)n + 1, sizeof(*s->at));
    s->w = pare_alloc(a, (size_t)(n * s->rows) + 1, sizeof(*s->w));
    if (!s->at || !s->w)
        return pare_no_memory(err, "for sparse weights");
    list_blocks(f, m, s);
    return 0;
}
