/* skip_norm.c - a residual sum and a normalization over the last axis, of com.microsoft. */
#include "skip_norm.h"

#include "../shape/movement.h"

enum { X, SKIP, GAMMA };
enum { Y, MEAN, INV_STD, SUM };

const struct pare_opt pare_skip_norm_attrs[] = {
    PARE_FLOAT("epsilon", offsetof(struct pare_skip_norm_attr, epsilon), "added to the variance",
               1e-12, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static struct pare_value *input(const struct pare_node *n, int i)
{
    return i >= 0 && i < n->n_in ? n->in[i] : NULL;
}

static struct pare_value *output(const struct pare_node *n, int i)
{
    return i < n->n_out ? n->out[i] : NULL;
}

static int check(const struct pare_node *n, int i, const char *name, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t;
    char bt[PARE_SHAPE_TEXT], bx[PARE_SHAPE_TEXT];
    struct pare_tensor both;

    if (!input(n, i))
        return 0;
    if ((i > SKIP && input(n, i)->t.rank != 1) || pare_broadcast(&both, x, &input(n, i)->t, err) ||
        !pare_same_shape(&both, x) ||
        input(n, i)->t.dim[input(n, i)->t.rank - 1] != x->dim[x->rank - 1])
        return pare_fail(err, PARE_ESHAPE, "%s is %s, which does not fit the input %s", name,
                         pare_shape_text(&input(n, i)->t, bt, sizeof(bt)),
                         pare_shape_text(x, bx, sizeof(bx)));
    return 0;
}

/* The normalization of `sum` as a node. */
static int norm_of(const struct pare_node *n, const struct pare_skip_norm *how,
                   struct pare_value *sum, struct pare_inner *norm, struct pare_err *err)
{
    const struct pare_skip_norm_attr *a = n->attr;

    PARE_TRY(pare_inner_init(norm, how->norm, 17, err));
    PARE_TRY(pare_inner_set(norm, "epsilon", a->epsilon, err));
    pare_inner_in(norm, sum);
    pare_inner_in(norm, n->in[GAMMA]);
    if (how->beta >= 0)
        pare_inner_in(norm, input(n, how->beta));
    pare_inner_out(norm, n->out[Y]);
    if (how->beta >= 0)
        pare_inner_out(norm, output(n, MEAN));
    pare_inner_out(norm, output(n, INV_STD));
    return 0;
}

int pare_skip_norm_infer(struct pare_node *n, const struct pare_skip_norm *how,
                         struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t;
    char bx[PARE_SHAPE_TEXT];
    struct pare_inner norm;

    if (x->rank < 2 || x->rank > 3)
        return pare_fail(err, PARE_ESHAPE, "the input is %s, expected 2 or 3 dimensions",
                         pare_shape_text(x, bx, sizeof(bx)));
    if (!n->in[SKIP]->t.rank)
        return pare_fail(err, PARE_ESHAPE, "skip is a scalar, expected the shape of the input");
    if (how->beta < 0 && output(n, MEAN))
        return pare_fail(err, PARE_EUNSUPPORTED, "%s has no output 'mean'", n->type);
    PARE_TRY(check(n, SKIP, "skip", err));
    PARE_TRY(check(n, GAMMA, "gamma", err));
    PARE_TRY(check(n, how->beta, "beta", err));
    PARE_TRY(check(n, how->bias, "bias", err));
    PARE_TRY(norm_of(n, how, n->in[X], &norm, err));
    PARE_TRY(how->norm->infer(&norm.node, err));
    if (output(n, SUM))
        pare_like(&n->out[SUM]->t, x);
    return 0;
}

static int sum_up(const struct pare_node *n, const struct pare_skip_norm *how, bool grad,
                  struct pare_ctx *c, struct pare_value *sum, struct pare_err *err)
{
    const struct pare_value *bias = input(n, how->bias);
    const struct pare_tensor *in[2] = { &n->in[SKIP]->t, bias ? &bias->t : NULL };
    struct pare_walk w;

    PARE_TRY(pare_inner_temp(sum, n->in[X], grad, c->scratch, err));
    pare_walk_start(&w, &sum->t, in, bias ? 2 : 1);
    for (int64_t i = 0; i < pare_numel(&sum->t); i++, pare_walk_next(&w))
        pare_f32_mut(&sum->t)[i] = pare_f32(&n->in[X]->t)[i] + pare_f32(in[0])[w.at[0]] +
                                   (bias ? pare_f32(in[1])[w.at[1]] : 0);
    return 0;
}

int pare_skip_norm_forward(struct pare_node *n, const struct pare_skip_norm *how,
                           struct pare_ctx *c, struct pare_err *err)
{
    struct pare_inner norm;
    struct pare_value sum;

    PARE_TRY(sum_up(n, how, false, c, &sum, err));
    PARE_TRY(norm_of(n, how, &sum, &norm, err));
    if (output(n, SUM) && pare_numel(&sum.t))
        memcpy(n->out[SUM]->t.data, sum.t.data, (size_t)pare_numel(&sum.t) * sizeof(float));
    return how->norm->forward(&norm.node, c, err);
}

/* Add the gradient of the sum to an operand that is broadcast to it. */
static void give(const struct pare_value *sum, const struct pare_value *v)
{
    const struct pare_tensor *in[1] = { v ? &v->grad : NULL };
    struct pare_walk w;

    if (!v || !v->grad.data)
        return;
    pare_walk_start(&w, &sum->t, in, 1);
    for (int64_t i = 0; i < pare_numel(&sum->t); i++, pare_walk_next(&w))
        pare_f32_mut(in[0])[w.at[0]] += pare_f32(&sum->grad)[i];
}

int pare_skip_norm_backward(struct pare_node *n, const struct pare_skip_norm *how,
                            struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_value *out = output(n, SUM);
    struct pare_inner norm;
    struct pare_value sum;

    if (pare_is_empty(&n->in[X]->t))
        return 0;
    PARE_TRY(sum_up(n, how, true, c, &sum, err));
    PARE_TRY(norm_of(n, how, &sum, &norm, err));
    PARE_TRY(how->norm->backward(&norm.node, c, err));
    for (int64_t i = 0; out && out->grad.data && i < pare_numel(&sum.t); i++)
        pare_f32_mut(&sum.grad)[i] += pare_f32(&out->grad)[i];
    give(&sum, n->in[X]);
    give(&sum, n->in[SKIP]);
    give(&sum, input(n, how->bias));
    return 0;
}

/* The normalized axis is frozen; a skip that is broadcast has the others as well. */
void pare_skip_norm_ties(const struct pare_node *n, struct pare_ties *t)
{
    int rank = n->in[X]->t.rank, shift = rank - n->in[SKIP]->t.rank;

    pare_ties_except(n, ~0u << (rank - 1), t);
    for (int i = shift; i < rank - 1; i++)
        if (n->in[SKIP]->t.dim[i - shift] == n->in[X]->t.dim[i])
            pare_tie(t, n->in[SKIP], i - shift, n->out[Y], i);
}

void pare_skip_norm_axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 0;
    *in = -1;
}
