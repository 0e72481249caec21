/* sparse_conv.c - convolutions with sparse weights: planes, bands and tiles.
 *
 * Along an axis, tap k of result o reads input o s + k d - pad.  Inputs with the same remainder
 * modulo the stride s form a separate plane, their phase, so that contiguous results read
 * contiguous inputs: tap k is in phase (k d) mod s, at (k d) / s plus the index of the result.
 *
 * A band of rows is one line of pixels with a row stride of `pitch`; the pixels between the end of
 * a row's results and the next row are computed and discarded.  They are few, since the padding
 * after a row is also the padding before the next.
 */
#include "sparse.h"

#include <omp.h>
#include <string.h>

#include "../../base/simd.h"

#define BAND (160 << 10) /* floats of a band's planes: fits in the L2 cache */
#define PART (256 << 10) /* bytes of weights that are used with all tiles of a band */
#define LANES 16

/* ---- shapes -------------------------------------------------------------------------------- */

static void find_phases(struct pare_sparse_conv *c, int axis)
{
    int n = 0;

    memset(c->phase[axis], -1, sizeof(c->phase[axis]));
    for (int64_t k = 0; k < c->kernel[axis]; k++)
        c->phase[axis][k * c->dilation[axis] % c->stride[axis]] = 0;
    for (int64_t p = 0; p < c->stride[axis]; p++)
        if (!c->phase[axis][p])
            c->phase[axis][p] = (int8_t)n++;
    c->phases[axis] = n;
}

/* Wide enough that no result reads the next row's pixels: padding precedes those. */
static int64_t find_pitch(const struct pare_sparse_conv *c)
{
    int64_t s = c->stride[1], out = c->out[1];
    int64_t full = out + (c->kernel[1] - 1) * c->dilation[1] / s;
    int64_t shared = full - c->pad[1] / s, row = (c->in[1] + c->pad[1] + s - 1) / s;

    shared = shared < row ? row : shared;
    shared = shared < out ? out : shared;
    return shared < full ? shared : full;
}

static int64_t band_pixels(const struct pare_sparse_conv *c, int64_t rows)
{
    return (rows - 1) * c->pitch + c->out[1];
}

static void set_flat(struct pare_sparse_conv *c)
{
    c->flat = true;
    for (int i = 0; i < 2; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->pad[i] || c->in[i] != c->out[i])
            c->flat = false;
    if (!c->flat)
        return;
    c->in[0] *= c->in[1];
    c->out[0] = c->in[0];
    c->in[1] = c->out[1] = 1;
}

/* Bands that fit in the cache, with work for each thread: as many bands as threads, or, if these
 * would be too low, parts of the outputs. */
static void find_bands(struct pare_sparse_conv *c)
{
    int64_t room = BAND / c->planes / c->pitch - c->more, most = room < 1 ? 1 : room;
    int64_t least = c->flat ? 16 : 4 * (c->more + 1);

    c->bands = (c->out[0] + most - 1) / most;
    if (c->N * c->bands % c->threads && c->out[0] / c->threads * 2 >= least)
        c->bands = (c->bands + c->threads - 1) / c->threads * c->threads;
    c->band = (c->out[0] + c->bands - 1) / c->bands;
    c->bands = (c->out[0] + c->band - 1) / c->band;
    c->parts = c->N * c->bands % c->threads && c->N * c->bands < 4 * c->threads ? c->threads : 1;
}

