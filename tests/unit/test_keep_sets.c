/* test_keep_sets.c - keep sets of made-up axis relations, against a fixed-point iteration. */
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

/* A node whose operator says what the test wants: its attributes are the list. */
struct saying {
    struct pare_tied tie[MOST_TIES];
    int n;
};

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct saying *s = n->attr;

    for (int i = 0; i < s->n; i++) {
        const struct pare_tied *x = &s->tie[i];

        switch (x->kind) {
        case PARE_TIE_SAME: pare_tie(t, x->a, x->ax, x->b, x->bx); break;
        case PARE_TIE_PART: pare_tie_part(t, x->a, x->ax, x->from, x->b, x->bx); break;
        case PARE_TIE_PICK: pare_tie_pick(t, x->a, x->ax, x->index, x->b, x->bx); break;
        case PARE_TIE_DIGITS: pare_tie_digits(t, x->a, x->ax, x->digit, x->n_digits); break;
        case PARE_TIE_GROUPS: pare_tie_groups(t, x->a, x->ax, x->digit); break;
        case PARE_TIE_SUM: pare_tie_sum(t, x->a, x->ax); break;
        case PARE_TIE_FREEZE: pare_tie_freeze(t, x->a, x->ax, x->why); break;
        }
    }
}

static const struct pare_op made_up = { .type = "MadeUp", .in = "A*", .max_out = -1, .ties = ties };

struct rig {
    struct pare_arena *arena;
    struct pare_err err;
    struct pare_rng rng;
    struct pare_graph *g;
    struct pare_node *n;
    struct saying said;
    struct pare_keep_sets *k;
};

static void begin(struct rig *r, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    r->arena = pare_arena_new(1 << 16);
    assert_non_null(r->arena);
    pare_rng_init(&r->rng, seed);
    r->g = pare_graph_new(r->arena, NULL, &r->err);
    assert_non_null(r->g);
}

static void end(struct rig *r)
{
    pare_arena_free(r->arena);
}

static struct pare_value *value(struct rig *r, int rank, const int64_t *dim)
{
    struct pare_value *v = pare_graph_value(r->g, pare_sprintf(r->arena, "v%d", r->g->n_values),
                                            &r->err);

    assert_non_null(v);
    v->t.dtype = PARE_F32;
    v->t.rank = rank;
    memcpy(v->t.dim, dim, (size_t)rank * sizeof(*dim));
    return v;
}
#define VALUE(r, ...)                                                     \
    value(r, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
          (int64_t[]){ __VA_ARGS__ })

/* One node that reads and speaks of all values but the last, which it makes. */
static void solve_from(struct rig *r)
{
    struct pare_value *y = VALUE(r, 1);

    r->n = pare_graph_add(r->g, r->g->n_values - 1, 1, &r->err);
    assert_non_null(r->n);
    r->n->op = &made_up;
    r->n->type = "MadeUp";
    r->n->attr = &r->said;
    for (int i = 0; i < r->n->n_in; i++)
        r->n->in[i] = r->g->value[i];
    r->n->out[0] = y;
    if (pare_keep_sets_new(r->arena, r->g, &r->k, &r->err))
        fail_msg("%s", r->err.msg);
}

static void add(struct rig *r, struct pare_tied t)
{
    assert_true(r->said.n < MOST_TIES);
    r->said.tie[r->said.n++] = t;
}

static void keep(struct rig *r, const struct pare_value *v, int axis, int64_t i)
{
    pare_keep_axis(r->k, v, axis)[i] = 1;
}

static void check_axis(struct rig *r, const struct pare_value *v, int axis, const char *want)
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

/* ---- single statements ------------------------------------------------------------------- */

