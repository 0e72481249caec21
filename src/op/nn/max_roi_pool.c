/* max_roi_pool.c - MaxRoiPool: the largest elements of regions of X, each divided into bins.
 *
 * A region is (image, x1, y1, x2, y2); its corners are rounded to elements, both inclusive.
 */
#include <math.h>

#include "../op.h"

struct max_roi_pool {
    struct pare_ints pooled_shape;
    double spatial_scale;
};

static const struct pare_opt attrs[] = {
    { "pooled_shape", "bins of a region: height and width", PARE_OPT_INTS,
      offsetof(struct max_roi_pool, pooled_shape), 0, 1, INT32_MAX, NULL, NULL, true, NULL },
    PARE_FLOAT("spatial_scale", offsetof(struct max_roi_pool, spatial_scale),
               "factor from a region's coordinates to X's", 1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct max_roi_pool *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *r = &n->in[1]->t;
    char bx[PARE_SHAPE_TEXT], br[PARE_SHAPE_TEXT];
    int64_t dim[4] = { r->dim[0], x->dim[1] };

    if (x->rank != 4 || r->rank != 2 || r->dim[1] != 5 || a->pooled_shape.n != 2)
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s, rois are %s and pooled_shape has %d numbers, "
                         "expected (N, C, H, W), (R, 5) and 2",
                         pare_shape_text(x, bx, sizeof(bx)), pare_shape_text(r, br, sizeof(br)),
                         a->pooled_shape.n);
    dim[2] = a->pooled_shape.v[0];
    dim[3] = a->pooled_shape.v[1];
    return pare_shape_set(&n->out[0]->t, x->dtype, 4, dim, err);
}

static double clamp(double v, double lo, double hi)
{
    return v >= lo ? v <= hi ? v : hi : lo; /* NaN becomes lo */
}

/* The elements [*lo, *hi) of bin b out of `bins`, of a region from `from` to `to` along an axis. */
static void find_bin(const double *region, int64_t b, const int64_t *sizes, int64_t *lo,
                     int64_t *hi)
{
    double from = clamp(round(region[0]), -1e9, 1e9), to = clamp(round(region[1]), -1e9, 1e9);
    double length = to - from + 1 > 1 ? to - from + 1 : 1;
    double bin = length / (double)sizes[1], end = (double)sizes[0];

    *lo = (int64_t)clamp(floor((double)b * bin) + from, 0, end);
    *hi = (int64_t)clamp(ceil((double)(b + 1) * bin) + from, 0, end);
}

/* The first of the largest elements; -1: none. */
static int64_t find_largest(const float *x, int64_t W, const int64_t *h, const int64_t *w)
{
    int64_t at = -1;

    for (int64_t i = h[0]; i < h[1]; i++)
        for (int64_t j = w[0]; j < w[1]; j++)
            if (x[i * W + j] > (at < 0 ? -INFINITY : x[at]))
                at = i * W + j;
    return at;
}

/* The value of a bin without a largest element: 0 if it is empty; else its elements are all
 * -infinity or NaN. */
static float without(const int64_t *h, const int64_t *w)
{
    return h[0] < h[1] && w[0] < w[1] ? -INFINITY : 0;
}

/* All regions, to Y or from its gradient. */
static int regions(struct pare_node *n, bool back, struct pare_err *err)
{
    const struct max_roi_pool *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    const int64_t H = x->dim[2], W = x->dim[3], C = x->dim[1];
    const int64_t high[2] = { H, y->dim[2] }, wide[2] = { W, y->dim[3] };
    const float *roi = pare_f32(&n->in[1]->t), *gy = pare_f32(&n->out[0]->grad);
    int64_t to = 0;

    for (int64_t r = 0; r < y->dim[0] && C; r++, roi += 5) {
        double rows[2] = { (double)roi[2] * a->spatial_scale, (double)roi[4] * a->spatial_scale };
        double cols[2] = { (double)roi[1] * a->spatial_scale, (double)roi[3] * a->spatial_scale };
        double image = (double)roi[0];

        if (!(image >= 0 && image < (double)x->dim[0]))
            return pare_fail(err, PARE_ESHAPE, "a region refers to image %g, the batch has %lld",
                             image, (long long)x->dim[0]);
        for (int64_t c = 0; c < C; c++)
            for (int64_t b = 0; b < high[1] * wide[1]; b++, to++) {
                int64_t h[2], w[2], plane = ((int64_t)image * C + c) * (H * W), at;

                find_bin(rows, b / wide[1], high, &h[0], &h[1]);
                find_bin(cols, b % wide[1], wide, &w[0], &w[1]);
                at = find_largest(pare_f32(x) + plane, W, h, w);
                if (!back)
                    pare_f32_mut(y)[to] = at < 0 ? without(h, w) : pare_f32(x)[plane + at];
                else if (at >= 0)
                    pare_f32_mut(&n->in[0]->grad)[plane + at] += gy[to];
            }
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return regions(n, false, err);
}

/* Of X only; regions are rounded to elements and have no gradient. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return n->in[0]->grad.data && n->out[0]->grad.data ? regions(n, true, err) : 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[0], 1, n->out[0], 1);
    pare_tie(t, n->in[1], 0, n->out[0], 0);
}

const struct pare_op pare_op_max_roi_pool = {
    .type = "MaxRoiPool",
    .doc = "Largest elements of regions of the input, each divided into bins.",
    .since = 1,
    .in = "TT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct max_roi_pool),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .settings = 0x2,
    .flags = PARE_OP_FLOAT_ONLY,
};
