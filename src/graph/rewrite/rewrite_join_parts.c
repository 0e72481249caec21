/* rewrite_join_parts.c - a Concat of the parts of a value, cut by Slice or Split, is the value. */
#include "../../op/shape/movement.h"
#include "rewrite.h"

static int output_index(const struct pare_node *n, const struct pare_value *v)
{
    int k = 0;

    while (k < n->n_out && n->out[k] != v)
        k++;
    return k;
}

/* Are the bounds of the cut constants, and does it cut only this axis? */
static bool cuts_only(struct pare_rewriter *r, const struct pare_node *n, int axis)
{
    int64_t axes[PARE_MAX_RANK];

    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] && !pare_rewrite_const(n->in[k]))
            return false;
    if (pare_node_is(n, &pare_op_split))
        return pare_split_axis(n) == axis;
    if (!pare_node_is(n, &pare_op_slice) || n->n_in < 4 || !n->in[3] ||
        pare_rewrite_ints(r, n->in[3], axes, PARE_MAX_RANK) != 1)
        return false;
    return (axes[0] < 0 ? axes[0] + n->in[0]->t.rank : axes[0]) == axis;
}

/* The value of which v is the part from index `from` of the axis on; NULL: it is something else. */
static struct pare_value *whole_of(struct pare_rewriter *r, const struct pare_value *v, int axis,
                                   int64_t from)
{
    const struct pare_node *n = v && !(v->flags & PARE_V_CONST) ? v->maker : NULL;
    struct pare_index_map m;

    if (!n || !n->op || n->replaced || !n->op->index_map || !n->in[0] || n->in[0]->t.rank <= axis ||
        n->in[0]->t.dtype == PARE_NONE || !pare_rewrite_is_fixed(r, n->in[0], axis) ||
        !cuts_only(r, n, axis) || !pare_index_map(n, output_index(n, v), &m) || m.offset)
        return NULL;
    for (int a = 0; a < v->t.rank; a++)
        if (m.axis[a] != a || m.step[a] != 1 || m.first[a] != (a == axis ? from : 0))
            return NULL;
    return n->in[0];
}

static int join(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    struct pare_value *x = NULL;
    int64_t from = 0;
    int axis;

    (void)err;
    if (!pare_node_is(n, &pare_op_concat))
        return 0;
    axis = pare_concat_axis(n);
    for (int k = 0; k < n->n_in; k++) {
        struct pare_value *whole;

        if (n->in[k] && !pare_numel(&n->in[k]->t))
            return 0;
        whole = whole_of(r, n->in[k], axis, from);
        if (!whole || (x && whole != x))
            return 0;
        x = whole;
        from += n->in[k]->t.dim[axis];
    }
    if (x && pare_rewrite_same_shape(r, x, n->out[0]))
        pare_rewrite_replace(r, n->out[0], x);
    return 0;
}

const struct pare_rewrite pare_rewrite_join_parts = {
    .name = "join_parts",
    .doc = "a Concat of all parts of a value, cut by Slice or Split, is the value",
    .any_shape = true,
    .node = join,
};
