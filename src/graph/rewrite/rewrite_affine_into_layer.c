/* rewrite_affine_into_layer.c - fold scales and shifts by channel (BatchNormalization, Mul, Add,
 * Sub, Div) into the weights and bias of the convolution, transposed too, or product before them.
 */
#include "../../op/matrix/matrix.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "affine.h"

/* A layer: the axis of the channels in its result, and of the output channels in its weights.  Each
 * of `parts` equal parts of the weights' first axis has output channels of its own. */
struct layer {
    struct pare_node *node;
    int axis, weight_axis;
    int64_t channels, parts;
};

/* ---- the layer ------------------------------------------------------------------------------- */

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

    if (!m || !m->op || m->replaced || m->n_in < 2 || !m->in[0] || !pare_affine_weight(m->in[1]) ||
        m->in[0]->t.rank < 2 || x->t.dtype != PARE_F32 || pare_rewrite_reader(r, x) != n)
        return false;
    l->node = m;
    l->axis = 1;
    l->weight_axis = 0;
    l->parts = 1;
    if (pare_node_is(m, &pare_op_conv_transpose)) {
        l->weight_axis = 1;
        l->parts = (int64_t)pare_attr(m, "group");
    } else if (!pare_node_is(m, &pare_op_conv) && !is_product(m, l)) {
        return false;
    }
    l->channels = m->in[1]->t.dim[l->weight_axis] * l->parts;
    return l->channels > 0 && x->t.rank > l->axis && x->t.dim[l->axis] == l->channels &&
           pare_affine_bias(m->n_in > 2 ? m->in[2] : NULL, l->channels);
}

/* ---- folding --------------------------------------------------------------------------------- */

static struct pare_value *scaled_weight(struct pare_rewriter *r, const struct layer *l,
                                        const struct pare_affine *a, struct pare_err *err)
{
    struct pare_value *w = l->node->in[1], *to;
    const int64_t n = pare_numel(&w->t), own = l->channels / l->parts;
    int64_t inner = 1;

    if (pare_rewrite_load(r, w, err))
        return NULL;
    to = pare_rewrite_constant(r, w->name, &w->t, err);
    if (!to)
        return NULL;
    for (int i = l->weight_axis + 1; i < w->t.rank; i++)
        inner *= w->t.dim[i];
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&to->t)[i] = (float)((double)pare_f32(&w->t)[i] *
                                          a->scale[i / (n / l->parts) * own + i / inner % own]);
    return to;
}

static struct pare_value *shifted_bias(struct pare_rewriter *r, const struct layer *l,
                                       const struct pare_affine *a, struct pare_err *err)
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

static int fold(struct pare_rewriter *r, struct pare_node *n, const struct layer *l,
                const struct pare_affine *a, struct pare_err *err)
{
    const bool scales = pare_affine_scales(a);
    const bool biased = pare_affine_shifts(a) || (l->node->n_in > 2 && l->node->in[2]);
    struct pare_value *w = l->node->in[1], *b = NULL;
    bool has = true;

    if (scales && r->uses[w->id] > 1)
        return 0;
    if (biased)
        PARE_TRY(pare_affine_make_bias(r, l->node, &has, err));
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
    const int x = pare_affine_input(n);
    struct layer l;
    struct pare_affine a;

    if (x < 0 || !find_layer(r, n, n->in[x], &l))
        return 0;
    if (pare_node_is(n, &pare_op_batch_normalization) && (l.axis != 1 || is_left_to_kernels(r, &l)))
        return 0;
    if (pare_affine_is_cut_off(r, n))
        return 0;
    PARE_TRY(pare_affine_read(r, n, l.axis, &a, err));
    return a.n ? fold(r, n, &l, &a, err) : 0;
}

const struct pare_rewrite pare_rewrite_affine_into_layer = {
    .name = "affine_into_layer",
    .doc = "fold BatchNormalization, scales and shifts into the layer before them",
    .any_shape = true,
    .node = into_layer,
};
