/* affine_grid.c - AffineGrid: the positions of an image's elements after an affine map, for
 * GridSample.
 *
 * Positions run from -1 to 1: the centers of the first and the last element with align_corners,
 * else their outer edges.  An axis of one element is at 0.
 */
#include "../shape/movement.h"

enum { THETA, SIZE, MAX_ND = 3 };

struct affine {
    int64_t align_corners;
};

static const struct pare_opt attrs[] = { PARE_INT("align_corners",
                                                  offsetof(struct affine, align_corners),
                                                  "-1 and 1 are centers of elements", 0, 0, 1),
                                         PARE_OPT_END };

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *theta = &n->in[THETA]->t;
    int64_t size[MAX_ND + 2] = { 0 }, dim[MAX_ND + 2] = { 0 };
    char bt[PARE_SHAPE_TEXT];
    int count, nd;

    PARE_TRY(pare_need(n, SIZE, err));
    PARE_TRY(pare_int_list(&n->in[SIZE]->t, size, MAX_ND + 2, &count, err));
    nd = count - 2;
    if (nd < 2 || theta->rank != 3 || theta->dim[1] != nd || theta->dim[2] != nd + 1 ||
        theta->dim[0] != size[0])
        return pare_fail(
            err, PARE_ESHAPE,
            "theta is %s for a size of %d axes and a batch of %lld, expected (N, 2, 3) "
            "or (N, 3, 4)",
            pare_shape_text(theta, bt, sizeof(bt)), count, (long long)size[0]);
    dim[0] = size[0];
    for (int i = 0; i < nd; i++) {
        dim[i + 1] = size[i + 2];
        if (size[i + 2] < 0)
            return pare_fail(err, PARE_ESHAPE, "size is %lld along axis %d", (long long)size[i + 2],
                             i + 2);
    }
    dim[nd + 1] = nd;
    return pare_shape_set(&n->out[0]->t, theta->dtype, nd + 2, dim, err);
}

/* The position of element i of an axis. */
static double position(const struct pare_node *n, int64_t i, int64_t size)
{
    const struct affine *a = n->attr;

    if (a->align_corners)
        return size > 1 ? 2 * (double)i / (double)(size - 1) - 1 : 0;
    return (double)(2 * i + 1) / (double)size - 1;
}

/* The source position (x, y, z, 1) of position p of an image. */
static void source(const struct pare_node *n, int64_t p, double *at)
{
    const struct pare_tensor *y = &n->out[0]->t;
    int nd = y->rank - 2;

    for (int i = 0; i < nd; i++) {
        int64_t size = y->dim[nd - i];

        at[i] = position(n, p % size, size);
        p /= size;
    }
    at[nd] = 1;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;
    int nd = y->rank - 2;
    int64_t places = pare_is_empty(y) ? 0 : pare_span(y, 1, nd + 1);
    double at[MAX_ND + 1];

    (void)c, (void)err;
    for (int64_t p = 0; places && p < y->dim[0] * places; p++) {
        source(n, p % places, at);
        for (int i = 0; i < nd; i++) {
            int64_t row = (p / places * nd + i) * (nd + 1);
            double sum = 0;

            for (int k = 0; k <= nd; k++)
                sum += pare_get(&n->in[THETA]->t, row + k) * at[k];
            if (y->dtype == PARE_F64)
                ((double *)y->data)[p * nd + i] = sum;
            else
                pare_f32_mut(y)[p * nd + i] = (float)sum;
        }
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;
    const float *gy = pare_f32(&n->out[0]->grad);
    float *g = pare_f32_mut(&n->in[THETA]->grad);
    int nd = y->rank - 2;
    int64_t places = pare_is_empty(y) ? 0 : pare_span(y, 1, nd + 1);
    double at[MAX_ND + 1];

    (void)c, (void)err;
    for (int64_t p = 0; g && gy && places && p < y->dim[0] * places; p++) {
        source(n, p % places, at);
        for (int i = 0; i < nd; i++)
            for (int k = 0; k <= nd; k++)
                g[(p / places * nd + i) * (nd + 1) + k] += gy[p * nd + i] * (float)at[k];
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[THETA], 0, n->out[0], 0);
}

const struct pare_op pare_op_affine_grid = {
    .type = "AffineGrid",
    .doc = "Positions after an affine map, for GridSample.",
    .since = 20,
    .in = "TL",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct affine),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .sizes = PARE_IN(SIZE),
};
