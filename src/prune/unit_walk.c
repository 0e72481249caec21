/* unit_walk.c - iterator over a weight's elements by unit, see unit_walk.h. */
#include "unit_walk.h"

#include <string.h>

#include "../base/simd.h"

/* Number of trailing axes that can be merged: all of them whole blocks (grid 1), or all of them
 * single elements (block 1). */
static int mergeable_axes(const int64_t *size, int rank)
{
    int n = 0;

    while (n < rank && size[rank - 1 - n] == 1)
        n++;
    return n;
}

void pare_unit_walk_begin(struct pare_unit_walk *w, const struct pare_units *u)
{
    int whole = mergeable_axes(u->grid, u->rank), single = mergeable_axes(u->block, u->rank);
    int covered = whole > single ? whole : single;
    int64_t stride = 1;

    memset(w, 0, sizeof(*w));
    w->u = u;
    w->step = covered > whole;
    w->len = u->n > 0;
    for (int i = u->rank - covered; i < u->rank; i++)
        w->len *= u->block[i] * u->grid[i];
    w->outer = u->rank - covered;
    for (int i = u->rank - 1; i >= 0; i--) {
        w->stride[i] = stride;
        stride *= u->grid[i];
        w->dim[i] = u->block[i] * u->grid[i];
        w->per_unit[i] = u->block[i];
    }
    /* Whole blocks of the preceding axis are contiguous too. */
    if (!w->step && w->outer) {
        w->len *= u->block[w->outer - 1];
        w->dim[w->outer - 1] = u->grid[w->outer - 1];
        w->per_unit[w->outer - 1] = 1;
    }
}

void pare_unit_walk_next(struct pare_unit_walk *w)
{
    w->at += w->len;
    for (int i = w->outer - 1; i >= 0; i--) {
        int64_t before = w->index[i] / w->per_unit[i], now;

        w->index[i] = w->index[i] + 1 < w->dim[i] ? w->index[i] + 1 : 0;
        now = w->index[i] / w->per_unit[i];
        w->unit += (now - before) * w->stride[i];
        if (w->index[i])
            return;
    }
    w->len = 0;
}

PARE_SIMD static float dot_run(const float *restrict x, const float *restrict y, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

PARE_SIMD static float dot_square_run(const float *restrict x, const float *restrict y, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] * y[i]) * (x[i] * y[i]);
    return sum;
}

PARE_SIMD static void multiply_run(const float *restrict x, const float *restrict y, int64_t n,
                                   float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] += x[i] * y[i];
}

PARE_SIMD static void multiply_square_run(const float *restrict x, const float *restrict y,
                                          int64_t n, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] += (x[i] * y[i]) * (x[i] * y[i]);
}

void pare_units_dot(const struct pare_units *u, const float *x, const float *y, float *out)
{
    struct pare_unit_walk w;

    for (pare_unit_walk_begin(&w, u); w.len; pare_unit_walk_next(&w))
        if (w.step)
            multiply_run(x + w.at, y + w.at, w.len, out + w.unit);
        else
            out[w.unit] += dot_run(x + w.at, y + w.at, w.len);
}

void pare_units_dot_square(const struct pare_units *u, const float *x, const float *y, float *out)
{
    struct pare_unit_walk w;

    for (pare_unit_walk_begin(&w, u); w.len; pare_unit_walk_next(&w))
        if (w.step)
            multiply_square_run(x + w.at, y + w.at, w.len, out + w.unit);
        else
            out[w.unit] += dot_square_run(x + w.at, y + w.at, w.len);
}

int pare_units_gather(const struct pare_units *u, const float *x, float *out,
                      struct pare_arena *scratch, struct pare_err *err)
{
    int64_t *filled = pare_alloc(scratch, (size_t)u->n, sizeof(*filled)), size = 1;
    struct pare_unit_walk w;

    if (!filled)
        return pare_no_memory(err, "for %lld units", (long long)u->n);
    for (int i = 0; i < u->rank; i++)
        size *= u->block[i];
    for (pare_unit_walk_begin(&w, u); w.len; pare_unit_walk_next(&w)) {
        int64_t run = w.step ? 1 : w.len;

        for (int64_t i = 0; i < w.len; i += run) {
            int64_t unit = w.unit + i * w.step;

            memcpy(out + unit * size + filled[unit], x + w.at + i, (size_t)run * sizeof(*x));
            filled[unit] += run;
        }
    }
    return 0;
}
