/* keep_sets_build.c - collect the axis relations of all nodes and build keep sets from them.
 *
 * Axes with the same channels are united (a union-find forest), so a coupled set has one keep set.
 * The other relations connect sets: part, pick, digits and groups.
 */
#include <string.h>

#include "../base/arena.h"
#include "../op/op.h"
#include "free_dims.h"
#include "keep_sets_internal.h"

/* ---- axes --------------------------------------------------------------------------------- */

static bool shape_known(const struct pare_value *v)
{
    bool known = v->t.dtype != PARE_NONE && v->t.rank >= 0;

    for (int i = 0; known && i < v->t.rank; i++)
        known = v->t.dim[i] >= 0;
    return known;
}

static void freeze(struct pare_keep_sets *k, int a, const struct pare_node *n, const char *why)
{
    if (a < 0 || k->axis[a].why)
        return;
    k->axis[a].why = why;
    k->axis[a].node = n;
}

static void unite(struct pare_keep_sets *k, int a, int b)
{
    int ra = pare_keep_sets_root(k, a), rb = pare_keep_sets_root(k, b);

    k->axis[ra > rb ? ra : rb].parent = ra > rb ? rb : ra;
}

static int new_axis(struct pare_keep_sets *k, int64_t size)
{
    struct pare_keep_axis *list = pare_grow(k->arena, k->axis, k->n_axes, &k->cap_axes,
                                            sizeof(*list));

    if (!list)
        return -1;
    k->axis = list;
    list[k->n_axes] = (struct pare_keep_axis){ .size = size, .parent = k->n_axes, .next = -1 };
    return k->n_axes++;
}

/* The node's virtual axis of that number, or -1. */
static int own_axis(const struct pare_keep_sets *k, const struct pare_node *n, int number)
{
    for (int a = k->own[n->id]; a >= 0; a = k->axis[a].next)
        if (k->axis[a].number == number)
            return a;
    return -1;
}

/* Create virtual axes that a relation mentions for the first time. */
static int add_own(struct pare_keep_sets *k, const struct pare_tied *t, struct pare_err *err)
{
    for (int i = 0; i < t->n_digits; i++) {
        const struct pare_digit *d = &t->digit[i];
        int a;

        if (d->v || d->axis < 0 || d->size < 1 || own_axis(k, t->node, d->axis) >= 0)
            continue;
        a = new_axis(k, d->size);
        if (a < 0)
            return pare_no_memory(err, "for the keep sets");
        k->axis[a].number = d->axis;
        k->axis[a].next = k->own[t->node->id];
        k->own[t->node->id] = a;
    }
    return 0;
}

/* ---- relations of nodes ------------------------------------------------------------------- */

/* A digit's axis; -1 if it is frozen or does not exist. */
static int digit_axis(const struct pare_keep_sets *k, const struct pare_tied *t,
                      const struct pare_digit *d)
{
    if (d->v)
        return pare_keep_sets_find(k, d->v, d->axis);
    return d->axis < 0 ? -1 : own_axis(k, t->node, d->axis);
}

/* Whether the digits multiply to the whole and match the lengths of their axes. */
static bool digits_fit(const struct pare_keep_sets *k, const struct pare_tied *t, int64_t whole)
{
    int64_t product = 1;

    for (int i = 0; i < t->n_digits; i++) {
        const struct pare_digit *d = &t->digit[i];
        int a = digit_axis(k, t, d);

        if (d->size < 1 || product > whole / d->size)
            return false;
        product *= d->size;
        if (a < 0 ? d->v || d->axis >= 0 : k->axis[a].size != d->size)
            return false;
    }
    return product == whole && t->n_digits <= PARE_MOST_DIGITS;
}

/* Whether the shapes permit the relation. */
static bool fits(const struct pare_keep_sets *k, const struct pare_tied *t, int a, int b)
{
    int64_t na = a < 0 ? -1 : k->axis[a].size, nb = b < 0 ? -1 : k->axis[b].size;

    if (na < 0)
        return false;
    switch (t->kind) {
    case PARE_TIE_SAME:
    case PARE_TIE_TOGETHER: return na == nb;
    case PARE_TIE_PART: return nb >= 0 && t->from >= 0 && nb <= na && t->from <= na - nb;
    case PARE_TIE_PICK:
        for (int64_t i = 0; i < nb; i++)
            if (t->index[i] < 0 || t->index[i] >= na)
                return false;
        return nb >= 0;
    case PARE_TIE_DIGITS:
    case PARE_TIE_GROUPS: return digits_fit(k, t, na);
    case PARE_TIE_SUM:
    case PARE_TIE_RESTORED:
    case PARE_TIE_FREEZE: return true;
    }
    return false;
}

