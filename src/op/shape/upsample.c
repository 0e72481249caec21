/* upsample.c - Upsample: Resize before opset 10.
 *
 * Scales are an attribute in opset 7 and an input in 9.
 */
#include "resize_family.h"

struct upsample {
    const char *mode;
    struct pare_floats scales;
};

static const struct pare_opt upsample_attrs[] = {
    PARE_CHOICE("mode", offsetof(struct upsample, mode), "interpolation", "nearest",
                "nearest|linear"),
    PARE_FLOATS("scales", offsetof(struct upsample, scales), "scale of each axis", PARE_NO_MIN,
                PARE_NO_MAX),
    PARE_OPT_END
};

static int read_node(const struct pare_node *n, struct pare_resize *r, struct pare_err *err)
{
    const struct upsample *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *scales = pare_given(n, 1);
    int64_t count = scales ? pare_numel(scales) : a->scales.n;

    PARE_TRY(pare_need(n, 1, err));
    if (count != x->rank)
        return pare_fail(err, PARE_ESHAPE, "%lld scales are given for an input of %d dimensions",
                         (long long)count, x->rank);
    *r = (struct pare_resize){
        .mode = pare_choice(PARE_RESIZE_MODES, a->mode),
        .coord = PARE_ASYMMETRIC,
        .rounding = PARE_SIMPLE,
    };
    pare_resize_start(r, x);
    for (int i = 0; i < x->rank; i++)
        PARE_TRY(
            pare_resize_by(&r->axis[i], scales ? pare_get(scales, i) : a->scales.v[i], i, err));
    return 0;
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

/* Every result is a weighted mean of elements of its channel. */
static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    (void)n, (void)axis, (void)channel;
    return x;
}

const struct pare_op pare_op_upsample = {
    .type = "Upsample",
    .doc = "Resample the input (deprecated name).",
    .since = 7,
    .in = "TF?",
    .types = PARE_T_NUMERIC | PARE_T(PARE_BOOL) | PARE_T(PARE_STR),
    .min_out = 1,
    .max_out = 1,
    .attrs = upsample_attrs,
    .attr_size = sizeof(struct upsample),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .pick = pick,
    .taps = taps,
    .ties = pare_resize_ties,
    .nni_ops = pare_resize_nni_ops,
    .settings = 0x2,
    .constant_channel = constant_channel,
    .flags = PARE_OP_KEEPS_AXES | PARE_OP_FLOAT_ONLY,
};