static void same_share(void **state)
{
    const struct pare_value *a, *b;
    const struct pare_node *who;
    struct rig r;

    (void)state;
    begin(&r, 1);
    a = VALUE(&r, 2, 4);
    b = VALUE(&r, 4);
    add(&r, (struct pare_tied){ .kind = PARE_TIE_SAME, .a = a, .ax = 1, .b = b });
    solve_from(&r);
    keep(&r, a, 1, 2);
    solve(&r);
    check_axis(&r, b, 0, "0010");
    check_axis(&r, a, 0, "11");
    assert_string_equal(pare_keep_sets_why(r.k, a, 0, &who), "an axis of MadeUp");
    assert_ptr_equal(who, r.n);
    assert_null(pare_keep_sets_why(r.k, a, 1, &who));
    assert_int_equal(pare_keep_sets_set(r.k, a, 1), pare_keep_sets_set(r.k, b, 0));
    assert_int_not_equal(pare_keep_sets_set(r.k, a, 0), pare_keep_sets_set(r.k, b, 0));
    assert_int_equal(pare_keep_sets_count(r.k, b, 0), 1);
    end(&r);
}

static void parts_and_picks(void **state)
{
    const struct pare_value *w, *p, *q;
    struct rig r;

    (void)state;
    begin(&r, 1);
    w = VALUE(&r, 6);
    p = VALUE(&r, 3);
    q = VALUE(&r, 4);
    add(&r, (struct pare_tied){ .kind = PARE_TIE_PART, .a = w, .from = 2, .b = p });
    add(&r, (struct pare_tied){ .kind = PARE_TIE_PICK,
                                .a = w,
                                .index = (int64_t[]){ 5, 3, 3, 0 },
                                .b = q });
    solve_from(&r);
    keep(&r, p, 0, 1);
    solve(&r);
    check_axis(&r, w, 0, "000100");
    check_axis(&r, q, 0, "0110");
    keep(&r, q, 0, 3);
    keep(&r, w, 0, 4);
    solve(&r);
    check_axis(&r, w, 0, "100110");
    check_axis(&r, p, 0, "011");
    check_axis(&r, q, 0, "0111");
    end(&r);
}

