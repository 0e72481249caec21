/* test_rank.c - ranking units for removal: per layer, balanced tiles, N:M, and globally; against
 * sorting. */
#include "arena_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "prune/rank.h"
#include "io/npz.h"
#include "tensor/tensor.h"

#define MAX_LAYERS 6

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* A layer whose units are output channels or single elements. */
struct layer {
    struct pare_tensor w;
    struct pare_units u;
    struct pare_ranked r;
};

static void make_layer(struct layer *l, int rank, const int64_t *dim, const char *grain)
{
    struct pare_grain g = { .name = grain, .in_axis = 1 };

    memset(l, 0, sizeof(*l));
    ok(pare_tensor_new(arena, &l->w, PARE_F32, rank, dim, &err));
    ok(pare_units_make(&l->w, &g, &l->u, &err));
    l->r = (struct pare_ranked){ .units = &l->u, .weight = &l->w, .max_sparsity = 1 };
    l->r.keep = pare_alloc(arena, (size_t)l->u.n + 1, 1);
    memset(l->r.keep, 1, (size_t)l->u.n);
}

static void set_scores(struct layer *l, const float *s)
{
    float *copy = pare_alloc(arena, (size_t)l->u.n + 1, sizeof(*copy));

    memcpy(copy, s, (size_t)l->u.n * sizeof(*s));
    l->r.score = copy;
}

static int64_t count_kept(const struct layer *l)
{
    int64_t n = 0;

    for (int64_t i = 0; i < l->u.n; i++)
        n += l->r.keep[i];
    return n;
}

/* ---- sorting ------------------------------------------------------------------------------- */

struct item {
    int removed, nan, layer;
    float v;
    int64_t i;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->removed != y->removed)
        return y->removed - x->removed;
    if (x->nan != y->nan && !x->removed)
        return x->nan - y->nan;
    if (!x->nan && !y->nan && x->v != y->v && !x->removed)
        return x->v < y->v ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer - y->layer;
    return x->i < y->i ? -1 : 1;
}

static struct item make_item(const struct layer *l, int layer, int64_t i)
{
    float v = l->r.score ? l->r.score[i] : fabsf(pare_f32(&l->w)[i]);

    return (struct item){ !l->r.regrow && !l->r.keep[i], isnan(v), layer, v, i };
}

/* The expected mask: k of these units are removed, and all that were removed before. */
static void remove_sorted(const struct layer *l, const int64_t *at, int64_t n, int64_t k,
                          uint8_t *want)
{
    struct item *it = pare_alloc(arena, (size_t)n + 1, sizeof(*it));

    for (int64_t j = 0; j < n; j++)
        it[j] = make_item(l, 0, at[j]);
    qsort(it, (size_t)n, sizeof(*it), compare_items);
    for (int64_t j = 0; j < n; j++)
        want[it[j].i] = !(j < k || it[j].removed);
}

static void expect_mask(const struct layer *l, const uint8_t *want)
{
    for (int64_t i = 0; i < l->u.n; i++)
        if (l->r.keep[i] != want[i])
            fail_msg("unit %lld of %lld is %d, expected %d", (long long)i, (long long)l->u.n,
                     l->r.keep[i], want[i]);
}

/* ---- random layers ------------------------------------------------------------------------- */

static float random_number(struct pare_rng *r, int kind)
{
    float x = (float)pare_rng_normal(r);

    return kind == 0 ? x : kind == 1 ? rintf(2 * x) : pare_rng_below(r, 5) ? x * 0 : NAN;
}

/* Values with or without equal ones and NaN; scores or weights; some units removed before. */
static void fill_random(struct layer *l, struct pare_rng *r, bool scored)
{
    int kind = (int)pare_rng_below(r, 3);
    uint64_t removed = pare_rng_below(r, 6);
    float *s = pare_alloc(arena, (size_t)l->u.n + 1, sizeof(*s));

    for (int64_t i = 0; i < l->u.n; i++) {
        s[i] = random_number(r, kind);
        l->r.keep[i] = pare_rng_below(r, 10) >= removed;
    }
    for (int64_t i = 0; i < pare_numel(&l->w); i++)
        pare_f32_mut(&l->w)[i] = random_number(r, kind);
    l->r.score = scored || !pare_units_single(&l->u) ? s : NULL;
    l->r.regrow = pare_rng_below(r, 2) != 0;
    l->r.sparsity = pare_rng_uniform(r);
    l->r.max_sparsity = pare_rng_below(r, 2) ? pare_rng_uniform(r) : 1;
}

