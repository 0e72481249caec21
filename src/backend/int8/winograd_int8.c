/* winograd_int8.c - int8 3x3 convolutions by Winograd's F(4x4, 3x3), exact. */
#include "winograd_int8.h"

#include "../simd/unroll_cases.h"

#define WIDE PARE_WINOGRAD_INT8_PANEL
#define ROWS 12

/* (G' g G'^T) of one filter. */
static void transform_weight(const int8_t *g, int16_t u[36])
{
    static const int G[6][3] = { { 1, 0, 0 }, { 1, 1, 1 },  { 1, -1, 1 },
                                 { 1, 2, 4 }, { 1, -2, 4 }, { 0, 0, 1 } };
    int t[6][3];

    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 3; j++)
            t[i][j] = G[i][0] * g[j] + G[i][1] * g[3 + j] + G[i][2] * g[6 + j];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            u[i * 6 + j] = (int16_t)(t[i][0] * G[j][0] + t[i][1] * G[j][1] + t[i][2] * G[j][2]);
}

void pare_winograd_int8_weights(const int8_t *w, int64_t C, int64_t O, int16_t *u)
{
    int64_t pairs = pare_winograd_int8_pairs(C);

    memset(u, 0, pare_winograd_int8_u(C, O) * sizeof(*u));
    for (int64_t o = 0; o < O; o++)
        for (int64_t c = 0; c < C; c++) {
            int16_t *to = u + o / WIDE * 36 * pairs * WIDE * 2, all[36];

            transform_weight(w + (o * C + c) * 9, all);
            for (int p = 0; p < 36; p++)
                to[((p * pairs + c / 2) * WIDE + o % WIDE) * 2 + c % 2] = all[p];
        }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define PART TARGET static inline __attribute__((always_inline))

bool pare_winograd_int8_can(const struct pare_backend *b)
{
    return b->vnni && b->block == 16 && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

/* ---- input transform -------------------------------------------------------------------- */

/* y = B^T x for 32 channels. */
PART void input_transform6(const __m512i x[6], __m512i y[6])
{
    __m512i a = _mm512_sub_epi16(x[4], _mm512_slli_epi16(x[2], 2));
    __m512i b = _mm512_sub_epi16(x[3], _mm512_slli_epi16(x[1], 2));
    __m512i c = _mm512_sub_epi16(x[4], x[2]);
    __m512i d = _mm512_slli_epi16(_mm512_sub_epi16(x[3], x[1]), 1);

    y[0] = _mm512_add_epi16(_mm512_slli_epi16(_mm512_sub_epi16(x[0], x[2]), 2), c);
    y[1] = _mm512_add_epi16(a, b);
    y[2] = _mm512_sub_epi16(a, b);
    y[3] = _mm512_add_epi16(c, d);
    y[4] = _mm512_sub_epi16(c, d);
    y[5] = _mm512_add_epi16(_mm512_slli_epi16(_mm512_sub_epi16(x[1], x[3]), 2),
                            _mm512_sub_epi16(x[5], x[3]));
}

/* Pointers to the tile's 36 pixels in the image; NULL: outside. */
static void tile_pixels(const struct pare_winograd_int8 *k, int64_t tile, const uint8_t *x,
                        const uint8_t *at[36])
{
    int64_t each = k->tiles[0] * k->tiles[1], r = tile % each;
    int64_t top = r / k->tiles[1] * 4 - k->pad[0], left = r % k->tiles[1] * 4 - k->pad[1];

    x += tile / each * k->in[0] * k->in[1] * k->C;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            int64_t h = top + i, w = left + j;
            bool in = h >= 0 && h < k->in[0] && w >= 0 && w < k->in[1];

            at[i * 6 + j] = in ? x + (h * k->in[1] + w) * k->C : NULL;
        }
}

PART __m512i load(const struct pare_winograd_int8 *k, const uint8_t *x, int64_t c, __mmask32 live)
{
    __m256i q;
    __m512i d;

    if (!x)
        return _mm512_setzero_si512();
    q = _mm256_maskz_loadu_epi8(live, x + c);
    d = k->is_signed ? _mm512_cvtepi8_epi16(q) : _mm512_cvtepu8_epi16(q);
    return _mm512_maskz_sub_epi16(live, d, _mm512_set1_epi16((short)k->zero));
}

TARGET static void input_tile(const struct pare_winograd_int8 *k, const uint8_t *const at[36],
                              int64_t step, int16_t *v)
{
    int64_t row = pare_winograd_int8_pairs(k->C) * 2;

    for (int64_t c = 0; c < k->C; c += 32) {
        __mmask32 live = k->C - c < 32 ? ((__mmask32)1 << (k->C - c)) - 1 : ~(__mmask32)0;
        __mmask32 keep = row - c < 32 ? ((__mmask32)1 << (row - c)) - 1 : ~(__mmask32)0;
        __m512i t[6][6], x[6], y[6];

        for (int j = 0; j < 6; j++) {
            for (int i = 0; i < 6; i++)
                x[i] = load(k, at[i * 6 + j], c, live);
            input_transform6(x, y);
            for (int i = 0; i < 6; i++)
                t[i][j] = y[i];
        }
        for (int i = 0; i < 6; i++) {
            input_transform6(t[i], y);
            for (int j = 0; j < 6; j++)
                _mm512_mask_storeu_epi16(v + (i * 6 + j) * step + c, keep, y[j]);
        }
    }
}

void pare_winograd_int8_input(const struct pare_winograd_int8 *k,
                              const struct pare_winograd_int8_part *p, const uint8_t *x)
{
    int64_t row = pare_winograd_int8_pairs(k->C) * 2;
    const uint8_t *at[36];

    for (int64_t i = p->from; i < p->to; i++) {
        tile_pixels(k, p->first + i, x, at);
        input_tile(k, at, p->n * row, p->v + i * row);
    }
}

/* ---- products --------------------------------------------------------------------------- */

struct product {
    const int16_t *v, *u;
    int64_t row, pairs; /* of v; pairs to multiply */
    int32_t *m;
};

/* m (n, 32) = v (n, C) u; n is a constant at each inlined call. */
PART void rows(const struct product *p, const int n)
{
    const int16_t *v = p->v, *u = p->u;
    const int64_t row = p->row, pairs = p->pairs;
    int32_t *m = p->m;
    __m512i sum[ROWS][2];

#pragma GCC unroll 12
    for (int r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_si512();
    for (int64_t k = 0; k < pairs; k++) {
        __m512i b0 = _mm512_loadu_si512(u + k * WIDE * 2);
        __m512i b1 = _mm512_loadu_si512(u + k * WIDE * 2 + 32);

#pragma GCC unroll 12
        for (int r = 0; r < n; r++) {
            int32_t two;
            __m512i a;

            memcpy(&two, v + r * row + k * 2, 4);
            a = _mm512_set1_epi32(two);
            sum[r][0] = _mm512_dpwssd_epi32(sum[r][0], a, b0);
            sum[r][1] = _mm512_dpwssd_epi32(sum[r][1], a, b1);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < n; r++) {
        _mm512_storeu_si512(m + r * WIDE, sum[r][0]);
        _mm512_storeu_si512(m + r * WIDE + 16, sum[r][1]);
    }
}

TARGET static void some_rows(const struct product *p, int n)
{
    switch (n) {
        PARE_CASES_12(rows, p);
    default: break;
    }
}

static void multiply(const struct pare_winograd_int8 *k, const struct pare_winograd_int8_part *p,
                     int64_t panel)
{
    int64_t pairs = pare_winograd_int8_pairs(k->C), parts = (p->n + ROWS - 1) / ROWS;
    const int16_t *u = k->u + panel * 36 * pairs * WIDE * 2;

    for (int64_t q = 0; q < 36; q++)
        for (int s = 0; s < k->parts; s++) {
            int64_t cut = pare_winograd_int8_cut(k, s);

            for (int64_t i = 0; i < parts; i++) {
                int64_t first = p->n * i / parts, end = p->n * (i + 1) / parts;
                struct product one = { .v = p->v + ((q * p->n + first) * pairs + cut) * 2,
                                       .u = u + (q * pairs + cut) * WIDE * 2,
                                       .row = pairs * 2,
                                       .pairs = pare_winograd_int8_cut(k, s + 1) - cut,
                                       .m = p->m + ((s * 36 + q) * p->n + first) * WIDE };

                some_rows(&one, (int)(end - first));
            }
        }
}

/* ---- output transform ------------------------------------------------------------------- */

/* y = A' x for 16 channels. */
PART void output_transform4(const __m512i x[6], __m512i y[4])
{
    __m512i s12 = _mm512_add_epi32(x[1], x[2]), d12 = _mm512_sub_epi32(x[1], x[2]);
    __m512i s34 = _mm512_add_epi32(x[3], x[4]), d34 = _mm512_sub_epi32(x[3], x[4]);
    __m512i twice = _mm512_slli_epi32(d34, 1);
    __m512i six = _mm512_add_epi32(_mm512_slli_epi32(x[5], 2), _mm512_slli_epi32(x[5], 1));

    y[0] = _mm512_add_epi32(_mm512_slli_epi32(_mm512_sub_epi32(x[0], s12), 2),
                            _mm512_add_epi32(_mm512_slli_epi32(x[0], 1), s34));
    y[1] = _mm512_sub_epi32(twice, _mm512_slli_epi32(d12, 2));
    y[2] = _mm512_slli_epi32(_mm512_sub_epi32(s34, s12), 2);
    y[3] = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(twice, d12), six), 2);
}

/* y from 576 y. */
PART __m512i divide_576(__m512i z)
{
    return _mm512_srai_epi32(_mm512_mullo_epi32(z, _mm512_set1_epi32(0x38e38e39)), 6);
}

/* Scale, bias and bounds as in pare_int8_finish(). */
struct ending {
    __m512 f, b, lo, hi;
    __m512i zero;
};

PART struct ending load_ending(const struct pare_int8_out *o, int64_t c)
{
    float lo, hi;

    pare_int8_bounds(o, &lo, &hi);
    return (struct ending){ .f = _mm512_loadu_ps(o->f + c),
                            .b = _mm512_loadu_ps(o->b + c),
                            .lo = _mm512_set1_ps(lo),
                            .hi = _mm512_set1_ps(hi),
                            .zero = _mm512_set1_epi32(o->q.zero) };
}

PART __m128i requantize(const struct ending *e, __m512i y)
{
    __m512 v = _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepi32_ps(y), e->b), e->f);

    v = _mm512_min_ps(_mm512_max_ps(v, e->lo), e->hi);
    return _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(v), e->zero));
}

