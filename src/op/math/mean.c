/* mean.c - Mean: the mean of any number of inputs. */
#include "elementwise.h"

PARE_APPLY2(PARE_LOOP2(PARE_F32, float, float, a + b) PARE_LOOP2(PARE_F64, double, double, a + b))

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;
    int64_t count = pare_numel(y), inputs = 0;

    (void)c;
    for (int i = 0; i < n->n_in; i++)
        inputs += n->in[i] != NULL;
    PARE_TRY(pare_apply_all(n, apply, err));
    for (int64_t i = 0; i < count; i++)
        if (y->dtype == PARE_F64)
            ((double *)y->data)[i] /= (double)inputs;
        else
            pare_f32_mut(y)[i] /= (float)inputs;
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *gy = &n->out[0]->grad;
    struct pare_tensor part = *gy;
    int64_t count = pare_numel(gy), inputs = 0;

    if (!gy->data)
        return 0;
    for (int i = 0; i < n->n_in; i++)
        inputs += n->in[i] != NULL;
    PARE_TRY(pare_tensor_alloc(c->scratch, &part, err));
    for (int64_t i = 0; i < count; i++)
        pare_f32_mut(&part)[i] = pare_f32(gy)[i] / (float)inputs;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->grad.data)
            pare_unspread(&n->in[i]->grad, &part);
    return 0;
}

/* map2() and dmap2() are of two inputs. */
PARE_MAP2((a + b) / 2)
PARE_DMAP2(g / 2, g / 2)

const struct pare_op pare_op_mean = {
    .type = "Mean",
    .doc = "Elementwise mean of all inputs.",
    .since = 6,
    .in = "T+",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
    .map2 = map2,
    .dmap2 = dmap2,
};
