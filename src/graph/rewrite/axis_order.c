/* axis_order.c - which nodes work with their axes in another order, and what changes in them. */
#include "axis_order.h"

#include <string.h>

#include "../../op/matrix/matrix.h"
#include "../../op/reduce/reduce_family.h"
#include "../../op/shape/movement.h"

enum kind { NONE, BROADCAST, UNARY, AXIS, REDUCE, PAD, SLICE, RESIZE };

static enum kind kind_of(const struct pare_node *n)
{
    const struct pare_op *op = n->op;

    if (!op || op->domain || op->flags & (PARE_OP_OBSERVES | PARE_OP_LEARNS | PARE_OP_ANY_LAYOUT))
        return NONE;
    if (op->map || op->flags & PARE_OP_ELEMENTWISE ||
        (op->flags & PARE_OP_STORAGE && op->flags & PARE_OP_KEEPS_AXES))
        return UNARY;
    if (op->map2 || op->infer == pare_infer_broadcast || op->infer == pare_infer_compare)
        return BROADCAST;
    if (op->attrs == pare_reduce_attrs)
        return REDUCE;
    if (op->flags & (PARE_OP_JOINS | PARE_OP_SOFTMAX))
        return AXIS;
    if (pare_node_is(n, &pare_op_split))
        return AXIS;
    if (pare_node_is(n, &pare_op_pad))
        return PAD;
    if (pare_node_is(n, &pare_op_slice))
        return SLICE;
    return pare_node_is(n, &pare_op_resize) ? RESIZE : NONE;
}

static bool is_own(const struct pare_rewriter *r, const struct pare_value *v)
{
    return v->id < r->g->n_values && r->g->value[v->id] == v;
}

/* A value of the graph that is computed, with this rank. */
static bool is_main(const struct pare_rewriter *r, const struct pare_value *v, int rank)
{
    return v && is_own(r, v) && !(v->flags & (PARE_V_CONST | PARE_V_PARAM)) && v->t.rank == rank;
}

static bool is_one(const struct pare_value *v)
{
    return !v || (v->flags & PARE_V_CONST && pare_numel(&v->t) == 1 && v->t.rank <= 1);
}

/* Every operand has all axes, or is a constant. */
static bool can_broadcast(const struct pare_rewriter *r, const struct pare_node *n, int rank)
{
    for (int k = 0; k < n->n_in; k++)
        if (!n->in[k] || (!is_main(r, n->in[k], rank) &&
                          !(pare_rewrite_const(n->in[k]) && n->in[k]->t.rank <= rank &&
                            pare_dtype_size(n->in[k]->t.dtype) && n->in[k]->t.dtype != PARE_STR)))
            return false;
    return true;
}

static bool has_constants(const struct pare_node *n)
{
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] && !pare_rewrite_const(n->in[k]))
            return false;
    return true;
}

/* Along the last axis, runtimes have fast kernels and recognize normalizations. */
static bool can_reduce(const struct pare_node *n, int rank)
{
    unsigned gone;
    struct pare_err err;

    return has_constants(n) && pare_attr(n, "keepdims") != 0 && !pare_reduce_axes(n, &gone, &err) &&
           gone && gone != 1u << (rank - 1);
}

static bool can_move_axis(const struct pare_node *n, int rank)
{
    bool flatten = false;

    if (n->op->flags & PARE_OP_SOFTMAX)
        return pare_softmax_axis(n, &flatten) != rank - 1 && !flatten;
    return true;
}

static bool can_resize(const struct pare_node *n, int rank)
{
    int64_t sizes = 0;

    if (n->version < 11 || !has_constants(n) ||
        !strcmp(pare_attr_text(n, "coordinate_transformation_mode"), "tf_crop_and_resize") ||
        strcmp(pare_attr_text(n, "keep_aspect_ratio_policy"), "stretch") != 0)
        return false;
    for (int k = 2; k < n->n_in && k < 4; k++)
        sizes += n->in[k] ? pare_numel(&n->in[k]->t) : 0;
    return sizes == rank; /* one of the two lists, for all axes */
}