bool pare_sparse_shape(struct pare_sparse_conv *c, int wide)
{
    int64_t most;

    if (c->C < 1)
        return false;
    for (int i = 0; i < 2; i++)
        if (c->kernel[i] < 1 || c->stride[i] < 1 || c->stride[i] > PARE_SPARSE_STRIDE ||
            c->pad[i] < 0 || c->out[i] < 1 || c->in[i] < 1)
            return false;
    set_flat(c);
    find_phases(c, 0);
    find_phases(c, 1);
    c->pitch = find_pitch(c);
    c->more = (c->kernel[0] - 1) * c->dilation[0] / c->stride[0];
    c->planes = c->in_block > 1 ? (c->C + 7) / 8 * 8 : c->C;
    c->planes *= c->phases[0] * c->phases[1];
    find_bands(c);
    c->plane = (c->band + c->more) * c->pitch;
    c->plane += c->plane % 64 ? 0 : 16; /* otherwise planes would share a few cache sets */
    c->floats = (c->planes * c->plane + c->pitch + 2 * PARE_TILE + 15) / 16 * 16;
    most = band_pixels(c, c->band);
    c->wide = wide == 16 && (most + 7) / 8 * 9 > (most + 15) / 16 * 16 ? 16 : 8;
    return c->floats < INT32_MAX;
}

int64_t pare_sparse_pixels(const struct pare_sparse_conv *c)
{
    int64_t each = band_pixels(c, c->band);

    return (each + c->wide - 1) / c->wide * c->wide * c->bands;
}

int32_t pare_sparse_offset(const struct pare_sparse_conv *c, int64_t k)
{
    int64_t channel = k / (c->kernel[0] * c->kernel[1]);
    int64_t y = k / c->kernel[1] % c->kernel[0] * c->dilation[0];
    int64_t x = k % c->kernel[1] * c->dilation[1];
    int64_t plane = (channel * c->phases[0] + c->phase[0][y % c->stride[0]]) * c->phases[1] +
                    c->phase[1][x % c->stride[1]];

    return (int32_t)(plane * c->plane + y / c->stride[0] * c->pitch + x / c->stride[1]);
}

/* ---- planes -------------------------------------------------------------------------------- */

/* Some channels of a band: up to 8 contiguous ones, or one of a row-major input. */
struct fill {
    const float *x;      /* the image's first pixel of the first channel */
    int64_t step, n;     /* pixel stride; channels */
    int64_t stride;      /* stride of the channels' planes */
    int64_t first, rows; /* of the results */
};

static void copy_pixels(const struct fill *f, const float *x, int64_t step, int64_t n, float *to)
{
    if (f->n == 8) {
        pare_transpose_pixels(x, step, n, to, f->stride);
        return;
    }
    for (int64_t k = 0; k < f->n; k++)
        for (int64_t i = 0; i < n; i++)
            to[k * f->stride + i] = x[i * step + k];
}

static void zero_pixels(const struct fill *f, int64_t n, float *to)
{
    for (int64_t k = 0; k < f->n && n == 1; k++) /* the common case */
        to[k * f->stride] = 0;
    for (int64_t k = 0; k < f->n && n > 1; k++)
        memset(to + k * f->stride, 0, (size_t)n * sizeof(*to));
}

/* The inputs [*lo, *hi) of a phase's row that are not padding. */
static void valid_inputs(const struct pare_sparse_conv *c, int64_t phase, int64_t *lo, int64_t *hi)
{
    int64_t s = c->stride[1], from = c->pad[1] - phase, to = c->in[1] + from;

    *lo = from > 0 ? (from + s - 1) / s : 0;
    *hi = to > 0 ? (to + s - 1) / s : 0;
    *hi = *hi < c->pitch ? *hi : c->pitch;
    *lo = *lo < *hi ? *lo : *hi;
}

static void fill_phase(const struct pare_sparse_conv *c, const struct fill *f, int64_t py,
                       int64_t px, float *to)
{
    int64_t lo, hi, s = c->stride[1], left = c->plane - (f->rows + c->more) * c->pitch;

    valid_inputs(c, px, &lo, &hi);
    for (int64_t r = 0; r < f->rows + c->more; r++, to += c->pitch) {
        int64_t y = (f->first + r) * c->stride[0] + py - c->pad[0];
        int64_t at = y * c->in[1] + lo * s + px - c->pad[1];

        if (y < 0 || y >= c->in[0]) {
            zero_pixels(f, c->pitch, to);
            continue;
        }
        zero_pixels(f, lo, to);
        copy_pixels(f, f->x + at * f->step, s * f->step, hi - lo, to + lo);
        zero_pixels(f, c->pitch - hi, to + hi);
    }
    zero_pixels(f, left < c->pitch ? left : c->pitch, to); /* padding after the last row */
}