static void test_rank_of_single_layers(void **state)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    for (int c = 0; c < 600; c++) {
        int64_t dim[2] = { 1 + (int64_t)pare_rng_below(&r, 40),
                           1 + (int64_t)pare_rng_below(&r, 9) };
        struct layer l;
        uint8_t *want;
        int64_t *at;

        make_layer(&l, 2, dim, c % 3 ? "element" : "out_channel");
        fill_random(&l, &r, c % 2);
        want = pare_alloc(arena, (size_t)l.u.n, 1);
        at = pare_alloc(arena, (size_t)l.u.n, sizeof(*at));
        for (int64_t i = 0; i < l.u.n; i++)
            at[i] = i;
        remove_sorted(&l, at, l.u.n, (int64_t)((double)l.u.n * l.r.sparsity), want);
        ok(pare_rank_local(&l.r, 1, arena, &err));
        expect_mask(&l, want);
        pare_reset(arena, m);
    }
}

/* Tiles of a (6, 8, 5) grid; missing leading sizes are broadcast as in numpy. */
static void test_rank_in_balanced_tiles(void **state)
{
    static const int64_t gran[][3] = { { 1, 1, 5 }, { 1, 8, 1 }, { 3, 2, 5 }, { 6, 8, 5 },
                                       { 2, 4, 1 }, { 1, 1, 1 }, { 1, 4, 5 } };
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 2);
    for (int c = 0; c < 350; c++) {
        const int64_t *g = gran[c % 7];
        int skip = g[0] > 1 ? 0 : g[1] > 1 ? 1 : 2;
        struct layer l;
        uint8_t want[240];
        int64_t at[240];

        make_layer(&l, 3, (int64_t[]){ 6, 8, 5 }, "element");
        fill_random(&l, &r, c % 2);
        for (int64_t t = 0; t < 240; t++) {
            int64_t n = 0, a = t / 40, b = t / 5 % 8, d = t % 5;

            if (a % g[0] || b % g[1] || d % g[2])
                continue;
            for (int64_t i = 0; i < 240; i++)
                if (i / 40 / g[0] == a / g[0] && i / 5 % 8 / g[1] == b / g[1] &&
                    i % 5 / g[2] == d / g[2])
                    at[n++] = i;
            remove_sorted(&l, at, n, (int64_t)((double)n * l.r.sparsity), want);
        }
        ok(pare_rank_balance(&l.r, &(struct pare_ints){ g + skip, 3 - skip }, 1, arena, &err));
        expect_mask(&l, want);
        pare_reset(arena, m);
    }
}

/* N:M along each axis of a (6, 7, 5), where most m do not divide. */
static void test_rank_n_of_m(void **state)
{
    static const int64_t dim[3] = { 6, 7, 5 }, step[3] = { 35, 5, 1 };
    struct pare_mark mark = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 3);
    for (int c = 0; c < 400; c++) {
        int64_t m = 1 + (int64_t)pare_rng_below(&r, 9), n;
        int axis = (int)pare_rng_below(&r, 3);
        struct layer l;
        uint8_t want[210];
        int64_t at[9];

        n = 1 + (int64_t)pare_rng_below(&r, (uint64_t)m);
        make_layer(&l, 3, dim, "element");
        fill_random(&l, &r, c % 2);
        for (int64_t i = 0; i < 210; i++) {
            int64_t size = 0, index = i / step[axis] % dim[axis];

            if (index % m)
                continue;
            for (int64_t j = index; j < index + m && j < dim[axis]; j++)
                at[size++] = i + (j - index) * step[axis];
            remove_sorted(&l, at, size, size > n ? size - n : 0, want);
        }
        ok(pare_rank_nm(&l.r, n, m, axis, arena, &err));
        expect_mask(&l, want);
        pare_reset(arena, mark);
    }
}

/* The rule of rank.h, unit by unit. */
static void global_sorted(const struct layer *l, int n_layers, double sparsity, uint8_t **want)
{
    int64_t n = 0, weights = 0, lost = 0, m = 0, removed[MAX_LAYERS] = { 0 };
    struct item *it;

    for (int k = 0; k < n_layers; k++) {
        n += l[k].u.n;
        weights += pare_numel(&l[k].w);
        want[k] = pare_alloc(arena, (size_t)l[k].u.n + 1, 1);
        memset(want[k], 1, (size_t)l[k].u.n);
    }
    it = pare_alloc(arena, (size_t)n + 1, sizeof(*it));
    for (int k = 0; k < n_layers; k++)
        for (int64_t i = 0; i < l[k].u.n; i++)
            it[m++] = make_item(&l[k], k, i);
    qsort(it, (size_t)n, sizeof(*it), compare_items);
    for (int64_t j = 0; j < n; j++) {
        const struct layer *a = &l[it[j].layer];
        int64_t most = (int64_t)((double)a->u.n * a->r.max_sparsity);

        if (!it[j].removed && removed[it[j].layer] >= most)
            continue;
        if (!it[j].removed && lost + pare_units_size(&a->u) > (int64_t)((double)weights * sparsity))
            break;
        lost += pare_units_size(&a->u);
        removed[it[j].layer]++;
        want[it[j].layer][it[j].i] = 0;
    }
}

