/* transpose.c - Transpose: axis i of the result is axis perm[i] of the input. */
#include "movement.h"

struct transpose {
    struct pare_ints perm;
};

static const struct pare_opt transpose_attrs[] = {
    PARE_INTS("perm", offsetof(struct transpose, perm),
              "input axis of each result axis (default: reversed)", PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

void pare_transpose_perm(const struct pare_node *n, int *perm)
{
    const struct transpose *a = n->attr;
    int rank = n->in[0]->t.rank;

    for (int i = 0; i < rank; i++)
        perm[i] = a->perm.n ? (int)a->perm.v[i] : rank - 1 - i;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct transpose *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    bool seen[PARE_MAX_RANK] = { false };
    int perm[PARE_MAX_RANK];

    if (a->perm.n && a->perm.n != x->rank)
        return pare_fail(err, PARE_ESHAPE, "perm has %d axes for an input of %d dimensions",
                         a->perm.n, x->rank);
    for (int i = 0; i < a->perm.n; i++) {
        int64_t p = a->perm.v[i];

        if (p < 0 || p >= x->rank || seen[p])
            return pare_fail(err, PARE_ESHAPE, "perm is not a permutation of %d axes", x->rank);
        seen[p] = true;
    }
    pare_transpose_perm(n, perm);
    for (int i = 0; i < x->rank; i++)
        dim[i] = x->dim[perm[i]];
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank, dim, err);
}

static int move_transpose(const struct pare_node *n, const struct pare_flow *f,
                          struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t from[PARE_MAX_RANK], to[PARE_MAX_RANK];
    struct pare_move m = { .rank = 0 };
    int perm[PARE_MAX_RANK];

    (void)scratch, (void)err;
    pare_transpose_perm(n, perm);
    pare_strides(x, from);
    pare_strides(y, to);
    for (int i = 0; i < y->rank; i++)
        pare_move_axis(&m, y->dim[i], from[perm[i]], to[i]);
    pare_flow_box(f, 0, 0, &m);
    return 0;
}

PARE_BOTH_PASSES(move_transpose)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int perm[PARE_MAX_RANK];

    pare_transpose_perm(n, perm);
    for (int i = 0; i < n->in[0]->t.rank; i++)
        pare_tie(t, n->in[0], perm[i], n->out[0], i);
}

static bool index_map(const struct pare_node *n, int k, struct pare_index_map *m)
{
    (void)k;
    pare_transpose_perm(n, m->axis);
    return true;
}

const struct pare_op pare_op_transpose = {
    .type = "Transpose",
    .doc = "Permute axes.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_LINEAR | PARE_OP_MOVES | PARE_OP_STORAGE | PARE_OP_COPIES,
    .attrs = transpose_attrs,
    .attr_size = sizeof(struct transpose),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .index_map = index_map,
    .int8_since = 1,
    .constant_channel = pare_constant_channel_same,
};
