/* test_winograd.c - Winograd convolutions and gradients against sums in float64.
 *
 * All filters at once and in blocks, unusual channels and sizes, one thread and several.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "backend/conv/blocked_filters.h"
#include "backend/conv/winograd_tiles.h"
#include "base/arena.h"
#include "base/rng.h"

#define MAX_ELEMENTS 600000

struct shape {
    int64_t N, O, I, h, w, top, left, h_to, w_to;
};

struct data {
    struct pare_arena *arena;
    float *x, *w, *y, *gw, *u, *work;
    double *want;
};

static float *alloc_floats(struct data *d)
{
    return pare_alloc(d->arena, MAX_ELEMENTS, sizeof(float));
}

static void fill_random(struct pare_rng *r, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(pare_rng_uniform(r) - 0.5);
}

static int64_t padded_channels(int64_t n, int block)
{
    return (n + block - 1) / block * block;
}

/* Element (n, c, i, j) of a blocked tensor. */
static int64_t blocked_index(const struct pare_winograd *g, const struct pare_winograd_side *s,
                             const int64_t p[4])
{
    return ((p[0] * (s->channels / g->block) + p[1] / g->block) * s->h * s->w + p[2] * s->w +
            p[3]) *
               g->block +
           p[1] % g->block;
}

/* Random values, with zeros in padding channels. */
static void fill_blocks(struct pare_rng *r, const struct pare_winograd *g,
                        const struct pare_winograd_side *s, int64_t channels, float *to)
{
    memset(to, 0, (size_t)(g->N * s->channels * s->h * s->w) * sizeof(*to));
    for (int64_t n = 0; n < g->N; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < s->h; i++)
                for (int64_t j = 0; j < s->w; j++)
                    to[blocked_index(g, s, (int64_t[4]){ n, c, i, j })] =
                        (float)(pare_rng_uniform(r) - 0.5);
}

/* Called for each pair of elements of x and y that filter element (o, i, a, b) connects. */
typedef void visit(struct data *d, int64_t x, int64_t y, int64_t w);

static void add_output(struct data *d, int64_t x, int64_t y, int64_t w)
{
    d->want[y] += (double)d->x[x] * (double)d->w[w];
}

static void add_weight_grad(struct data *d, int64_t x, int64_t y, int64_t w)
{
    d->want[w] += (double)d->x[x] * (double)d->y[y];
}

static void visit_products(const struct pare_winograd *g, const struct shape *s, struct data *d,
                           visit *f)
{
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t k = 0; k < s->O * s->I * 9; k++)
            for (int64_t i = 0; i < s->h_to; i++)
                for (int64_t j = 0; j < s->w_to; j++) {
                    int64_t r = i + k / 3 % 3 - s->top, c = j + k % 3 - s->left;

                    if (r >= 0 && r < s->h && c >= 0 && c < s->w)
                        f(d, blocked_index(g, &g->from, (int64_t[4]){ n, k / 9 % s->I, r, c }),
                          blocked_index(g, &g->to, (int64_t[4]){ n, k / 9 / s->I, i, j }), k);
                }
}

static void expect_close(const float *got, const double *want, int64_t n, double before)
{
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - before - want[i]) <= 2e-5 * (largest + 1)))
            fail_msg("element %ld: %g, expected %g", (long)i, (double)got[i], want[i] + before);
}

/* Rounding to bf16 changes the norm of the result by one percent or so, and by not much less. */
static void expect_rounded(const float *got, const double *want, int64_t n, double before)
{
    double difference = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        difference += pow((double)got[i] - before - want[i], 2);
        norm += want[i] * want[i];
    }
    if (!(sqrt(difference / norm) < 0.025 && sqrt(difference / norm) > 5e-4))
        fail_msg("relative error %g", sqrt(difference / norm));
}

static void expect(bool bf16, const float *got, const double *want, int64_t n, double before)
{
    if (bf16)
        expect_rounded(got, want, n, before);
    else
        expect_close(got, want, n, before);
}

