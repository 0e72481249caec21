/* winograd.c - convolutions with 3x3 filters and stride 1 by Winograd's F(4x4, 3x3). */
#include "winograd.h"

#include <omp.h>

#include "../../base/simd.h"

#define CHUNK 64 /* tiles per thread at a time */
#define LEAST_CHUNK 16
#define MOST_TOGETHER 64 /* tiles of all threads at a time */
#define CACHE_BYTES (640 << 10)

/* Transformed tiles of backward_weights: of one product, and of the products between two barriers
 * of several threads, which would wait for each other more often with fewer. */
#define GROUP_BYTES (1 << 20)
#define MOST_BYTES (8 << 20)

/* A lean run transforms this many rows of two blocks of the filters, or of their gradient, at a
 * time. */
#define LEAN_K 128
#define LEAN_ROWS 24
#define LEAN_BLOCKS 8
#define LEAN_LEAST (4 << 20) /* bytes of transformed filters */
#define LEAN_MOST (24 << 20) /* bytes of transformed tiles */

/* ---- the one-dimensional transforms ---------------------------------------- */

/* o = B' d, six from six; sd and so are the strides of their elements. */
static inline void input6(const pare_v8 *d, int sd, pare_v8 *o, int so)
{
    pare_v8 a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd], f = d[4 * sd], g = d[5 * sd];
    pare_v8 p = f - 4 * c, q = e - 4 * b, r = f - c, s = 2 * (e - b);

    o[0] = 4 * a - 5 * c + f;
    o[so] = p + q;
    o[2 * so] = p - q;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = 4 * b - 5 * e + g;
}

/* o = A' d, four from six. */
static inline void output4(const pare_v8 *d, int sd, pare_v8 *o, int so)
{
    pare_v8 a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd], f = d[4 * sd], g = d[5 * sd];
    pare_v8 p = b + c, q = b - c, r = e + f, s = e - f;

    o[0] = a + p + r;
    o[so] = q + 2 * s;
    o[2 * so] = p + 4 * r;
    o[3 * so] = g + q + 8 * s;
}

/* o = A d, six from four. */
static inline void spread6(const pare_v8 *d, int sd, pare_v8 *o, int so)
{
    pare_v8 a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd];
    pare_v8 p = a + c, q = b + e, r = a + 4 * c, s = 2 * b + 8 * e;

    o[0] = a;
    o[so] = p + q;
    o[2 * so] = p - q;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = e;
}

/* ---- tiles ----------------------------------------------------------------- */

int64_t pare_winograd_tiles(const struct pare_winograd *g)
{
    return g->N * ((g->to.h + 3) / 4) * ((g->to.w + 3) / 4);
}

/* The position of a tile, and the offsets of its elements in a plane of blocks: -1 outside. */
struct tile {
    int64_t image, row, col; /* of the results */
    int64_t at[PARE_WINOGRAD];
};

static void find_tile(const struct pare_winograd *g, int64_t i, struct tile *t)
{
    int64_t across = (g->to.w + 3) / 4, down = (g->to.h + 3) / 4;

    t->image = i / (across * down);
    t->row = i / across % down * 4;
    t->col = i % across * 4;
}

/* `size` x `size` elements from (row, col) of a side. */
static void find_elements(const struct pare_winograd_side *s, int64_t row, int64_t col, int size,
                          struct tile *t)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int64_t r = row + i, c = col + j;

            t->at[i * size + j] = r >= 0 && r < s->h && c >= 0 && c < s->w ? r * s->w + c : -1;
        }
}

static int64_t start_of(const struct pare_winograd *g, const struct pare_winograd_side *s,
                        const struct tile *t, int64_t c)
{
    return (t->image * s->channels + c / g->block * g->block) * s->h * s->w + c % g->block;
}

/* v[k * step + c] = B' d B, all channels. */
PARE_SIMD static void transform_input(const struct pare_winograd *g, const struct tile *t,
                                      const float *x, float *v, int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->from.channels; c += 8) {
        const float *s = x + start_of(g, &g->from, t, c);
        pare_v8 d[PARE_WINOGRAD], e[PARE_WINOGRAD];

        for (int k = 0; k < PARE_WINOGRAD; k++) {
            if (t->at[k] >= 0)
                d[k] = PARE_V8(s + t->at[k] * block);
            else
                d[k] = (pare_v8){ 0 };
        }
        for (int j = 0; j < 6; j++)
            input6(d + j, 6, e + j, 6);
        for (int i = 0; i < 6; i++)
            input6(e + 6 * i, 1, d + 6 * i, 1);
        for (int k = 0; k < PARE_WINOGRAD; k++)
            PARE_PUT8(v + k * step + c, d[k]);
    }
}

