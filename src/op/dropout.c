/* dropout.c - Dropout: a copy; in training, zeroes elements at random and scales the others up.
 *
 * ratio is an attribute before opset 12 and an input from then on; training_mode is an input of
 * opset 12, and opset 6 trains unless is_test.  The mask says which elements were kept, as bool
 * from opset 10 on.
 */
#include "norm.h"

struct dropout {
    double ratio;
    int64_t seed, is_test;
};

static const struct pare_opt attrs[] = {
    { "is_test", "copy only; until opset 6", PARE_OPT_INT, offsetof(struct dropout, is_test), 0, 0,
      1, NULL, NULL, false },
    { "ratio", "the part that is dropped in training", PARE_OPT_FLOAT,
      offsetof(struct dropout, ratio), 0.5, PARE_ANY, NULL, NULL, false },
    { "seed", "start of the random numbers", PARE_OPT_INT, offsetof(struct dropout, seed), 0,
      PARE_ANY, NULL, NULL, false },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const char *const name[] = { "data", "ratio", "training_mode" };
    char buf[PARE_SHAPE_TEXT];

    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (pare_numel(&n->in[i]->t) != 1 || n->in[i]->t.dtype == PARE_STR))
            return pare_fail(err, PARE_ESHAPE, "%s is %s of %s, expected a single number", name[i],
                             pare_shape_text(&n->in[i]->t, buf, sizeof(buf)),
                             pare_dtype_name(n->in[i]->t.dtype));
    PARE_TRY(pare_infer_same(n, err));
    if (n->n_out > 1 && n->out[1] && n->version >= 10)
        n->out[1]->t.dtype = PARE_BOOL;
    return 0;
}

/* A number in [0, 1) for each step of the counter (the splitmix64 sequence). */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void set_mask(const struct pare_node *n, int64_t i, bool kept)
{
    const struct pare_tensor *m = n->n_out > 1 && n->out[1] ? &n->out[1]->t : NULL;

    if (!m)
        return;
    switch ((int)m->dtype) {
    case PARE_BOOL: ((uint8_t *)m->data)[i] = kept; break;
    case PARE_F64: ((double *)m->data)[i] = kept; break;
    default: pare_f32(m)[i] = kept; break;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct dropout *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    bool trains = n->version < 7 ? !a->is_test
                                 : n->n_in > 2 && n->in[2] && pare_get_int(&n->in[2]->t, 0);
    double ratio = n->n_in > 1 && n->in[1] ? pare_get(&n->in[1]->t, 0) : a->ratio, scale;
    int64_t total = pare_numel(x);
    uint64_t state = (uint64_t)a->seed;

    if (!trains || ratio == 0) {
        for (int64_t i = 0; i < total && n->n_out > 1; i++)
            set_mask(n, i, true);
        return pare_forward_copy(n, c, err);
    }
    if (!(ratio > 0 && ratio < 1))
        return pare_fail(err, PARE_ECONFIG, "ratio is %g, expected at least 0 and less than 1",
                         ratio);
    scale = 1 / (1 - ratio);
    for (int64_t i = 0; i < total; i++) {
        bool kept = draw(&state) >= ratio;

        if (x->dtype == PARE_F64)
            ((double *)y->data)[i] = kept ? ((double *)x->data)[i] * scale : 0;
        else
            pare_f32(y)[i] = kept ? (float)((double)pare_f32(x)[i] * scale) : 0;
        set_mask(n, i, kept);
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_norm(n, 0, t);
}

const struct pare_op pare_op_dropout = {
    .abi = PARE_ABI,
    .type = "Dropout",
    .doc = "A copy; in training, drops elements at random.",
    .since = 6,
    .in = "TA?B?",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 2,
    .attrs = attrs,
    .attr_size = sizeof(struct dropout),
    .flags = PARE_OP_RANDOM,
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .settings = 0x2,
};
