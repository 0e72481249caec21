/* winograd.c - convolutions with 3x3 filters and stride 1 by Winograd's F(4x4, 3x3). */
#include "winograd.h"

#include <omp.h>

#include "../../base/simd.h"

#define CHUNK 64              /* tiles that one thread has at a time */
#define MOST_BYTES (8u << 20) /* of the tiles that wait for the filters' gradient */

/* ---- the one-dimensional transforms ---------------------------------------- */

/* o = B' d, six from six; sd and so are the distances of their elements. */
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

/* o = G w, six from three. */
static inline void filter6(const pare_v8 *w, int sw, pare_v8 *o, int so)
{
    pare_v8 a = w[0], b = w[sw], c = w[2 * sw];
    pare_v8 p = (a + c) * (-1.0f / 6), q = b * (1.0f / 6);
    pare_v8 r = a * (1.0f / 24) + c * (1.0f / 6), s = b * (1.0f / 12);

    o[0] = a * 0.25f;
    o[so] = p - q;
    o[2 * so] = p + q;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = c;
}

/* o = G' u, three from six. */
static inline void unfilter3(const pare_v8 *u, int su, pare_v8 *o, int so)
{
    pare_v8 a = u[0], b = u[su], c = u[2 * su], d = u[3 * su], e = u[4 * su], f = u[5 * su];
    pare_v8 p = b + c, q = d + e;

    o[0] = a * 0.25f - p * (1.0f / 6) + q * (1.0f / 24);
    o[so] = (c - b) * (1.0f / 6) + (d - e) * (1.0f / 12);
    o[2 * so] = f + (q - p) * (1.0f / 6);
}

/* ---- filters --------------------------------------------------------------- */

PARE_SIMD static void filters_of(const struct pare_wino_filters *f, const float *w, int64_t o,
                                 bool turned, float *u)
{
    const int64_t step = pare_wino_step(f->o, f->i);

    for (int64_t c = 0; c < f->i; c += 8) {
        pare_v8 d[9], e[18], t[PARE_WINO];
        float part[9][8] = { { 0 } };

        for (int64_t k = 0; o < f->O && k < 8 && c + k < f->I; k++)
            for (int j = 0; j < 9; j++)
                part[turned ? 8 - j : j][k] = w[(o * f->I + c + k) * 9 + j];
        for (int j = 0; j < 9; j++)
            d[j] = PARE_V8(part[j]);
        for (int j = 0; j < 3; j++)
            filter6(d + j, 3, e + j, 3);
        for (int i = 0; i < 6; i++)
            filter6(e + 3 * i, 1, t + 6 * i, 1);
        for (int k = 0; k < PARE_WINO; k++)
            PARE_PUT8(u + k * step + o * f->i + c, t[k]);
    }
}

void pare_wino_filters(const struct pare_wino_filters *f, const float *w, bool turned, float *u)
{
#pragma omp parallel for num_threads(f->threads)
    for (int64_t o = 0; o < f->o; o++)
        filters_of(f, w, o, turned, u);
}

PARE_SIMD static void unfilter_of(const struct pare_wino_filters *f, const float *u, int64_t o,
                                  bool add, float *w)
{
    const int64_t step = pare_wino_step(f->o, f->i);

    for (int64_t c = 0; c < f->I; c += 8) {
        pare_v8 d[PARE_WINO], e[18], t[9];
        float part[9][8];

        for (int k = 0; k < PARE_WINO; k++)
            d[k] = PARE_V8(u + k * step + o * f->i + c);
        for (int j = 0; j < 6; j++)
            unfilter3(d + j, 6, e + j, 6);
        for (int i = 0; i < 3; i++)
            unfilter3(e + 6 * i, 1, t + 3 * i, 1);
        for (int j = 0; j < 9; j++)
            PARE_PUT8(part[j], t[j]);
        for (int64_t k = 0; k < 8 && c + k < f->I; k++)
            for (int j = 0; j < 9; j++) {
                float *to = w + (o * f->I + c + k) * 9 + j;

                *to = add ? *to + part[j][k] : part[j][k];
            }
    }
}

void pare_wino_unfilter(const struct pare_wino_filters *f, const float *u, bool add, float *w)
{
#pragma omp parallel for num_threads(f->threads)
    for (int64_t o = 0; o < f->O; o++)
        unfilter_of(f, u, o, add, w);
}

/* ---- tiles ----------------------------------------------------------------- */