static void test_global_rank(void **state)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 4);
    for (int c = 0; c < 800; c++) {
        int n = (int)pare_rng_below(&r, MAX_LAYERS + 1);
        double sparsity = pare_rng_uniform(&r);
        struct layer l[MAX_LAYERS];
        struct pare_ranked ranked[MAX_LAYERS];
        uint8_t *want[MAX_LAYERS];

        for (int k = 0; k < n; k++) {
            int64_t dim[2] = { (int64_t)pare_rng_below(&r, 30),
                               1 + (int64_t)pare_rng_below(&r, 9) };

            /* All elements, all rows, all rows of one length, or mixed. */
            dim[1] = c % 4 == 2 ? 7 : dim[1];
            make_layer(&l[k], 2, dim,
                       c % 4 == 0 || (c % 4 == 3 && k % 2) ? "element" : "out_channel");
            fill_random(&l[k], &r, c % 8 < 4);
            ranked[k] = l[k].r;
        }
        global_sorted(l, n, sparsity, want);
        ok(pare_rank_global(ranked, n, sparsity, 1 + c % 2, arena, &err));
        for (int k = 0; k < n; k++)
            expect_mask(&l[k], want[k]);
        pare_reset(arena, m);
    }
}

/* Enough elements for sampling and threads, in layers with values of different magnitude. */
static void test_global_rank_of_many_elements(void **state)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 5);
    for (int c = 0; c < 3; c++) {
        struct layer l[3];
        struct pare_ranked ranked[3];
        uint8_t *want[3];

        for (int k = 0; k < 3; k++) {
            make_layer(&l[k], 1, (int64_t[]){ 40000 + 30000 * k }, "element");
            for (int64_t i = 0; i < l[k].u.n; i++) {
                pare_f32_mut(&l[k].w)[i] = (float)(pare_rng_normal(&r) * (c == 1 ? k * k : 1));
                l[k].r.keep[i] = c < 2 || pare_rng_below(&r, 4);
            }
            l[k].r.max_sparsity = 0.9;
            ranked[k] = l[k].r;
        }
        global_sorted(l, 3, 0.7, want);
        ok(pare_rank_global(ranked, 3, 0.7, 2, arena, &err));
        for (int k = 0; k < 3; k++)
            expect_mask(&l[k], want[k]);
        pare_reset(arena, m);
    }
}

/* ---- published cases ----------------------------------------------------------------------- */

/* Case N8: 550 of 1375 weights may be removed.  In order of score: four filters of conv1 (its last
 * one is protected) and three of conv2; the next of conv2 would make it 600. */
static void test_n8_taylor_global(void **state)
{
    float first[5] = { 0, 25, 100, 225, 400 }, second[10];
    struct layer l[2];
    struct pare_ranked r[2];

    (void)state;
    make_layer(&l[0], 4, (int64_t[]){ 5, 1, 5, 5 }, "out_channel");
    make_layer(&l[1], 4, (int64_t[]){ 10, 5, 5, 5 }, "out_channel");
    for (int i = 0; i < 10; i++)
        second[i] = 125 * (float)((10 - i) * (10 - i));
    set_scores(&l[0], first);
    set_scores(&l[1], second);
    l[0].r.max_sparsity = l[1].r.max_sparsity = 0.99;
    r[0] = l[0].r, r[1] = l[1].r;
    ok(pare_rank_global(r, 2, 0.4, 1, arena, &err));
    expect_mask(&l[0], (uint8_t[]){ 0, 0, 0, 0, 1 });
    expect_mask(&l[1], (uint8_t[]){ 1, 1, 1, 1, 1, 1, 1, 0, 0, 0 });
}

/* Case N22: 0.8 of (5, 1, 5, 5) and (10, 5, 5, 5) are removed exactly, each layer separately and
 * both together. */