static int relate(struct pare_keep_sets *k, const struct pare_tied *t, struct pare_err *err)
{
    struct pare_keep_relation *list = pare_grow(k->arena, k->rel, k->n_rel, &k->cap_rel,
                                                sizeof(*list));

    if (!list)
        return pare_no_memory(err, "for the keep sets");
    k->rel = list;
    list[k->n_rel++] = (struct pare_keep_relation){ .tie = *t };
    return 0;
}

/* Digits can reduce to two axes with the same channels, or to a frozen one: digits of size 1 do not
 * count. */
static int hear_digits(struct pare_keep_sets *k, const struct pare_tied *t, int a,
                       struct pare_err *err)
{
    int only = -1, n = 0, open = 0;

    for (int i = 0; i < t->n_digits; i++) {
        int d = digit_axis(k, t, &t->digit[i]);

        if (t->digit[i].size == 1)
            continue;
        n++;
        open += d >= 0;
        only = d;
    }
    if (!open)
        freeze(k, a, t->node, "all of its parts are kept");
    else if (n == 1)
        unite(k, a, only);
    else
        return relate(k, t, err);
    return 0;
}

static void mark_mentioned(struct pare_keep_sets *k, const struct pare_tied *t, int a, bool good)
{
    if (a < 0)
        return;
    k->axis[a].mentioned_by = t->node->id + 1;
    if (!good)
        freeze(k, a, t->node, "its relations do not fit these shapes");
}

static int add_relation(struct pare_keep_sets *k, const struct pare_tied *t, struct pare_err *err)
{
    int a = pare_keep_sets_find(k, t->a, t->ax), b = pare_keep_sets_find(k, t->b, t->bx);
    bool good;

    if (t->kind == PARE_TIE_TOGETHER)
        return 0;
    PARE_TRY(add_own(k, t, err));
    good = fits(k, t, a, b);
    mark_mentioned(k, t, a, good);
    mark_mentioned(k, t, b, good);
    for (int i = 0; i < t->n_digits; i++)
        mark_mentioned(k, t, digit_axis(k, t, &t->digit[i]), good);
    if (!good)
        return 0;
    switch (t->kind) {
    case PARE_TIE_SAME:
        if (!t->summed) /* else settle_sums() */
            unite(k, a, b);
        break;
    case PARE_TIE_PART:
        if (k->axis[a].size != k->axis[b].size)
            return relate(k, t, err);
        unite(k, a, b);
        break;
    case PARE_TIE_PICK: return relate(k, t, err);
    case PARE_TIE_DIGITS:
    case PARE_TIE_GROUPS: return hear_digits(k, t, a, err);
    case PARE_TIE_SUM:
    case PARE_TIE_RESTORED:
    case PARE_TIE_TOGETHER: break;
    case PARE_TIE_FREEZE: freeze(k, a, t->node, t->why); break;
    }
    return 0;
}

/* Weights in groups can be gathered group by group only if they have no other consumer. */
static void settle_groups(const struct pare_keep_sets *k, struct pare_tied *t)
{
    const struct pare_value *w = t->kind == PARE_TIE_GROUPS ? t->digit[1].v : NULL;
    int uses = 0;

    if (!w)
        return;
    for (int i = 0; i < k->g->n_nodes; i++) {
        const struct pare_node *n = k->g->node[i];

        for (int j = 0; j < n->n_in; j++)
            uses += n->in[j] == w;
        for (int j = 0; j < n->n_cap; j++)
            uses += n->cap[j] == w;
    }
    if (uses != 1 || w->maker || !(w->flags & PARE_V_CONST) || w->flags & PARE_V_OUTPUT ||
        t->digit[1].axis != 1 || w->t.dim[0] % t->digit[0].size)
        t->kind = PARE_TIE_DIGITS;
}

/* Freeze the axes of a value that the node's relations do not mention. */
static void freeze_rest(struct pare_keep_sets *k, const struct pare_value *v,
                        const struct pare_node *n, const char *why)
{
    for (int i = 0; v && pare_keep_sets_has(k, v) && i < v->t.rank; i++)
        if (k->axis[k->first[v->id] + i].mentioned_by != n->id + 1)
            freeze(k, k->first[v->id] + i, n, why);
}

