/* winograd_int8.c - int8 3x3 convolutions by Winograd's F(4x4, 3x3), exact. */
#include "winograd_int8.h"

#include "../simd/unroll_cases.h"

#define WIDE PARE_WINOGRAD_INT8_PANEL

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

bool pare_winograd_int8_can(const struct pare_backend *b)
{
    (void)b;
    return __builtin_cpu_supports("avx2");
}

bool pare_winograd_int8_wide(const struct pare_backend *b)
{
    return b->vnni && b->block == 16 && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
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

struct product {
    const int16_t *v, *u;
    int64_t row, pairs; /* of v; pairs to multiply */
    int32_t *m;
};

#include "../simd/ints512.h"
#define ROWS 12
#define ROW_CASES(...) PARE_CASES_12(__VA_ARGS__)
#include "winograd_int8_loops.h"
#undef ROWS
#undef ROW_CASES
#include "../simd/ints_end.h"

#include "../simd/ints256.h"
#define ROWS 6 /* 12 sums, 2 vectors of u, a pair of v and a product in 16 registers */
#define ROW_CASES(...) PARE_CASES_6(__VA_ARGS__)
#include "winograd_int8_loops.h"
#undef ROWS
#undef ROW_CASES
#include "../simd/ints_end.h"

void pare_winograd_int8_input(const struct pare_winograd_int8 *k,
                              const struct pare_winograd_int8_part *p, const uint8_t *x)
{
    int64_t row = pare_winograd_int8_pairs(k->C) * 2;
    const uint8_t *at[36];

    for (int64_t i = p->from; i < p->to; i++) {
        tile_pixels(k, p->first + i, x, at);
        (k->wide ? input_tile_avx512 : input_tile_avx2)(k, at, p->n * row, p->v + i * row);
    }
}

void pare_winograd_int8_output(const struct pare_winograd_int8 *k,
                               const struct pare_winograd_int8_part *p, int64_t panel, uint8_t *y)
{
    (k->wide ? output_panel_avx512 : output_panel_avx2)(k, p, panel, y);
}

#else

bool pare_winograd_int8_can(const struct pare_backend *b)
{
    (void)b;
    return false;
}

bool pare_winograd_int8_wide(const struct pare_backend *b)
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