static void test_n22_exact_counts(void **state)
{
    struct layer l[2];
    struct pare_ranked r[2];
    struct pare_rng rng;

    (void)state;
    pare_rng_init(&rng, 6);
    for (int global_too = 0; global_too < 2; global_too++) {
        make_layer(&l[0], 4, (int64_t[]){ 5, 1, 5, 5 }, "element");
        make_layer(&l[1], 4, (int64_t[]){ 10, 5, 5, 5 }, "element");
        for (int k = 0; k < 2; k++) {
            for (int64_t i = 0; i < l[k].u.n; i++)
                pare_f32_mut(&l[k].w)[i] = (float)pare_rng_uniform(&rng);
            l[k].r.sparsity = 0.8;
            l[k].r.max_sparsity = 0.99;
            if (!global_too)
                ok(pare_rank_local(&l[k].r, 1, arena, &err));
            r[k] = l[k].r;
        }
        if (global_too) {
            ok(pare_rank_global(r, 2, 0.8, 1, arena, &err));
        } else {
            assert_int_equal(count_kept(&l[0]), 25);
            assert_int_equal(count_kept(&l[1]), 250);
        }
        assert_int_equal(count_kept(&l[0]) + count_kept(&l[1]), 275);
    }
}

/* Case N23: int(3.5) of every 5 are removed, in total 0.6, not 0.7. */
static void test_n23_balanced_rows(void **state)
{
    struct layer l;

    (void)state;
    make_layer(&l, 4, (int64_t[]){ 10, 5, 5, 5 }, "element");
    for (int64_t i = 0; i < 1250; i++)
        pare_f32_mut(&l.w)[i] = (float)((i * 7919) % 1250) - 600;
    l.r.sparsity = 0.7;
    ok(pare_rank_balance(&l.r, &(struct pare_ints){ (int64_t[]){ 5 }, 1 }, 2, arena, &err));
    assert_int_equal(count_kept(&l), 500);
    for (int64_t i = 0; i < 1250; i += 5)
        assert_int_equal(l.r.keep[i] + l.r.keep[i + 1] + l.r.keep[i + 2] + l.r.keep[i + 3] +
                             l.r.keep[i + 4],
                         2);
}

/* int(100 * 0.29) is 28 in float64. */
static void test_counts_are_truncated(void **state)
{
    struct layer l;

    (void)state;
    make_layer(&l, 1, (int64_t[]){ 100 }, "element");
    l.r.sparsity = 0.29;
    ok(pare_rank_local(&l.r, 1, arena, &err));
    assert_int_equal(count_kept(&l), 72);
    assert_int_equal(l.r.keep[27], 0);
    assert_int_equal(l.r.keep[28], 1);
}

/* ---- against NumPy ------------------------------------------------------------------------- */

/* The numbers in "nm|2|4|1|w0", after the first word. */
static int parse_arguments(const char *name, double *v)
{
    int n = 0;

    for (name = strchr(name, '|'); name && name[1] >= '0' && name[1] <= '9';
         name = strchr(name + 1, '|'))
        v[n++] = strtod(name + 1, NULL);
    return n;
}

static const struct pare_tensor *find_array(const struct pare_named *f, int n, const char *of,
                                            const char *what, int i)
{
    char name[64];
    size_t stem = strlen(of) - 2; /* without the w0 at its end */

    snprintf(name, sizeof(name), "%.*s%s%d", (int)stem, of, what, i);
    for (int k = 0; k < n; k++)
        if (!strcmp(f[k].name, name))
            return &f[k].t;
    return NULL;
}

static void make_golden_layer(struct layer *l, const struct pare_tensor *w, const char *grain)
{
    make_layer(l, w->rank, w->dim, grain);
    memcpy(l->w.data, w->data, (size_t)pare_numel(w) * sizeof(float));
}

static void check_golden_global(const struct pare_named *f, int n, const char *name,
                                const double *v)
{
    struct layer l[MAX_LAYERS];
    struct pare_ranked r[MAX_LAYERS];
    const struct pare_tensor *w;
    int k = 0;

    for (; (w = find_array(f, n, name, "w", k)) != NULL; k++) {
        make_golden_layer(&l[k], w, "out_channel");
        set_scores(&l[k], pare_f32(find_array(f, n, name, "score", k)));
        l[k].r.max_sparsity = v[1];
        r[k] = l[k].r;
    }
    assert_true(k > 1);
    ok(pare_rank_global(r, k, v[0], 1, arena, &err));
    while (k-- > 0)
        expect_mask(&l[k], find_array(f, n, name, "keep", k)->data);
}