int64_t pare_wino_tiles(const struct pare_wino *g)
{
    return g->N * ((g->to.h + 3) / 4) * ((g->to.w + 3) / 4);
}

/* Where a tile is, and where in a plane of blocks its elements are: -1 outside. */
struct tile {
    int64_t image, row, col; /* of the results */
    int64_t at[PARE_WINO];
};

static void find_tile(const struct pare_wino *g, int64_t i, struct tile *t)
{
    int64_t across = (g->to.w + 3) / 4, down = (g->to.h + 3) / 4;

    t->image = i / (across * down);
    t->row = i / across % down * 4;
    t->col = i % across * 4;
}

/* `size` elements each way from (row, col) of a side. */
static void find_elements(const struct pare_wino_side *s, int64_t row, int64_t col, int size,
                          struct tile *t)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int64_t r = row + i, c = col + j;

            t->at[i * size + j] = r >= 0 && r < s->h && c >= 0 && c < s->w ? r * s->w + c : -1;
        }
}

static int64_t start_of(const struct pare_wino *g, const struct pare_wino_side *s,
                        const struct tile *t, int64_t c)
{
    return (t->image * s->channels + c / g->block * g->block) * s->h * s->w + c % g->block;
}

/* v[k * step + c] = B' d B, all channels. */
PARE_SIMD static void take_input(const struct pare_wino *g, const struct tile *t, const float *x,
                                 float *v, int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->from.channels; c += 8) {
        const float *s = x + start_of(g, &g->from, t, c);
        pare_v8 d[PARE_WINO], e[PARE_WINO];

        for (int k = 0; k < PARE_WINO; k++) {
            if (t->at[k] >= 0)
                d[k] = PARE_V8(s + t->at[k] * block);
            else
                d[k] = (pare_v8){ 0 };
        }
        for (int j = 0; j < 6; j++)
            input6(d + j, 6, e + j, 6);
        for (int i = 0; i < 6; i++)
            input6(e + 6 * i, 1, d + 6 * i, 1);
        for (int k = 0; k < PARE_WINO; k++)
            PARE_PUT8(v + k * step + c, d[k]);
    }
}

/* v[k * step + c] = A d A', all channels of `to`. */
PARE_SIMD static void take_grad(const struct pare_wino *g, const struct tile *t, const float *y,
                                float *v, int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->to.channels; c += 8) {
        const float *s = y + start_of(g, &g->to, t, c);
        pare_v8 d[16], e[24], o[PARE_WINO];

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
        for (int k = 0; k < PARE_WINO; k++)
            PARE_PUT8(v + k * step + c, o[k]);
    }
}

/* The tile's results from m[k * step + c], all channels. */
PARE_SIMD static void give_output(const struct pare_wino *g, const struct tile *t,
                                  const struct pare_wino_run *r, const float *m, int64_t step)
{
    const int64_t block = g->block;

    for (int64_t c = 0; c < g->to.channels; c += 8) {
        float *y = r->y + start_of(g, &g->to, t, c);
        pare_v8 d[PARE_WINO], e[24], o[16], b = { 0 };

        if (r->bias)
            b = PARE_V8(r->bias + c);
        for (int k = 0; k < PARE_WINO; k++)
            d[k] = PARE_V8(m + k * step + c);
        for (int j = 0; j < 6; j++)
            output4(d + j, 6, e + j, 6);
        for (int i = 0; i < 4; i++)
            output4(e + 6 * i, 1, o + 4 * i, 1);
        for (int k = 0; k < 16; k++) {
            float *to = y + t->at[k] * block;

            if (t->at[k] >= 0 && r->add)
                PARE_PUT8(to, PARE_V8(to) + o[k]);
            else if (t->at[k] >= 0)
                PARE_PUT8(to, o[k] + b);
        }
    }
}

/* ---- convolutions ---------------------------------------------------------- */

/* Rows and places are no power of two apart, which would put them all into a few lines of the
 * cache. */
static int64_t row_of(int64_t channels)
{
    return channels + 16;
}

static int64_t step_of(int64_t channels, int64_t tiles)
{
    return tiles * row_of(channels) + 16;
}

static int64_t chunk_of(const struct pare_wino *g)
{
    int64_t tiles = pare_wino_tiles(g), each = (tiles + g->threads - 1) / g->threads;

    return each < CHUNK ? each : CHUNK;
}