static void fill_channels(const struct pare_sparse_conv *c, const struct fill *f, float *to)
{
    if (c->flat) {
        copy_pixels(f, f->x + f->first * f->step, f->step, f->rows, to);
        return;
    }
    for (int64_t py = 0; py < c->stride[0]; py++)
        for (int64_t px = 0; px < c->stride[1]; px++) {
            int64_t plane = c->phase[0][py] * c->phases[1] + c->phase[1][px];

            if (c->phase[0][py] >= 0 && c->phase[1][px] >= 0)
                fill_phase(c, f, py, px, to + plane * c->plane);
        }
}

/* A band of an image. */
struct band {
    int64_t image, first, rows;
};

static int64_t fill_band(const struct pare_sparse_conv *c)
{
    return c->in_block == 1 ? c->C : (c->C + 7) / 8;
}

static void fill_one(const struct pare_sparse_conv *c, const struct band *b, int64_t i,
                     const struct pare_sparse_run *r)
{
    int64_t size = c->in[0] * c->in[1], block = c->in_block;
    int64_t each = c->phases[0] * c->phases[1] * c->plane;
    struct fill f = { .stride = each, .first = b->first, .rows = b->rows };

    if (block == 1) {
        f.n = f.step = 1;
        f.x = r->x + (b->image * c->C + i) * size;
        fill_channels(c, &f, r->work + i * each);
        return;
    }
    if (block == PARE_CHANNELS_LAST) {
        f.step = c->C;
        f.n = c->C - i * 8 < 8 ? c->C - i * 8 : 8;
        f.x = r->x + b->image * c->C * size + i * 8;
    } else {
        int64_t blocks = (c->C + block - 1) / block;

        f.step = block;
        f.n = 8;
        f.x = r->x + (b->image * blocks + i * 8 / block) * size * block + i * 8 % block;
    }
    fill_channels(c, &f, r->work + i * 8 * each);
}

/* ---- results ------------------------------------------------------------------------------- */

PARE_SIMD static void store_results(float *restrict y, const float *restrict x, int64_t n,
                                    bool relu)
{
    if (!relu) {
        memcpy(y, x, (size_t)n * sizeof(*y));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

/* sum may be y. */
PARE_SIMD static void store_with_sum(float *y, const float *restrict x, const float *sum, int64_t n,
                                     bool relu)
{
    if (relu) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = x[i] + sum[i];

            y[i] = v < 0 ? 0 : v;
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] + sum[i];
    }
}

/* n pixels of one block of outputs, from pixel `at` of the image on. */
struct piece {
    int64_t image, block, at, n;
};

static void store_piece(const struct pare_sparse_conv *c, const struct pare_sparse_run *r,
                        const struct piece *p, float *x)
{
    int64_t size = c->out[0] * c->out[1], blocks = (c->O + c->lanes - 1) / c->lanes;
    int64_t left = c->O - p->block * c->lanes, len = p->n * c->lanes, to;
    bool relu = r->end.kind == PARE_END_RELU || r->end.kind == PARE_END_SUM_RELU;

    if (c->out_block == PARE_CHANNELS_LAST) {
        left = left < c->lanes ? left : c->lanes;
        if (r->end.kind == PARE_END_APPLY)
            r->end.apply(r->end.user, x, NULL, len);
        for (int64_t i = 0; i < p->n; i++)
            store_results(r->y + (p->image * size + p->at + i) * c->O + p->block * c->lanes,
                          x + i * c->lanes, left, relu);
        return;
    }
    to = ((p->image * blocks + p->block) * size + p->at) * c->lanes;
    if (r->end.kind == PARE_END_APPLY) {
        r->end.apply(r->end.user, x, r->sum ? r->sum + to : NULL, len);
        for (int64_t i = 0; i < p->n && left < c->lanes; i++)
            memset(x + i * c->lanes + left, 0, (size_t)(c->lanes - left) * sizeof(*x));
    }
    if (r->end.kind == PARE_END_SUM || r->end.kind == PARE_END_SUM_RELU)
        store_with_sum(r->y + to, x, r->sum + to, len, relu);
    else
        store_results(r->y + to, x, len, relu);
}