/* v[k * step + c] = A d A', all channels of `to`. */
PARE_SIMD static void transform_grad(const struct pare_winograd *g, const struct tile *t,
                                     const float *y, float *v, int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->to.channels; c += 8) {
        const float *s = y + start_of(g, &g->to, t, c);
        pare_v8 d[16], e[24], o[PARE_WINOGRAD];

        for (int k = 0; k < 16; k++) {
            if (t->at[k] >= 0)
                d[k] = PARE_V8(s + t->at[k] * block);
            else
                d[k] = (pare_v8){ 0 };
        }
        for (int j = 0; j < 4; j++)
            spread6(d + j, 4, e + j, 4);
        for (int i = 0; i < 6; i++)
            spread6(e + 4 * i, 1, o + 6 * i, 1);
        for (int k = 0; k < PARE_WINOGRAD; k++)
            PARE_PUT8(v + k * step + c, o[k]);
    }
}

/* Apply the post-ops to the 16 results of one tile; `sum`: the operand of PARE_POST_SUM. */
static inline void apply_post_ops(const struct pare_winograd_run *r, const struct tile *t,
                                  const float *sum, int64_t block, pare_v8 o[16])
{
    const struct pare_post_area all = { .y = (float *)o, .rows = 1, .n = 16 * 8 };
    const pare_v8 zero = { 0 };

    for (int i = 0; i < r->n_post; i++) {
        const struct pare_post_op *p = &r->post[i];
        const pare_v8 lo = PARE_ALL8(p->alpha), hi = PARE_ALL8(p->beta);

        if (p->kind > PARE_POST_CLIP)
            pare_post_ops_run(p, 1, &all);
        for (int k = 0; k < 16 && p->kind <= PARE_POST_CLIP; k++) {
            pare_v8 v = o[k];

            if (p->kind == PARE_POST_SUM && t->at[k] >= 0)
                v += PARE_V8(sum + t->at[k] * block);
            if (p->kind == PARE_POST_RELU) {
                pare_m8 below = v < zero;

                v = (pare_v8)((~below & (pare_m8)v) | (below & (pare_m8)(v * lo)));
            }
            if (p->kind == PARE_POST_CLIP) {
                pare_m8 low = v<lo, high = v> hi;

                v = (pare_v8)((low & (pare_m8)lo) | (high & (pare_m8)hi) |
                              (~low & ~high & (pare_m8)v));
            }
            o[k] = v;
        }
    }
}

/* The tile's results from m[k * step + c], all channels. */
PARE_SIMD static void transform_output(const struct pare_winograd *g, const struct tile *t,
                                       const struct pare_winograd_run *r, const float *m,
                                       int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->to.channels; c += 8) {
        const int64_t start = start_of(g, &g->to, t, c);
        float *y = r->y + start;
        pare_v8 d[PARE_WINOGRAD], e[24], o[16], b = { 0 };

        if (r->bias)
            b = PARE_V8(r->bias + c);
        for (int k = 0; k < PARE_WINOGRAD; k++)
            d[k] = PARE_V8(m + k * step + c);
        for (int j = 0; j < 6; j++)
            output4(d + j, 6, e + j, 6);
        for (int i = 0; i < 4; i++)
            output4(e + 6 * i, 1, o + 4 * i, 1);
        for (int k = 0; k < 16; k++)
            o[k] += b;
        if (r->n_post)
            apply_post_ops(r, t, r->sum ? r->sum + start : NULL, block, o);
        for (int k = 0; k < 16; k++) {
            float *to = y + t->at[k] * block;

            if (t->at[k] >= 0 && r->add)
                o[k] += PARE_V8(to);
            if (t->at[k] >= 0)
                PARE_PUT8(to, o[k]);
        }
    }
}

/* ---- convolutions ---------------------------------------------------------- */

/* Row and position strides are not powers of two, which would map all of them to the same few cache
 * sets. */
static int64_t row_of(int64_t channels)
{
    return channels + 16;
}

static int64_t step_of(int64_t channels, int64_t tiles)
{
    return tiles * row_of(channels) + 16;
}

bool pare_winograd_lean(const struct pare_winograd *g)
{
    int64_t from = g->from.channels, to = g->to.channels,
            place = PARE_WINOGRAD * (int64_t)sizeof(float);

    return place * from * to >= LEAN_LEAST &&
           place * pare_winograd_tiles(g) * (row_of(from) + row_of(to)) <= LEAN_MOST;
}

