/* keep_sets.c - keep sets of axes: grow them until all axis relations hold, and query them.
 *
 * A relation is visited again only when one of its sets has grown.
 */
#include "keep_sets.h"

#include "keep_sets_internal.h"

/* When the visits of a relation have processed this many indices, all indices of its axes are kept:
 * a cycle of shifts needs one round per index. */
#define MOST_WORK ((int64_t)1 << 28)

/* ---- axes --------------------------------------------------------------------------------- */

bool pare_keep_sets_has(const struct pare_keep_sets *k, const struct pare_value *v)
{
    return v->id >= 0 && v->id < k->n_values && k->g->value[v->id] == v && k->first[v->id] >= 0;
}

int pare_keep_sets_find(const struct pare_keep_sets *k, const struct pare_value *v, int axis)
{
    if (!v || axis < 0 || axis >= v->t.rank || !pare_keep_sets_has(k, v))
        return -1;
    return k->first[v->id] + axis;
}

int pare_keep_sets_root(const struct pare_keep_sets *k, int a)
{
    struct pare_keep_axis *x = k->axis;

    for (; x[a].parent != a; a = x[a].parent)
        x[a].parent = x[x[a].parent].parent;
    return a;
}

/* ---- growing ------------------------------------------------------------------------------ */

static void mark_index(struct pare_keep_sets *k, int set, int64_t i)
{
    if (set >= 0 && !k->keep[set][i]) {
        k->keep[set][i] = 1;
        k->ones[set]++;
    }
}

static void queue_relations(struct pare_keep_sets *k, int set)
{
    for (int i = k->user_at[set]; i < k->user_at[set + 1]; i++) {
        struct pare_keep_relation *r = &k->rel[k->user[i]];

        if (r->queued)
            continue;
        r->queued = true;
        k->queue[(k->head + k->waiting++) % k->n_rel] = k->user[i];
    }
}

/* Index i of b is index at(i) of a. */
static void grow_pick(struct pare_keep_sets *k, const struct pare_keep_relation *r)
{
    const int64_t *index = r->tie.index;
    int a = r->set[0], b = r->set[1];

    for (int64_t i = 0; i < k->axis[b].size; i++) {
        int64_t at = index ? index[i] : r->tie.from + i;

        if (k->keep[b][i])
            mark_index(k, a, at);
    }
    for (int64_t i = 0; i < k->axis[b].size; i++) {
        int64_t at = index ? index[i] : r->tie.from + i;

        if (k->keep[a][at])
            mark_index(k, b, i);
    }
}

/* The next number, digit by digit, the least significant digit first. */
static void count_up(int64_t *digit, const struct pare_digit *of, int n)
{
    while (--n >= 0 && ++digit[n] == of[n].size)
        digit[n] = 0;
}

/* A number is kept exactly when all its digits are: first mark the digits of kept numbers, then all
 * numbers whose digits are all marked. */
static void grow_digits(struct pare_keep_sets *k, const struct pare_keep_relation *r)
{
    const struct pare_digit *of = r->tie.digit;
    int64_t digit[PARE_MOST_DIGITS] = { 0 }, size = k->axis[r->set[0]].size;
    int n = r->tie.n_digits;

    for (int64_t i = 0; i < size; i++, count_up(digit, of, n))
        for (int d = 0; d < n && k->keep[r->set[0]][i]; d++)
            mark_index(k, r->set[1 + d], digit[d]);
    for (int64_t i = 0; i < size; i++, count_up(digit, of, n)) {
        bool all = true;

        for (int d = 0; d < n && all; d++)
            all = r->set[1 + d] < 0 || k->keep[r->set[1 + d]][digit[d]];
        if (all)
            mark_index(k, r->set[0], i);
    }
}

/* Every kept group keeps the same number of channels, the largest number that one needs. */
static void grow_groups(struct pare_keep_sets *k, const struct pare_keep_relation *r)
{
    int64_t G = r->tie.digit[0].size, K = r->tie.digit[1].size, most = 0;
    const uint8_t *keep = k->keep[r->set[0]];
    int group = r->set[1], each = r->set[2];

    if (each >= 0)
        most = k->ones[each];
    for (int64_t g = 0; g < G; g++) {
        int64_t ones = 0;

        for (int64_t i = 0; i < K; i++)
            ones += keep[g * K + i] != 0;
        most = ones > most ? ones : most;
        if (ones)
            mark_index(k, group, g);
    }
    if (each < 0)
        most = K;
    for (int64_t i = 0; each >= 0 && i < K && k->ones[each] < most; i++)
        mark_index(k, each, i);
    for (int64_t g = 0; g < G; g++) {
        int64_t ones = 0;

        for (int64_t i = 0; i < K; i++)
            ones += keep[g * K + i] != 0;
        for (int64_t i = 0; i < K && ones < most && (group < 0 || k->keep[group][g]); i++) {
            ones += !keep[g * K + i];
            mark_index(k, r->set[0], g * K + i);
        }
    }
}

