/* roi_align.c - RoiAlign: pool regions of X to one size, with interpolation.
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
    PARE_CHOICE("coordinate_transformation_mode", AT(coordinate_transformation_mode),
                "half_pixel shifts regions by half an element", "half_pixel",
                "half_pixel|output_half_pixel"),
    PARE_CHOICE("mode", AT(mode), "how the samples of a bin are combined", "avg", "avg|max"),
    PARE_INT("output_height", AT(output_height), "bins of a region, vertically", 1, 1, INT32_MAX),
    PARE_INT("output_width", AT(output_width), "bins of a region, horizontally", 1, 1, INT32_MAX),
    PARE_INT("sampling_ratio", AT(sampling_ratio),
             "samples along each side of a bin (default 0: as many as it has elements)", 0, 0,
             4096),
    PARE_FLOAT("spatial_scale", AT(spatial_scale), "factor from a region's coordinates to X's", 1,
               PARE_NO_MIN, PARE_NO_MAX),
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
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s, rois are %s and batch_indices %s, expected "
                         "(N, C, H, W), (R, 4) and (R)",
                         pare_shape_text(x, bx, sizeof(bx)), pare_shape_text(r, br, sizeof(br)),
                         pare_shape_text(b, bb, sizeof(bb)));
    if (!plane)
        return pare_fail(err, PARE_ESHAPE, "X is %s, which has no elements to sample",
                         pare_shape_text(x, bx, sizeof(bx)));
    return pare_shape_set(&n->out[0]->t, x->dtype, 4, dim, err);
}

/* A region along one axis: its start, the length of a bin, and the number of samples of a bin. */
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
        return pare_fail(err, PARE_ESHAPE,
                         "a region reaches from %g to %g, far outside %lld "
                         "elements",
                         from, to, (long long)s->size);
    s->samples = count > 0 ? (int64_t)count : 0;
    return 0;
}

/* The two elements around sample k of bin b, and their weights; false: the sample is outside. */
static bool corners(const struct span *s, int64_t b, int64_t k, int64_t *at, double *weight)
{
    double last = (double)(s->size - 1);
    double c = s->start + (double)b * s->bin + ((double)k + 0.5) * s->bin / (double)s->samples;

    if (!(c >= -1 && c <= (double)s->size))
        return false;
    c = c < 0 ? 0 : c > last ? last : c;
    at[0] = (int64_t)c;
    at[1] = at[0] + 1 < s->size ? at[0] + 1 : at[0];
    weight[1] = c - (double)at[0];
    weight[0] = 1 - weight[1];
    return true;
}

static float pool(const float *x, const struct span *s, const int64_t *bin, bool max)
{
    double sum = 0, best = -INFINITY;
    int64_t count = s[0].samples * s[1].samples;

    for (int64_t i = 0; i < s[0].samples; i++)
        for (int64_t j = 0; j < s[1].samples; j++) {
            int64_t h[2], w[2];
            double wh[2], ww[2];
            bool in = corners(&s[0], bin[0], i, h, wh) && corners(&s[1], bin[1], j, w, ww);

            if (!in)
                best = best < 0 ? 0 : best;
            for (int k = 0; k < 4 && in; k++) {
                double v = wh[k / 2] * ww[k % 2] * (double)x[h[k / 2] * s[1].size + w[k % 2]];

                sum += v;
                best = v > best ? v : best;
            }
        }
    if (!count)
        return 0;
    return (float)(max ? best : sum / (double)count);
}

/* Backward pass: the corners of each sample get their part of gy, or only the largest of all
 * corners. */
static void pool_back(const float *x, float *gx, const struct span *s, const int64_t *bin, bool max,
                      float gy)
{
    double best = -INFINITY, weight = 0, count = (double)(s[0].samples * s[1].samples);
    int64_t at = -1;

    for (int64_t i = 0; i < s[0].samples; i++)
        for (int64_t j = 0; j < s[1].samples; j++) {
            int64_t h[2], w[2];
            double wh[2], ww[2];
            bool in = corners(&s[0], bin[0], i, h, wh) && corners(&s[1], bin[1], j, w, ww);

            if (!in && best < 0)
                best = 0, at = -1;
            for (int k = 0; k < 4 && in; k++) {
                int64_t from = h[k / 2] * s[1].size + w[k % 2];
                double part = wh[k / 2] * ww[k % 2];

                if (!max)
                    gx[from] += (float)((double)gy * part / count);
                else if (part * (double)x[from] > best)
                    best = part * (double)x[from], at = from, weight = part;
            }
        }
    if (max && at >= 0)
        gx[at] += (float)((double)gy * weight);
}

/* All regions, to Y or from its gradient. */
static int regions(struct pare_node *n, bool back, struct pare_err *err)
{
    const struct roi_align *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    const float *roi = pare_f32(&n->in[1]->t), *gy = pare_f32(&n->out[0]->grad);
    int64_t C = x->dim[1], plane = x->dim[2] * x->dim[3], bins = y->dim[2] * y->dim[3], at = 0;
    bool max = a->mode[0] == 'm';

    for (int64_t r = 0; r < y->dim[0] && C; r++, roi += 4) {
        int64_t image = pare_i64(&n->in[2]->t)[r];
        struct span s[2];

        if (image < 0 || image >= x->dim[0])
            return pare_fail(err, PARE_ESHAPE, "a region refers to image %lld, the batch has %lld",
                             (long long)image, (long long)x->dim[0]);
        PARE_TRY(find_span(n, (double)roi[1], (double)roi[3], 2, &s[0], err));
        PARE_TRY(find_span(n, (double)roi[0], (double)roi[2], 3, &s[1], err));
        for (int64_t c = 0; c < C; c++)
            for (int64_t b = 0; b < bins; b++, at++) {
                int64_t bin[2] = { b / y->dim[3], b % y->dim[3] }, from = (image * C + c) * plane;

                if (back)
                    pool_back(pare_f32_mut(x) + from, pare_f32_mut(&n->in[0]->grad) + from, s, bin,
                              max, gy[at]);
                else
                    pare_f32_mut(y)[at] = pool(pare_f32(x) + from, s, bin, max);
            }
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return regions(n, false, err);
}

/* Of X only; regions have no gradient. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return n->in[0]->grad.data && n->out[0]->grad.data ? regions(n, true, err) : 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[0], 1, n->out[0], 1);
    pare_tie(t, n->in[1], 0, n->out[0], 0);
    pare_tie(t, n->in[2], 0, n->out[0], 0);
}

const struct pare_op pare_op_roi_align = {
    .type = "RoiAlign",
    .doc = "Pool regions of the input to one size, with interpolation.",
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
    .flags = PARE_OP_FLOAT_ONLY,
};
