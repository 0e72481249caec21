/* rewrite_affine_into_layer.c - fold scales and shifts by channel (BatchNormalization, Mul, Add,
 * Sub, Div) into the weights and bias of the convolution or product before them.
 */
#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../op/matrix/matrix.h"
#include "../../op/nn/norm.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "rewrite.h"

/* y = x * scale[c] + shift[c] for channel c of n. */
struct affine {
    int64_t n;
    double *scale, *shift;
};

/* A layer: the axis of the channels in its result, and of the output channels in its weights. */
struct layer {
    struct pare_node *node;
    int axis, weight_axis;
    int64_t channels;
};

static int new_affine(struct pare_rewriter *r, int64_t n, struct affine *a, struct pare_err *err)
{
    a->n = n;
    a->scale = pare_alloc(r->scratch, (size_t)n + 1, sizeof(*a->scale));
    a->shift = pare_alloc(r->scratch, (size_t)n + 1, sizeof(*a->shift));
    if (!a->scale || !a->shift)
        return pare_no_memory(err, "to rewrite the graph");
    for (int64_t i = 0; i < n; i++)
        a->scale[i] = 1;
    return 0;
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* A float constant that is not made of integers, which remain what kernels and files have. */
static bool is_weight(const struct pare_value *v)
{
    return pare_rewrite_const(v) && v->t.dtype == PARE_F32 &&
           !(v->maker && v->maker->op && v->maker->op->flags & PARE_OP_LAZY);
}

/* Is v, which may be absent, one number per channel? */
static bool is_bias(const struct pare_value *v, int64_t n)
{
    return !v || (is_weight(v) && v->t.rank == 1 && v->t.dim[0] == n);
}

/* A product with a matrix of weights; a MatMul has no bias. */
static bool is_product(struct pare_node *n, struct layer *l)
{
    struct pare_gemm_attrs g;

    if (!pare_product_get(n, &g) || n->in[1]->t.rank != 2 || n->in[0]->t.rank < 2 || g.ta ||
        g.alpha != 1 || g.beta != 1)
        return false;
    l->axis = n->out[0]->t.rank - 1;
    l->weight_axis = g.tb ? 0 : 1;
    return true;
}

/* Does n read a layer's result that is not read elsewhere? */
static bool find_layer(struct pare_rewriter *r, const struct pare_node *n,
                       const struct pare_value *x, struct layer *l)
{
    struct pare_node *m = x && !(x->flags & PARE_V_CONST) ? x->maker : NULL;

    if (!m || !m->op || m->replaced || m->n_in < 2 || !m->in[0] || !is_weight(m->in[1]) ||
        m->in[0]->t.rank < 2 || x->t.dtype != PARE_F32 || pare_rewrite_reader(r, x) != n)
        return false;
    l->node = m;
    l->axis = 1;
    l->weight_axis = 0;
    if (!pare_node_is(m, &pare_op_conv) && !is_product(m, l))
        return false;
    l->channels = m->in[1]->t.dim[l->weight_axis];
    return l->channels > 0 && x->t.rank > l->axis && x->t.dim[l->axis] == l->channels &&
           is_bias(m->n_in > 2 ? m->in[2] : NULL, l->channels);
}

/* ---- scales and shifts ----------------------------------------------------------------------- */

static int read_norm(struct pare_rewriter *r, const struct pare_node *n, struct affine *a,
                     bool *found, struct pare_err *err)
{
    *found = false;
    if (pare_bn_trains(n) || !pare_bn_per_channel(n))
        return 0;
    for (int k = 1; k < 5; k++)
        if (!is_bias(n->in[k], a->n) || !n->in[k])
            return 0;
    for (int k = 1; k < 5; k++)
        PARE_TRY(pare_rewrite_load(r, n->in[k], err));
    for (int64_t c = 0; c < a->n; c++) {
        double s = (double)pare_f32(&n->in[1]->t)[c] /
                   sqrt((double)pare_f32(&n->in[4]->t)[c] + pare_bn_epsilon(n));

        a->scale[c] = s;
        a->shift[c] = (double)pare_f32(&n->in[2]->t)[c] - (double)pare_f32(&n->in[3]->t)[c] * s;
    }
    *found = true;
    return 0;
}

/* Is the constant one number, or one per index of this axis of y, and not of another shape? */
static bool is_by_channel(const struct pare_value *c, const struct pare_value *y, int axis)
{
    const int more = y->t.rank - c->t.rank;

    if (!is_weight(c) || more < 0 || !pare_numel(&c->t))
        return false;
    for (int a = 0; a < c->t.rank; a++)
        if (c->t.dim[a] != 1 && (a + more != axis || c->t.dim[a] != y->t.dim[axis]))
            return false;
    return true;
}

/* x + c, x - c, c - x, x c, x / c */
static bool read_operand(const struct pare_node *n, int k, double by, double *scale, double *shift)
{
    *scale = 1;
    *shift = 0;
    if (pare_node_is(n, &pare_op_add))
        *shift = by;
    else if (pare_node_is(n, &pare_op_mul))
        *scale = by;
    else if (pare_node_is(n, &pare_op_div))
        *scale = 1 / by;
    else
        *shift = k ? -by : by;
    if (pare_node_is(n, &pare_op_sub) && !k)
        *scale = -1;
    return isfinite(*scale) && isfinite(*shift);
}

static bool is_affine(const struct pare_node *n, int k)
{
    const struct pare_op *const linear[] = { &pare_op_add, &pare_op_sub, &pare_op_mul };

    for (size_t i = 0; i < sizeof(linear) / sizeof(*linear); i++)
        if (n->op == linear[i])
            return true;
    return pare_node_is(n, &pare_op_div) && k == 1;
}

static int read_operands(struct pare_rewriter *r, const struct pare_node *n, int k,
                         struct affine *a, bool *found, struct pare_err *err)
{
    struct pare_value *c = n->in[k];
    const int64_t step = pare_numel(&c->t) > 1;

    *found = true;
    PARE_TRY(pare_rewrite_load(r, c, err));
    for (int64_t i = 0; i < a->n && *found; i++)
        *found = read_operand(n, k, (double)pare_f32(&c->t)[i * step], &a->scale[i], &a->shift[i]);
    return 0;
}

/* ---- folding --------------------------------------------------------------------------------- */

static struct pare_value *scaled_weight(struct pare_rewriter *r, const struct layer *l,
                                        const struct affine *a, struct pare_err *err)
{
    struct pare_value *w = l->node->in[1], *to;
    int64_t inner = 1, n = pare_numel(&w->t);

    if (pare_rewrite_load(r, w, err))
        return NULL;
    to = pare_rewrite_constant(r, w->name, &w->t, err);
    if (!to)
        return NULL;
    for (int i = l->weight_axis + 1; i < w->t.rank; i++)
        inner *= w->t.dim[i];
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&to->t)[i] = (float)((double)pare_f32(&w->t)[i] *
                                          a->scale[i / inner % l->channels]);
    return to;
}

