/* pattern_shuffle.c - channel shuffle: Reshape, Transpose, Reshape that permute one axis.
 *
 *     (N, C, H, W) -> (N, g, C / g, H, W) -> (N, C / g, g, H, W) -> (N, C, H, W)
 *
 * As a Gather with constant indices, each channel has relations of its own, and any of them can be
 * removed; the Reshape nodes require the same channels of every group.
 */
#include "../../op/op.h"
#include "../../op/shape/movement.h"
#include "../free_dims.h"
#include "pattern.h"

/* Which axes of the Transpose are digits of the permuted axis. */
struct digits {
    int axis; /* of x, and the first digit */
    int n;
};

/* Does `mid` split one axis of x, and `perm` permute only its digits? */
static bool find_digits(const struct pare_tensor *x, const struct pare_tensor *mid, const int *perm,
                        struct digits *d)
{
    int64_t size = 1;
    int more = mid->rank - x->rank;

    *d = (struct digits){ 0, 0 };
    if (x->rank < 1 || more < 1)
        return false;
    while (d->axis < x->rank && perm[d->axis] == d->axis && x->dim[d->axis] == mid->dim[d->axis])
        d->axis++;
    if (d->axis == x->rank)
        return false;
    d->n = more + 1;
    for (int i = 0; i < d->n; i++) {
        int from = perm[d->axis + i];

        size *= mid->dim[d->axis + i];
        if (from < d->axis || from >= d->axis + d->n)
            return false;
    }
    for (int i = d->axis + 1; i < x->rank; i++)
        if (x->dim[i] != mid->dim[i + more] || perm[i + more] != i + more)
            return false;
    return size == x->dim[d->axis] && size > 1;
}

/* Is it the same at other sizes of free dimensions, with the same digits? */
static bool is_same_at(const struct pare_graph *g, int i, const struct pare_value *x,
                       const struct pare_value *mid, const int *perm)
{
    const struct pare_value *xo = pare_value_at(g, x, i), *mo = pare_value_at(g, mid, i);
    struct digits d, o;

    if (!g->other[i])
        return true;
    if (!xo || !mo || xo->t.dtype != PARE_F32 || mo->t.dtype != PARE_F32 ||
        xo->t.rank != x->t.rank || mo->t.rank != mid->t.rank ||
        !find_digits(&x->t, &mid->t, perm, &d) || !find_digits(&xo->t, &mo->t, perm, &o) ||
        d.axis != o.axis)
        return false;
    for (int k = 0; k < d.n; k++)
        if (mo->t.dim[d.axis + k] != mid->t.dim[d.axis + k])
            return false;
    return true;
}

static bool is_view(const struct pare_node *n)
{
    return n && n->op && n->op->flags & PARE_OP_VIEW && n->n_out == 1 && n->out[0] &&
           !(n->out[0]->flags & PARE_V_CONST);
}

static bool match_shuffle(struct pare_graph *g, struct pare_node *last, struct pare_found *f)
{
    struct pare_node *turn, *first;
    int perm[PARE_MAX_RANK];
    struct digits d;

    if (!is_view(last) || !(turn = pare_found_maker(f, last->in[0], &pare_op_transpose)))
        return false;
    first = turn->in[0]->maker;
    if (!is_view(first) || !pare_found_add(f, first))
        return false;
    f->x = first->in[0];
    if (!f->x || f->x->t.dtype != PARE_F32 || f->x->flags & PARE_V_CONST)
        return false;
    pare_transpose_perm(turn, perm);
    if (!find_digits(&f->x->t, &turn->in[0]->t, perm, &d))
        return false;
    for (int i = 0; i < PARE_OTHER_SIZES; i++)
        if (!is_same_at(g, i, f->x, turn->in[0], perm))
            return false;
    f->setting = (struct pare_setting){ .name = "axis", .type = PARE_OPT_INT, .whole = d.axis };
    return true;
}

void pare_found_order(const struct pare_found *f, int64_t *index)
{
    const struct pare_node *turn = f->node[1];
    const struct pare_tensor *mid = &turn->in[0]->t, *out = &turn->out[0]->t;
    int perm[PARE_MAX_RANK], axis = (int)f->setting.whole, n = mid->rank - f->x->t.rank + 1;

    pare_transpose_perm(turn, perm);
    for (int64_t i = 0; i < f->x->t.dim[axis]; i++) {
        int64_t digit[PARE_MAX_RANK], rest = i;

        for (int k = n - 1; k >= 0; k--) {
            digit[perm[axis + k] - axis] = rest % out->dim[axis + k];
            rest /= out->dim[axis + k];
        }
        index[i] = 0;
        for (int k = 0; k < n; k++)
            index[i] = index[i] * mid->dim[axis + k] + digit[k];
    }
}

const struct pare_pattern pare_pattern_shuffle = {
    .name = "shuffle",
    .kind = PARE_PATTERN_SHUFFLE,
    .op = &pare_op_gather,
    .version = 13,
    .match = match_shuffle,
};
