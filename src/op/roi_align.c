/* roi_align.c - RoiAlign: pools regions of X to one size, sampling between elements.
 *
 * Each bin of a region is sampled at a grid of points by linear interpolation; the bin's value is
 * the mean of its samples or, for mode max, the largest of their weighted corners.
 */
#include <math.h>

#include "norm.h"

struct roi_align {
    const char *mode, *coordinate_transformation_mode;
    int64_t output_height, output_width, sampling_ratio;
    double spatial_scale;
};

#define AT(field) offsetof(struct roi_align, field)
static const struct pare_opt attrs[] = {
    { "coordinate_transformation_mode", "half_pixel moves regions by half an element",
      PARE_OPT_STR, AT(coordinate_transformation_mode), 0, PARE_ANY, "half_pixel",
      "half_pixel|output_half_pixel", false },
    { "mode", "how a bin's samples become one", PARE_OPT_STR, AT(mode), 0, PARE_ANY, "avg",
      "avg|max", false },
    { "output_height", "bins of a region", PARE_OPT_INT, AT(output_height), 1, 1, INT32_MAX, NULL,
      NULL, false },
    { "output_width", "bins of a region", PARE_OPT_INT, AT(output_width), 1, 1, INT32_MAX, NULL,
      NULL, false },
    { "sampling_ratio", "samples along each side of a bin; 0: as many as it has elements",
      PARE_OPT_INT, AT(sampling_ratio), 0, 0, 4096, NULL, NULL, false },
    { "spatial_scale", "from a region's coordinates to X's", PARE_OPT_FLOAT, AT(spatial_scale), 1,
      PARE_ANY, NULL, NULL, false },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct roi_align *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *r = &n->in[1]->t, *b = &n->in[2]->t;
    char bx[PARE_SHAPE_TEXT], br[PARE_SHAPE_TEXT], bb[PARE_SHAPE_TEXT];
    int64_t dim[4] = { r->dim[0], x->dim[1], a->output_height, a->output_width }, plane;

    PARE_TRY(pare_norm_inner(x, 2, &plane, err));
    if (x->rank != 4 || r->rank != 2 || r->dim[1] != 4 || b->rank != 1 || b->dim[0] != r->dim[0])
        return pare_fail(err, PARE_ESHAPE, "X is %s, rois are %s and batch_indices %s, expected "
                         "(N, C, H, W), (R, 4) and (R)", pare_shape_text(x, bx, sizeof(bx)),
                         pare_shape_text(r, br, sizeof(br)), pare_shape_text(b, bb, sizeof(bb)));
    if (!plane)
        return pare_fail(err, PARE_ESHAPE, "X is %s, which has nothing to sample",
                         pare_shape_text(x, bx, sizeof(bx)));
    return pare_shape_set(&n->out[0]->t, x->dtype, 4, dim, err);
}

/* A region along one axis: where it starts, how long a bin is, and how many samples it has. */
struct span {
    double start, bin;
    int64_t samples, size;
};

static int find_span(const struct pare_node *n, double from, double to, int axis, struct span *s,
                     struct pare_err *err)
{
    const struct roi_align *a = n->attr;
    bool shifted = n->version >= 16 && a->coordinate_transformation_mode[0] == 'h';
    double bins = (double)n->out[0]->t.dim[axis], length = (to - from) * a->spatial_scale, count;

    s->size = n->in[0]->t.dim[axis];
    s->start = from * a->spatial_scale - (shifted ? 0.5 : 0);
    if (!shifted && length < 1)
        length = 1;
    s->bin = length / bins;
    count = a->sampling_ratio ? (double)a->sampling_ratio : ceil(s->bin);
    if (!isfinite(s->start) || !(count <= 4096 + 4 * (double)s->size))
        return pare_fail(err, PARE_ESHAPE, "a region reaches from %g to %g, far outside %lld "
                         "elements", from, to, (long long)s->size);
    s->samples = count > 0 ? (int64_t)count : 0;
    return 0;
}