static bool has_output(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            return true;
    return false;
}

/* ties() relies on the checks of pare_node_check() and infer(): if they failed, no output has a
 * shape. */
static bool has_relations(const struct pare_keep_sets *k, const struct pare_node *n)
{
    struct pare_err err;
    bool may = n->op && n->op->ties && !n->n_cap && has_output(n) &&
               (n->op->min_out == 0 || n->out[0]);

    for (int i = 0; i < n->n_in && may; i++)
        may = !n->in[i] || pare_keep_sets_has(k, n->in[i]);
    for (int i = 0; i < n->n_out && may; i++)
        may = !n->out[i] || pare_keep_sets_has(k, n->out[i]);
    return may && !pare_node_check(n, &err);
}

bool pare_keep_sets_asked(const struct pare_keep_sets *k, const struct pare_node *n)
{
    return has_relations(k, n);
}

/* A virtual axis whose size follows a free dimension keeps all of its indices. */
static void freeze_free_digits(struct pare_keep_sets *k, const struct pare_tied *here,
                               const struct pare_tied *there)
{
    for (int i = 0; i < here->n_digits; i++)
        if (!here->digit[i].v && here->digit[i].axis >= 0 &&
            here->digit[i].size != there->digit[i].size)
            freeze(k, own_axis(k, here->node, here->digit[i].axis), here->node, PARE_WHY_FREE);
}

/* Collect the relations that ties() of the node declares.  *same: they hold for other sizes of free
 * dimensions, too; if not, there are none. */
static int ask_node(struct pare_keep_sets *k, const struct pare_node *n, bool *same,
                    struct pare_err *err)
{
    int from = k->ties.n;
    struct pare_ties there = { .n = 0 };

    *same = true;
    k->ties.node = n;
    n->op->ties(n, &k->ties);
    if (k->ties.failed)
        return pare_no_memory(err, "for the keep sets");
    if (k->g->other[1])
        PARE_TRY(pare_ties_compare(k, n, from, &there, same, err));
    if (!*same) {
        k->ties.n = from;
        return 0;
    }
    for (int i = from; i < k->ties.n; i++)
        settle_groups(k, &k->ties.tie[i]);
    for (int i = from; i < k->ties.n; i++)
        PARE_TRY(add_relation(k, &k->ties.tie[i], err));
    for (int i = 0; i < there.n; i++)
        freeze_free_digits(k, &k->ties.tie[from + i], &there.tie[i]);
    return 0;
}

/* The file still has nodes that were replaced: their constants keep their sizes. */
static void freeze_replaced(struct pare_keep_sets *k, const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->flags & PARE_V_CONST)
            freeze_rest(k, n->in[i], n, "a part of a normalization");
}

static int collect_relations(struct pare_keep_sets *k, const struct pare_node *n,
                             struct pare_err *err)
{
    const char *why;

    if (n->replaced) {
        freeze_replaced(k, n);
        return 0;
    }
    if (n->n_parts)
        freeze_replaced(k, n->parts[0]);
    if (has_relations(k, n)) {
        bool same;

        PARE_TRY(ask_node(k, n, &same, err));
        why = pare_sprintf(k->arena,
                           same ? "an axis of %s"
                                : "the axes of %s relate differently at other sizes",
                           n->type);
    } else {
        why = pare_sprintf(k->arena,
                           n->op && n->op->ties         ? "a shape of %s depends on data"
                           : pare_node_body(n, 0, NULL) ? "the border of the body of %s"
                                                        : "no axis relations for %s",
                           n->type);
    }
    if (!why)
        return pare_no_memory(err, "for the keep sets");
    for (int i = 0; i < n->n_in; i++)
        freeze_rest(k, n->in[i], n, why);
    for (int i = 0; i < n->n_out; i++)
        freeze_rest(k, n->out[i], n, why);
    for (int i = 0; i < n->n_cap; i++)
        freeze_rest(k, n->cap[i], n, why);
    return 0;
}

/* Freeze sizes that Shape reads and that are used in computations. */
static int freeze_sizes(struct pare_keep_sets *k, const struct pare_node *n, struct pare_err *err)
{
    struct pare_size_use use;

    if (!has_relations(k, n) || !pare_node_is(n, &pare_op_shape))
        return 0;
    PARE_TRY(pare_size_uses(k->arena, k->g, n, &use, err));
    for (int i = 0; i < n->in[0]->t.rank; i++)
        if (use.axes >> i & 1)
            freeze(k, pare_keep_sets_find(k, n->in[0], i), use.who[i],
                   "its size is part of the result");
    return 0;
}

