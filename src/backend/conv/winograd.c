/* winograd.c - convolutions with 3x3 filters and stride 1 by Winograd's F(4x4, 3x3). */
#include "winograd_tiles.h"

#include <omp.h>

#include "../gemm/bf16_pairs.h"
#include "../../base/team.h"

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

int64_t pare_winograd_tiles(const struct pare_winograd *g)
{
    return g->N * ((g->to.h + 3) / 4) * ((g->to.w + 3) / 4);
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

/* Elements that forward products sum over: channels, or pairs of them. */
static int64_t depth_of(const struct pare_winograd *g)
{
    return g->bf16 ? g->from.channels / 2 : g->from.channels;
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

static float *lean_own(const struct pare_winograd *g, float *work, size_t tiles, int thread)
{
    return work + tiles + (size_t)(thread * PARE_WINOGRAD * lean_step(g));
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
    int64_t bytes = PARE_WINOGRAD * (row_of(depth_of(g)) + row_of(g->to.channels)) *
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

    return (size_t)(PARE_WINOGRAD * (step_of(depth_of(g), n) + step_of(g->to.channels, n)));
}

size_t pare_winograd_work(const struct pare_winograd *g)
{
    return (size_t)(g->lean || shares_tiles(g) ? 1 : g->threads) * chunk_floats(g) + lean_floats(g);
}

static void tile_in(const struct pare_winograd *g, const struct pare_winograd_run *r, int64_t i,
                    float *v)
{
    const int64_t step = step_of(depth_of(g), chunk_of(g));
    struct pare_winograd_tile t;

    pare_winograd_find_tile(g, i, &t);
    if (!g->bf16 && pare_winograd_vector_in(g, &t, r->x, v, step))
        return;
    pare_winograd_find_elements(&g->from, t.row - g->top, t.col - g->left, 6, &t);
    (g->bf16 ? pare_winograd_in_pairs : pare_winograd_in)(g, &t, r->x, v, step);
}

static void tile_out(const struct pare_winograd *g, const struct pare_winograd_run *r, int64_t i,
                     const float *m)
{
    const int64_t step = step_of(g->to.channels, chunk_of(g));
    struct pare_winograd_tile t;

    pare_winograd_find_tile(g, i, &t);
    if (!g->bf16 && pare_winograd_vector_out(g, &t, r, m, step))
        return;
    pare_winograd_find_elements(&g->to, t.row, t.col, 4, &t);
    pare_winograd_out(g, &t, r, m, step);
}

/* Position k of n tiles. */
static void multiply(const struct pare_winograd *g, const struct pare_winograd_run *r, int k,
                     int64_t n, float *work)
{
    int64_t from = depth_of(g), to = g->to.channels;
    int64_t sv = step_of(from, chunk_of(g)), sm = step_of(to, chunk_of(g));
    struct pare_packed_gemm p = {
        .x = work + k * sv,
        .w = r->u + k * r->u_step,
        .y = work + PARE_WINOGRAD * sv + k * sm,
        .rows = n,
        .blocks = to / g->block,
        .runs = 1,
        .run = from,
        .x_row = row_of(from),
        .y_row = row_of(to),
        .y_block = g->block,
        .block = g->block,
        .bf16 = g->bf16,
    };

    pare_packed_gemm_run(&p);
}

static void run_chunk(const struct pare_winograd *g, const struct pare_winograd_run *r,
                      int64_t first, float *work)
{
    int64_t size = chunk_of(g), left = pare_winograd_tiles(g) - first,
            n = left < size ? left : size;
    float *m = work + PARE_WINOGRAD * step_of(depth_of(g), size);

    for (int64_t i = 0; i < n; i++)
        tile_in(g, r, first + i, work + i * row_of(depth_of(g)));
    for (int k = 0; k < PARE_WINOGRAD; k++)
        multiply(g, r, k, n, work);
    for (int64_t i = 0; i < n; i++)
        tile_out(g, r, first + i, m + i * row_of(g->to.channels));
}

/* A run whose phases are loops: of tiles, of positions or columns, of tiles. */
struct phases {
    const struct pare_winograd *g;
    const struct pare_winograd_run *r;
};

static void tiles_in(void *arg, int64_t from, int64_t to, int thread)
{
    const struct phases *p = arg;

    (void)thread;
    for (int64_t i = from; i < to; i++)
        tile_in(p->g, p->r, i, p->r->work + i * row_of(depth_of(p->g)));
}

static void tiles_out(void *arg, int64_t from, int64_t to, int thread)
{
    const struct phases *p = arg;
    const float *m = p->r->work +
                     PARE_WINOGRAD * step_of(depth_of(p->g), pare_winograd_tiles(p->g));

    (void)thread;
    for (int64_t i = from; i < to; i++)
        tile_out(p->g, p->r, i, m + i * row_of(p->g->to.channels));
}

static void positions(void *arg, int64_t from, int64_t to, int thread)
{
    const struct phases *p = arg;

    (void)thread;
    for (int64_t k = from; k < to; k++)
        multiply(p->g, p->r, (int)k, pare_winograd_tiles(p->g), p->r->work);
}

static void run_together(const struct pare_winograd *g, const struct pare_winograd_run *r)
{
    struct phases p = { g, r };

    pare_parallel(g->threads, pare_winograd_tiles(g), tiles_in, &p);
    pare_parallel(g->threads, PARE_WINOGRAD, positions, &p);
    pare_parallel(g->threads, pare_winograd_tiles(g), tiles_out, &p);
}

/* Two blocks of columns from b on, all tiles. */
static void lean_columns(const struct pare_winograd *g, const struct pare_winograd_run *r,
                         int64_t b, float *u)
{
    int64_t from = g->from.channels, to = g->to.channels, n = pare_winograd_tiles(g);
    int64_t sv = step_of(depth_of(g), n), sm = step_of(to, n), left = to / g->block - b;
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
                .x = r->work + i * sv + (g->bf16 ? k / 2 : k),
                .w = u + i * part.step,
                .y = m + i * sm,
                .start = k ? m + i * sm : NULL,
                .rows = n,
                .blocks = part.blocks,
                .runs = 1,
                .run = g->bf16 ? part.rows / 2 : part.rows,
                .x_row = row_of(depth_of(g)),
                .y_row = row_of(to),
                .y_block = g->block,
                .block = g->block,
                .bf16 = g->bf16,
            };

            pare_packed_gemm_run(&p);
        }
    }
}

