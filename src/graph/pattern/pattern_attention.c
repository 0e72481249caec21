/* pattern_attention.c - scaled dot-product attention written as MatMul or Einsum, Mul or Div, Add
 * or Where of masks, Softmax, MatMul or Einsum.
 *
 *     y = softmax(scale Q K' + masks) V
 *
 * The scores may be reshaped around a mask, as Swin does for the windows of an image.  Constant
 * factors of Q and K, and the Reshapes and Transposes that separate heads, are not part of it.
 */
#include "../../op/math/constant_factor.h"
#include "../../op/matrix/matrix.h"
#include "../../op/nn/norm.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "pattern.h"

#define DEPTH 10 /* nodes between both products, at most */

static struct pare_node *maker(const struct pare_value *v)
{
    struct pare_node *n = v && !(v->flags & PARE_V_CONST) ? v->maker : NULL;

    return n && n->op && !n->n_cap && n->n_in && n->out[0] == v && v->t.dtype == PARE_F32 ? n
                                                                                          : NULL;
}

static bool is_product(const struct pare_node *n)
{
    return n && n->op && n->op->flags & PARE_OP_PRODUCT && n->n_in == 2 && n->in[0] && n->in[1] &&
           n->in[0]->t.dtype == PARE_F32 && n->in[1]->t.dtype == PARE_F32 && n->n_out == 1 &&
           n->out[0]->t.rank > 1;
}

static bool add_part(struct pare_attention_parts *p, struct pare_node *n)
{
    if (p->n == PARE_ATTENTION_NODES)
        return false;
    p->node[p->n++] = n;
    return true;
}

static bool is_number(const struct pare_value *v, float *x)
{
    double d;

    if (!pare_value_scalar(v, &d))
        return false;
    *x = (float)d;
    return true;
}

/* Does n mask the scores, its input k? */
static bool is_masking(struct pare_node *n, int k, struct pare_attention_masking *m)
{
    const struct pare_value *x = n->in[k];

    *m = (struct pare_attention_masking){ .kind = PARE_MASK_NONE, .node = n };
    if (!x || x->t.dtype != PARE_F32 || !pare_same_shape(&n->out[0]->t, &x->t))
        return false;
    if (pare_node_is(n, &pare_op_add) && n->in[0] != n->in[1]) {
        m->mask = n->in[1 - k];
        m->kind = m->mask->t.dtype == PARE_F32 ? PARE_MASK_ADD : PARE_MASK_NONE;
    } else if (pare_node_is(n, &pare_op_where) && k && n->in[0]->t.dtype == PARE_BOOL &&
               is_number(n->in[3 - k], &m->fill)) {
        m->mask = n->in[0];
        m->kind = k == 1 ? PARE_MASK_KEEP : PARE_MASK_FILL;
    }
    return m->kind != PARE_MASK_NONE;
}

/* Do both have the same matrices in the same order? */
static bool keeps_matrices(const struct pare_tensor *a, const struct pare_tensor *b)
{
    return a->rank > 1 && b->rank > 1 && pare_numel(a) == pare_numel(b) &&
           a->dim[a->rank - 1] == b->dim[b->rank - 1] && a->dim[a->rank - 2] == b->dim[b->rank - 2];
}

static bool find_scores(struct pare_attention_parts *p, struct pare_value *v, double factor,
                        int depth);

/* The same, before a mask. */
static bool find_masked(struct pare_attention_parts *p, struct pare_node *n, double factor,
                        int depth)
{
    const struct pare_attention_parts before = *p;

    for (int k = 0; k < n->n_in && p->n_masks < PARE_ATTENTION_MASKS; k++) {
        struct pare_attention_masking m;

        if (!is_masking(n, k, &m))
            continue;
        m.factor = factor;
        for (int i = p->n_masks++; i > 0; i--)
            p->mask[i] = p->mask[i - 1];
        p->mask[0] = m;
        if (find_scores(p, n->in[k], factor, depth))
            return true;
        *p = before;
    }
    return false;
}

/* From v, a value that Softmax reads, back to the product of queries and keys. */
static bool find_scores(struct pare_attention_parts *p, struct pare_value *v, double factor,
                        int depth)
{
    struct pare_node *n = maker(v);
    struct pare_value *x;

    if (!n || depth > DEPTH || !add_part(p, n))
        return false;
    if (is_product(n)) {
        p->scores = n;
        p->scale = factor;
        return true;
    }
    x = pare_constant_factor(n, &factor);
    if (x)
        return find_scores(p, x, factor, depth + 1);
    if (n->op->flags & PARE_OP_VIEW)
        return keeps_matrices(&n->in[0]->t, &v->t) && find_scores(p, n->in[0], factor, depth + 1);
    return find_masked(p, n, factor, depth + 1);
}

static struct pare_node *copying_dropout(struct pare_node *n)
{
    return pare_node_is(n, &pare_op_dropout) && pare_dropout_copies(n) ? n : NULL;
}

static bool match_attention(struct pare_graph *g, struct pare_node *last, struct pare_found *f)
{
    struct pare_attention_parts *p = &f->attention;
    bool flatten;

    (void)g;
    for (int k = 0; k < 2 && is_product(last); k++) {
        struct pare_node *n = maker(last->in[k]), *dropout = copying_dropout(n);

        n = dropout ? maker(dropout->in[0]) : n;
        if (!pare_node_is(n, &pare_op_softmax) ||
            pare_softmax_axis(n, &flatten) != n->in[0]->t.rank - 1)
            continue;
        *p = (struct pare_attention_parts){ .softmax = n, .mix = last, .weights = k };
        p->dropout = dropout;
        if (add_part(p, last) && (!dropout || add_part(p, dropout)) && add_part(p, n) &&
            find_scores(p, n->in[0], 1, 0))
            return true;
    }
    return false;
}

const struct pare_pattern pare_pattern_attention = {
    .name = "attention",
    .kind = PARE_PATTERN_ATTENTION,
    .match = match_attention,
};