static void freeze_all(struct pare_keep_sets *k, struct pare_value *const *list, int n,
                       const char *why)
{
    for (int i = 0; i < n; i++)
        for (int x = 0; pare_keep_sets_has(k, list[i]) && x < list[i]->t.rank; x++)
            freeze(k, k->first[list[i]->id] + x, NULL, why);
}

/* ---- sums of products --------------------------------------------------------------------- */

static void freeze_root(struct pare_keep_sets *k, int a)
{
    struct pare_keep_axis *x = &k->axis[a], *root = &k->axis[pare_keep_sets_root(k, a)];

    if (x->why && !root->why) {
        root->why = x->why;
        root->node = x->node;
    }
}

static void freeze_roots(struct pare_keep_sets *k)
{
    for (int i = 0; i < k->n_axes; i++)
        freeze_root(k, i);
}

/* May one operand keep all channels of the axis and the other one lose some?  Which indices are
 * selected must not depend on the size of a free dimension. */
static bool may_select(const struct pare_keep_sets *k, const struct pare_tied *t)
{
    return !(t->a->flags & PARE_V_CONST) && !(t->b->flags & PARE_V_CONST) &&
           !pare_axis_is_free(k->g, t->a, t->ax) && !pare_axis_is_free(k->g, t->b, t->bx);
}

/* Both operands of a product lose the same channels, except where one of them is frozen. */
static void settle_sums(struct pare_keep_sets *k)
{
    freeze_roots(k);
    for (int i = 0; i < k->ties.n; i++) {
        const struct pare_tied *t = &k->ties.tie[i];
        int a = t->summed ? pare_keep_sets_find(k, t->a, t->ax) : -1;
        int b = t->summed ? pare_keep_sets_find(k, t->b, t->bx) : -1;

        if (a < 0 || b < 0 || k->axis[a].size != k->axis[b].size)
            continue;
        a = pare_keep_sets_root(k, a);
        b = pare_keep_sets_root(k, b);
        if (!k->axis[a].why != !k->axis[b].why && may_select(k, t))
            continue;
        unite(k, a, b);
        freeze_root(k, a);
        freeze_root(k, b);
    }
}

/* ---- building ----------------------------------------------------------------------------- */

static int add_axes(struct pare_keep_sets *k, struct pare_err *err)
{
    const struct pare_graph *g = k->g;

    k->n_values = g->n_values;
    k->n_nodes = g->n_nodes;
    k->first = pare_alloc(k->arena, (size_t)g->n_values, sizeof(*k->first));
    k->own = pare_alloc(k->arena, (size_t)g->n_nodes, sizeof(*k->own));
    if (!k->first || !k->own)
        return pare_no_memory(err, "for the keep sets");
    for (int i = 0; i < g->n_nodes; i++)
        k->own[i] = -1;
    for (int i = 0; i < g->n_values; i++) {
        const struct pare_value *v = g->value[i];

        k->first[i] = shape_known(v) ? k->n_axes : -1;
        for (int x = 0; k->first[i] >= 0 && x < v->t.rank; x++)
            if (new_axis(k, v->t.dim[x]) < 0)
                return pare_no_memory(err, "for the keep sets");
    }
    return 0;
}

/* The sets of a relation, as roots. */
static int resolve(struct pare_keep_sets *k, struct pare_keep_relation *r, struct pare_err *err)
{
    const struct pare_tied *t = &r->tie;
    bool digits = t->kind == PARE_TIE_DIGITS || t->kind == PARE_TIE_GROUPS;
    int a;

    r->n = digits ? 1 + t->n_digits : 2;
    r->set = pare_alloc(k->arena, (size_t)r->n, sizeof(*r->set));
    if (!r->set)
        return pare_no_memory(err, "for the keep sets");
    r->set[0] = pare_keep_sets_root(k, pare_keep_sets_find(k, t->a, t->ax));
    if (!digits)
        r->set[1] = pare_keep_sets_root(k, pare_keep_sets_find(k, t->b, t->bx));
    for (int i = 0; i < t->n_digits; i++) {
        a = digit_axis(k, t, &t->digit[i]);
        r->set[1 + i] = a < 0 ? -1 : pare_keep_sets_root(k, a);
    }
    return 0;
}