/* A grouped convolution: x's channels (g, i), w's rows (g, o). */
static void own_digits(void **state)
{
    const struct pare_value *x, *w;
    struct pare_digit in[2] = { { NULL, 0, 3 }, { NULL, -1, 2 } }, out[2] = { { NULL, 0, 3 } };
    struct rig r;
    int64_t size;

    (void)state;
    begin(&r, 1);
    x = VALUE(&r, 6);
    w = VALUE(&r, 6, 2);
    in[1].v = w, in[1].axis = 1;
    out[1] = (struct pare_digit){ NULL, 1, 2 };
    add(&r, (struct pare_tied){ .kind = PARE_TIE_DIGITS, .a = x, .digit = in, .n_digits = 2 });
    add(&r, (struct pare_tied){ .kind = PARE_TIE_DIGITS, .a = w, .digit = out, .n_digits = 2 });
    solve_from(&r);
    keep(&r, w, 0, 4); /* group 2, output 0 */
    keep(&r, w, 1, 1);
    solve(&r);
    check_axis(&r, x, 0, "000001");
    check_axis(&r, w, 0, "000010");
    keep(&r, x, 0, 1); /* group 0, input 1 */
    solve(&r);
    check_axis(&r, x, 0, "010001");
    check_axis(&r, w, 0, "100010");
    assert_non_null(pare_keep_sets_own(r.k, r.n, 0, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(pare_keep_sets_own(r.k, r.n, 0, &size), "\1\0\1", 3);
    assert_null(pare_keep_sets_own(r.k, r.n, 2, &size));
    end(&r);
}

/* Groups keep as many, of which each has its own; a group that is not needed keeps nothing. */
static void groups(void **state)
{
    const struct pare_digit d[2] = { { NULL, 0, 3 }, { NULL, 1, 3 } };
    const struct pare_value *x;
    struct rig r;
    int64_t size;

    (void)state;
    begin(&r, 1);
    x = VALUE(&r, 9);
    add(&r, (struct pare_tied){ .kind = PARE_TIE_GROUPS, .a = x, .digit = d, .n_digits = 2 });
    solve_from(&r);
    keep(&r, x, 0, 2);
    keep(&r, x, 0, 6);
    solve(&r);
    check_axis(&r, x, 0, "001000100");
    keep(&r, x, 0, 7);
    solve(&r);
    check_axis(&r, x, 0, "101000110");
    assert_memory_equal(pare_keep_sets_own(r.k, r.n, 0, &size), "\1\0\1", 3);
    assert_memory_equal(pare_keep_sets_own(r.k, r.n, 1, &size), "\1\1\0", 3);
    end(&r);
}

/* Relations that the shapes do not permit freeze their axes. */
static void wrong_statements(void **state)
{
    const struct pare_value *a, *b;
    struct pare_digit d[2] = { { NULL, 0, 3 }, { NULL, 1, 3 } };
    struct rig r;

    (void)state;
    begin(&r, 1);
    a = VALUE(&r, 4, 4, 4, 0);
    b = VALUE(&r, 5, 3);
    add(&r, (struct pare_tied){ .kind = PARE_TIE_SAME, .a = a, .b = b });
    add(&r,
        (struct pare_tied){ .kind = PARE_TIE_PART, .a = a, .ax = 1, .from = 2, .b = b, .bx = 1 });
    add(&r,
        (struct pare_tied){ .kind = PARE_TIE_DIGITS, .a = a, .ax = 2, .digit = d, .n_digits = 2 });
    add(&r, (struct pare_tied){ .kind = PARE_TIE_SUM, .a = a, .ax = 9 });
    solve_from(&r);
    solve(&r);
    for (int i = 0; i < 3; i++)
        check_axis(&r, a, i, "1111");
    check_axis(&r, b, 0, "11111");
    check_axis(&r, b, 1, "111");
    end(&r);
}

/* Shifts in a circle: index 0 brings in all others, one by one. */
static void circle(void **state)
{
    const struct pare_value *a, *b;
    struct pare_tied t = { .kind = PARE_TIE_PICK };
    static int64_t next[LONGEST], same[LONGEST];
    struct rig r;

    (void)state;
    begin(&r, 1);
    for (int i = 0; i < LONGEST; i++) {
        next[i] = (i + 1) % LONGEST;
        same[i] = i;
    }
    t.a = a = VALUE(&r, LONGEST);
    t.b = b = VALUE(&r, LONGEST);
    t.index = next;
    add(&r, t);
    t.index = same;
    add(&r, t);
    solve_from(&r);
    keep(&r, b, 0, 7);
    solve(&r);
    assert_int_equal(pare_keep_sets_count(r.k, a, 0), LONGEST);
    end(&r);
}

/* ---- many at random ------------------------------------------------------------------------ */

static int64_t below(struct rig *r, int64_t n)
{
    return (int64_t)pare_rng_below(&r->rng, (uint64_t)n);
}

static const struct pare_value *any(struct rig *r, int *axis, int64_t size)
{
    for (int tries = 0; tries < 200; tries++) {
        const struct pare_value *v = r->g->value[below(r, r->g->n_values)];

        *axis = (int)below(r, v->t.rank);
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
        int64_t size = 2 + below(r, 5);
        int axis, kind = (int)below(r, 5);

        while (rest % size)
            size = size > rest ? rest : size + 1;
        rest /= size;
        d[t.n_digits] = (struct pare_digit){ NULL, kind == 0 ? -1 : (int)(10 * size), size };
        if (kind > 2 && any(r, &axis, size))
            d[t.n_digits].v = any(r, &d[t.n_digits].axis, size);
        if (kind > 2 && !d[t.n_digits].v)
            d[t.n_digits].axis = -1;
    }
    if (rest > 1)
        d[t.n_digits++] = (struct pare_digit){ NULL, -1, rest };
    t.digit = d;
    if (t.n_digits)
        add(r, t);
}

static void random_tie(struct rig *r)
{
    struct pare_tied t = { .kind = (enum pare_tie_kind)below(r, 4) };
    int64_t *index, na, nb;

    t.a = any(r, &t.ax, 0);
    t.b = any(r, &t.bx, t.kind == PARE_TIE_SAME ? t.a->t.dim[t.ax] : 0);
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
        t.from = below(r, na - nb + 1);
    index = pare_alloc(r->arena, (size_t)nb, sizeof(*index));
    assert_non_null(index);
    for (int64_t i = 0; i < nb; i++)
        index[i] = below(r, na);
    t.index = index;
    add(r, t);
}

/* Keep sets of all axes, and of the node's own: axis -1 - number of no value. */
struct naive {
    uint8_t of[VALUES + 1][AXES][LONGEST], own[10 * LONGEST + 1][LONGEST];
};

static uint8_t *naive_axis(struct naive *x, const struct pare_value *v, int axis)
{
    return v ? x->of[v->id][axis] : x->own[axis];
}

static bool both(uint8_t *a, uint8_t *b)
{
    bool changed = *a != *b;

    *a = *b = *a | *b;
    return changed;
}

static bool naive_digits(struct naive *x, const struct pare_tied *t)
{
    uint8_t *whole = naive_axis(x, t->a, t->ax), *part;
    bool changed = false;

    for (int64_t i = 0; i < t->a->t.dim[t->ax]; i++) {
        int64_t rest = i;
        bool all = true;

        for (int d = t->n_digits - 1; d >= 0; rest /= t->digit[d].size, d--) {
            if (!t->digit[d].v && t->digit[d].axis < 0)
                continue;
            part = naive_axis(x, t->digit[d].v, t->digit[d].axis) + rest % t->digit[d].size;
            changed |= whole[i] && !*part;
            *part |= whole[i];
            all &= *part;
        }
        changed |= all && !whole[i];
        whole[i] |= all;
    }
    return changed;
}

static bool naive_round(struct naive *x, const struct saying *s)
{
    bool changed = false;

    for (int i = 0; i < s->n; i++) {
        const struct pare_tied *t = &s->tie[i];
        int64_t n = t->b ? t->b->t.dim[t->bx] : 0;

        if (t->kind == PARE_TIE_DIGITS)
            changed |= naive_digits(x, t);
        for (int64_t k = 0; k < n; k++)
            changed |= both(&naive_axis(x, t->b, t->bx)[k],
                            &naive_axis(x, t->a, t->ax)[t->kind == PARE_TIE_PICK   ? t->index[k]
                                                        : t->kind == PARE_TIE_PART ? t->from + k
                                                                                   : k]);
    }
    return changed;
}

static bool spoken_of(const struct saying *s, const struct pare_value *v, int axis)
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

static void compare(struct rig *r, struct naive *x, uint64_t seed)
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

static void one_system(uint64_t seed, struct naive *x)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 6, 6, 8, 12, 12, 24, 48 };
    struct rig r;

    begin(&r, seed);
    memset(x, 0, sizeof(*x));
    for (int i = 0; i < VALUES; i++) {
        int64_t dim[AXES];

        for (int k = 0; k < AXES; k++)
            dim[k] = sizes[below(&r, sizeof(sizes) / sizeof(*sizes))];
        value(&r, 1 + (int)below(&r, AXES), dim);
    }
    for (int i = (int)below(&r, MOST_TIES); i >= 0 && r.said.n < MOST_TIES; i--)
        random_tie(&r);
    solve_from(&r);
    for (int v = 0; v < VALUES; v++)
        for (int axis = 0; axis < r.g->value[v]->t.rank; axis++)
            if (!spoken_of(&r.said, r.g->value[v], axis) || r.g->value[v]->t.dim[axis] == 1)
                memset(x->of[v][axis], 1, LONGEST);
    for (int round = 0; round < 3; round++) {
        for (int i = (int)below(&r, 3); i >= 0; i--) {
            int axis;
            const struct pare_value *v = r.g->value[below(&r, VALUES)];
            int64_t at;

            axis = (int)below(&r, v->t.rank);
            at = below(&r, v->t.dim[axis]);
            keep(&r, v, axis, at);
            x->of[v->id][axis][at] = 1;
        }
        while (naive_round(x, &r.said))
            ;
        solve(&r);
        compare(&r, x, seed);
    }
    end(&r);
}

static void random_systems(void **state)
{
    static struct naive x;

    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++)
        one_system(seed, &x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_share),       cmocka_unit_test(parts_and_picks),
        cmocka_unit_test(own_digits),       cmocka_unit_test(groups),
        cmocka_unit_test(wrong_statements), cmocka_unit_test(circle),
        cmocka_unit_test(random_systems),
    };

    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