/* Inputs with the amounts or bounds as lists, which name their axes if they are not for all. */
static bool can_change_lists(struct pare_rewriter *r, const struct pare_node *n, int rank)
{
    int64_t list[2 * PARE_MAX_RANK];

    if (n->n_in < 2 || !has_constants(n))
        return false;
    if (pare_node_is(n, &pare_op_pad))
        return !(n->n_in > 3 && n->in[3]) &&
               pare_rewrite_ints(r, n->in[1], list, 2 * PARE_MAX_RANK) == 2 * rank;
    return n->n_in > 3 && n->in[3] && pare_rewrite_ints(r, n->in[3], list, PARE_MAX_RANK) > 0;
}

bool pare_any_axis_order(struct pare_rewriter *r, const struct pare_node *n)
{
    const enum kind kind = n->n_in && n->n_out && n->in[0] && n->out[0] ? kind_of(n) : NONE;
    const int rank = kind ? n->out[0]->t.rank : 0;
    bool any = false;

    if (kind == NONE || rank < 2)
        return false;
    for (int k = 0; k < n->n_out; k++)
        if (!n->out[k] || !is_main(r, n->out[k], rank))
            return false;
    for (int k = 0; k < n->n_in; k++)
        any |= is_main(r, n->in[k], rank);
    if (!any || (kind != BROADCAST && !is_main(r, n->in[0], rank)))
        return false;
    switch (kind) {
    case BROADCAST: return can_broadcast(r, n, rank);
    case UNARY:
        for (int k = 1; k < n->n_in; k++)
            if (!is_one(n->in[k]))
                return false;
        return true;
    case AXIS:
        return can_move_axis(n, rank) &&
               (n->op->flags & PARE_OP_JOINS ? can_broadcast(r, n, rank) : has_constants(n));
    case REDUCE: return can_reduce(n, rank);
    case RESIZE: return can_resize(n, rank);
    default: return can_change_lists(r, n, rank);
    }
}

