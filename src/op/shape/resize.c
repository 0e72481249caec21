/* resize.c - Resize: resample a tensor.
 *
 * Opset 10 has inputs X and scales, and asymmetric coordinates; since 11 there are X, roi, scales
 * and sizes.  An empty input counts as absent.
 */
#include <math.h>

#include "resize_family.h"

struct resize {
    const char *mode, *coord, *rounding, *policy;
    double cubic_a, extrapolation;
    int64_t exclude_outside, antialias;
    struct pare_ints axes;
};

static const struct pare_opt resize_attrs[] = {
    PARE_CHOICE("mode", offsetof(struct resize, mode), "interpolation", "nearest",
                PARE_RESIZE_MODES),
    PARE_CHOICE("coordinate_transformation_mode", offsetof(struct resize, coord),
                "how coordinates of output and input correspond", "half_pixel", PARE_RESIZE_COORDS),
    PARE_CHOICE("nearest_mode", offsetof(struct resize, rounding), "how coordinates are rounded",
                "round_prefer_floor", PARE_RESIZE_ROUNDINGS),
    PARE_CHOICE("keep_aspect_ratio_policy", offsetof(struct resize, policy),
                "how sizes relate to the aspect ratio", "stretch",
                "stretch|not_larger|not_smaller"),
    PARE_FLOAT("cubic_coeff_a", offsetof(struct resize, cubic_a), "coefficient of the cubic kernel",
               -0.75, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("extrapolation_value", offsetof(struct resize, extrapolation),
               "value outside a cropped input", 0, -INFINITY, INFINITY),
    PARE_INT("exclude_outside", offsetof(struct resize, exclude_outside),
             "no weight for positions outside the input", 0, 0, 1),
    PARE_INT("antialias", offsetof(struct resize, antialias),
             "average over the input elements that an output element covers when downsampling", 0,
             0, 1),
    PARE_INTS("axes", offsetof(struct resize, axes), "axes of roi, scales and sizes (default: all)",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

enum { ROI = 1, SCALES = 2, SIZES = 3 };

/* Input i with known contents, or NULL if absent or empty. */
static int contents(const struct pare_node *n, int i, const struct pare_tensor **t,
                    struct pare_err *err)
{
    *t = pare_given(n, i);
    if (*t && pare_is_empty(*t))
        *t = NULL;
    return *t ? pare_need(n, i, err) : 0;
}

static int expect(const struct pare_tensor *t, int64_t count, const char *what,
                  struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];

    if (t->rank == 1 && t->dim[0] == count && t->dtype != PARE_STR)
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s has shape %s, must have (%lld)", what,
                     pare_shape_text(t, buf, sizeof(buf)), (long long)count);
}

static int read_roi(const struct pare_node *n, const struct pare_list *axes, struct pare_resize *r,
                    struct pare_err *err)
{
    const struct pare_tensor *roi;

    PARE_TRY(contents(n, ROI, &roi, err));
    if (!roi)
        return pare_fail(err, PARE_EFORMAT, "tf_crop_and_resize needs the input roi");
    PARE_TRY(expect(roi, 2 * axes->n, "roi", err));
    for (int k = 0; k < axes->n; k++) {
        struct pare_resize_axis *a = &r->axis[axes->v[k]];

        a->start = pare_get(roi, k);
        a->end = pare_get(roi, k + axes->n);
        if (!isfinite(a->start) || !isfinite(a->end))
            return pare_fail(err, PARE_ESHAPE, "roi from %g to %g is not finite", a->start, a->end);
    }
    return 0;
}

/* One scale for all axes, such that none (not_larger) or at least one (not_smaller) exceeds the
 * requested size. */
static int keep_aspect(const struct pare_tensor *sizes, const struct pare_list *axes,
                       bool not_larger, struct pare_resize *r, struct pare_err *err)
{
    double scale = not_larger ? INFINITY : 0;

    for (int k = 0; k < axes->n; k++) {
        double s;

        PARE_TRY(
            pare_resize_to(&r->axis[axes->v[k]], pare_get_int(sizes, k), (int)axes->v[k], err));
        s = (double)r->axis[axes->v[k]].out / fmax(1, (double)r->axis[axes->v[k]].in);
        scale = not_larger ? fmin(scale, s) : fmax(scale, s);
    }
    for (int k = 0; k < axes->n; k++) {
        struct pare_resize_axis *a = &r->axis[axes->v[k]];
        double out = floor(scale * (double)a->in + 0.5);

        if (!(out < 0x1p62))
            return pare_fail(err, PARE_ELIMIT, "axis %d of size %lld cannot be scaled by %g",
                             (int)axes->v[k], (long long)a->in, scale);
        a->whole = out == scale * (double)a->in && out > 0;
        a->out = (int64_t)out;
        a->scale = scale > 0 ? scale : 1;
    }
    return 0;
}

static int read_sizes(const struct pare_node *n, const struct pare_list *axes,
                      struct pare_resize *r, struct pare_err *err)
{
    const struct resize *a = n->attr;
    int scales_at = n->version < 11 ? 1 : SCALES;
    const struct pare_tensor *scales, *sizes = NULL;

    PARE_TRY(contents(n, scales_at, &scales, err));
    if (n->version >= 11)
        PARE_TRY(contents(n, SIZES, &sizes, err));
    if (!scales && !sizes && axes->n)
        return pare_fail(err, PARE_EFORMAT, "it has neither scales nor sizes");
    if (sizes) {
        PARE_TRY(expect(sizes, axes->n, "sizes", err));
        if (strcmp(a->policy, "stretch"))
            return keep_aspect(sizes, axes, !strcmp(a->policy, "not_larger"), r, err);
    } else if (scales) {
        PARE_TRY(expect(scales, axes->n, "scales", err));
    }
    for (int k = 0; k < axes->n; k++) {
        int axis = (int)axes->v[k];

        if (sizes)
            PARE_TRY(pare_resize_to(&r->axis[axis], pare_get_int(sizes, k), axis, err));
        else
            PARE_TRY(pare_resize_by(&r->axis[axis], pare_get(scales, k), axis, err));
    }
    return 0;
}

static int read_node(const struct pare_node *n, struct pare_resize *r, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct resize *a = n->attr;
    struct pare_list axes;
    int rank = n->in[0]->t.rank;

    *r = (struct pare_resize){
        .mode = pare_choice(PARE_RESIZE_MODES, a->mode),
        .coord = n->version < 11 ? PARE_ASYMMETRIC : pare_choice(PARE_RESIZE_COORDS, a->coord),
        .rounding = n->version < 11 ? PARE_SIMPLE : pare_choice(PARE_RESIZE_ROUNDINGS, a->rounding),
        .exclude_outside = a->exclude_outside,
        .antialias = a->antialias,
        .cubic_a = a->cubic_a,
        .extrapolation = a->extrapolation,
    };
    pare_resize_start(r, &n->in[0]->t);
    PARE_TRY(pare_axes_read(n, n->n_in, a->axes.n ? a->axes : none, rank, &axes, err));
    if (axes.n < 0) {
        axes.n = rank;
        for (int i = 0; i < rank; i++)
            axes.v[i] = i;
    }
    if (r->coord == PARE_TF_CROP_AND_RESIZE)
        PARE_TRY(read_roi(n, &axes, r, err));
    return read_sizes(n, &axes, r, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_resize r;

    PARE_TRY(read_node(n, &r, err));
    return pare_resize_infer(n, &r, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_resize r;

    PARE_TRY(read_node(n, &r, err));
    return pare_resize_forward(n, c, &r, err);
}

static bool pick(const struct pare_node *n, struct pare_arena *a, struct pare_pick *p)
{
    struct pare_resize r;
    struct pare_err err;

    return !read_node(n, &r, &err) && pare_resize_pick(n, &r, a, p);
}

static bool taps(const struct pare_node *n, struct pare_arena *a, struct pare_taps *axis)
{
    struct pare_resize r;
    struct pare_err err;

    return !read_node(n, &r, &err) && pare_resize_taps(&r, a, axis);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_resize r;

    PARE_TRY(read_node(n, &r, err));
    return pare_resize_backward(n, c, &r, err);
}

/* New sizes of axes that keep their number of elements; scales are unchanged. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct pare_tensor *sizes;
    int64_t v[PARE_MAX_RANK];
    struct pare_err err;
    int count;

    if (n->version < 11 || contents(n, SIZES, &sizes, &err) || !sizes)
        return;
    if (pare_int_list(sizes, v, PARE_MAX_RANK, &count, &err) || count != n->out[0]->t.rank)
        return;
    for (int i = 0; i < count; i++)
        if (pare_shrunk_dim(s, n->out[0], i) != n->out[0]->t.dim[i])
            v[i] = pare_shrunk_dim(s, n->out[0], i);
    pare_shrunk_list(s, SIZES, v, count);
}

/* Positions outside the input may have another value. */
static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    (void)axis, (void)channel;
    return strcmp(pare_attr_text(n, "coordinate_transformation_mode"), "tf_crop_and_resize") ? x
                                                                                             : NAN;
}

const struct pare_op pare_op_resize = {
    .type = "Resize",
    .doc = "Resample the input.",
    .since = 10,
    .in = "TA?F?L?",
    .types = PARE_T_NUMERIC | PARE_T(PARE_BOOL) | PARE_T(PARE_STR),
    .min_out = 1,
    .max_out = 1,
    .attrs = resize_attrs,
    .attr_size = sizeof(struct resize),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .pick = pick,
    .taps = taps,
    .ties = pare_resize_ties,
    .nni_ops = pare_resize_nni_ops,
    .settings = 0x6,
    .sizes = 0x8,
    .constant_channel = constant_channel,
    .shrink = shrink,
    .flags = PARE_OP_KEEPS_AXES | PARE_OP_FLOAT_ONLY,
};
