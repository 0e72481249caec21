/* sparse_choose.c - choose the block size of sparse weights by estimated time.
 *
 * The unit of time is that of a dense direct convolution for one product of a weight and a pixel;
 * the constants were measured (make bench-sparse).
 */
#include "sparse.h"

#include <math.h>

#define PER_FLOAT 20  /* to copy a pixel into a plane, or a result out of a tile */
#define TRANSFORM 200 /* Winograd transforms of one channel of a tile of 4 x 4 pixels */

static bool is_row(const struct pare_sparse_conv *c)
{
    return c->flat && c->N * c->out[0] == 1;
}

/* One row reads every weight once and is bound by that: per block, its weights; for single weights
 * also the lookup of the input. */
static double row_time(int rows, int64_t blocks)
{
    double each = rows == 1 ? 5.5 : rows == 4 ? 1.8 : 1.4;

    return (double)(blocks * rows) * each;
}

static double per_product(const struct pare_sparse_conv *c, int rows)
{
    int64_t vectors = pare_sparse_pixels(c) / c->bands / c->wide;

    if (rows == 1)
        return 2.2; /* a load per weight */
    if (rows == 4)
        return c->wide == 16 ? 1.04 : 1.15;
    return c->wide == 16 ? vectors <= 4 ? 1.2 : 1.02 : 1.6;
}

static double sparse_time(const struct pare_sparse_conv *c, int rows, int64_t blocks)
{
    double products = (double)(pare_sparse_pixels(c) * blocks * rows) * per_product(c, rows);
    double moved = (double)(c->planes * c->plane * c->bands + c->O * c->out[0] * c->out[1]);

    return (double)c->N * (products + PER_FLOAT * moved);
}

/* The faster of direct and Winograd convolution, including reading the transformed filters. */
static double dense_time(const struct pare_sparse_conv *c)
{
    double pairs = (double)(c->C * c->O), images = (double)c->N, tiles;
    double direct = images * (double)(c->out[0] * c->out[1] * c->kernel[0] * c->kernel[1]) * pairs;
    double products, filters, wino;
    int64_t high = (c->out[0] + 3) / 4, wide = (c->out[1] + 3) / 4;

    for (int i = 0; i < 2; i++)
        if (c->kernel[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1 || c->pad[i] > 2)
            return direct;
    tiles = images * (double)(high * wide);
    products = 1.5 * 36 * tiles * pairs;
    filters = 0.8 * 36 * pairs * c->lanes;
    wino = fmax(products, filters) + TRANSFORM * tiles * (double)(c->C + c->O);
    return fmin(direct, wino);
}

bool pare_sparse_choose(const struct pare_match *v, const struct pare_sparse_from *f,
                        struct pare_sparse_conv *c)
{
    int64_t blocks[PARE_SPARSE_KINDS];
    double best;

    if (!pare_sparse_shape(c, v->backend->block))
        return false;
    if (v->backend->sparse_rows > 0) {
        c->rows = v->backend->sparse_rows;
        return true;
    }
    if (!pare_sparse_count(f, blocks))
        return false;
    best = v->ignore_cost ? INFINITY : is_row(c) ? (double)(c->C * c->O) : dense_time(c);
    for (int i = 0; i < PARE_SPARSE_KINDS; i++) {
        int rows = pare_sparse_rows[i];
        double t = is_row(c) ? row_time(rows, blocks[i]) : sparse_time(c, rows, blocks[i]);

        if (t < best) {
            best = t;
            c->rows = rows;
        }
    }
    return c->rows > 0;
}

int pare_sparse_step_rows(const struct pare_step *s)
{
    return ((const struct pare_sparse_conv *)s->state)->rows;
}
