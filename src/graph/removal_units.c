/* removal_units.c - indices that must be removed together: a union-find forest over all indices. */
#include "removal_units.h"

#include "../base/arena.h"
#include "keep_sets_internal.h"

struct pare_removal_units {
    struct pare_keep_sets *k;
    int64_t *first;  /* by root of a set: offset of its indices */
    int64_t *parent; /* by index */
    uint8_t *frozen; /* by index: at roots, whether any index of the unit is kept */
    int64_t n;
};

static int64_t top(const struct pare_removal_units *t, int64_t i)
{
    for (; t->parent[i] != i; i = t->parent[i])
        t->parent[i] = t->parent[t->parent[i]];
    return i;
}

static void join(struct pare_removal_units *t, int64_t a, int64_t b)
{
    a = top(t, a);
    b = top(t, b);
    if (a == b)
        return;
    t->parent[a > b ? a : b] = a > b ? b : a;
    t->frozen[a > b ? b : a] |= t->frozen[a > b ? a : b];
}

/* The digit that loses values, of those that may: axes of values before virtual axes, so that a
 * convolution keeps its groups, and the last of them.  -1: none may. */
static int loser(const struct pare_keep_sets *k, const struct pare_keep_relation *r)
{
    int best = -1, rank = 0;

    for (int i = 0; i < r->tie.n_digits; i++) {
        const struct pare_digit *d = &r->tie.digit[i];
        int set = r->set[1 + i], mine = d->v ? 1 << 20 : 1 + d->axis;

        if (set < 0 || d->size == 1 || k->ones[set] == k->axis[set].size || mine < rank)
            continue;
        best = i;
        rank = mine;
    }
    return best;
}

static void join_digits(struct pare_removal_units *t, const struct pare_keep_relation *r)
{
    const struct pare_keep_sets *k = t->k;
    int lost = loser(k, r);
    int64_t size = k->axis[r->set[0]].size, below = 1, of;

    if (lost < 0)
        return;
    of = r->tie.digit[lost].size;
    for (int i = lost + 1; i < r->tie.n_digits; i++)
        below *= r->tie.digit[i].size;
    for (int64_t i = 0; i < size; i++)
        join(t, t->first[r->set[0]] + i, t->first[r->set[1 + lost]] + i / below % of);
}

/* ---- groups ---------------------------------------------------------------------------------- */

#define MOST_COUNTS (1 << 22)

/* Units of a grouped axis: every one of them must have as many indices in each group. */
struct balance {
    struct pare_removal_units *t;
    int64_t first, size; /* of the axis */
    int64_t groups;
    int64_t *unit;        /* root of each unit, in the order of the first index */
    int64_t *count;       /* (unit, group): indices */
    bool *done;           /* by unit: it is part of a balanced one, or frozen */
    int64_t *next, *list; /* by group: first of `list` that may be taken; units by first group */
    int64_t n;
};

static int find_unit_counts(struct pare_arena *a, struct balance *b, struct pare_err *err)
{
    size_t n = (size_t)b->size, all = (size_t)b->t->n;
    int64_t *number = pare_alloc(a, all, sizeof(*number)), at = 0;

    b->unit = pare_alloc(a, n, sizeof(*b->unit));
    b->count = pare_alloc(a, n * (size_t)b->groups, sizeof(*b->count));
    b->done = pare_alloc(a, n, sizeof(*b->done));
    b->list = pare_alloc(a, n, sizeof(*b->list));
    b->next = pare_alloc(a, (size_t)b->groups + 1, sizeof(*b->next));
    if (!number || !b->unit || !b->count || !b->done || !b->list || !b->next)
        return pare_no_memory(err, "for the removal units");
    for (int64_t i = 0; i < b->size; i++) {
        int64_t root = top(b->t, b->first + i), g = i / (b->size / b->groups);

        if (!number[root]) {
            b->unit[b->n++] = root;
            number[root] = b->n;
            b->done[b->n - 1] = b->t->frozen[root];
            b->list[at++] = b->n - 1;
            b->next[g + 1]++;
        }
        b->count[(number[root] - 1) * b->groups + g]++;
    }
    for (int64_t g = 0; g < b->groups; g++)
        b->next[g + 1] += b->next[g];
    return 0;
}

