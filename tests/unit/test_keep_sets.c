/* test_keep_sets.c - keep sets of ties, single and random, against a fixed-point iteration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "graph/keep_sets.h"

enum { MOST_TIES = 24, VALUES = 10, AXES = 3, LONGEST = 48 };

/* The ties that the test operator states; a node's attributes point to them. */
struct test_ties {
    struct pare_tied tie[MOST_TIES];
    int n;
};

static void state_ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct test_ties *s = n->attr;

    for (int i = 0; i < s->n; i++) {
        const struct pare_tied *x = &s->tie[i];

        switch (x->kind) {
        case PARE_TIE_SAME: pare_tie(t, x->a, x->ax, x->b, x->bx); break;
        case PARE_TIE_PART: pare_tie_part(t, x->a, x->ax, x->from, x->b, x->bx); break;
        case PARE_TIE_PICK: pare_tie_pick(t, x->a, x->ax, x->index, x->b, x->bx); break;
        case PARE_TIE_DIGITS: pare_tie_digits(t, x->a, x->ax, x->digit, x->n_digits); break;
        case PARE_TIE_GROUPS: pare_tie_groups(t, x->a, x->ax, x->digit); break;
        case PARE_TIE_SUM: pare_tie_sum(t, x->a, x->ax); break;
        case PARE_TIE_RESTORED: pare_tie_restored(t, x->a, x->ax); break;
        case PARE_TIE_TOGETHER: pare_tie_together(t, x->a, x->ax, x->b, x->bx); break;
        case PARE_TIE_FREEZE: pare_tie_freeze(t, x->a, x->ax, x->why); break;
        }
    }
}

static const struct pare_op test_op = { .type = "Test",
                                        .in = "A*",
                                        .max_out = -1,
                                        .ties = state_ties };

struct rig {
    struct pare_arena *arena;
    struct pare_err err;
    struct pare_rng rng;
    struct pare_graph *g;
    struct pare_node *n;
    struct test_ties ties;
    struct pare_keep_sets *k;
};

static void rig_begin(struct rig *r, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    r->arena = pare_arena_new(1 << 16);
    assert_non_null(r->arena);
    pare_rng_init(&r->rng, seed);
    r->g = pare_graph_new(r->arena, NULL, &r->err);
    assert_non_null(r->g);
}

static void rig_end(struct rig *r)
{
    pare_arena_free(r->arena);
}

static struct pare_value *add_value(struct rig *r, int rank, const int64_t *dim)
{
    struct pare_value *v = pare_graph_value(r->g, pare_sprintf(r->arena, "v%d", r->g->n_values),
                                            &r->err);

    assert_non_null(v);
    v->t.dtype = PARE_F32;
    v->t.rank = rank;
    memcpy(v->t.dim, dim, (size_t)rank * sizeof(*dim));
    return v;
}
#define VALUE(r, ...)                                                         \
    add_value(r, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
              (int64_t[]){ __VA_ARGS__ })

/* Adds the node, which reads all values and produces one more, and makes the keep sets. */
static void make_keep_sets(struct rig *r)
{
    struct pare_value *y = VALUE(r, 1);

    r->n = pare_graph_add(r->g, r->g->n_values - 1, 1, &r->err);
    assert_non_null(r->n);
    r->n->op = &test_op;
    r->n->type = "Test";
    r->n->attr = &r->ties;
    for (int i = 0; i < r->n->n_in; i++)
        r->n->in[i] = r->g->value[i];
    r->n->out[0] = y;
    if (pare_keep_sets_new(r->arena, r->g, &r->k, &r->err))
        fail_msg("%s", r->err.msg);
}

static void add_tie(struct rig *r, struct pare_tied t)
{
    assert_true(r->ties.n < MOST_TIES);
    r->ties.tie[r->ties.n++] = t;
}

static void keep_index(struct rig *r, const struct pare_value *v, int axis, int64_t i)
{
    pare_keep_axis(r->k, v, axis)[i] = 1;
}