static struct pare_value *shifted_bias(struct pare_rewriter *r, const struct layer *l,
                                       const struct affine *a, struct pare_err *err)
{
    struct pare_value *b = l->node->n_in > 2 ? l->node->in[2] : NULL, *to;
    const struct pare_tensor t = { .dtype = PARE_F32, .rank = 1, .dim = { l->channels } };

    if (b && pare_rewrite_load(r, b, err))
        return NULL;
    to = pare_rewrite_constant(r, b ? b->name : "bias", &t, err);
    for (int64_t c = 0; to && c < l->channels; c++)
        pare_f32_mut(&to->t)[c] = (float)((b ? (double)pare_f32(&b->t)[c] * a->scale[c] : 0) +
                                          a->shift[c]);
    return to;
}

static bool any_but(const double *v, int64_t n, double other)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i] != other)
            return true;
    return false;
}

/* Give the layer a bias input.  A MatMul of two matrices becomes a Gemm; *has: it is possible. */
static int make_bias(struct pare_rewriter *r, const struct layer *l, bool *has,
                     struct pare_err *err)
{
    struct pare_node *n = l->node;

    *has = !pare_node_is(n, &pare_op_mat_mul) || (n->in[0]->t.rank == 2 && n->version >= 7);
    if (!*has || n->n_in > 2)
        return 0;
    if (pare_node_is(n, &pare_op_mat_mul))
        PARE_TRY(pare_rewrite_become(r, n, &pare_op_gemm, NULL, err));
    return pare_rewrite_arity(r, n, 3, err);
}

static int fold(struct pare_rewriter *r, struct pare_node *n, const struct layer *l,
                const struct affine *a, struct pare_err *err)
{
    const bool scales = any_but(a->scale, a->n, 1);
    const bool biased = any_but(a->shift, a->n, 0) || (l->node->n_in > 2 && l->node->in[2]);
    struct pare_value *w = l->node->in[1], *b = NULL;
    bool has = true;

    if (scales && r->uses[w->id] > 1)
        return 0;
    if (biased)
        PARE_TRY(make_bias(r, l, &has, err));
    if (!has)
        return 0;
    if (scales && !(w = scaled_weight(r, l, a, err)))
        return err->code;
    if (biased && !(b = shifted_bias(r, l, a, err)))
        return err->code;
    if (scales)
        pare_rewrite_input(r, l->node, 1, w);
    if (b)
        pare_rewrite_input(r, l->node, 2, b);
    pare_rewrite_absorb(r, l->node, n);
    return 0;
}

/* Kernels of plans fold a BatchNormalization themselves while they pack the weights of a Conv. */
static bool is_left_to_kernels(const struct pare_rewriter *r, const struct layer *l)
{
    return !r->files && pare_node_is(l->node, &pare_op_conv);
}

static int into_layer(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    struct layer l;
    struct affine a;
    bool found = false;
    int k = 1;

    if (n->n_out < 1 || !n->out[0] || n->n_in < 2 || !n->in[0] || !n->in[1])
        return 0;
    if (pare_node_is(n, &pare_op_batch_normalization)) {
        if (!find_layer(r, n, n->in[0], &l) || l.axis != 1 || is_left_to_kernels(r, &l))
            return 0;
        PARE_TRY(new_affine(r, l.channels, &a, err));
        PARE_TRY(read_norm(r, n, &a, &found, err));
    } else {
        k = pare_rewrite_const(n->in[1]);
        if (!is_affine(n, k) || n->n_in != 2 || !find_layer(r, n, n->in[!k], &l) ||
            !is_by_channel(n->in[k], n->in[!k], l.axis) ||
            !pare_rewrite_same_shape(r, n->in[!k], n->out[0]))
            return 0;
        PARE_TRY(new_affine(r, l.channels, &a, err));
        PARE_TRY(read_operands(r, n, k, &a, &found, err));
    }
    return found ? fold(r, n, &l, &a, err) : 0;
}

const struct pare_rewrite pare_rewrite_affine_into_layer = {
    .name = "affine_into_layer",
    .doc = "fold BatchNormalization, scales and shifts into the layer before them",
    .any_shape = true,
    .node = into_layer,
};
