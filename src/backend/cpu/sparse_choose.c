/* sparse_choose.c - which blocks, and are there so few that they win? */
#include "sparse.h"

#include <math.h>

/* Time for a product of a weight and a pixel, where one of a dense direct convolution takes 1. */
static double per_product(const struct pare_sparse_conv *c, int rows)
{
    if (c->wide == 16)
        return rows == 1 ? 2.1 : rows == 4 ? 1.05 : 1.0;
    return rows == 1 ? 2.2 : rows == 4 ? 1.1 : 1.5;
}

static double sparse_time(const struct pare_sparse_conv *c, int rows, int64_t blocks)
{
    double pixels = (double)(c->N * pare_sparse_pixels(c));

    return pixels * (double)(blocks * rows) * per_product(c, rows);
}

static double dense_time(const struct pare_sparse_conv *c)
{
    double taps = (double)(c->kernel[0] * c->kernel[1]);

    return (double)(c->N * c->out[0] * c->out[1] * c->O * c->C) * taps;
}

bool pare_sparse_choose(const struct pare_view *v, const struct pare_sparse_from *f,
                        struct pare_sparse_conv *c)
{
    int64_t blocks[PARE_SPARSE_KINDS];
    double best;

    if (!pare_sparse_shape(c, v->backend->block))
        return false;
    if (v->backend->sparse > 0) {
        c->rows = v->backend->sparse;
        return true;
    }
    if (!pare_sparse_count(f, blocks))
        return false;
    best = v->any ? INFINITY : dense_time(c);
    for (int i = 0; i < PARE_SPARSE_KINDS; i++) {
        double t = sparse_time(c, pare_sparse_rows[i], blocks[i]);

        if (t < best) {
            best = t;
            c->rows = pare_sparse_rows[i];
        }
    }
    return c->rows > 0;
}

int pare_sparse_step_rows(const struct pare_step *s)
{
    return ((const struct pare_sparse_conv *)s->state)->rows;
}