static void lean_pairs(void *arg, int64_t from, int64_t to, int thread)
{
    const struct phases *p = arg;
    float *u = lean_own(p->g, p->r->work, chunk_floats(p->g), thread);

    for (int64_t b = from; b < to; b++)
        lean_columns(p->g, p->r, 2 * b, u);
}

static void run_lean(const struct pare_winograd *g, const struct pare_winograd_run *r)
{
    struct phases p = { g, r };

    pare_parallel(g->threads, pare_winograd_tiles(g), tiles_in, &p);
    pare_parallel(g->threads, (g->to.channels / g->block + 1) / 2, lean_pairs, &p);
    pare_parallel(g->threads, pare_winograd_tiles(g), tiles_out, &p);
}

static void run_chunks(void *arg, int64_t from, int64_t to, int thread)
{
    const struct phases *p = arg;

    for (int64_t i = from; i < to; i++)
        run_chunk(p->g, p->r, i * chunk_of(p->g), p->r->work + (size_t)thread * chunk_floats(p->g));
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
    pare_parallel(g->threads, (tiles + size - 1) / size, run_chunks, &(struct phases){ g, r });
}

/* ---- backward_weights ------------------------------------------------------ */

/* Products sum over rows: tiles or, with bf16, pairs of tiles. */
static int64_t row_count(const struct pare_winograd *g)
{
    return g->bf16 ? pare_bf16_half(pare_winograd_tiles(g)) : pare_winograd_tiles(g);
}

/* Bytes of a row of both sides, transformed. */
static int64_t row_bytes(const struct pare_winograd *g)
{
    return PARE_WINOGRAD * (row_of(g->from.channels) + row_of(g->to.channels)) *
           (int64_t)sizeof(float);
}

/* Rows of one product.  The sums over these groups are added in their order, so that the result
 * does not depend on the number of threads, all of which work on the same rows, then on the same
 * sums. */
static int64_t group_rows(const struct pare_winograd *g)
{
    int64_t most = GROUP_BYTES / row_bytes(g);

    return g->lean ? row_count(g) : most < CHUNK ? CHUNK : most;
}

/* Rows that are transformed before they are multiplied: one thread reads them from its cache. */
static int64_t waiting_rows(const struct pare_winograd *g)
{
    int64_t all = row_count(g), group = group_rows(g), groups = 1;

    if (g->threads > 1 && MOST_BYTES / row_bytes(g) > group)
        groups = MOST_BYTES / row_bytes(g) / group;
    return all < groups * group ? all : groups * group;
}

static size_t waiting_floats(const struct pare_winograd *g)
{
    int64_t n = waiting_rows(g);

    return (size_t)(PARE_WINOGRAD * (step_of(g->from.channels, n) + step_of(g->to.channels, n)));
}

/* With bf16, floats of two tiles of one side per thread: they become a row of pairs. */
static size_t pair_floats(const struct pare_winograd *g)
{
    int64_t from = g->from.channels, to = g->to.channels;

    return g->bf16 ? (size_t)(2 * PARE_WINOGRAD * row_of(from > to ? from : to)) : 0;
}

size_t pare_winograd_weights_work(const struct pare_winograd *g)
{
    return waiting_floats(g) + lean_floats(g) + (size_t)g->threads * pair_floats(g);
}