/* The two elements around sample k of bin b, and their weights; false when it is outside. */
static bool corners(const struct span *s, int64_t b, int64_t k, int64_t *at, double *weight)
{
    double last = (double)(s->size - 1);
    double c = s->start + (double)b * s->bin +
               ((double)k + 0.5) * s->bin / (double)s->samples;

    if (!(c >= -1 && c <= (double)s->size))
        return false;
    c = c < 0 ? 0 : c > last ? last : c;
    at[0] = (int64_t)c;
    at[1] = at[0] + 1 < s->size ? at[0] + 1 : at[0];
    weight[1] = c - (double)at[0];
    weight[0] = 1 - weight[1];
    return true;
}

/* An image plane of X and its gradient (NULL forward), a bin, and what it gets of its samples. */
struct bin {
    const float *x;
    float *gx;
    const struct span *s;
    int64_t at[2];
    bool max;
};

/* The result of one bin; for gx, g times its derivative is added. */
static float pool(const struct bin *b, double g)
{
    const struct span *s = b->s;
    double sum = 0, best = -INFINITY, best_weight = 0;
    int64_t count = s[0].samples * s[1].samples, best_at = 0;

    for (int64_t i = 0; i < s[0].samples; i++)
        for (int64_t j = 0; j < s[1].samples; j++) {
            int64_t h[2], w[2];
            double wh[2], ww[2];
            bool in = corners(&s[0], b->at[0], i, h, wh) && corners(&s[1], b->at[1], j, w, ww);

            if (!in && best < 0)
                best = best_weight = 0;
            for (int k = 0; k < 4 && in; k++) {
                int64_t at = h[k / 2] * s[1].size + w[k % 2];
                double weight = wh[k / 2] * ww[k % 2], v = weight * (double)b->x[at];

                sum += v;
                if (b->gx && !b->max)
                    b->gx[at] += (float)(g * weight / (double)count);
                if (v > best)
                    best = v, best_weight = weight, best_at = at;
            }
        }
    if (!count)
        return 0;
    if (b->gx && b->max)
        b->gx[best_at] += (float)(g * best_weight);
    return (float)(b->max ? best : sum / (double)count);
}

/* Every bin of every region, forward into y, or with y NULL back from gy into gx. */
static int pool_all(const struct pare_node *n, float *y, const float *gy, float *gx,
                    struct pare_err *err)
{
    const struct roi_align *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *out = &n->out[0]->t;
    const float *roi = pare_f32(&n->in[1]->t);
    int64_t C = x->dim[1], plane = x->dim[2] * x->dim[3], bins = out->dim[2] * out->dim[3], i = 0;

    for (int64_t r = 0; r < out->dim[0] && C; r++, roi += 4) {
        int64_t image = pare_i64(&n->in[2]->t)[r];
        struct span s[2];

        if (image < 0 || image >= x->dim[0])
            return pare_fail(err, PARE_ESHAPE, "a region is of image %lld, the batch has %lld",
                             (long long)image, (long long)x->dim[0]);
        PARE_TRY(find_span(n, (double)roi[1], (double)roi[3], 2, &s[0], err));
        PARE_TRY(find_span(n, (double)roi[0], (double)roi[2], 3, &s[1], err));
        for (int64_t c = 0; c < C; c++)
            for (int64_t k = 0; k < bins; k++, i++) {
                int64_t at = (image * C + c) * plane;
                struct bin b = { .x = pare_f32(x) + at, .gx = gx ? gx + at : NULL, .s = s,
                                 .at = { k / out->dim[3], k % out->dim[3] },
                                 .max = a->mode[0] == 'm' };
                float v = pool(&b, gy ? (double)gy[i] : 0);

                if (y)
                    y[i] = v;
            }
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    (void)ctx;
    return pool_all(n, pare_f32(&n->out[0]->t), NULL, NULL, err);
}

/* Regions get no gradient: they are proposals, which other losses train. */
static int backward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32(&n->in[0]->grad);

    (void)ctx;
    return gx && gy ? pool_all(n, NULL, gy, gx, err) : 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[0], 1, n->out[0], 1);
    pare_tie(t, n->in[1], 0, n->out[0], 0);
    pare_tie(t, n->in[2], 0, n->out[0], 0);
}

const struct pare_op pare_op_roi_align = {
    .abi = PARE_ABI,
    .type = "RoiAlign",
    .doc = "Pools regions of the input to one size, sampling between elements.",
    .since = 10,
    .in = "TTL",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct roi_align),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .settings = 0x6,
};
