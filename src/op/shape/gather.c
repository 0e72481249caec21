/* gather.c - Gather: select slices along an axis by indices of any shape.
 *
 * (a..., d, b...) by indices (i...) gives (a..., i..., b...).
 */
#include "movement.h"

#define MAX_PICKED 4096 /* constant indices that may select among fewer channels */

static const struct pare_opt gather_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_gather, axis), "axis to select along", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END,
};

int pare_gather_axis(const struct pare_node *n)
{
    const struct pare_gather *a = n->attr;

    return (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_gather *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *at = &n->in[1]->t;
    int64_t dim[2 * PARE_MAX_RANK];
    int axis, rank = 0;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    for (int i = 0; i < axis; i++)
        dim[rank++] = x->dim[i];
    for (int i = 0; i < at->rank; i++)
        dim[rank++] = at->dim[i];
    for (int i = axis + 1; i < x->rank; i++)
        dim[rank++] = x->dim[i];
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

static int move_gather(const struct pare_node *n, const struct pare_flow *f,
                       struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int axis = pare_gather_axis(n);
    int64_t outer = pare_span(x, 0, axis), count = pare_numel(&n->in[1]->t), *at;
    int64_t run = pare_span(x, axis + 1, x->rank), to = 0;

    PARE_TRY(pare_indices(scratch, &n->in[1]->t, x->dim[axis], &at, err));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < count; i++, to += run)
            pare_flow_run(f, (o * x->dim[axis] + at[i]) * run, to, run);
    return 0;
}

PARE_BOTH_PASSES(move_gather)

/* Known indices tell which indices of x are in y; with unknown ones x's axis is frozen. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int axis = pare_gather_axis(n), more = n->in[1]->t.rank - 1;
    struct pare_arena *scratch;
    struct pare_err err;
    int64_t *at;

    for (int i = 0; i < n->in[0]->t.rank; i++)
        if (i != axis)
            pare_tie(t, n->in[0], i, n->out[0], i < axis ? i : i + more);
    for (int i = 0; i < n->in[1]->t.rank; i++)
        pare_tie(t, n->in[1], i, n->out[0], axis + i);
    if (n->in[1]->t.rank != 1 || !n->in[1]->t.data || !(n->in[1]->flags & PARE_V_CONST))
        return;
    scratch = pare_arena_new(1 << 12);
    if (scratch && !pare_indices(scratch, &n->in[1]->t, n->in[0]->t.dim[axis], &at, &err))
        pare_tie_pick(t, n->in[0], axis, at, n->out[0], axis);
    pare_arena_free(scratch);
}

/* A table of vectors: their elements are the channels. */
static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 1;
    *in = -1;
}

/* The kept indices, renumbered among the kept channels. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct pare_value *x = n->in[0], *at = n->in[1], *y = n->out[0];
    int axis = pare_gather_axis(n);
    const uint8_t *from, *to;
    int64_t v[MAX_PICKED], count = 0;

    if (!n->n_parts && pare_shrunk_dim(s, x, axis) == x->t.dim[axis] &&
        (at->t.rank != 1 || pare_shrunk_dim(s, y, axis) == y->t.dim[axis]))
        return;
    if (pare_shrunk_free(s, x, axis)) {
        pare_shrunk_fail(s, "the axis that it selects from follows a free dimension");
        return;
    }
    if (!at->t.data || at->t.rank > 1 || pare_numel(&at->t) > MAX_PICKED) {
        pare_shrunk_fail(s, "its indices are not a short list");
        return;
    }
    from = pare_shrunk_keep(s, x, axis);
    to = at->t.rank ? pare_shrunk_keep(s, y, axis) : NULL;
    for (int64_t i = 0; i < pare_numel(&at->t); i++) {
        int64_t k = pare_get_int(&at->t, i), before = 0;

        k += k < 0 ? x->t.dim[axis] : 0;
        if (to && !to[i])
            continue;
        if (k < 0 || k >= x->t.dim[axis] || !from[k]) {
            pare_shrunk_fail(s, "a kept index selects a removed element");
            return;
        }
        for (int64_t j = 0; j < k; j++)
            before += from[j];
        v[count++] = before;
    }
    pare_shrunk_list(s, 1, v, count);
}

static int64_t index_limit(const struct pare_node *n, int input)
{
    return input == 1 ? n->in[0]->t.dim[pare_gather_axis(n)] : 0;
}

/* A table of vectors chosen by row is an embedding; other constants are lists of indices.  Integers
 * of at most 8 bits are a quantized table: a DequantizeLinear follows. */
static bool is_embedding(const struct pare_node *n)
{
    const uint32_t types = PARE_T(PARE_F32) | PARE_T(PARE_F16) | PARE_T(PARE_BF16) |
                           PARE_T(PARE_F64) | PARE_T(PARE_I8) | PARE_T(PARE_U8) | PARE_T(PARE_I4) |
                           PARE_T(PARE_U4);
    const struct pare_gather *a = n->attr;
    const struct pare_tensor *w = &n->in[0]->t;

    return types & PARE_T(w->dtype) && w->rank == 2 && (!a || a->axis == 0);
}

/* One known index: the axis is removed, or has size 1. */
static bool index_map(const struct pare_node *n, int k, struct pare_index_map *m)
{
    const struct pare_tensor *x = &n->in[0]->t, *at = &n->in[1]->t;
    int axis = pare_gather_axis(n);
    int64_t strides[PARE_MAX_RANK], i;

    (void)k;
    if (!(n->in[1]->flags & PARE_V_CONST) || !at->data || pare_numel(at) != 1 || at->rank > 1)
        return false;
    i = pare_get_int(at, 0);
    i = i < 0 ? i + x->dim[axis] : i;
    if (i < 0 || i >= x->dim[axis])
        return false;
    pare_strides(x, strides);
    m->offset = i * strides[axis];
    for (int a = axis; a < n->out[0]->t.rank && !at->rank; a++)
        m->axis[a] = a + 1;
    return true;
}

const struct pare_op pare_op_gather = {
    .type = "Gather",
    .doc = "Select slices along an axis by index.",
    .since = 1,
    .in = "AI",
    .min_out = 1,
    .max_out = 1,
    .attrs = gather_attrs,
    .attr_size = sizeof(struct pare_gather),
    .torch = "Embedding",
    .layer = { .kind = PARE_LAYER_EMBEDDING,
               .params = PARE_IN(0),
               .weight = 0,
               .is_layer = is_embedding,
               .by_default = true,
               .follows = true },
    .flags = PARE_OP_COPIES,
    .infer = infer,
    .index_limit = index_limit,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .index_map = index_map,
    .axes = axes,
    .constant_channel = pare_constant_channel_same,
    .shrink = shrink,
};
