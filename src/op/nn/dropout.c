/* dropout.c - Dropout: a copy; in training, zero elements at random and scale the others up.
 *
 * ratio is an attribute before opset 12 and an input from then on; training_mode is an input of
 * opset 12, and opset 6 trains unless is_test.  The mask tells which elements were kept, as bool
 * from opset 10 on.
 */
#include <math.h>

#include "norm.h"
#include "../../base/mt19937.h"
#include "../../base/rng.h"

struct dropout {
    double ratio;
    int64_t seed, is_test;
};

static const struct pare_opt attrs[] = {
    PARE_INT("is_test", offsetof(struct dropout, is_test), "only copy, before opset 7", 0, 0, 1),
    PARE_FLOAT("ratio", offsetof(struct dropout, ratio), "fraction of elements to drop in training",
               0.5, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("seed", offsetof(struct dropout, seed), "seed of the random numbers", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const char *const name[] = { "data", "ratio", "training_mode" };
    char buf[PARE_SHAPE_TEXT];

    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (pare_numel(&n->in[i]->t) != 1 || n->in[i]->t.dtype == PARE_STR))
            return pare_fail(err, PARE_ESHAPE, "%s is %s of %s, expected a scalar", name[i],
                             pare_shape_text(&n->in[i]->t, buf, sizeof(buf)),
                             pare_dtype_name(n->in[i]->t.dtype));
    PARE_TRY(pare_infer_same(n, err));
    if (n->n_out > 1 && n->out[1] && n->version >= 10)
        n->out[1]->t.dtype = PARE_BOOL;
    return 0;
}

/* The settings of this run; it copies if it does not drop. */
struct run {
    bool drops;
    double ratio;
};

static int find_run(const struct pare_node *n, const struct pare_ctx *c, struct run *r,
                    struct pare_err *err)
{
    const struct dropout *a = n->attr;
    bool asked = n->version < 7 ? !a->is_test
                                : n->n_in > 2 && n->in[2] && pare_get_int(&n->in[2]->t, 0);

    r->ratio = n->n_in > 1 && n->in[1] ? pare_get(&n->in[1]->t, 0) : a->ratio;
    r->drops = (c->train || asked) && r->ratio != 0;
    if (r->drops && !(r->ratio > 0 && r->ratio < 1))
        return pare_fail(err, PARE_ECONFIG, "ratio is %g, expected at least 0 and less than 1",
                         r->ratio);
    return 0;
}

static bool is_known(const struct pare_value *v)
{
    return v->flags & PARE_V_CONST && v->t.data;
}

bool pare_dropout_copies(const struct pare_node *n)
{
    const struct pare_ctx c = { .train = false };
    struct pare_err err;
    struct run r;

    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && !is_known(n->in[i]))
            return false;
    return !find_run(n, &c, &r, &err) && !r.drops;
}

/* Draw the mask: a new one for each step of training; for a node with training_mode of its own, the
 * one that numpy draws from the seed, as ONNX's definition does. */
static void draw(const struct pare_node *n, struct pare_ctx *c, double ratio, uint8_t *kept)
{
    const struct dropout *a = n->attr;
    int64_t total = pare_numel(&n->in[0]->t);
    struct pare_mt mt;

    if (c->train && c->rng) {
        for (int64_t i = 0; i < total; i++)
            kept[i] = pare_rng_uniform(c->rng) >= ratio;
        return;
    }
    pare_mt_init(&mt, (uint32_t)a->seed);
    for (int64_t i = 0; i < total; i++)
        kept[i] = pare_mt_uniform(&mt) >= ratio;
}

static size_t save(const struct pare_node *n)
{
    return (size_t)pare_numel(&n->in[0]->t);
}

/* The mask: in node->save in training, else in scratch. */
static uint8_t *mask_of(const struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    uint8_t *kept = n->save ? n->save : pare_alloc_raw(c->scratch, save(n), sizeof(*kept));

    if (!kept)
        pare_no_memory(err, "for the mask");
    return kept;
}

static void set_mask(const struct pare_node *n, int64_t i, bool kept)
{
    const struct pare_tensor *m = n->n_out > 1 && n->out[1] ? &n->out[1]->t : NULL;

    if (!m)
        return;
    switch ((int)m->dtype) {
    case PARE_BOOL: ((uint8_t *)m->data)[i] = kept; break;
    case PARE_F64: ((double *)m->data)[i] = kept; break;
    default: pare_f32_mut(m)[i] = kept; break;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t total = pare_numel(x);
    uint8_t *kept;
    struct run r;
    double scale;

    PARE_TRY(find_run(n, c, &r, err));
    if (!r.drops) {
        for (int64_t i = 0; i < total && n->n_out > 1; i++)
            set_mask(n, i, true);
        return pare_forward_copy(n, c, err);
    }
    kept = mask_of(n, c, err);
    if (!kept)
        return err->code;
    draw(n, c, r.ratio, kept);
    scale = 1 / (1 - r.ratio);
    for (int64_t i = 0; i < total; i++) {
        if (x->dtype == PARE_F64)
            ((double *)y->data)[i] = kept[i] ? ((double *)x->data)[i] * scale : 0;
        else
            pare_f32_mut(y)[i] = kept[i] ? (float)((double)pare_f32(x)[i] * scale) : 0;
        set_mask(n, i, kept[i]);
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), scale;
    int64_t total = pare_numel(&n->in[0]->t);
    uint8_t *kept;
    struct run r;

    PARE_TRY(find_run(n, c, &r, err));
    if (!r.drops)
        return pare_backward_copy(n, c, err);
    if (!gx || !gy)
        return 0;
    if (!n->save && c->train)
        return pare_fail(err, PARE_ECONFIG, "the mask of the forward pass is missing");
    kept = mask_of(n, c, err);
    if (!kept)
        return err->code;
    if (!n->save)
        draw(n, c, r.ratio, kept);
    scale = (float)(1 / (1 - r.ratio));
    for (int64_t i = 0; i < total; i++)
        gx[i] += kept[i] ? gy[i] * scale : 0;
    return 0;
}

static bool never_drops(const struct pare_node *n)
{
    const struct pare_value *ratio = n->n_in > 1 ? n->in[1] : NULL;
    const struct dropout *a = n->attr;

    return ratio ? ratio->flags & PARE_V_CONST && ratio->t.data && pare_get(&ratio->t, 0) == 0
                 : a->ratio == 0;
}

/* With training_mode of its own, it drops by the position in a batch. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct dropout *a = n->attr;
    bool may = n->version < 7 ? !a->is_test : n->n_in > 2 && n->in[2];

    pare_ties_except(n, may && !never_drops(n) ? 1u : 0, t);
}

/* Zeros remain zeros; others remain only if nothing can be dropped.  A mask of floats is not x. */
static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    const struct dropout *a = n->attr;
    bool may = n->version < 7 ? !a->is_test : n->n_in > 2 && n->in[2];

    (void)axis, (void)channel;
    if (n->n_out > 1 && n->out[1] && n->version < 10)
        return NAN;
    return x == 0 || !may || never_drops(n) ? x : NAN;
}

const struct pare_op pare_op_dropout = {
    .type = "Dropout",
    .doc = "A copy; in training, drop elements at random.",
    .since = 6,
    .in = "TA?B?",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 2,
    .attrs = attrs,
    .attr_size = sizeof(struct dropout),
    .flags = PARE_OP_RANDOM | PARE_OP_HOMOGENEOUS,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .save = save,
    .settings = 0x2,
    .constant_channel = constant_channel,
};