static void check_shape(const struct shape *s, int block, int threads, bool lean, bool bf16)
{
    struct pare_winograd g = {
        .N = s->N,
        .top = s->top,
        .left = s->left,
        .block = block,
        .threads = threads,
        .lean = lean,
        .bf16 = bf16,
        .from = { padded_channels(s->I, block), s->h, s->w },
        .to = { padded_channels(s->O, block), s->h_to, s->w_to },
    };
    struct data d = { .arena = pare_arena_new(1 << 20) };
    int64_t ny = s->N * g.to.channels * s->h_to * s->w_to, nw = s->O * s->I * 9;
    struct pare_winograd_filters f = { .O = s->O,
                                       .I = s->I,
                                       .o = g.to.channels,
                                       .i = g.from.channels };
    struct pare_rng r;

    pare_rng_init(&r, 7);
    d.x = alloc_floats(&d), d.w = alloc_floats(&d), d.y = alloc_floats(&d), d.gw = alloc_floats(&d),
    d.u = alloc_floats(&d);
    d.work = pare_alloc(d.arena, pare_winograd_work(&g) + pare_winograd_weights_work(&g),
                        sizeof(float));
    d.want = pare_alloc(d.arena, MAX_ELEMENTS, sizeof(double));
    assert_true(ny < MAX_ELEMENTS && PARE_WINOGRAD * pare_winograd_step(f.o, f.i) < MAX_ELEMENTS);
    f.block = block, f.threads = threads, f.w = d.w, f.bf16 = bf16;
    fill_blocks(&r, &g, &g.from, s->I, d.x);
    fill_random(&r, d.w, nw);
    visit_products(&g, s, &d, add_output);
    if (!lean)
        pare_winograd_filters(&f, d.u);
    pare_winograd_run(&g, &(struct pare_winograd_run){ .x = d.x,
                                                       .u = d.u,
                                                       .u_step = pare_winograd_step(f.o, f.i),
                                                       .f = &f,
                                                       .y = d.y,
                                                       .work = d.work });
    expect(bf16, d.y, d.want, ny, 0);

    memset(d.want, 0, MAX_ELEMENTS * sizeof(*d.want));
    fill_blocks(&r, &g, &g.to, s->O, d.y);
    visit_products(&g, s, &d, add_weight_grad);
    for (int again = 0; again < 2; again++) {
        for (int64_t i = 0; i < nw; i++)
            d.gw[i] = again ? 3 : NAN;
        d.gw[nw] = 17;
        pare_winograd_weights(&g, &(struct pare_winograd_grad){ .x = d.x,
                                                                .gy = d.y,
                                                                .f = &f,
                                                                .add = again,
                                                                .gw = d.gw,
                                                                .u = d.u,
                                                                .work = d.work });
        expect(bf16, d.gw, d.want, nw, again ? 3 : 0);
        assert_true(d.gw[nw] == 17);
    }
    pare_arena_free(d.arena);
}