static void check_golden_layer(const struct pare_named *f, int n, const char *name, const double *v,
                               int n_v)
{
    struct layer l;
    int64_t gran[PARE_MAX_RANK];

    make_golden_layer(&l, find_array(f, n, name, "w", 0), "element");
    l.r.sparsity = v[0];
    for (int i = 1; i < n_v; i++)
        gran[i - 1] = (int64_t)v[i];
    if (*name == 'l')
        ok(pare_rank_local(&l.r, 1, arena, &err));
    else if (*name == 'b')
        ok(pare_rank_balance(&l.r, &(struct pare_ints){ gran, n_v - 1 }, 1, arena, &err));
    else
        ok(pare_rank_nm(&l.r, (int64_t)v[0], gran[0], (int)gran[1], arena, &err));
    expect_mask(&l, find_array(f, n, name, "keep", 0)->data);
}

/* tools/golden_prune.py explains the names of the cases. */
static void test_masks_match_numpy(void **state)
{
    struct pare_named *f;
    double v[8];
    int n, cases = 0;

    (void)state;
    ok(pare_npz_read(arena, "golden/rank.npz", &f, &n, &err));
    for (int i = 0; i < n; i++) {
        const char *end = strrchr(f[i].name, '|');
        int n_v = parse_arguments(f[i].name, v);

        if (strcmp(end, "|w0") != 0)
            continue;
        if (*f[i].name == 'g')
            check_golden_global(f, n, f[i].name, v);
        else
            check_golden_layer(f, n, f[i].name, v, n_v);
        cases++;
    }
    assert_int_equal(cases, 22);
}

/* ---- errors ---------------------------------------------------------------------------------- */

#define EXPECT_ERROR(call, text)            \
    do {                                    \
        assert_int_not_equal(call, 0);      \
        assert_string_equal(err.msg, text); \
    } while (0)

static void test_wrong_arguments_are_errors(void **state)
{
    struct pare_ints none = { NULL, 0 }, three = { (int64_t[]){ 3 }, 1 };
    struct pare_ints many_sizes = { (int64_t[]){ 1, 1, 1 }, 3 };
    struct layer l;

    (void)state;
    make_layer(&l, 2, (int64_t[]){ 4, 8 }, "element");
    l.r.sparsity = 1.5;
    EXPECT_ERROR(pare_rank_local(&l.r, 1, arena, &err), "sparsity is 1.5; expected 0 to 1");
    EXPECT_ERROR(pare_rank_global(&l.r, 1, NAN, 1, arena, &err),
                 "sparsity is nan; expected 0 to 1");
    l.r.sparsity = 0.5;
    EXPECT_ERROR(pare_rank_balance(&l.r, &none, 1, arena, &err),
                 "mode 'balance' needs balance_gran");
    EXPECT_ERROR(pare_rank_balance(&l.r, &three, 1, arena, &err),
                 "balance_gran 3 does not divide axis 1, of 8 units");
    EXPECT_ERROR(pare_rank_balance(&l.r, &many_sizes, 1, arena, &err),
                 "balance_gran has 3 sizes for a weight of rank 2");
    EXPECT_ERROR(pare_rank_nm(&l.r, 5, 4, 0, arena, &err), "n:m is 5:4; expected 1 <= n <= m");
    EXPECT_ERROR(pare_rank_nm(&l.r, 2, 4, 2, arena, &err),
                 "n:m is along axis 2, but the weight has rank 2");
    l.r.max_sparsity = -1;
    EXPECT_ERROR(pare_rank_global(&l.r, 1, 0.5, 1, arena, &err),
                 "max_sparsity_per_layer is -1; expected 0 to 1");
    make_layer(&l, 2, (int64_t[]){ 4, 8 }, "out_channel");
    EXPECT_ERROR(pare_rank_local(&l.r, 1, arena, &err),
                 "units of 8 weights cannot be ranked without scores");
    set_scores(&l, (float[]){ 1, 2, 3, 4 });
    EXPECT_ERROR(pare_rank_nm(&l.r, 2, 4, 0, arena, &err),
                 "n:m needs single weights, but units have 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_of_single_layers),
        cmocka_unit_test(test_rank_in_balanced_tiles),
        cmocka_unit_test(test_rank_n_of_m),
        cmocka_unit_test(test_global_rank),
        cmocka_unit_test(test_global_rank_of_many_elements),
        cmocka_unit_test(test_n8_taylor_global),
        cmocka_unit_test(test_n22_exact_counts),
        cmocka_unit_test(test_n23_balanced_rows),
        cmocka_unit_test(test_counts_are_truncated),
        cmocka_unit_test(test_masks_match_numpy),
        cmocka_unit_test(test_wrong_arguments_are_errors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