static size_t chunk_floats(const struct pare_wino *g)
{
    int64_t n = chunk_of(g);

    return (size_t)(PARE_WINO * (step_of(g->from.channels, n) + step_of(g->to.channels, n)));
}

size_t pare_wino_work(const struct pare_wino *g)
{
    return (size_t)g->threads * chunk_floats(g);
}

static int run_chunk(const struct pare_wino *g, const struct pare_wino_run *r, int64_t first,
                     float *work)
{
    int64_t size = chunk_of(g), left = pare_wino_tiles(g) - first, n = left < size ? left : size;
    int64_t from = g->from.channels, to = g->to.channels, sv = step_of(from, size);
    int64_t sm = step_of(to, size);
    float *v = work, *m = work + PARE_WINO * sv;
    struct tile t;
    int failed = 0;

    for (int64_t i = 0; i < n; i++) {
        find_tile(g, first + i, &t);
        find_elements(&g->from, t.row - g->top, t.col - g->left, 6, &t);
        take_input(g, &t, r->x, v + i * row_of(from), sv);
    }
    for (int k = 0; k < PARE_WINO; k++)
        failed |= dnnl_sgemm('N', r->turned ? 'N' : 'T', n, to, from, 1, v + k * sv, row_of(from),
                             r->u + k * pare_wino_step(to, from), r->turned ? to : from, 0,
                             m + k * sm, row_of(to)) != dnnl_success;
    for (int64_t i = 0; i < n; i++) {
        find_tile(g, first + i, &t);
        find_elements(&g->to, t.row, t.col, 4, &t);
        give_output(g, &t, r, m + i * row_of(to), sm);
    }
    return failed;
}

int pare_wino_run(const struct pare_wino *g, const struct pare_wino_run *r, struct pare_err *err)
{
    int64_t tiles = pare_wino_tiles(g), size = chunk_of(g);
    int failed = 0;

#pragma omp parallel for num_threads(g->threads) schedule(static) reduction(| : failed)
    for (int64_t i = 0; i < (tiles + size - 1) / size; i++)
        failed |= run_chunk(g, r, i * size,
                            r->work + (size_t)omp_get_thread_num() * chunk_floats(g));
    return failed ? pare_fail(err, PARE_EUNSUPPORTED, "oneDNN: a product failed") : 0;
}

/* All threads work on the same tiles, then on the same sums: the result is the same for any number
 * of them. */
static int64_t wait_of(const struct pare_wino *g)
{
    int64_t tiles = pare_wino_tiles(g);
    int64_t per = PARE_WINO * (row_of(g->from.channels) + row_of(g->to.channels)) *
                  (int64_t)sizeof(float);
    int64_t most = MOST_BYTES / per;

    most = most < CHUNK ? CHUNK : most;
    return tiles < most ? tiles : most;
}

size_t pare_wino_weights_work(const struct pare_wino *g)
{
    int64_t n = wait_of(g);

    return (size_t)(PARE_WINO * (step_of(g->from.channels, n) + step_of(g->to.channels, n)));
}

int pare_wino_weights(const struct pare_wino *g, const float *x, const float *gy, float *u,
                      float *work, struct pare_err *err)
{
    int64_t tiles = pare_wino_tiles(g), size = wait_of(g), from = g->from.channels;
    int64_t to = g->to.channels, sv = step_of(from, size), sz = step_of(to, size);
    float *v = work, *z = work + PARE_WINO * sv;
    int failed = 0;

    for (int64_t first = 0; first < tiles; first += size) {
        int64_t n = tiles - first < size ? tiles - first : size;

#pragma omp parallel num_threads(g->threads) reduction(| : failed)
        {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < n; i++) {
                struct tile t;

                find_tile(g, first + i, &t);
                find_elements(&g->from, t.row - g->top, t.col - g->left, 6, &t);
                take_input(g, &t, x, v + i * row_of(from), sv);
                find_elements(&g->to, t.row, t.col, 4, &t);
                take_grad(g, &t, gy, z + i * row_of(to), sz);
            }
#pragma omp for schedule(static)
            for (int k = 0; k < PARE_WINO; k++)
                failed |= dnnl_sgemm('T', 'N', to, from, n, 1, z + k * sz, row_of(to), v + k * sv,
                                     row_of(from), first ? 1 : 0, u + k * pare_wino_step(to, from),
                                     from) != dnnl_success;
        }
    }
    return failed ? pare_fail(err, PARE_EUNSUPPORTED, "oneDNN: a product failed") : 0;
}