/* The next unit whose first index is in group g, or in any later one; -1: none is left. */
static int64_t take_unit(struct balance *b, int64_t g)
{
    for (int64_t i = 0; i < b->groups; i++) {
        int64_t from = (g + i) % b->groups, end = from + 1 < b->groups ? b->next[from + 1] : b->n;

        for (int64_t k = b->next[from]; k < end; k++)
            if (!b->done[b->list[k]]) {
                b->done[b->list[k]] = true;
                return b->list[k];
            }
    }
    return -1;
}

/* The group with the fewest indices; *even: all have the same number. */
static int64_t fewest(const int64_t *sum, int64_t n, bool *even)
{
    int64_t least = 0;

    *even = true;
    for (int64_t g = 1; g < n; g++) {
        *even &= sum[g] == sum[0];
        least = sum[g] < sum[least] ? g : least;
    }
    return least;
}

/* Join units until each has as many indices in every group.  What cannot be balanced is joined with
 * a frozen unit. */
static void join_balanced(struct balance *b, int64_t *sum)
{
    int64_t frozen = -1;

    for (int64_t i = 0; i < b->n && frozen < 0; i++)
        frozen = b->t->frozen[b->unit[i]] ? b->unit[i] : -1;
    for (int64_t i = 0; i < b->n; i++) {
        bool even;
        int64_t u = i, g;

        if (b->done[i])
            continue;
        b->done[i] = true;
        for (g = 0; g < b->groups; g++)
            sum[g] = b->count[i * b->groups + g];
        while (g = fewest(sum, b->groups, &even), !even && (u = take_unit(b, g)) >= 0) {
            for (g = 0; g < b->groups; g++)
                sum[g] += b->count[u * b->groups + g];
            join(b->t, b->unit[i], b->unit[u]);
        }
        if (!even && frozen >= 0)
            join(b->t, b->unit[i], frozen);
    }
}

/* ---- two groupings of the same channels ------------------------------------------------------
 *
 * A channel shuffle between grouped convolutions: each channel is in one group of the first, a, and
 * in one of the second, b.  With as many groups of the same size, the channels are the edges of a
 * regular bipartite graph, which is a union of perfect matchings (Koenig).  A matching has one
 * channel of every group on both sides: the smallest unit.
 */

struct matching {
    int64_t groups, size; /* groups; channels of each */
    int64_t *unit;        /* (a, b, k): units with index in group a of the first, b of the second */
    int64_t *n;           /* (a, b): how many are left */
    int64_t *of;          /* by b: the group a that it is matched with; -1: none */
    bool *seen;
};

/* Kuhn's algorithm: match a, and others differently if needed. */
static bool match_group(struct matching *m, int64_t a, int depth)
{
    for (int64_t b = 0; b < m->groups && depth >= 0; b++) {
        if (m->seen[b] || !m->n[a * m->groups + b])
            continue;
        m->seen[b] = true;
        if (m->of[b] < 0 || match_group(m, m->of[b], depth - 1)) {
            m->of[b] = a;
            return true;
        }
    }
    return false;
}

static void join_matching(struct pare_removal_units *t, struct matching *m)
{
    int64_t first = -1;

    for (int64_t b = 0; b < m->groups; b++) {
        int64_t at = m->of[b] * m->groups + b, unit = m->unit[at * m->size + --m->n[at]];

        if (first >= 0)
            join(t, first, unit);
        first = first < 0 ? unit : first;
    }
}

static void join_matchings(struct pare_removal_units *t, struct matching *m)
{
    for (int64_t k = 0; k < m->size; k++) {
        bool all = true;

        for (int64_t b = 0; b < m->groups; b++)
            m->of[b] = -1;
        for (int64_t a = 0; a < m->groups && all; a++) {
            for (int64_t b = 0; b < m->groups; b++)
                m->seen[b] = false;
            all = match_group(m, a, (int)m->groups);
        }
        if (!all) /* not regular: impossible */
            return;
        join_matching(t, m);
    }
}

/* Whether both relations group the same channels, each of which is a unit of its own, into as many
 * groups of the same size; then list them by their groups. */
