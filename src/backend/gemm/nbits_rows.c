/* nbits_rows.c - products of float32 rows with packed weights of 4 or 8 bits. */
#include "nbits_rows.h"

#include <string.h>

#include "../../base/simd.h"

#define CHUNK 64 /* bytes: two vectors of 8 words */
#define WORDS 16

typedef uint32_t words8 __attribute__((vector_size(32), aligned(1), may_alias));

/* ---- field order ---------------------------------------------------------------------------- */

static const float powers[8] = { 1, 0x1p-4f, 0x1p-8f, 0x1p-12f, 0x1p-16f, 0x1p-20f, 0x1p-24f, 1 };

int64_t pare_nbits_ordered(const struct pare_nbits *w)
{
    int64_t padded = pare_nbits_padded(w);

    return w->bits == 4 ? padded + padded / 8 : padded;
}

void pare_nbits_order(const struct pare_nbits *w, const float *x, float *to, float *sums)
{
    int64_t padded = pare_nbits_padded(w);

    for (int64_t k = 0; w->bits == 8 && k < padded; k++)
        to[k / 64 * 64 + k % 4 * WORDS + k % 64 / 4] = k < w->K ? x[k] : 0;
    for (int64_t c = 0; w->bits == 4 && c < padded; c += WORDS * 8, to += WORDS * 9)
        for (int l = 0; l < WORDS; l++) {
            float sum = 0;

            for (int f = 0; f < 8; f++) {
                int64_t k = c + l * 8 + f;
                float v = k < w->K ? x[k] : 0;

                sum += v;
                to[(f + 1) * WORDS + l] = v * powers[f];
            }
            to[l] = -8 * sum;
        }
    for (int64_t g = 0; sums && g < w->groups; g++) {
        int64_t from = g * w->group, end = from + w->group < w->K ? from + w->group : w->K;
        double sum = 0;

        for (int64_t k = from; k < end; k++)
            sum += (double)x[k];
        sums[g] = (float)sum;
    }
}

/* ---- scales of a chunk --------------------------------------------------------------------- */

/* The group of each word of a chunk; x is 0 for the words after the last group. */
static void groups_of(const struct pare_nbits *w, int64_t chunk, int64_t *group)
{
    int64_t fields = 32 / w->bits, first = chunk * WORDS * fields;

    for (int l = 0; l < WORDS; l++) {
        int64_t g = w->groups == 1 ? 0 : (first + l * fields) / w->group;

        group[l] = g < w->groups ? g : w->groups - 1;
    }
}

/* sv = the scales of the words of chunk c; `per`: words of a group, 0: any number.  The last group
 * ends within the chunk `cut`, the groups of whose words are in `of`. */
#define SCALES(sv, w, s, c, per, cut, of)                                                \
    do {                                                                                 \
        const float *g_ = (s) + (c)*WORDS / ((per) ? (per) : 1);                         \
                                                                                         \
        if ((c) == (cut) || !(per)) {                                                    \
            float each_[WORDS];                                                          \
                                                                                         \
            if (!(per))                                                                  \
                groups_of(w, c, of);                                                     \
            for (int l_ = 0; l_ < WORDS; l_++)                                           \
                each_[l_] = (s)[of[l_]];                                                 \
            sv[0] = PARE_V8(each_);                                                      \
            sv[1] = PARE_V8(each_ + 8);                                                  \
        } else if ((per) >= WORDS) {                                                     \
            sv[0] = sv[1] = PARE_ALL8(g_[0]);                                            \
        } else if ((per) == 8) {                                                         \
            sv[0] = PARE_ALL8(g_[0]);                                                    \
            sv[1] = PARE_ALL8(g_[1]);                                                    \
        } else if ((per) == 4) {                                                         \
            sv[0] = (pare_v8){ g_[0], g_[0], g_[0], g_[0], g_[1], g_[1], g_[1], g_[1] }; \
            sv[1] = (pare_v8){ g_[2], g_[2], g_[2], g_[2], g_[3], g_[3], g_[3], g_[3] }; \
        } else {                                                                         \
            sv[0] = (pare_v8){ g_[0], g_[0], g_[1], g_[1], g_[2], g_[2], g_[3], g_[3] }; \
            sv[1] = (pare_v8){ g_[4], g_[4], g_[5], g_[5], g_[6], g_[6], g_[7], g_[7] }; \
        }                                                                                \
    } while (0)

