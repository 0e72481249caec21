/* rewrite_pad_into_window.c - let a convolution or pool pad its input itself, instead of a Pad node
 * before it, as exporters of TensorFlow write it. */
#include <math.h>
#include <string.h>

#include "../../op/nn/window.h"
#include "../../op/shape/movement.h"
#include "rewrite.h"

/* The amounts that a Pad adds to the spatial axes of its input, which are not negative; the other
 * axes get nothing. */
static bool spatial_amounts(struct pare_rewriter *r, const struct pare_node *pad, int64_t *amount)
{
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK];
    const int rank = pad->in[0]->t.rank;
    struct pare_err err;

    for (int k = 1; k < pad->n_in; k++)
        if (pad->in[k] &&
            (!pare_rewrite_const(pad->in[k]) || pare_rewrite_load(r, pad->in[k], &err)))
            return false;
    if (strcmp(pare_attr_text(pad, "mode"), "constant") != 0 || rank < 3 ||
        rank > 2 + PARE_WINDOW_MAX || pare_pad_amounts(pad, before, after, &err))
        return false;
    for (int a = 0; a < rank; a++) {
        if (before[a] < 0 || after[a] < 0 || (a < 2 && (before[a] || after[a])))
            return false;
        if (a >= 2) {
            amount[a - 2] = before[a];
            amount[rank - 2 + a - 2] = after[a];
        }
    }
    return true;
}

static bool fill_value(const struct pare_node *pad, double *value)
{
    const struct pare_tensor *given = pare_given(pad, 2);

    *value = given ? 0 : pare_attr(pad, "value");
    if (given && pare_numel(given) != 1)
        return false;
    if (given)
        *value = pare_get(given, 0);
    return true;
}

/* Is every element of v known to be 0 or more? */
static bool is_positive(const struct pare_value *v)
{
    const struct pare_node *n = v->maker;
    double low, high;

    return n && n->op && !(v->flags & PARE_V_CONST) && n->op->clamp &&
           n->op->clamp(n, &low, &high) && low >= 0;
}

/* Do zeros, or what a maximum ignores, have the effect of the window's own padding? */
static bool is_neutral(const struct pare_node *n, const struct pare_node *pad,
                       const struct pare_window_attr *a)
{
    double value;

    if (!fill_value(pad, &value))
        return false;
    if (!(n->op->flags & PARE_OP_POOL))
        return value == 0;
    if (a->ceil_mode || n->op->flags & PARE_OP_GLOBAL)
        return false;
    for (int i = 0; i < a->dilations.n; i++)
        if (a->dilations.v[i] != 1)
            return false;
    if (n->op->flags & PARE_OP_MEAN)
        return value == 0;
    return n->op->flags & PARE_OP_MOVES &&
           (value <= -3.4e38 || (value == 0 && is_positive(pad->in[0])));
}

/* Windows in the padding only, and those whose padding is chosen by the input's size, stay. */
static bool sum_pads(const struct pare_node *n, const struct pare_window_attr *a,
                     const int64_t *amount, int64_t *pads)
{
    const int nd = n->in[0]->t.rank - 2;
    const bool pool = n->op->flags & PARE_OP_POOL;

    if (strcmp(a->auto_pad, "NOTSET") != 0 && strcmp(a->auto_pad, "VALID") != 0)
        return false;
    if (pool && a->kernel_shape.n != nd)
        return false;
    for (int i = 0; i < 2 * nd; i++) {
        const bool own = !strcmp(a->auto_pad, "NOTSET") && a->pads.n == 2 * nd;
        const int64_t kernel = pool ? a->kernel_shape.v[i % nd] : n->in[1]->t.dim[2 + i % nd];
        const int64_t step = a->dilations.n == nd ? a->dilations.v[i % nd] : 1;

        pads[i] = amount[i] + (own ? a->pads.v[i] : 0);
        if (pads[i] > (kernel - 1) * step)
            return false;
    }
    return true;
}

/* AveragePool: zeros of the Pad count in the divisor. */
static bool counts_zeros(const struct pare_node *n, const struct pare_window_attr *a)
{
    if (!(n->op->flags & PARE_OP_MEAN) || a->count_include_pad)
        return true;
    for (int i = 0; i < a->pads.n; i++)
        if (a->pads.v[i])
            return false;
    return n->version >= 7;
}

static bool is_window(const struct pare_node *n)
{
    if (n->n_out < 1 || !n->in[0] || n->in[0]->t.rank < 3)
        return false;
    if (n->op->flags & PARE_OP_POOL)
        return n->op->attr_size == sizeof(struct pare_window_attr) && !n->op->domain &&
               !(n->n_out > 1 && n->out[1]);
    return pare_node_is(n, &pare_op_conv) && n->in[1]->t.rank == n->in[0]->t.rank;
}

static int absorb(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    const struct pare_node *pad = is_window(n) ? pare_rewrite_maker(n->in[0], &pare_op_pad) : NULL;
    const struct pare_window_attr *a = n->attr;
    int64_t amount[2 * PARE_WINDOW_MAX], pads[2 * PARE_WINDOW_MAX];
    struct pare_window_attr *new;

    if (!pad || !spatial_amounts(r, pad, amount) || !is_neutral(n, pad, a) || !counts_zeros(n, a) ||
        !sum_pads(n, a, amount, pads))
        return 0;
    new = pare_rewrite_attrs(r, n, err);
    if (!new)
        return err->code;
    new->auto_pad = "NOTSET";
    new->pads = pare_rewrite_list(r, pads, 2 * (n->in[0]->t.rank - 2));
    if (n->op->flags & PARE_OP_MEAN)
        new->count_include_pad = 1;
    if (!new->pads.v)
        return pare_no_memory(err, "to rewrite the graph");
    pare_rewrite_input(r, n, 0, pad->in[0]);
    return 0;
}

const struct pare_rewrite pare_rewrite_pad_into_window = {
    .name = "pad_into_window",
    .doc = "let a convolution or pool pad its input, instead of a Pad before it",
    .any_shape = true,
    .node = absorb,
};