static void expect_axis(struct rig *r, const struct pare_value *v, int axis, const char *want)
{
    const uint8_t *got = pare_keep_axis(r->k, v, axis);

    assert_int_equal(v->t.dim[axis], strlen(want));
    for (int64_t i = 0; i < v->t.dim[axis]; i++)
        if (got[i] != want[i] - '0')
            fail_msg("%s, axis %d, index %d: %d, expected %c", v->name, axis, (int)i, got[i],
                     want[i]);
}

static void solve(struct rig *r)
{
    if (pare_keep_sets_solve(r->k, &r->err))
        fail_msg("%s", r->err.msg);
}

/* ---- single ties ------------------------------------------------------------------------- */

static void test_same_axes_share_a_set(void **state)
{
    const struct pare_value *a, *b;
    const struct pare_node *node;
    struct rig r;

    (void)state;
    rig_begin(&r, 1);
    a = VALUE(&r, 2, 4);
    b = VALUE(&r, 4);
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_SAME, .a = a, .ax = 1, .b = b });
    make_keep_sets(&r);
    keep_index(&r, a, 1, 2);
    solve(&r);
    expect_axis(&r, b, 0, "0010");
    expect_axis(&r, a, 0, "11");
    assert_string_equal(pare_keep_sets_why(r.k, a, 0, &node), "an axis of Test");
    assert_ptr_equal(node, r.n);
    assert_null(pare_keep_sets_why(r.k, a, 1, &node));
    assert_int_equal(pare_keep_sets_set(r.k, a, 1), pare_keep_sets_set(r.k, b, 0));
    assert_int_not_equal(pare_keep_sets_set(r.k, a, 0), pare_keep_sets_set(r.k, b, 0));
    assert_int_equal(pare_keep_sets_count(r.k, b, 0), 1);
    rig_end(&r);
}

static void test_parts_and_picks(void **state)
{
    const struct pare_value *w, *p, *q;
    struct rig r;

    (void)state;
    rig_begin(&r, 1);
    w = VALUE(&r, 6);
    p = VALUE(&r, 3);
    q = VALUE(&r, 4);
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_PART, .a = w, .from = 2, .b = p });
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_PICK,
                                    .a = w,
                                    .index = (int64_t[]){ 5, 3, 3, 0 },
                                    .b = q });
    make_keep_sets(&r);
    keep_index(&r, p, 0, 1);
    solve(&r);
    expect_axis(&r, w, 0, "000100");
    expect_axis(&r, q, 0, "0110");
    keep_index(&r, q, 0, 3);
    keep_index(&r, w, 0, 4);
    solve(&r);
    expect_axis(&r, w, 0, "100110");
    expect_axis(&r, p, 0, "011");
    expect_axis(&r, q, 0, "0111");
    rig_end(&r);
}