/* Floats of filters per thread of a lean run, and the stride of their positions. */
static int64_t lean_step(const struct pare_winograd *g)
{
    int64_t there = LEAN_K * 2, back = LEAN_ROWS * LEAN_BLOCKS;

    return (there > back ? there : back) * g->block + 16;
}

static size_t lean_floats(const struct pare_winograd *g)
{
    return g->lean ? (size_t)(g->threads * PARE_WINOGRAD * lean_step(g)) : 0;
}

static float *lean_own(const struct pare_winograd *g, float *work, size_t tiles)
{
    return work + tiles + (size_t)(omp_get_thread_num() * PARE_WINOGRAD * lean_step(g));
}

/* Few tiles and many filters: all threads transform, then multiply, each with its part of the
 * filters, so that filters are read once.  Otherwise each thread processes its own tiles, as many
 * at a time as stay in its cache through all 36 positions. */
static bool shares_tiles(const struct pare_winograd *g)
{
    int64_t filters = PARE_WINOGRAD * pare_winograd_step(g->from.channels, g->to.channels);

    return !g->lean && g->threads > 1 && pare_winograd_tiles(g) <= MOST_TOGETHER &&
           filters * (int64_t)sizeof(float) > CACHE_BYTES;
}

static int64_t chunk_of(const struct pare_winograd *g)
{
    int64_t tiles = pare_winograd_tiles(g), each = (tiles + g->threads - 1) / g->threads;
    int64_t bytes = PARE_WINOGRAD * (row_of(g->from.channels) + row_of(g->to.channels)) *
                    (int64_t)sizeof(float);
    int64_t n = CACHE_BYTES / bytes;

    if (g->lean || shares_tiles(g))
        return tiles;
    n = n < LEAST_CHUNK ? LEAST_CHUNK : n > CHUNK ? CHUNK : n;
    n = (each + n - 1) / n; /* chunks of about the same size */
    return (each + n - 1) / n;
}

static size_t chunk_floats(const struct pare_winograd *g)
{
    int64_t n = chunk_of(g);

    return (size_t)(PARE_WINOGRAD * (step_of(g->from.channels, n) + step_of(g->to.channels, n)));
}

size_t pare_winograd_work(const struct pare_winograd *g)
{
    return (size_t)(g->lean || shares_tiles(g) ? 1 : g->threads) * chunk_floats(g) + lean_floats(g);
}

static void tile_in(const struct pare_winograd *g, const struct pare_winograd_run *r, int64_t i,
                    float *v)
{
    struct tile t;

    find_tile(g, i, &t);
    find_elements(&g->from, t.row - g->top, t.col - g->left, 6, &t);
    transform_input(g, &t, r->x, v, step_of(g->from.channels, chunk_of(g)));
}

static void tile_out(const struct pare_winograd *g, const struct pare_winograd_run *r, int64_t i,
                     const float *m)
{
    struct tile t;

    find_tile(g, i, &t);
    find_elements(&g->to, t.row, t.col, 4, &t);
    transform_output(g, &t, r, m, step_of(g->to.channels, chunk_of(g)));
}

/* Position k of n tiles. */
static void multiply(const struct pare_winograd *g, const struct pare_winograd_run *r, int k,
                     int64_t n, float *work)
{
    int64_t from = g->from.channels, to = g->to.channels;
    int64_t sv = step_of(from, chunk_of(g)), sm = step_of(to, chunk_of(g));
    struct pare_packed_gemm p = {
        .x = work + k * sv,
        .w = r->u + k * pare_winograd_step(to, from),
        .y = work + PARE_WINOGRAD * sv + k * sm,
        .rows = n,
        .blocks = to / g->block,
        .runs = 1,
        .run = from,
        .x_row = row_of(from),
        .y_row = row_of(to),
        .y_block = g->block,
        .block = g->block,
    };

    pare_packed_gemm_run(&p);
}

static void run_chunk(const struct pare_winograd *g, const struct pare_winograd_run *r,
                      int64_t first, float *work)
{
    int64_t size = chunk_of(g), left = pare_winograd_tiles(g) - first,
            n = left < size ? left : size;
    float *m = work + PARE_WINOGRAD * step_of(g->from.channels, size);

    for (int64_t i = 0; i < n; i++)
        tile_in(g, r, first + i, work + i * row_of(g->from.channels));
    for (int k = 0; k < PARE_WINOGRAD; k++)
        multiply(g, r, k, n, work);
    for (int64_t i = 0; i < n; i++)
        tile_out(g, r, first + i, m + i * row_of(g->to.channels));
}

