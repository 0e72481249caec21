/* cast_like.c - CastLike: convert the first input to the element type of the second. */
#include "cast.h"

struct cast_like {
    int64_t saturate;
    const char *round_mode;
};

static const struct pare_opt cast_like_attrs[] = {
    PARE_INT("saturate", offsetof(struct cast_like, saturate), "for float8, which is not supported",
             1, 0, 1),
    PARE_TEXT("round_mode", offsetof(struct cast_like, round_mode), NULL,
              "for float8, which is not supported", "up"),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_infer_same(n, err));
    n->out[0]->t.dtype = n->in[1]->t.dtype;
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_cast(&n->out[0]->t, &n->in[0]->t, c, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    for (int i = 0; i < n->out[0]->t.rank; i++)
        pare_tie(t, n->in[0], i, n->out[0], i);
}

const struct pare_op pare_op_cast_like = {
    .type = "CastLike",
    .doc = "Convert the first input to the element type of the second.",
    .since = 15,
    .in = "AA",
    .min_out = 1,
    .max_out = 1,
    .attrs = cast_like_attrs,
    .attr_size = sizeof(struct cast_like),
    .flags = PARE_OP_STEPS | PARE_OP_FLOAT_ONLY,
    .infer = infer,
    .forward = forward,
    .backward = pare_backward_copy,
    .ties = ties,
};
