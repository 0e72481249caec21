/* prelu.c - PRelu: y = x, or slope x where x < 0, with a slope for each channel or element. */
#include "../math/elementwise.h"

/* Before opset 7 a list of slopes belonged to axis 1; since then it is broadcast as in numpy. */
static struct pare_tensor slope_of(const struct pare_node *n)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor s = n->in[1]->t;

    if (n->version < 7 && s.rank == 1 && x->rank > 2) {
        s.rank = x->rank - 1;
        for (int i = 1; i < s.rank; i++)
            s.dim[i] = 1;
    }
    return s;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor slope = slope_of(n), y = *x;
    char tx[PARE_SHAPE_TEXT], ts[PARE_SHAPE_TEXT];

    PARE_TRY(pare_broadcast(&y, x, &slope, err));
    if (!pare_same_shape(&y, x))
        return pare_fail(err, PARE_ESHAPE, "slope %s does not broadcast to the input %s",
                         pare_shape_text(&slope, ts, sizeof(ts)),
                         pare_shape_text(x, tx, sizeof(tx)));
    pare_like(&n->out[0]->t, x);
    return 0;
}

#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, (uint64_t)a *(a > 0 ? 1 : (uint64_t)b))

PARE_MAP2(a < 0 ? a * b : a)
PARE_DMAP2(a > 0 ? g : g * b, a > 0 ? 0 : g * a)
PARE_APPLY2(PARE_LOOP2(PARE_F64, double, double, a < 0 ? a * b : a) WHOLE(PARE_I32, int32_t)
                WHOLE(PARE_I64, int64_t) WHOLE(PARE_U32, uint32_t) WHOLE(PARE_U64, uint64_t))

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor slope = slope_of(n);
    const struct pare_tensor *in[2] = { &n->in[0]->t, &slope };

    (void)c;
    return apply(n, in, &n->out[0]->t, err);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor slope = slope_of(n);
    const struct pare_tensor *in[2] = { &n->in[0]->t, &slope };

    (void)c, (void)err;
    pare_apply_dmap2(n, in);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_value *x = n->in[0], *s = n->in[1], *y = n->out[0];
    int shift = n->version < 7 && s->t.rank == 1 && x->t.rank > 1 ? 1 : x->t.rank - s->t.rank;

    for (int i = 0; i < x->t.rank; i++)
        pare_tie(t, x, i, y, i);
    for (int i = 0; i < s->t.rank; i++)
        if (s->t.dim[i] == x->t.dim[i + shift])
            pare_tie(t, s, i, y, i + shift);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 0;
    *in = -1;
}

const struct pare_op pare_op_prelu = {
    .type = "PRelu",
    .doc = "Scale negative values by a learned slope.",
    .since = 6,
    .in = "TT",
    .types = PARE_T_FLOATS | PARE_T(PARE_I32) | PARE_T(PARE_I64) | PARE_T(PARE_U32) |
             PARE_T(PARE_U64),
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_HOMOGENEOUS,
    .torch = "PReLU",
    .layer = { .params = PARE_IN(1), .weight = 1, .by_default = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .map2 = map2,
    .dmap2 = dmap2,
    .axes = axes,
};