/* Does the last chunk have words after the last group? */
static bool is_cut(const struct pare_nbits *w, int64_t per, int64_t chunks)
{
    return per && per < WORDS && w->groups * per < chunks * WORDS;
}

/* Words of a group: 2, 4, 8, or any multiple of a chunk; else 0. */
static int64_t words_of(const struct pare_nbits *w)
{
    int64_t per = w->group * w->bits / 32;

    if (w->groups == 1)
        return (int64_t)1 << 40;
    return per == 2 || per == 4 || per == 8 || per % WORDS == 0 ? per : 0;
}

/* The chunk's words as two's complement; bytes beyond the row are 0. */
#define LOAD(q, src, left, flip)                           \
    do {                                                   \
        uint8_t tail_[CHUNK] = { 0 };                      \
                                                           \
        if ((left) >= CHUNK) {                             \
            q[0] = *(const words8 *)(src) ^ (flip);        \
            q[1] = *(const words8 *)((src) + 32) ^ (flip); \
        } else {                                           \
            memcpy(tail_, src, (size_t)(left));            \
            q[0] = *(const words8 *)tail_ ^ (flip);        \
            q[1] = *(const words8 *)(tail_ + 32) ^ (flip); \
        }                                                  \
    } while (0)

/* Field f of each word, as float. */
#define FIELD(q, BITS, f) \
    __builtin_convertvector((pare_m8)((q) << (32 - (BITS) * ((f) + 1))) >> (32 - (BITS)), pare_v8)

/* ---- products ------------------------------------------------------------------------------ */

static float sum_lanes(pare_v8 *v)
{
    const float *p = (const float *)v;
    float sum = 0;

    for (int i = 0; i < 8; i++)
        sum += p[i];
    return sum;
}

/* Add the products of one field of a chunk's words, a and b, with each row. */
#define ADD_FIELD(p, a, b, x, ROWS)                  \
    for (int r = 0; r < (ROWS); r++) {               \
        p[r][0] += (a)*PARE_V8((x) + r * j->xs);     \
        p[r][1] += (b)*PARE_V8((x) + r * j->xs + 8); \
    }

/* Unsigned fields of 4 bits times 16^f; the last one is shifted, since it contains the sign bit. */
#define REAL8(v) __builtin_convertvector((pare_m8)(v), pare_v8)

#define PRODUCTS4(p, q, x, ROWS)                                                      \
    do {                                                                              \
        pare_v8 a = REAL8(q[0] >> 28), b = REAL8(q[1] >> 28);                         \
                                                                                      \
        for (int r = 0; r < (ROWS); r++) {                                            \
            p[r][0] = PARE_V8((x) + r * j->xs);                                       \
            p[r][1] = PARE_V8((x) + r * j->xs + 8);                                   \
        }                                                                             \
        _Pragma("GCC unroll 8") for (int f = 0; f < 7; f++)                           \
        {                                                                             \
            pare_v8 c4 = REAL8(q[0] & 15u << 4 * f), d4 = REAL8(q[1] & 15u << 4 * f); \
                                                                                      \
            ADD_FIELD(p, c4, d4, (x) + (f + 1) * WORDS, ROWS)                         \
        }                                                                             \
        ADD_FIELD(p, a, b, (x) + 8 * WORDS, ROWS)                                     \
    } while (0)

#define PRODUCTS8(p, q, x, ROWS)                                  \
    do {                                                          \
        memset(p, 0, sizeof(p));                                  \
        _Pragma("GCC unroll 4") for (int f = 0; f < 4; f++)       \
        {                                                         \
            pare_v8 a = FIELD(q[0], 8, f), b = FIELD(q[1], 8, f); \
                                                                  \
            ADD_FIELD(p, a, b, (x) + f * WORDS, ROWS)             \
        }                                                         \
    } while (0)