static void run_together(const struct pare_winograd *g, const struct pare_winograd_run *r)
{
    int64_t n = pare_winograd_tiles(g);
    float *m = r->work + PARE_WINOGRAD * step_of(g->from.channels, n);

#pragma omp parallel num_threads(g->threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++)
            tile_in(g, r, i, r->work + i * row_of(g->from.channels));
#pragma omp for schedule(static)
        for (int k = 0; k < PARE_WINOGRAD; k++)
            multiply(g, r, k, n, r->work);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++)
            tile_out(g, r, i, m + i * row_of(g->to.channels));
    }
}

/* Two blocks of columns from b on, all tiles. */
static void lean_columns(const struct pare_winograd *g, const struct pare_winograd_run *r,
                         int64_t b, float *u)
{
    int64_t from = g->from.channels, to = g->to.channels, n = pare_winograd_tiles(g);
    int64_t sv = step_of(from, n), sm = step_of(to, n), left = to / g->block - b;
    float *m = r->work + PARE_WINOGRAD * sv + b * g->block;

    for (int64_t k = 0; k < from; k += LEAN_K) {
        struct pare_winograd_part part = {
            .row = k,
            .rows = from - k < LEAN_K ? from - k : LEAN_K,
            .column = b * g->block,
            .blocks = left < 2 ? left : 2,
            .step = lean_step(g),
        };

        pare_winograd_filter_part(r->f, &part, u);
        for (int i = 0; i < PARE_WINOGRAD; i++) {
            struct pare_packed_gemm p = {
                .x = r->work + i * sv + k,
                .w = u + i * part.step,
                .y = m + i * sm,
                .start = k ? m + i * sm : NULL,
                .rows = n,
                .blocks = part.blocks,
                .runs = 1,
                .run = part.rows,
                .x_row = row_of(from),
                .y_row = row_of(to),
                .y_block = g->block,
                .block = g->block,
            };

            pare_packed_gemm_run(&p);
        }
    }
}

static void run_lean(const struct pare_winograd *g, const struct pare_winograd_run *r)
{
    int64_t n = pare_winograd_tiles(g);
    float *m = r->work + PARE_WINOGRAD * step_of(g->from.channels, n);

#pragma omp parallel num_threads(g->threads)
    {
        float *u = lean_own(g, r->work, chunk_floats(g));

#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++)
            tile_in(g, r, i, r->work + i * row_of(g->from.channels));
#pragma omp for schedule(static)
        for (int64_t b = 0; b < g->to.channels / g->block; b += 2)
            lean_columns(g, r, b, u);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++)
            tile_out(g, r, i, m + i * row_of(g->to.channels));
    }
}

void pare_winograd_run(const struct pare_winograd *g, const struct pare_winograd_run *r)
{
    int64_t tiles = pare_winograd_tiles(g), size = chunk_of(g);

    if (g->lean) {
        run_lean(g, r);
        return;
    }
    if (shares_tiles(g)) {
        run_together(g, r);
        return;
    }
#pragma omp parallel for num_threads(g->threads) schedule(static)
    for (int64_t i = 0; i < (tiles + size - 1) / size; i++)
        run_chunk(g, r, i * size, r->work + (size_t)omp_get_thread_num() * chunk_floats(g));
}

/* ---- backward_weights ------------------------------------------------------ */

/* Bytes of a tile of both sides, transformed. */
static int64_t tile_bytes(const struct pare_winograd *g)
{
    return PARE_WINOGRAD * (row_of(g->from.channels) + row_of(g->to.channels)) *
           (int64_t)sizeof(float);
}

/* Tiles of one product.  The sums over these groups are added in their order, so that the result
 * does not depend on the number of threads, all of which work on the same tiles, then on the same
 * sums. */
static int64_t group_tiles(const struct pare_winograd *g)
{
    int64_t most = GROUP_BYTES / tile_bytes(g);

    return g->lean ? pare_winograd_tiles(g) : most < CHUNK ? CHUNK : most;
}

/* Tiles that are transformed before they are multiplied: one thread reads them from its cache. */
static int64_t waiting_tiles(const struct pare_winograd *g)
{
    int64_t tiles = pare_winograd_tiles(g), group = group_tiles(g), groups = 1;

    if (g->threads > 1 && MOST_BYTES / tile_bytes(g) > group)
        groups = MOST_BYTES / tile_bytes(g) / group;
    return tiles < groups * group ? tiles : groups * group;
}