/* List the relations of each set, to visit when the set grows. */
static int list_users(struct pare_keep_sets *k, struct pare_err *err)
{
    int sum = 0;

    k->user_at = pare_alloc(k->arena, (size_t)k->n_axes + 2, sizeof(int));
    k->queue = pare_alloc(k->arena, (size_t)k->n_rel, sizeof(int));
    if (!k->user_at || !k->queue)
        return pare_no_memory(err, "for the keep sets");
    for (int i = 0; i < k->n_rel; i++)
        for (int x = 0; x < k->rel[i].n; x++, sum++)
            if (k->rel[i].set[x] >= 0)
                k->user_at[k->rel[i].set[x] + 2]++;
    k->user = pare_alloc(k->arena, (size_t)sum, sizeof(int));
    if (!k->user)
        return pare_no_memory(err, "for the keep sets");
    for (int i = 2; i < k->n_axes + 2; i++)
        k->user_at[i] += k->user_at[i - 1];
    /* Offset by one, so that filling moves every start to its place. */
    for (int i = 0; i < k->n_rel; i++)
        for (int x = 0; x < k->rel[i].n; x++)
            if (k->rel[i].set[x] >= 0)
                k->user[k->user_at[k->rel[i].set[x] + 1]++] = i;
    return 0;
}

#define MOST_INDICES ((int64_t)1 << 28) /* of all sets: one byte each, and more for removal units */

static int make_sets(struct pare_keep_sets *k, struct pare_err *err)
{
    size_t n = (size_t)k->n_axes;
    int64_t left = MOST_INDICES;

    k->keep = pare_alloc(k->arena, n, sizeof(*k->keep));
    k->ones = pare_alloc(k->arena, n, sizeof(*k->ones));
    k->number = pare_alloc(k->arena, n, sizeof(*k->number));
    if (!k->keep || !k->ones || !k->number)
        return pare_no_memory(err, "for the keep sets");
    freeze_roots(k);
    for (int i = 0; i < k->n_axes; i++) {
        const struct pare_keep_axis *x = &k->axis[i];

        if (x->parent != i)
            continue;
        if (x->size > left)
            return pare_fail(err, PARE_ELIMIT,
                             "the axes have more than %lld indices to keep or to remove",
                             (long long)MOST_INDICES);
        left -= x->size;
        k->number[i] = k->n_sets++;
        k->keep[i] = pare_alloc(k->arena, (size_t)x->size, 1);
        if (!k->keep[i])
            return pare_no_memory(err, "for the keep sets");
        if ((x->why || x->size == 1) && x->size)
            memset(k->keep[i], 1, (size_t)x->size);
    }
    return 0;
}

/* The indices of inputs and outputs mean something to the caller, or to the nodes around a body. */
static void freeze_borders(struct pare_keep_sets *k)
{
    const struct pare_graph *g = k->g;
    int own = g->n_in - g->captured;

    freeze_all(k, g->in, own, g->is_body ? "the body's input" : "the model's input");
    freeze_all(k, g->in + own, g->captured, "a value that the body captures");
    freeze_all(k, g->out, g->n_out, g->is_body ? "the body's output" : "the model's output");
}

int pare_keep_sets_new(struct pare_arena *a, const struct pare_graph *g,
                       struct pare_keep_sets **out, struct pare_err *err)
{
    struct pare_keep_sets *k = pare_alloc(a, 1, sizeof(*k));

    *out = k;
    if (!k)
        return pare_no_memory(err, "for the keep sets");
    k->arena = a;
    k->g = g;
    k->ties.arena = a;
    PARE_TRY(add_axes(k, err));
    for (int i = 0; i < g->n_nodes; i++)
        PARE_TRY(collect_relations(k, g->node[i], err));
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->node[i]->replaced)
            PARE_TRY(freeze_sizes(k, g->node[i], err));
    freeze_borders(k);
    PARE_TRY(pare_keep_sets_freeze_free(k, err));
    settle_sums(k);
    PARE_TRY(make_sets(k, err));
    for (int i = 0; i < k->n_rel; i++)
        PARE_TRY(resolve(k, &k->rel[i], err));
    PARE_TRY(list_users(k, err));
    k->fresh = true;
    PARE_TRY(pare_keep_sets_solve(k, err));
    k->fresh = false;
    return 0;
}