/* The gradient of the input is a convolution with rotated filters. */
static void check_rotated(int block, bool lean, bool bf16)
{
    const int64_t O = 21, I = 35, side = 6;
    struct pare_winograd g = { .N = 1,
                               .top = 1,
                               .left = 1,
                               .block = block,
                               .threads = 2,
                               .bf16 = bf16,
                               .lean = lean };
    struct pare_winograd_filters f = { .O = O,
                                       .I = I,
                                       .block = block,
                                       .threads = 2,
                                       .bf16 = bf16,
                                       .rotated = true };
    struct data d = { .arena = pare_arena_new(1 << 20) };
    struct pare_rng r;

    g.from = (struct pare_winograd_side){ f.o = padded_channels(O, block), side, side };
    g.to = (struct pare_winograd_side){ f.i = padded_channels(I, block), side, side };
    pare_rng_init(&r, 9);
    d.x = alloc_floats(&d), d.w = alloc_floats(&d), d.y = alloc_floats(&d), d.u = alloc_floats(&d);
    d.work = pare_alloc(d.arena, pare_winograd_work(&g), sizeof(float));
    d.want = pare_alloc(d.arena, MAX_ELEMENTS, sizeof(double));
    fill_blocks(&r, &g, &g.from, O, d.x);
    fill_random(&r, d.w, O * I * 9);
    f.w = d.w;
    for (int64_t k = 0; k < O * I * 9; k++)
        for (int64_t i = 0; i < side; i++)
            for (int64_t j = 0; j < side; j++) {
                int64_t a = i - k / 3 % 3 + 1, b = j - k % 3 + 1;

                if (a >= 0 && a < side && b >= 0 && b < side)
                    d.want[blocked_index(&g, &g.to, (int64_t[4]){ 0, k / 9 % I, i, j })] +=
                        (double)d.w[k] *
                        (double)d.x[blocked_index(&g, &g.from, (int64_t[4]){ 0, k / 9 / I, a, b })];
            }
    if (!lean)
        pare_winograd_filters(&f, d.u);
    pare_winograd_run(&g, &(struct pare_winograd_run){ .x = d.x,
                                                       .u = d.u,
                                                       .u_step = pare_winograd_step(f.o, f.i),
                                                       .f = &f,
                                                       .y = d.y,
                                                       .work = d.work });
    expect(bf16, d.y, d.want, f.i * side * side, 0);
    pare_arena_free(d.arena);
}

static void test_convolutions_and_weight_gradients(void **state)
{
    static const struct shape shapes[] = {
        { 1, 1, 1, 4, 4, 1, 1, 4, 4 },     { 2, 17, 33, 7, 5, 1, 1, 7, 5 },
        { 3, 40, 24, 9, 11, 0, 2, 7, 13 }, { 1, 70, 131, 4, 4, 1, 0, 4, 2 },
        { 2, 25, 145, 5, 5, 2, 2, 7, 7 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (int block = 8; block <= 16; block += 8)
            for (int threads = 1; threads <= 3; threads += 2)
                for (int k = 0; k < 4; k++)
                    check_shape(&shapes[i], block, threads, k & 1, k & 2);
}

static void test_input_gradients(void **state)
{
    (void)state;
    for (int block = 8; block <= 16; block += 8)
        for (int k = 0; k < 4; k++)
            check_rotated(block, k & 1, k & 2);
}

/* Enough tiles for several groups, which one thread transforms one by one, and several threads some
 * at a time: the same bytes, and less memory for one thread. */
static void test_threads_do_not_change_weight_gradients(void **state)
{
    const struct shape s = { 66, 9, 5, 16, 15, 1, 1, 16, 15 };
    struct data d = { .arena = pare_arena_new(1 << 20) };
    float *gw[2] = { alloc_floats(&d), alloc_floats(&d) };
    size_t floats[2];

    (void)state;
    d.x = alloc_floats(&d), d.y = alloc_floats(&d), d.u = alloc_floats(&d);
    d.want = pare_alloc(d.arena, MAX_ELEMENTS, sizeof(double));
    for (int i = 0; i < 2; i++) {
        struct pare_winograd g = { s.N,           1, 1, 16, i ? 3 : 1, false, false, { 16, 16, 15 },
                                   { 16, 16, 15 } };
        struct pare_winograd_filters f = { .O = s.O, .I = s.I, .o = 16, .i = 16, .block = 16 };
        struct pare_winograd_grad r = { .x = d.x, .gy = d.y, .f = &f, .gw = gw[i], .u = d.u };
        struct pare_rng rng;

        f.threads = g.threads;
        pare_rng_init(&rng, 3);
        fill_blocks(&rng, &g, &g.from, s.I, d.x);
        fill_blocks(&rng, &g, &g.to, s.O, d.y);
        floats[i] = pare_winograd_weights_work(&g);
        r.work = pare_alloc(d.arena, floats[i], sizeof(float));
        pare_winograd_weights(&g, &r);
        if (i == 0)
            visit_products(&g, &s, &d, add_weight_grad);
    }
    expect_close(gw[0], d.want, s.O * s.I * 9, 0);
    assert_memory_equal(gw[0], gw[1], (size_t)(s.O * s.I * 9) * sizeof(float));
    assert_true(floats[0] < floats[1] / 4);
    pare_arena_free(d.arena);
}

/* Many filters for few images are transformed in blocks; few filters, or filters for many
 * images, are not. */
static void test_lean_transform_choice(void **state)
{
    struct pare_winograd g = { .N = 32, .from = { 512, 4, 4 }, .to = { 512, 4, 4 } };

    (void)state;
    assert_true(pare_winograd_lean(&g));
    g.N = 4096;
    assert_false(pare_winograd_lean(&g));
    g.N = 32, g.from.channels = g.to.channels = 64;
    assert_false(pare_winograd_lean(&g));
}

static void expect_same(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        assert_true(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i])));
}