static bool list_channels(struct pare_removal_units *t, const struct pare_keep_relation *const r[2],
                          int64_t *group, struct matching *m)
{
    int64_t size = m->groups * m->size;

    for (int64_t i = 0; i < t->n; i++)
        group[i] = -1;
    for (int64_t i = 0; i < size; i++) {
        int64_t root = top(t, t->first[r[0]->set[0]] + i);

        if (group[root] >= 0 || t->frozen[root])
            return false;
        group[root] = i / m->size;
    }
    for (int64_t i = 0; i < size; i++) {
        int64_t root = top(t, t->first[r[1]->set[0]] + i), at;

        if (group[root] < 0)
            return false;
        at = group[root] * m->groups + i / m->size;
        m->unit[at * m->size + m->n[at]++] = root;
        group[root] = -1;
    }
    return true;
}

/* Join the channels of two relations; nothing happens if they do not fit each other. */
static int join_both(struct pare_arena *a, struct pare_removal_units *t,
                     const struct pare_keep_relation *const r[2], struct pare_err *err)
{
    struct matching m = { .groups = r[0]->tie.digit[0].size, .size = r[0]->tie.digit[1].size };
    size_t pairs = (size_t)(m.groups * m.groups);
    struct pare_mark mark = pare_mark(a);
    int64_t *group;

    if (r[0]->set[0] == r[1]->set[0] || m.groups != r[1]->tie.digit[0].size ||
        m.size != r[1]->tie.digit[1].size || m.groups < 2 ||
        m.groups * m.groups * m.size > MOST_COUNTS)
        return 0;
    m.unit = pare_alloc(a, pairs * (size_t)m.size, sizeof(*m.unit));
    m.n = pare_alloc(a, pairs, sizeof(*m.n));
    m.of = pare_alloc(a, (size_t)m.groups, sizeof(*m.of));
    m.seen = pare_alloc(a, (size_t)m.groups, sizeof(*m.seen));
    group = pare_alloc(a, (size_t)t->n, sizeof(*group));
    if (!m.unit || !m.n || !m.of || !m.seen || !group)
        return pare_no_memory(err, "for the removal units");
    if (list_channels(t, r, group, &m))
        join_matchings(t, &m);
    pare_reset(a, mark);
    return 0;
}

static bool is_grouping(const struct pare_keep_sets *k, int i)
{
    return k->rel[i].tie.kind == PARE_TIE_GROUPS && loser(k, &k->rel[i]) == 1;
}

/* Find two groupings of the same channels, which do not share their set: a shuffle is between. */
static int join_shuffled(struct pare_arena *a, struct pare_removal_units *t, struct pare_err *err)
{
    const struct pare_keep_sets *k = t->k;

    for (int i = 0; i < k->n_rel; i++) {
        int64_t unit;

        if (!is_grouping(k, i))
            continue;
        unit = top(t, t->first[k->rel[i].set[0]]);
        for (int j = i + 1; j < k->n_rel; j++) {
            const struct pare_keep_relation *const pair[2] = { &k->rel[i], &k->rel[j] };

            if (is_grouping(k, j) && unit == top(t, t->first[pair[1]->set[0]]))
                PARE_TRY(join_both(a, t, pair, err));
        }
    }
    return 0;
}

/* Channels in groups of which each loses as many, but not the same. */
static int join_groups(struct pare_arena *a, struct pare_removal_units *t,
                       const struct pare_keep_relation *r, struct pare_err *err)
{
    struct balance b = { .t = t,
                         .first = t->first[r->set[0]],
                         .size = t->k->axis[r->set[0]].size,
                         .groups = r->tie.digit[0].size };
    struct pare_mark m = pare_mark(a);
    int64_t *sum;
    int rc;

    if (loser(t->k, r) != 1 || b.size * b.groups > MOST_COUNTS || b.groups < 2) {
        join_digits(t, r);
        return 0;
    }
    rc = find_unit_counts(a, &b, err);
    sum = rc ? NULL : pare_alloc(a, (size_t)b.groups, sizeof(*sum));
    if (sum)
        join_balanced(&b, sum);
    else if (!rc)
        rc = pare_no_memory(err, "for the removal units");
    pare_reset(a, m);
    return rc;
}

static void join_picks(struct pare_removal_units *t, const struct pare_keep_relation *r)
{
    const struct pare_tied *s = &r->tie;

    for (int64_t i = 0; i < t->k->axis[r->set[1]].size; i++)
        join(t, t->first[r->set[1]] + i,
             t->first[r->set[0]] + (s->index ? s->index[i] : s->from + i));
}

