/* depthwise.c - depthwise and narrow grouped convolutions in the blocked layout, plane by plane. */
#include "depthwise.h"

#include <stddef.h>

#include "../simd/unroll_cases.h"

#include "../../base/simd.h"

#define TILE 8
#ifdef __x86_64__
#define PLAIN_TILE 4 /* sums, two registers each, of 16 */
#else
#define PLAIN_TILE TILE
#endif
#define MOST_TAPS 7
#define PIECE 1024 /* floats that post-ops process at a time */

/* An output row, and the taps [lo, hi) that read rows within the input. */
struct row {
    int64_t at, top, lo, hi;
};

/* Results per tile; filter width, 0: any; stride; whether taps may be outside the input; whether
 * channels have to be permuted. */
struct shape {
    int n, taps, stride;
    bool edge, grouped;
};

typedef void tiler(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                   const struct row *r, int64_t from, int n);

#if defined(__x86_64__)
#include <immintrin.h>

#include "../simd/vec512.h"
#include "depthwise_loops.h"
#include "../simd/vec_end.h"

#include "../simd/vec256.h"
#include "depthwise_loops.h"
#include "../simd/vec_end.h"
#endif

#include "../simd/vec_plain.h"
#include "depthwise_loops.h"
#include "../simd/vec_end.h"

/* A plane of inputs, a line of it, the line of taps, and the number of a channel that is read. */
struct place {
    int64_t plane, line, tap, channel;
};

/* y += a line of taps of output `at`. */
static void scalar_taps(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                        struct place e, int64_t at, float *y)
{
    const float *x = p->x + e.plane * p->x_step + e.line * d->in[1] * d->block;
    const float *w = p->w + e.plane * p->w_step +
                     (e.tap * d->width + e.channel) * d->kernel[1] * d->block;
    const int32_t *lane = p->lanes ? p->lanes + e.channel * d->block : NULL;

    for (int64_t q = 0; q < d->kernel[1]; q++, w += d->block) {
        int64_t from = at * d->stride[1] - d->pad[1] + q * d->dilation[1];

        for (int c = 0; c < d->block && from >= 0 && from < d->in[1]; c++)
            y[c] += x[from * d->block + (lane ? lane[c] : c)] * w[c];
    }
}

/* Any block. */
static void tile_scalar(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                        const struct row *r, int64_t from, int n)
{
    for (int i = 0; i < n; i++) {
        float *y = p->y + (r->at * d->out[1] + from + i) * d->block;

        for (int c = 0; c < d->block; c++)
            y[c] = p->bias[c];
        for (int64_t z = 0; z < p->depth; z++)
            for (int64_t k = r->lo; k < r->hi; k++)
                for (int64_t j = 0; j < d->width; j++)
                    scalar_taps(d, p, (struct place){ z, r->top + k * d->dilation[0], k, j },
                                from + i, y);
        for (int c = 0; c < d->block && d->clamp; c++) {
            y[c] = y[c] < d->low ? d->low : y[c];
            y[c] = y[c] > d->high ? d->high : y[c];
        }
    }
}

/* Choose the functions for inner tiles and for tiles at the edges; returns the width of a tile. */
static int pick(const struct pare_depthwise *d, tiler *run[2])
{
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

    if (d->block == 16 && __builtin_cpu_supports("avx512f")) {
        pick_avx512(d, run);
        return TILE;
    }
    if (d->block == 8 && avx2) {
        pick_avx2(d, run);
        return TILE;
    }
#endif
    run[0] = run[1] = tile_scalar;
    if (d->block == 8)
        pick_plain(d, run);
    return PLAIN_TILE;
}

static struct row row_at(const struct pare_depthwise *d, int64_t at)
{
    struct row r = { .at = at, .top = at * d->stride[0] - d->pad[0], .hi = d->kernel[0] };

    while (r.lo < r.hi && r.top + r.lo * d->dilation[0] < 0)
        r.lo++;
    while (r.hi > r.lo && r.top + (r.hi - 1) * d->dilation[0] >= d->in[0])
        r.hi--;
    return r;
}

static void apply_post_ops(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                           int64_t from, int64_t to)
{
    const int64_t line = d->out[1] * d->block;
    struct pare_post_area a = {
        .y = p->y + from * line,
        .sum = p->sum ? p->sum + from * line : p->sum,
        .rows = 1,
        .n = (to - from) * line,
    };

    pare_post_ops_run(d->post, d->n_post, &a);
}

void pare_depthwise_rows(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                         int64_t from, int64_t to)
{
    tiler *run[2];
    const int width = pick(d, run);
    const int64_t tiles = (d->out[1] + width - 1) / width;
    const int64_t reach = (d->kernel[1] - 1) * d->dilation[1], line = d->out[1] * d->block;
    int64_t done = from;

    for (int64_t at = from; at < to; at++) {
        struct row r = row_at(d, at);

        for (int64_t t = 0; t < tiles; t++) { /* tiles of about the same size */
            int64_t first = d->out[1] * t / tiles, end = d->out[1] * (t + 1) / tiles;
            bool edge = first * d->stride[1] < d->pad[1] ||
                        (end - 1) * d->stride[1] - d->pad[1] + reach >= d->in[1];

            run[edge](d, p, &r, first, (int)(end - first));
        }
        if ((at + 1 - done) * line >= PIECE || at + 1 == to) {
            apply_post_ops(d, p, done, at + 1);
            done = at + 1;
        }
    }
}