/* Position k of a part of the sums over n waiting rows: u += z' v or, if first, u = z' v. */
static void multiply_grad(const struct pare_winograd *g, const struct pare_winograd_grad *r, int k,
                          int64_t n, bool first, const struct pare_winograd_part *part, float *u)
{
    int64_t from = g->from.channels, to = g->to.channels, sv = step_of(from, waiting_rows(g));
    const float *z = r->work + PARE_WINOGRAD * sv + k * step_of(to, waiting_rows(g));
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
        .bf16 = g->bf16,
    };

    for (int64_t i = 0; i < n; i += group_rows(g)) {
        p.x = z + i * row_of(to) + part->row;
        p.w = r->work + k * sv + i * row_of(from) + part->column;
        p.start = first && i == 0 ? NULL : y;
        p.run = n - i < group_rows(g) ? n - i : group_rows(g);
        pare_packed_gemm_run(&p);
    }
}

static void find_side(const struct pare_winograd *g, bool back, int64_t i,
                      struct pare_winograd_tile *t)
{
    pare_winograd_find_tile(g, i, t);
    if (back)
        pare_winograd_find_elements(&g->to, t->row, t->col, 4, t);
    else
        pare_winograd_find_elements(&g->from, t->row - g->top, t->col - g->left, 6, t);
}

/* Tile i of one side: v[k * step + c]. */
static void transform_side(const struct pare_winograd *g, const struct pare_winograd_grad *r,
                           bool back, int64_t i, float *v, int64_t step)
{
    struct pare_winograd_tile t;

    find_side(g, back, i, &t);
    if (back)
        pare_winograd_spread(g, &t, r->gy, v, step);
    else
        pare_winograd_in(g, &t, r->x, v, step);
}

/* transform_pair() without scratch memory. */
static void transform_wide(const struct pare_winograd *g, const struct pare_winograd_grad *r,
                           bool back, int64_t i, float *v, int64_t step)
{
    struct pare_winograd_zip z = { .back = back, .from = back ? r->gy : r->x, .n = 1 };

    find_side(g, back, 2 * i, &z.tile[0]);
    if (2 * i + 1 < pare_winograd_tiles(g))
        find_side(g, back, 2 * i + 1, &z.tile[z.n++]);
    pare_winograd_wide_zip(g, &z, v, step);
}

/* Tiles 2 i and 2 i + 1 of one side as pairs. */
static void transform_pair(const struct pare_winograd *g, const struct pare_winograd_grad *r,
                           bool back, int64_t i, float *v, int64_t step)
{
    const int64_t channels = back ? g->to.channels : g->from.channels, row = row_of(channels);
    const bool two = 2 * i + 1 < pare_winograd_tiles(g);
    float *own = r->work + waiting_floats(g) + lean_floats(g) +
                 (size_t)omp_get_thread_num() * pair_floats(g);
    float *next = own + PARE_WINOGRAD * row;

    transform_side(g, r, back, 2 * i, own, row);
    if (two)
        transform_side(g, r, back, 2 * i + 1, next, row);
    for (int k = 0; k < PARE_WINOGRAD; k++)
        pare_bf16_zip(own + k * row, two ? next + k * row : NULL, channels, v + k * step);
}

/* Row first + i of both sides. */
static void transform_both(const struct pare_winograd *g, const struct pare_winograd_grad *r,
                           int64_t first, int64_t i)
{
    int64_t from = g->from.channels, to = g->to.channels, size = waiting_rows(g);
    int64_t sv = step_of(from, size), sz = step_of(to, size);
    float *v = r->work + i * row_of(from), *z = r->work + PARE_WINOGRAD * sv + i * row_of(to);

    void (*transform)(const struct pare_winograd *, const struct pare_winograd_grad *, bool,
                      int64_t, float *, int64_t) = transform_side;

    if (g->bf16)
        transform = pare_winograd_wide(g->bf16, g->block) ? transform_wide : transform_pair;
    transform(g, r, false, first + i, v, sv);
    transform(g, r, true, first + i, z, sz);
}

/* A few rows and columns at a time, transformed back to filters. */
static void lean_weights(const struct pare_winograd *g, const struct pare_winograd_grad *r)
{
    int64_t n = row_count(g), blocks = g->from.channels / g->block, to = g->to.channels;

#pragma omp parallel num_threads(g->threads)
    {
        float *u = lean_own(g, r->work, waiting_floats(g), omp_get_thread_num());

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
    int64_t rows = row_count(g), size = waiting_rows(g);
    struct pare_winograd_part all = {
        .rows = g->to.channels,
        .blocks = g->from.channels / g->block,
        .step = pare_winograd_step(g->to.channels, g->from.channels),
    };

    if (g->lean) {
        lean_weights(g, r);
        return;
    }
    for (int64_t first = 0; first < rows; first += size) {
        int64_t n = rows - first < size ? rows - first : size;

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