#define PARAMETER (PARE_V_CONST | PARE_V_PARAM)

/* Whether index i of an axis is kept.  A list of parameters keeps its size (pare_tie_together), and
 * its elements are removed by being 0. */
static bool stays(const struct pare_keep_sets *k, const struct pare_value *v, int set, int64_t i)
{
    return !(v->flags & PARAMETER) && k->keep[set][i];
}

static void join_together(struct pare_removal_units *t, const struct pare_tied *s)
{
    int a = pare_keep_sets_find(t->k, s->a, s->ax), b = pare_keep_sets_find(t->k, s->b, s->bx);

    if (a < 0 || b < 0 || t->k->axis[a].size != t->k->axis[b].size)
        return;
    a = pare_keep_sets_root(t->k, a);
    b = pare_keep_sets_root(t->k, b);
    for (int64_t i = 0; i < t->k->axis[a].size; i++)
        if (!stays(t->k, s->a, a, i) && !stays(t->k, s->b, b, i)) {
            t->frozen[top(t, t->first[a] + i)] &= s->a->flags & PARAMETER ? 0 : 1;
            join(t, t->first[a] + i, t->first[b] + i);
        }
}

static int add_sets(struct pare_arena *a, struct pare_removal_units *t, struct pare_err *err)
{
    const struct pare_keep_sets *k = t->k;

    t->first = pare_alloc(a, (size_t)k->n_axes, sizeof(*t->first));
    if (!t->first)
        return pare_no_memory(err, "for the removal units");
    for (int i = 0; i < k->n_axes; i++)
        if (k->axis[i].parent == i) {
            t->first[i] = t->n;
            t->n += k->axis[i].size;
        }
    t->parent = pare_alloc_raw(a, (size_t)t->n, sizeof(*t->parent));
    t->frozen = pare_alloc(a, (size_t)t->n, 1);
    if (!t->parent || !t->frozen)
        return pare_no_memory(err, "for the removal units");
    for (int64_t i = 0; i < t->n; i++)
        t->parent[i] = i;
    for (int i = 0; i < k->n_axes; i++)
        for (int64_t x = 0; k->axis[i].parent == i && x < k->axis[i].size; x++)
            t->frozen[t->first[i] + x] = k->keep[i][x];
    return 0;
}

int pare_removal_units_new(struct pare_arena *a, struct pare_keep_sets *k,
                           struct pare_removal_units **units, struct pare_err *err)
{
    struct pare_removal_units *t = pare_alloc(a, 1, sizeof(*t));

    *units = t;
    if (!t)
        return pare_no_memory(err, "for the removal units");
    t->k = k;
    PARE_TRY(add_sets(a, t, err));
    for (int i = 0; i < k->n_rel; i++)
        if (k->rel[i].tie.kind == PARE_TIE_DIGITS)
            join_digits(t, &k->rel[i]);
        else if (k->rel[i].tie.kind != PARE_TIE_GROUPS)
            join_picks(t, &k->rel[i]);
    for (int i = 0; i < k->ties.n; i++)
        if (k->ties.tie[i].kind == PARE_TIE_TOGETHER)
            join_together(t, &k->ties.tie[i]);
    PARE_TRY(join_shuffled(a, t, err));
    for (int i = 0; i < k->n_rel; i++) /* when everything else is joined */
        if (k->rel[i].tie.kind == PARE_TIE_GROUPS)
            PARE_TRY(join_groups(a, t, &k->rel[i], err));
    return 0;
}

int64_t pare_removal_unit(const struct pare_removal_units *t, const struct pare_value *v, int axis,
                          int64_t i)
{
    int a = pare_keep_sets_find(t->k, v, axis);

    if (a < 0 || i < 0 || i >= t->k->axis[a].size)
        return -1;
    return top(t, t->first[pare_keep_sets_root(t->k, a)] + i);
}

int64_t pare_removal_units_count(const struct pare_removal_units *t)
{
    return t->n;
}

bool pare_removal_unit_open(const struct pare_removal_units *t, int64_t unit)
{
    return !t->frozen[top(t, unit)];
}