/* The sums of one tile, whose 36 positions have a stride of `step`. */
PART void transform_sums(const int32_t *m, int64_t step, __m512i y[4][4])
{
    __m512i t[4][6], x[6], z[4];

    for (int j = 0; j < 6; j++) {
        for (int i = 0; i < 6; i++)
            x[i] = _mm512_loadu_si512(m + (i * 6 + j) * step);
        output_transform4(x, z);
        for (int i = 0; i < 4; i++)
            t[i][j] = z[i];
    }
    for (int i = 0; i < 4; i++) {
        output_transform4(t[i], z);
        for (int j = 0; j < 4; j++)
            y[i][j] = divide_576(z[j]);
    }
}

/* 16 channels from c on of one tile. */
TARGET static void output_tile(const struct pare_winograd_int8 *k, int64_t tile, int64_t c,
                               const int32_t *m, int64_t step, uint8_t *y)
{
    int64_t each = k->tiles[0] * k->tiles[1], r = tile % each;
    int64_t h = r / k->tiles[1] * 4, w = r % k->tiles[1] * 4;
    __mmask16 live = (__mmask16)(k->O - c < 16 ? (1u << (k->O - c)) - 1 : 0xffffu);
    struct ending e = load_ending(&k->finish, c);
    __m512i sum[4][4], more[4][4];

    y += (tile / each * k->out[0] * k->out[1] + h * k->out[1] + w) * k->O + c;
    transform_sums(m, step, sum);
    for (int s = 1; s < k->parts; s++) {
        transform_sums(m + s * 36 * step, step, more);
        for (int i = 0; i < 16; i++)
            sum[i / 4][i % 4] = _mm512_add_epi32(sum[i / 4][i % 4], more[i / 4][i % 4]);
    }
    for (int i = 0; i < 4 && h + i < k->out[0]; i++)
        for (int j = 0; j < 4 && w + j < k->out[1]; j++)
            _mm_mask_storeu_epi8(y + (i * k->out[1] + j) * k->O, live, requantize(&e, sum[i][j]));
}

void pare_winograd_int8_output(const struct pare_winograd_int8 *k,
                               const struct pare_winograd_int8_part *p, int64_t panel, uint8_t *y)
{
    multiply(k, p, panel);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t c = panel * WIDE; c < panel * WIDE + WIDE && c < k->O; c += 16)
            output_tile(k, p->first + i, c, p->m + i * WIDE + c % WIDE, p->n * WIDE, y);
}

#else

bool pare_winograd_int8_can(const struct pare_backend *b)
{
    (void)b;
    return false;
}

void pare_winograd_int8_input(const struct pare_winograd_int8 *k,
                              const struct pare_winograd_int8_part *p, const uint8_t *x)
{
    (void)k, (void)p, (void)x;
}

void pare_winograd_int8_output(const struct pare_winograd_int8 *k,
                               const struct pare_winograd_int8_part *p, int64_t panel, uint8_t *y)
{
    (void)k, (void)p, (void)panel, (void)y;
}

#endif
