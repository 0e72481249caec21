/* rewrite_merge_views.c - merge Reshape, Flatten, Squeeze and Unsqueeze that follow each other;
 * make shapes that nodes compute constants where one size at most is not known. */
#include <string.h>

#include "../../op/shape/movement.h"
#include "rewrite.h"

/* Can the shape of y be written as a constant for a Reshape of x?  At most one size follows a free
 * dimension; others may be copied from x. */
static bool constant_shape(const struct pare_rewriter *r, const struct pare_value *x,
                           const struct pare_value *y, int64_t *shape)
{
    bool rest = false;

    for (int a = 0; a < y->t.rank; a++) {
        shape[a] = y->t.dim[a];
        if (!y->t.dim[a])
            return false;
        if (pare_rewrite_is_fixed(r, y, a))
            continue;
        shape[a] = 0;
        for (int i = 0; i < PARE_OTHER_SIZES && a < x->t.rank && !shape[a]; i++) {
            const struct pare_value *from = pare_value_at(r->g, x, i);
            const struct pare_value *to = pare_value_at(r->g, y, i);

            shape[a] = r->g->other[i] && (!from || !to || from->t.dim[a] != to->t.dim[a]) ? -1 : 0;
        }
        if (a >= x->t.rank || x->t.dim[a] != y->t.dim[a])
            shape[a] = -1;
        if (shape[a] < 0 && rest)
            return false;
        rest |= shape[a] < 0;
    }
    return true;
}

static int become_reshape(struct pare_rewriter *r, struct pare_node *n, struct pare_value *x,
                          const int64_t *shape, struct pare_err *err)
{
    struct pare_value *list = pare_rewrite_int_list(r, "shape", shape, n->out[0]->t.rank, err);

    if (!list)
        return err->code;
    PARE_TRY(pare_rewrite_become(r, n, &pare_op_reshape, NULL, err));
    PARE_TRY(pare_rewrite_arity(r, n, 2, err));
    pare_rewrite_input(r, n, 1, list);
    pare_rewrite_input(r, n, 0, x);
    return 0;
}

static bool is_view(const struct pare_node *n)
{
    return n && n->op && n->op->flags & PARE_OP_VIEW && n->n_out == 1 && !n->replaced && n->in[0];
}

/* Does the Transpose move only axes of size 1, so that the order of elements stays? */
static bool moves_ones(const struct pare_rewriter *r, const struct pare_node *n)
{
    int perm[PARE_MAX_RANK], last = -1;

    if (!pare_node_is(n, &pare_op_transpose) || n->in[0]->flags & PARE_V_CONST)
        return false;
    pare_transpose_perm(n, perm);
    for (int i = 0; i < n->in[0]->t.rank; i++) {
        if (n->in[0]->t.dim[perm[i]] == 1 && pare_rewrite_is_fixed(r, n->in[0], perm[i]))
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return n->version >= 5;
}

static int merge(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    const struct pare_node *before = is_view(n) ? n->in[0]->maker : NULL;
    int64_t shape[PARE_MAX_RANK];
    struct pare_value *x;

    if (moves_ones(r, n) && constant_shape(r, n->in[0], n->out[0], shape))
        return become_reshape(r, n, n->in[0], shape, err);
    if (!is_view(n) || n->version < 5)
        return 0;
    if (is_view(before) && !(n->in[0]->flags & PARE_V_CONST) &&
        pare_rewrite_same_shape(r, before->in[0], n->out[0])) {
        pare_rewrite_replace(r, n->out[0], before->in[0]);
        return 0;
    }
    x = is_view(before) && pare_rewrite_reader(r, n->in[0]) == n ? before->in[0] : n->in[0];
    if (x == n->in[0] && (n->n_in < 2 || !n->in[1] || pare_rewrite_const(n->in[1])))
        return 0;
    if (x->flags & PARE_V_CONST || !constant_shape(r, x, n->out[0], shape))
        return 0;
    return become_reshape(r, n, x, shape, err);
}

const struct pare_rewrite pare_rewrite_merge_views = {
    .name = "merge_views",
    .doc = "merge Reshape, Squeeze and Unsqueeze in a row, and make their shapes constants",
    .any_shape = true,
    .node = merge,
};