/* One tile by both implementations. */
static void compare_transforms(const struct pare_winograd *g, struct data *d, int64_t i,
                               struct pare_winograd_run *r)
{
    const int64_t from = PARE_WINOGRAD * g->from.channels;
    const int64_t size = g->N * g->to.channels * g->to.h * g->to.w;
    float *other = d->work + 2 * from;
    struct pare_winograd_tile t;

    pare_winograd_find_tile(g, i, &t);
    assert_true(pare_winograd_vector_in(g, &t, d->x, d->work, g->from.channels));
    pare_winograd_find_elements(&g->from, t.row - g->top, t.col - g->left, 6, &t);
    pare_winograd_in(g, &t, d->x, d->work + from, g->from.channels);
    expect_same(d->work, d->work + from, from);

    memcpy(other, d->y, (size_t)size * sizeof(*other));
    r->y = other;
    r->sum = r->n_post ? other : NULL;
    assert_true(pare_winograd_vector_out(g, &t, r, d->u, g->to.channels));
    pare_winograd_find_elements(&g->to, t.row, t.col, 4, &t);
    r->y = d->y;
    r->sum = r->sum ? d->y : NULL;
    pare_winograd_out(g, &t, r, d->u, g->to.channels);
    expect_same(other, d->y, size);
}

/* Vectors of a block compute what the portable loops compute: whole tiles and tiles at edges, all
 * kinds of post-ops. */
static void test_vector_transforms(void **state)
{
    static const struct pare_post_op list[] = {
        { .kind = PARE_POST_SUM },         { .kind = PARE_POST_RELU },
        { .kind = PARE_POST_SUM },         { PARE_POST_RELU, 0.25f, 0 },
        { PARE_POST_CLIP, -0.5f, 0.75f },  { PARE_POST_SWISH, 1, 0 },
        { .kind = PARE_POST_SUM },         { .kind = PARE_POST_HARDSWISH },
        { PARE_POST_CLIP, -0.125f, 0.5f },
    };
    static const int part[][2] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 1 }, { 1, 2 }, { 3, 1 },
                                   { 2, 2 }, { 4, 1 }, { 5, 1 }, { 6, 2 }, { 7, 2 }, { 0, 0 } };
    struct data d = { .arena = pare_arena_new(1 << 20) };
    struct pare_rng rng;

    (void)state;
    pare_rng_init(&rng, 11);
    d.x = alloc_floats(&d), d.y = alloc_floats(&d), d.u = alloc_floats(&d);
    d.work = alloc_floats(&d), d.w = alloc_floats(&d);
    for (int block = 8; block <= 16; block += 8)
        for (int64_t size = 1; size <= 13; size += 3)
            for (size_t k = 0; k < sizeof(part) / sizeof(*part); k++) {
                struct pare_winograd g = {
                    .N = 2,
                    .top = (int64_t)k % 3,
                    .left = 1,
                    .block = block,
                    .threads = 1,
                    .from = { 32, size, size + 2 },
                    .to = { 16, size, size + 1 },
                };
                struct pare_winograd_run r = {
                    .bias = k % 2 ? d.w : NULL,
                    .post = list + part[k][0],
                    .n_post = part[k][1],
                    .add = k + 1 == sizeof(part) / sizeof(*part),
                };
                struct pare_winograd_tile t = { .row = 0 };

                fill_random(&rng, d.x, MAX_ELEMENTS / 10);
                fill_random(&rng, d.y, MAX_ELEMENTS / 10);
                fill_random(&rng, d.u, PARE_WINOGRAD * 32);
                fill_random(&rng, d.w, 16);
                if (!pare_winograd_vector_in(&g, &t, d.x, d.work, g.from.channels))
                    continue; /* not on this machine */
                for (int64_t i = 0; i < pare_winograd_tiles(&g); i++)
                    compare_transforms(&g, &d, i, &r);
            }
    pare_arena_free(d.arena);
}