/* A grouped convolution: x's channels (g, i), w's rows (g, o). */
static void test_digits_of_a_grouped_convolution(void **state)
{
    const struct pare_value *x, *w;
    struct pare_digit in[2] = { { NULL, 0, 3 }, { NULL, -1, 2 } }, out[2] = { { NULL, 0, 3 } };
    struct rig r;
    int64_t size;

    (void)state;
    rig_begin(&r, 1);
    x = VALUE(&r, 6);
    w = VALUE(&r, 6, 2);
    in[1].v = w, in[1].axis = 1;
    out[1] = (struct pare_digit){ NULL, 1, 2 };
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_DIGITS, .a = x, .digit = in, .n_digits = 2 });
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_DIGITS, .a = w, .digit = out, .n_digits = 2 });
    make_keep_sets(&r);
    keep_index(&r, w, 0, 4); /* group 2, output 0 */
    keep_index(&r, w, 1, 1);
    solve(&r);
    expect_axis(&r, x, 0, "000001");
    expect_axis(&r, w, 0, "000010");
    keep_index(&r, x, 0, 1); /* group 0, input 1 */
    solve(&r);
    expect_axis(&r, x, 0, "010001");
    expect_axis(&r, w, 0, "100010");
    assert_non_null(pare_keep_sets_own(r.k, r.n, 0, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(pare_keep_sets_own(r.k, r.n, 0, &size), "\1\0\1", 3);
    assert_null(pare_keep_sets_own(r.k, r.n, 2, &size));
    rig_end(&r);
}

/* All needed groups keep the same number of indices; other groups keep none. */
static void test_groups_keep_equal_counts(void **state)
{
    const struct pare_digit d[2] = { { NULL, 0, 3 }, { NULL, 1, 3 } };
    const struct pare_value *x;
    struct rig r;
    int64_t size;

    (void)state;
    rig_begin(&r, 1);
    x = VALUE(&r, 9);
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_GROUPS, .a = x, .digit = d, .n_digits = 2 });
    make_keep_sets(&r);
    keep_index(&r, x, 0, 2);
    keep_index(&r, x, 0, 6);
    solve(&r);
    expect_axis(&r, x, 0, "001000100");
    keep_index(&r, x, 0, 7);
    solve(&r);
    expect_axis(&r, x, 0, "101000110");
    assert_memory_equal(pare_keep_sets_own(r.k, r.n, 0, &size), "\1\0\1", 3);
    assert_memory_equal(pare_keep_sets_own(r.k, r.n, 1, &size), "\1\1\0", 3);
    rig_end(&r);
}

/* Ties that contradict the shapes freeze their axes. */
static void test_ties_that_contradict_shapes(void **state)
{
    const struct pare_value *a, *b;
    struct pare_digit d[2] = { { NULL, 0, 3 }, { NULL, 1, 3 } };
    struct rig r;

    (void)state;
    rig_begin(&r, 1);
    a = VALUE(&r, 4, 4, 4, 0);
    b = VALUE(&r, 5, 3);
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_SAME, .a = a, .b = b });
    add_tie(
        &r,
        (struct pare_tied){ .kind = PARE_TIE_PART, .a = a, .ax = 1, .from = 2, .b = b, .bx = 1 });
    add_tie(
        &r,
        (struct pare_tied){ .kind = PARE_TIE_DIGITS, .a = a, .ax = 2, .digit = d, .n_digits = 2 });
    add_tie(&r, (struct pare_tied){ .kind = PARE_TIE_SUM, .a = a, .ax = 9 });
    make_keep_sets(&r);
    solve(&r);
    for (int i = 0; i < 3; i++)
        expect_axis(&r, a, i, "1111");
    expect_axis(&r, b, 0, "11111");
    expect_axis(&r, b, 1, "111");
    rig_end(&r);
}

/* A tie that shifts by one: index 7 makes all others needed, one by one. */
static void test_circular_ties(void **state)
{
    const struct pare_value *a, *b;
    struct pare_tied t = { .kind = PARE_TIE_PICK };
    static int64_t next[LONGEST], same[LONGEST];
    struct rig r;

    (void)state;
    rig_begin(&r, 1);
    for (int i = 0; i < LONGEST; i++) {
        next[i] = (i + 1) % LONGEST;
        same[i] = i;
    }
    t.a = a = VALUE(&r, LONGEST);
    t.b = b = VALUE(&r, LONGEST);
    t.index = next;
    add_tie(&r, t);
    t.index = same;
    add_tie(&r, t);
    make_keep_sets(&r);
    keep_index(&r, b, 0, 7);
    solve(&r);
    assert_int_equal(pare_keep_sets_count(r.k, a, 0), LONGEST);
    rig_end(&r);
}

/* ---- random ties --------------------------------------------------------------------------- */

static int64_t random_below(struct rig *r, int64_t n)
{
    return (int64_t)pare_rng_below(&r->rng, (uint64_t)n);
}