/* Some pixels [from, to) of a band, for one block of outputs. */
static void run_tile(const struct pare_sparse_conv *c, const struct pare_sparse_run *r,
                     const struct band *b, int64_t block, int64_t from, int64_t to)
{
    float sums[LANES * PARE_TILE], transposed[PARE_TILE * LANES];
    int64_t per = c->lanes / c->rows, end = band_pixels(c, b->rows);
    struct pare_tile t = { c->wide, (int)((to - from) / c->wide), r->work + from, NULL, NULL };

    for (int64_t i = 0; i < per; i++) {
        t.bias = r->bias + block * c->lanes + i * c->rows;
        t.y = sums + i * c->rows * PARE_TILE;
        pare_tile_run(r->w, block * per + i, &t);
    }
    pare_transpose_tile(sums, to - from, transposed, c->lanes);
    to = to < end ? to : end;
    for (int64_t q = from, n; q < to; q += n) {
        int64_t y = q / c->pitch, x = q % c->pitch;

        n = c->pitch == c->out[1] ? to - q : c->out[1] - x;
        n = n < to - q ? n : to - q;
        if (n > 0)
            store_piece(c, r, &(struct piece){ b->image, block, (b->first + y) * c->out[1] + x, n },
                        transposed + (q - from) * c->lanes);
        else
            n = c->pitch - x;
    }
}

/* ---- run ----------------------------------------------------------------------------------- */

/* Blocks of outputs [from, to) of a band; some weights with all tiles, then the next weights. */
static void run_blocks(const struct pare_sparse_conv *c, const struct pare_sparse_run *r,
                       const struct band *b, int64_t from, int64_t to)
{
    int64_t most = pare_tile_max_vectors(c->rows, c->wide);
    int64_t vectors = (band_pixels(c, b->rows) + c->wide - 1) / c->wide;
    int64_t tiles = (vectors + most - 1) / most;
    int64_t bytes = r->w->first[r->w->groups] * (r->w->rows + 1) * (int64_t)sizeof(float);
    int64_t at_once = PART * ((c->O + c->lanes - 1) / c->lanes) / (bytes + 1) + 1;

    for (int64_t o = from; o < to; o += at_once)
        for (int64_t t = 0; t < tiles; t++) {
            int64_t first = t * vectors / tiles, end = (t + 1) * vectors / tiles;

            for (int64_t k = o; k < o + at_once && k < to; k++)
                run_tile(c, r, b, k, first * c->wide, end * c->wide);
        }
}

/* Each thread has its own planes, so that threads do not wait for each other. */
static void run_jobs(const struct pare_sparse_conv *c, struct pare_sparse_run r)
{
    int64_t blocks = (c->O + c->lanes - 1) / c->lanes, used = c->planes * c->plane, last = -1;

    r.work += omp_get_thread_num() * c->floats;
    memset(r.work + used, 0, (size_t)(c->floats - used) * sizeof(float));
#pragma omp for schedule(static)
    for (int64_t j = 0; j < c->N * c->bands * c->parts; j++) {
        int64_t i = j / c->parts, p = j % c->parts;
        struct band b = { i / c->bands, i % c->bands * c->band, c->band };

        b.rows = c->out[0] - b.first < b.rows ? c->out[0] - b.first : b.rows;
        for (int64_t k = 0; k < fill_band(c) && i != last; k++)
            fill_one(c, &b, k, &r);
        last = i;
        run_blocks(c, &r, &b, p * blocks / c->parts, (p + 1) * blocks / c->parts);
    }
}

void pare_sparse_run(const struct pare_sparse_conv *c, const struct pare_sparse_run *r)
{
#pragma omp parallel num_threads(c->threads)
    run_jobs(c, *r);
}