bool pare_has_axis_order(const struct pare_node *n, int k)
{
    const struct pare_value *v = n->in[k];

    return v && !(v->flags & PARE_V_CONST) && (!k || kind_of(n) == BROADCAST || kind_of(n) == AXIS);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A constant list whose element perm[i] is element i; two halves if it has 2 rank elements. */
static int permute_list(struct pare_rewriter *r, struct pare_node *n, int k, const int *perm,
                        int rank, struct pare_err *err)
{
    struct pare_value *v = n->in[k], *to;
    size_t size = pare_dtype_size(v->t.dtype);

    PARE_TRY(pare_rewrite_load(r, v, err));
    to = pare_rewrite_constant(r, v->name, &v->t, err);
    if (!to)
        return err->code;
    for (int64_t i = 0; i < pare_numel(&v->t); i++)
        memcpy((char *)to->t.data + (size_t)(i / rank * rank + perm[i % rank]) * size,
               (const char *)v->t.data + (size_t)i * size, size);
    n->in[k] = to;
    return 0;
}

/* A constant list of axes, which may count from the end. */
static int rename_axes(struct pare_rewriter *r, struct pare_node *n, int k, const int *perm,
                       int rank, struct pare_err *err)
{
    int64_t list[PARE_MAX_RANK];
    int count = pare_rewrite_ints(r, n->in[k], list, PARE_MAX_RANK);
    struct pare_value *to;

    for (int i = 0; i < count; i++)
        list[i] = perm[list[i] < 0 ? list[i] + rank : list[i]];
    to = count < 0 ? NULL : pare_rewrite_int_list(r, n->in[k]->name, list, count, err);
    if (!to)
        return pare_no_memory(err, "to rewrite the graph");
    n->in[k] = to;
    return 0;
}

static void *field(struct pare_rewriter *r, struct pare_node *n, const char *name,
                   struct pare_err *err)
{
    const struct pare_opt *o = pare_opt_find(n->op->attrs, name);
    char *attr = o ? pare_rewrite_attrs(r, n, err) : NULL;

    if (!o)
        pare_fail(err, PARE_EUNSUPPORTED, "%s has no attribute '%s'", n->type, name);
    return attr ? attr + o->offset : NULL;
}

static int move_axis(struct pare_rewriter *r, struct pare_node *n, const int *perm, int rank,
                     struct pare_err *err)
{
    int64_t axis = n->op->flags & PARE_OP_SOFTMAX ? pare_softmax_axis(n, &(bool){ false })
                                                  : (int64_t)pare_attr(n, "axis");
    int64_t *to = field(r, n, "axis", err);

    if (!to)
        return err->code;
    *to = perm[axis < 0 ? axis + rank : axis];
    return 0;
}

static int reduce_axes(struct pare_rewriter *r, struct pare_node *n, const int *perm, int rank,
                       struct pare_err *err)
{
    const struct pare_reduce *was = n->attr;
    struct pare_reduce *to;
    int64_t list[PARE_MAX_RANK];

    if (n->n_in > 1 && n->in[1])
        return pare_numel(&n->in[1]->t) ? rename_axes(r, n, 1, perm, rank, err) : 0;
    if (!was->axes.n)
        return 0;
    for (int i = 0; i < was->axes.n; i++)
        list[i] = perm[was->axes.v[i] < 0 ? was->axes.v[i] + rank : was->axes.v[i]];
    to = pare_rewrite_attrs(r, n, err);
    if (!to)
        return err->code;
    to->axes = pare_rewrite_list(r, list, was->axes.n);
    return to->axes.v ? 0 : pare_no_memory(err, "to rewrite the graph");
}

bool pare_absorbs_order(const struct pare_node *n, const int *perm)
{
    const int rank = n->n_in && n->in[0] ? n->in[0]->t.rank : 0;
    struct pare_err err;
    unsigned gone;
    int last = -1;

    if (!n->op || n->op->attrs != pare_reduce_attrs || pare_attr(n, "keepdims") != 0 ||
        !has_constants(n) || pare_reduce_axes(n, &gone, &err) || !gone)
        return false;
    for (int i = 0; i < rank; i++) {
        if (gone >> i & 1)
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return true;
}

int pare_absorb_order(struct pare_rewriter *r, struct pare_node *n, const int *perm,
                      struct pare_err *err)
{
    return reduce_axes(r, n, perm, n->in[0]->t.rank, err);
}

/* A constant operand with all axes, permuted. */
static int permute_operand(struct pare_rewriter *r, struct pare_node *n, int k, const int *perm,
                           int rank, struct pare_err *err)
{
    struct pare_value *v = n->in[k], *to;
    struct pare_tensor was = v->t, now;
    int64_t from[PARE_MAX_RANK], at[PARE_MAX_RANK];
    struct pare_move m = { .rank = 0 };

    if (pare_numel(&v->t) == 1 && kind_of(n) == BROADCAST)
        return 0;
    PARE_TRY(pare_rewrite_load(r, v, err));
    was.rank = now.rank = rank;
    now.dtype = v->t.dtype;
    for (int i = 0; i < rank; i++) {
        was.dim[i] = i < rank - v->t.rank ? 1 : v->t.dim[i - (rank - v->t.rank)];
        now.dim[perm[i]] = was.dim[i];
    }
    to = pare_rewrite_constant(r, v->name, &now, err);
    if (!to)
        return err->code;
    pare_strides(&was, from);
    pare_strides(&now, at);
    for (int i = 0; i < rank; i++)
        pare_move_axis(&m, was.dim[i], from[i], at[perm[i]]);
    if (pare_numel(&was))
        pare_move(to->t.data, v->t.data, pare_dtype_size(v->t.dtype), &m);
    n->in[k] = to;
    return 0;
}

int pare_set_axis_order(struct pare_rewriter *r, struct pare_node *n, const int *perm,
                        struct pare_err *err)
{
    const enum kind kind = kind_of(n);
    const int rank = n->out[0]->t.rank;

    if (kind == BROADCAST || (kind == AXIS && n->op->flags & PARE_OP_JOINS))
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]->flags & PARE_V_CONST)
                PARE_TRY(permute_operand(r, n, k, perm, rank, err));
    switch (kind) {
    case AXIS: return move_axis(r, n, perm, rank, err);
    case REDUCE: return reduce_axes(r, n, perm, rank, err);
    case PAD: return permute_list(r, n, 1, perm, rank, err);
    case SLICE: return rename_axes(r, n, 3, perm, rank, err);
    case RESIZE:
        for (int k = 2; k < n->n_in && k < 4; k++)
            if (n->in[k] && pare_numel(&n->in[k]->t))
                PARE_TRY(permute_list(r, n, k, perm, rank, err));
        return 0;
    default: return 0;
    }
}

/* Runtimes resize the spatial axes of images with channels second. */
bool pare_accepts_order(const struct pare_node *n, const int *perm)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    if (kind_of(n) != RESIZE)
        return true;
    for (int i = 0; i < y->t.rank; i++)
        if (perm[i] < 2 && x->t.dim[i] != y->t.dim[i])
            return false;
    return true;
}