#define DOT(name, BITS, ROWS)                                                              \
    PARE_SIMD static void name(const struct pare_nbits *w, const struct pare_nbits_job *j, \
                               int64_t from, int64_t to)                                   \
    {                                                                                      \
        int64_t per = words_of(w), chunks = pare_nbits_padded(w) / (512 / (BITS));         \
        int64_t cut = is_cut(w, per, chunks) ? chunks - 1 : chunks;                        \
        uint32_t flip = w->flip ^ ((BITS) == 4 ? 0x88888888u : 0);                         \
        int64_t of[WORDS];                                                                 \
                                                                                           \
        groups_of(w, chunks - 1, of);                                                      \
        for (int64_t n = from; n < to; n++) {                                              \
            const uint8_t *src = w->q + n * w->row_bytes;                                  \
            const float *s = w->scale + n * w->groups, *x = j->x;                          \
            pare_v8 acc[ROWS];                                                             \
                                                                                           \
            memset(acc, 0, sizeof(acc));                                                   \
            for (int64_t c = 0; c < chunks; c++, src += CHUNK) {                           \
                pare_v8 sv[2] = { { 0 } }, p[ROWS][2];                                     \
                words8 q[2];                                                               \
                                                                                           \
                LOAD(q, src, w->row_bytes - c * CHUNK, flip);                              \
                SCALES(sv, w, s, c, per, cut, of);                                         \
                PRODUCTS##BITS(p, q, x, ROWS);                                             \
                for (int r = 0; r < (ROWS); r++)                                           \
                    acc[r] += p[r][0] * sv[0] + p[r][1] * sv[1];                           \
                x += (BITS) == 4 ? 144 : 64;                                               \
            }                                                                              \
            for (int r = 0; r < (ROWS); r++)                                               \
                j->y[r * w->N + n] = sum_lanes(&acc[r]);                                   \
        }                                                                                  \
    }
DOT(dot4_1, 4, 1)
DOT(dot4_2, 4, 2)
DOT(dot4_4, 4, 4)
DOT(dot8_1, 8, 1)
DOT(dot8_2, 8, 2)
DOT(dot8_4, 8, 4)

/* y[n] += sum over groups of scale * shift * (sum of x). */
PARE_SIMD static void add_shifts(const struct pare_nbits *w, const float *sums, float *y,
                                 int64_t from, int64_t to)
{
    for (int64_t n = from; n < to; n++) {
        const float *s = w->scale + n * w->groups;
        const int16_t *d = w->shift + n * w->groups;
        float sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t g = 0; g < w->groups; g++)
            sum += s[g] * (float)d[g] * sums[g];
        y[n] += sum;
    }
}

void pare_nbits_dot(const struct pare_nbits *w, const struct pare_nbits_job *j, int64_t from,
                    int64_t to)
{
    struct pare_nbits_job part = *j;

    for (int r = 0; r < j->rows; r += part.rows) {
        int left = j->rows - r;

        part.x = j->x + r * j->xs;
        part.y = j->y + r * w->N;
        part.rows = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (w->bits == 4)
            (part.rows == 4 ? dot4_4 : part.rows == 2 ? dot4_2 : dot4_1)(w, &part, from, to);
        else
            (part.rows == 4 ? dot8_4 : part.rows == 2 ? dot8_2 : dot8_1)(w, &part, from, to);
    }
    for (int r = 0; r < j->rows && w->shift; r++)
        add_shifts(w, j->sums + r * w->groups, j->y + r * w->N, from, to);
}

/* ---- dequantize ----------------------------------------------------------------------------- */

PARE_SIMD static void dequantize4(const uint8_t *restrict q, int64_t n, unsigned flip,
                                  const float k[2], float *restrict to)
{
    float scale = k[0], shift = k[1];

    for (int64_t i = 0; i < n / 2; i++) {
        unsigned v = q[i] ^ flip;

        to[2 * i] = ((float)((int8_t)(v << 4) >> 4) + shift) * scale;
        to[2 * i + 1] = ((float)((int8_t)v >> 4) + shift) * scale;
    }
    if (n & 1)
        to[n - 1] = ((float)((int8_t)((q[n / 2] ^ flip) << 4) >> 4) + shift) * scale;
}

PARE_SIMD static void dequantize8(const uint8_t *restrict q, int64_t n, unsigned flip,
                                  const float k[2], float *restrict to)
{
    float scale = k[0], shift = k[1];

    for (int64_t i = 0; i < n; i++)
        to[i] = ((float)(int8_t)(q[i] ^ flip) + shift) * scale;
}

void pare_nbits_dequantize(const struct pare_nbits *w, int64_t n, float *to)
{
    const uint8_t *q = w->q + n * w->row_bytes;

    for (int64_t g = 0; g < w->groups; g++) {
        int64_t from = g * w->group, left = w->K - from, i = n * w->groups + g;
        const float k[2] = { w->scale[i], w->shift ? (float)w->shift[i] : 0 };

        (w->bits == 4 ? dequantize4 : dequantize8)(q + from * w->bits / 8,
                                                   left < w->group ? left : w->group, w->flip & 255,
                                                   k, to + from);
    }
}