static const struct pare_value *random_axis(struct rig *r, int *axis, int64_t size)
{
    for (int tries = 0; tries < 200; tries++) {
        const struct pare_value *v = r->g->value[random_below(r, r->g->n_values)];

        *axis = (int)random_below(r, v->t.rank);
        if (!size || v->t.dim[*axis] == size)
            return v;
    }
    return NULL;
}

static void random_digits(struct rig *r, struct pare_tied t)
{
    struct pare_digit *d = pare_alloc(r->arena, 4, sizeof(*d));
    int64_t rest = t.a->t.dim[t.ax];

    assert_non_null(d);
    for (t.n_digits = 0; t.n_digits < 3 && rest > 1; t.n_digits++) {
        int64_t size = 2 + random_below(r, 5);
        int axis, kind = (int)random_below(r, 5);

        while (rest % size)
            size = size > rest ? rest : size + 1;
        rest /= size;
        d[t.n_digits] = (struct pare_digit){ NULL, kind == 0 ? -1 : (int)(10 * size), size };
        if (kind > 2 && random_axis(r, &axis, size))
            d[t.n_digits].v = random_axis(r, &d[t.n_digits].axis, size);
        if (kind > 2 && !d[t.n_digits].v)
            d[t.n_digits].axis = -1;
    }
    if (rest > 1)
        d[t.n_digits++] = (struct pare_digit){ NULL, -1, rest };
    t.digit = d;
    if (t.n_digits)
        add_tie(r, t);
}

static void random_tie(struct rig *r)
{
    struct pare_tied t = { .kind = (enum pare_tie_kind)random_below(r, 4) };
    int64_t *index, na, nb;

    t.a = random_axis(r, &t.ax, 0);
    t.b = random_axis(r, &t.bx, t.kind == PARE_TIE_SAME ? t.a->t.dim[t.ax] : 0);
    if (!t.b)
        return;
    na = t.a->t.dim[t.ax];
    nb = t.b->t.dim[t.bx];
    if (t.kind == PARE_TIE_DIGITS) {
        random_digits(r, (struct pare_tied){ .kind = t.kind, .a = t.a, .ax = t.ax });
        return;
    }
    if (t.kind == PARE_TIE_PART && nb > na)
        return;
    if (t.kind == PARE_TIE_PART)
        t.from = random_below(r, na - nb + 1);
    index = pare_alloc(r->arena, (size_t)nb, sizeof(*index));
    assert_non_null(index);
    for (int64_t i = 0; i < nb; i++)
        index[i] = random_below(r, na);
    t.index = index;
    add_tie(r, t);
}

/* Keep sets by plain iteration: of all axes, and of the node's own digits. */
struct plain_sets {
    uint8_t of[VALUES + 1][AXES][LONGEST], own[10 * LONGEST + 1][LONGEST];
};

static uint8_t *plain_axis(struct plain_sets *x, const struct pare_value *v, int axis)
{
    return v ? x->of[v->id][axis] : x->own[axis];
}

static bool merge_flags(uint8_t *a, uint8_t *b)
{
    bool changed = *a != *b;

    *a = *b = *a | *b;
    return changed;
}

static bool plain_digits(struct plain_sets *x, const struct pare_tied *t)
{
    uint8_t *whole = plain_axis(x, t->a, t->ax), *part;
    bool changed = false;

    for (int64_t i = 0; i < t->a->t.dim[t->ax]; i++) {
        int64_t rest = i;
        bool all = true;

        for (int d = t->n_digits - 1; d >= 0; rest /= t->digit[d].size, d--) {
            if (!t->digit[d].v && t->digit[d].axis < 0)
                continue;
            part = plain_axis(x, t->digit[d].v, t->digit[d].axis) + rest % t->digit[d].size;
            changed |= whole[i] && !*part;
            *part |= whole[i];
            all &= *part;
        }
        changed |= all && !whole[i];
        whole[i] |= all;
    }
    return changed;
}