static float bf16_of(const float *u, int64_t i)
{
    uint32_t bits = (uint32_t)((const uint16_t *)(const void *)u)[i] << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Positions of n bf16 each that may differ by one rounding, of sums in another order. */
static void expect_same_pairs(const float *a, const float *b, int64_t step, int64_t n)
{
    for (int k = 0; k < PARE_WINOGRAD; k++)
        for (int64_t i = 0; i < n; i++) {
            const float x = bf16_of(a + k * step, i), y = bf16_of(b + k * step, i);

            if (!(fabsf(x - y) <= fabsf(x) / 64 + 1e-6f))
                fail_msg("position %d, element %ld: %g, expected %g", k, (long)i, (double)y,
                         (double)x);
        }
}

/* Blocked filters, which are transformed by other code, result in the pairs of row-major ones. */
static void test_blocked_filters_in_bf16(void **state)
{
    const struct pare_tensor shape = { .dtype = PARE_F32, .rank = 4, .dim = { 48, 80, 3, 3 } };
    struct data d = { .arena = pare_arena_new(1 << 20) };
    float *blocked = alloc_floats(&d), *u = alloc_floats(&d);
    struct pare_rng r;

    (void)state;
    d.w = alloc_floats(&d), d.u = alloc_floats(&d);
    pare_rng_init(&r, 5);
    fill_random(&r, d.w, 48 * 80 * 9);
    for (int block = 8; block <= 16; block += 8)
        for (int rotated = 0; rotated < 2; rotated++) {
            struct pare_winograd_filters f = { .w = d.w,
                                               .bf16 = true,
                                               .rotated = rotated,
                                               .O = 48,
                                               .I = 80,
                                               .o = 48,
                                               .i = 80,
                                               .block = block,
                                               .threads = 2 };
            const struct pare_winograd_part part = { .row = 16,
                                                     .rows = 32,
                                                     .column = 16,
                                                     .blocks = 32 / block,
                                                     .step = 32 * 32 + 16 };
            const int64_t step = pare_winograd_step(48, 80);

            pare_filters_convert(&(struct pare_filters){ &shape, block, 1, sizeof(float), false },
                                 d.w, blocked);
            for (int whole = 0; whole < 2; whole++)
                for (int k = 0; k < 2; k++) {
                    f.blocked = k;
                    f.w = k ? blocked : d.w;
                    if (whole)
                        pare_winograd_filters(&f, k ? u : d.u);
                    else
                        pare_winograd_filter_part(&f, &part, k ? u : d.u);
                    if (k)
                        expect_same_pairs(d.u, u, whole ? step : part.step,
                                          whole ? 48 * 80 : 32 * 32);
                }
        }
    pare_arena_free(d.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_and_weight_gradients),
        cmocka_unit_test(test_input_gradients),
        cmocka_unit_test(test_threads_do_not_change_weight_gradients),
        cmocka_unit_test(test_lean_transform_choice),
        cmocka_unit_test(test_blocked_filters_in_bf16),
        cmocka_unit_test(test_vector_transforms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