static size_t waiting_floats(const struct pare_winograd *g)
{
    int64_t n = waiting_tiles(g);

    return (size_t)(PARE_WINOGRAD * (step_of(g->from.channels, n) + step_of(g->to.channels, n)));
}

size_t pare_winograd_weights_work(const struct pare_winograd *g)
{
    return waiting_floats(g) + lean_floats(g);
}

/* Position k of a part of the sums over n waiting tiles: u += z' v or, if first, u = z' v. */
static void multiply_grad(const struct pare_winograd *g, const struct pare_winograd_grad *r, int k,
                          int64_t n, bool first, const struct pare_winograd_part *part, float *u)
{
    int64_t from = g->from.channels, to = g->to.channels, sv = step_of(from, waiting_tiles(g));
    const float *z = r->work + PARE_WINOGRAD * sv + k * step_of(to, waiting_tiles(g));
    float *y = u + k * part->step;
    struct pare_packed_gemm p = {
        .y = y,
        .rows = part->rows,
        .blocks = part->blocks,
        .runs = 1,
        .x_row = 1,
        .x_step = row_of(to),
        .w_step = row_of(from),
        .y_row = part->blocks * g->block,
        .y_block = g->block,
        .block = g->block,
    };

    for (int64_t i = 0; i < n; i += group_tiles(g)) {
        p.x = z + i * row_of(to) + part->row;
        p.w = r->work + k * sv + i * row_of(from) + part->column;
        p.start = first && i == 0 ? NULL : y;
        p.run = n - i < group_tiles(g) ? n - i : group_tiles(g);
        pare_packed_gemm_run(&p);
    }
}

static void transform_both(const struct pare_winograd *g, const struct pare_winograd_grad *r,
                           int64_t first, int64_t i)
{
    int64_t from = g->from.channels, to = g->to.channels, size = waiting_tiles(g);
    int64_t sv = step_of(from, size), sz = step_of(to, size);
    struct tile t;

    find_tile(g, first + i, &t);
    find_elements(&g->from, t.row - g->top, t.col - g->left, 6, &t);
    transform_input(g, &t, r->x, r->work + i * row_of(from), sv);
    find_elements(&g->to, t.row, t.col, 4, &t);
    transform_grad(g, &t, r->gy, r->work + PARE_WINOGRAD * sv + i * row_of(to), sz);
}

/* A few rows and columns at a time, transformed back to filters. */
static void lean_weights(const struct pare_winograd *g, const struct pare_winograd_grad *r)
{
    int64_t n = pare_winograd_tiles(g), blocks = g->from.channels / g->block, to = g->to.channels;

#pragma omp parallel num_threads(g->threads)
    {
        float *u = lean_own(g, r->work, waiting_floats(g));

#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++)
            transform_both(g, r, 0, i);
#pragma omp for schedule(static) collapse(2)
        for (int64_t b = 0; b < blocks; b += LEAN_BLOCKS)
            for (int64_t o = 0; o < to; o += LEAN_ROWS) {
                struct pare_winograd_part part = {
                    .row = o,
                    .rows = to - o < LEAN_ROWS ? to - o : LEAN_ROWS,
                    .column = b * g->block,
                    .blocks = blocks - b < LEAN_BLOCKS ? blocks - b : LEAN_BLOCKS,
                    .step = lean_step(g),
                };

                for (int k = 0; k < PARE_WINOGRAD; k++)
                    multiply_grad(g, r, k, n, true, &part, u);
                pare_winograd_unfilter_part(r->f, &part, u, r->add, r->gw);
            }
    }
}

void pare_winograd_weights(const struct pare_winograd *g, const struct pare_winograd_grad *r)
{
    int64_t tiles = pare_winograd_tiles(g), size = waiting_tiles(g);
    struct pare_winograd_part all = {
        .rows = g->to.channels,
        .blocks = g->from.channels / g->block,
        .step = pare_winograd_step(g->to.channels, g->from.channels),
    };

    if (g->lean) {
        lean_weights(g, r);
        return;
    }
    for (int64_t first = 0; first < tiles; first += size) {
        int64_t n = tiles - first < size ? tiles - first : size;

#pragma omp parallel num_threads(g->threads)
        {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < n; i++)
                transform_both(g, r, first, i);
#pragma omp for schedule(static)
            for (int k = 0; k < PARE_WINOGRAD; k++)
                multiply_grad(g, r, k, n, first == 0, &all, r->u);
        }
    }
    pare_winograd_unfilter(r->f, r->u, r->add, r->gw);
}