/* A set that is full because of other sets has their reason. */
static void pass_reason(struct pare_keep_sets *k, const struct pare_keep_relation *r, int set)
{
    struct pare_keep_axis *to = &k->axis[set];

    for (int i = 0; i < r->n && !to->why && k->ones[set] == to->size; i++)
        if (r->set[i] >= 0 && k->axis[r->set[i]].why) {
            to->why = k->axis[r->set[i]].why;
            to->node = k->axis[r->set[i]].node;
        }
}

static void grow(struct pare_keep_sets *k, struct pare_keep_relation *r)
{
    int64_t before[1 + PARE_MOST_DIGITS] = { 0 };
    int64_t size = k->axis[r->set[0]].size;

    for (int i = 0; i < r->n; i++)
        before[i] = r->set[i] < 0 ? 0 : k->ones[r->set[i]];
    if (++r->visits > 64 && r->visits * size > MOST_WORK)
        for (int i = 0; i < r->n; i++)
            for (int64_t x = 0; r->set[i] >= 0 && x < k->axis[r->set[i]].size; x++)
                mark_index(k, r->set[i], x);
    else if (r->tie.kind == PARE_TIE_DIGITS)
        grow_digits(k, r);
    else if (r->tie.kind == PARE_TIE_GROUPS)
        grow_groups(k, r);
    else
        grow_pick(k, r);
    for (int i = 0; i < r->n; i++)
        if (r->set[i] >= 0 && k->ones[r->set[i]] != before[i]) {
            if (k->fresh)
                pass_reason(k, r, r->set[i]);
            queue_relations(k, r->set[i]);
        }
}

int pare_keep_sets_solve(struct pare_keep_sets *k, struct pare_err *err)
{
    (void)err;
    for (int i = 0; i < k->n_axes; i++) {
        int64_t ones = 0;

        if (k->axis[i].parent != i)
            continue;
        for (int64_t x = 0; x < k->axis[i].size; x++)
            ones += k->keep[i][x] != 0;
        if (ones != k->ones[i])
            queue_relations(k, i);
        k->ones[i] = ones;
    }
    while (k->waiting) {
        struct pare_keep_relation *r = &k->rel[k->queue[k->head]];

        k->head = (k->head + 1) % k->n_rel;
        k->waiting--;
        r->queued = false;
        grow(k, r);
    }
    return 0;
}

/* ---- queries ------------------------------------------------------------------------------ */

uint8_t *pare_keep_axis(struct pare_keep_sets *k, const struct pare_value *v, int axis)
{
    int a = pare_keep_sets_find(k, v, axis);

    return a < 0 ? NULL : k->keep[pare_keep_sets_root(k, a)];
}

uint8_t *pare_keep_sets_own(struct pare_keep_sets *k, const struct pare_node *n, int number,
                            int64_t *size)
{
    int a = n->id < k->n_nodes ? k->own[n->id] : -1;

    while (a >= 0 && k->axis[a].number != number)
        a = k->axis[a].next;
    *size = a < 0 ? 0 : k->axis[a].size;
    return a < 0 ? NULL : k->keep[pare_keep_sets_root(k, a)];
}

int64_t pare_keep_sets_count(const struct pare_keep_sets *k, const struct pare_value *v, int axis)
{
    int a = pare_keep_sets_find(k, v, axis);
    int64_t ones = 0;

    if (a < 0)
        return axis >= 0 && axis < v->t.rank ? v->t.dim[axis] : 0;
    for (int64_t i = 0; i < k->axis[a].size; i++)
        ones += k->keep[pare_keep_sets_root(k, a)][i] != 0;
    return ones;
}

const char *pare_keep_sets_why(const struct pare_keep_sets *k, const struct pare_value *v, int axis,
                               const struct pare_node **node)
{
    int a = pare_keep_sets_find(k, v, axis);

    *node = NULL;
    if (a < 0)
        return "its shape depends on data";
    if (!k->axis[a].why)
        a = pare_keep_sets_root(k, a);
    *node = k->axis[a].node;
    return k->axis[a].why;
}

int pare_keep_sets_set(const struct pare_keep_sets *k, const struct pare_value *v, int axis)
{
    int a = pare_keep_sets_find(k, v, axis);

    return a < 0 ? -1 : k->number[pare_keep_sets_root(k, a)];
}

int pare_keep_sets_sets(const struct pare_keep_sets *k)
{
    return k->n_sets;
}

const struct pare_ties *pare_keep_sets_ties(const struct pare_keep_sets *k)
{
    return &k->ties;
}