static bool plain_round(struct plain_sets *x, const struct test_ties *s)
{
    bool changed = false;

    for (int i = 0; i < s->n; i++) {
        const struct pare_tied *t = &s->tie[i];
        int64_t n = t->b ? t->b->t.dim[t->bx] : 0;

        if (t->kind == PARE_TIE_DIGITS)
            changed |= plain_digits(x, t);
        for (int64_t k = 0; k < n; k++)
            changed |= merge_flags(&plain_axis(x, t->b, t->bx)[k],
                                   &plain_axis(x, t->a,
                                               t->ax)[t->kind == PARE_TIE_PICK   ? t->index[k]
                                                      : t->kind == PARE_TIE_PART ? t->from + k
                                                                                 : k]);
    }
    return changed;
}

static bool has_tie(const struct test_ties *s, const struct pare_value *v, int axis)
{
    bool found = false;

    for (int i = 0; i < s->n; i++) {
        const struct pare_tied *t = &s->tie[i];

        found |= (t->a == v && t->ax == axis) || (t->b == v && t->bx == axis);
        for (int d = 0; d < t->n_digits; d++)
            found |= t->digit[d].v == v && t->digit[d].axis == axis;
    }
    return found;
}

static void compare_with_plain(struct rig *r, struct plain_sets *x, uint64_t seed)
{
    for (int v = 0; v + 1 < r->g->n_values; v++)
        for (int axis = 0; axis < r->g->value[v]->t.rank; axis++) {
            const uint8_t *got = pare_keep_axis(r->k, r->g->value[v], axis);

            for (int64_t i = 0; i < r->g->value[v]->t.dim[axis]; i++)
                if (got[i] != x->of[v][axis][i])
                    fail_msg("seed %d: value %d, axis %d, index %d: %d, expected %d", (int)seed, v,
                             axis, (int)i, got[i], x->of[v][axis][i]);
        }
}

static void check_random_ties(uint64_t seed, struct plain_sets *x)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 6, 6, 8, 12, 12, 24, 48 };
    struct rig r;

    rig_begin(&r, seed);
    memset(x, 0, sizeof(*x));
    for (int i = 0; i < VALUES; i++) {
        int64_t dim[AXES];

        for (int k = 0; k < AXES; k++)
            dim[k] = sizes[random_below(&r, sizeof(sizes) / sizeof(*sizes))];
        add_value(&r, 1 + (int)random_below(&r, AXES), dim);
    }
    for (int i = (int)random_below(&r, MOST_TIES); i >= 0 && r.ties.n < MOST_TIES; i--)
        random_tie(&r);
    make_keep_sets(&r);
    for (int v = 0; v < VALUES; v++)
        for (int axis = 0; axis < r.g->value[v]->t.rank; axis++)
            if (!has_tie(&r.ties, r.g->value[v], axis) || r.g->value[v]->t.dim[axis] == 1)
                memset(x->of[v][axis], 1, LONGEST);
    for (int round = 0; round < 3; round++) {
        for (int i = (int)random_below(&r, 3); i >= 0; i--) {
            int axis;
            const struct pare_value *v = r.g->value[random_below(&r, VALUES)];
            int64_t at;

            axis = (int)random_below(&r, v->t.rank);
            at = random_below(&r, v->t.dim[axis]);
            keep_index(&r, v, axis, at);
            x->of[v->id][axis][at] = 1;
        }
        while (plain_round(x, &r.ties))
            ;
        solve(&r);
        compare_with_plain(&r, x, seed);
    }
    rig_end(&r);
}

static void test_random_ties(void **state)
{
    static struct plain_sets x;

    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++)
        check_random_ties(seed, &x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_axes_share_a_set),
        cmocka_unit_test(test_parts_and_picks),
        cmocka_unit_test(test_digits_of_a_grouped_convolution),
        cmocka_unit_test(test_groups_keep_equal_counts),
        cmocka_unit_test(test_ties_that_contradict_shapes),
        cmocka_unit_test(test_circular_ties),
        cmocka_unit_test(test_random_ties),
    };

    return cmocka_run_group_tests_name("keep_sets", tests, NULL, NULL);
}
