/* rewrite_remove_copies.c - remove nodes whose result is their input: Identity, Dropout, Cast to
 * the same type, Reshape to the same shape, Pad by nothing, Slice of everything, x + 0, x * 1.
 */
#include <float.h>

#include "../../op/nn/norm.h"
#include "../../op/op.h"
#include "../../op/shape/movement.h"
#include "rewrite.h"

#define MOST_OPERANDS 4096 /* elements of a constant operand that are checked */

/* Are all inputs but the first, which say what to do, constants? */
static bool has_fixed_settings(struct pare_rewriter *r, const struct pare_node *n)
{
    struct pare_err err;

    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] &&
            (!pare_rewrite_const(n->in[k]) || pare_rewrite_load(r, n->in[k], &err) != 0))
            return false;
    return true;
}

/* Does the Slice take all elements of an input of this size along all free axes? */
static bool slices_all(const struct pare_rewriter *r, const struct pare_node *n, int64_t size)
{
    struct pare_value x = *n->in[0], *in[8] = { &x };
    struct pare_node at = *n;
    struct pare_slice s;
    struct pare_err err;

    if (n->n_in > 8)
        return false;
    for (int k = 1; k < n->n_in; k++)
        in[k] = n->in[k];
    at.in = in;
    for (int a = 0; a < x.t.rank; a++)
        if (!pare_rewrite_is_fixed(r, n->in[0], a))
            x.t.dim[a] = size;
    if (pare_slice_ranges(&at, &s, &err))
        return false;
    for (int a = 0; a < x.t.rank; a++)
        if (s.start[a] != 0 || s.step[a] != 1 || s.count[a] != x.t.dim[a])
            return false;
    return true;
}

/* Is output element i always element i of input 0? */
static bool moves_nothing(struct pare_rewriter *r, const struct pare_node *n)
{
    struct pare_index_map m;

    if (!n->op->index_map || !has_fixed_settings(r, n) || !pare_index_map(n, 0, &m) || m.offset)
        return false;
    for (int a = 0; a < n->out[0]->t.rank; a++)
        if (m.axis[a] != a || m.first[a] != 0 || m.step[a] != 1)
            return false;
    return !r->files || !pare_node_is(n, &pare_op_slice) ||
           (slices_all(r, n, 1) && slices_all(r, n, (int64_t)1 << 40));
}

static bool pads_nothing(struct pare_rewriter *r, const struct pare_node *n)
{
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK];
    struct pare_err err;

    if (!pare_node_is(n, &pare_op_pad) || !has_fixed_settings(r, n) ||
        pare_pad_amounts(n, before, after, &err))
        return false;
    for (int a = 0; a < n->in[0]->t.rank; a++)
        if (before[a] || after[a])
            return false;
    return true;
}

/* Is f(x, c) = x for every element c of the constant operand k?  Numbers of all magnitudes are
 * tried. */
static bool is_neutral(struct pare_rewriter *r, const struct pare_node *n, int k)
{
    static const float at[] = { 1,       -1,       0.5f,    -3,       1e-40f, -1e-40f,
                                FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN, 1e20f,  -7e9f };
    struct pare_value *c = n->in[k];
    struct pare_err err;
    float y;

    if (!pare_rewrite_const(c) || c->t.dtype != PARE_F32 || pare_numel(&c->t) > MOST_OPERANDS ||
        pare_rewrite_load(r, c, &err))
        return false;
    for (int64_t i = 0; i < pare_numel(&c->t); i++)
        for (size_t j = 0; j < sizeof(at) / sizeof(*at); j++) {
            const float *one = &pare_f32(&c->t)[i];

            n->op->map2(n, k ? &at[j] : one, 0, k ? one : &at[j], 0, &y, 1);
            if (y != at[j])
                return false;
        }
    return pare_numel(&c->t) > 0;
}

/* The input that output 0 is equal to; NULL: none. */
static struct pare_value *copy_of(struct pare_rewriter *r, const struct pare_node *n)
{
    struct pare_value *x = n->in[0], *y = n->out[0];
    const unsigned flags = n->op->flags;

    if (flags & PARE_OP_OBSERVES || !x || x->t.dtype != y->t.dtype)
        return NULL;
    if (flags & PARE_OP_PASSES)
        return x;
    if (n->op->map2 && n->n_in == 2 && n->in[1] && y->t.dtype == PARE_F32)
        for (int k = 0; k < 2; k++)
            if (pare_rewrite_same_shape(r, n->in[!k], y) && n->in[!k]->t.dtype == PARE_F32 &&
                is_neutral(r, n, k))
                return n->in[!k];
    if (!pare_rewrite_same_shape(r, x, y))
        return NULL;
    if (pare_node_is(n, &pare_op_dropout))
        return has_fixed_settings(r, n) && pare_dropout_copies(n) ? x : NULL;
    if (flags & PARE_OP_JOINS || (n->op->map2 && n->n_in == 1))
        return n->n_in == 1 ? x : NULL;
    if (flags & PARE_OP_STORAGE && flags & PARE_OP_COPIES && !n->op->index_map)
        return x; /* Cast to its own type */
    if (flags & PARE_OP_VIEW)
        return !r->files || has_fixed_settings(r, n) ? x : NULL;
    if (pare_node_is(n, &pare_op_expand))
        return has_fixed_settings(r, n) ? x : NULL;
    return moves_nothing(r, n) || pads_nothing(r, n) ? x : NULL;
}

static int remove_copy(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    struct pare_value *x;

    (void)err;
    if (!n->n_in || !n->n_out || !n->out[0])
        return 0;
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k] && (r->uses[n->out[k]->id] || r->pinned[n->out[k]->id]))
            return 0;
    x = copy_of(r, n);
    if (x)
        pare_rewrite_replace(r, n->out[0], x);
    return 0;
}

const struct pare_rewrite pare_rewrite_remove_copies = {
    .name = "remove_copies",
    .doc = "remove nodes whose result is their input: Identity, Cast to the same type, x + 0",
    .any_shape = true,
    .node = remove_copy,
};
