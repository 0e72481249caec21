/* panel.c - products with constant matrices that are packed by panels of columns. */
#include "panel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VEC __m512
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define ZERO() _mm512_setzero_ps()
#define ALL(a) _mm512_set1_ps(a)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define MIN(a, b) _mm512_min_ps(a, b)
#define BLOCK 16
#define ROWS 12
#define TARGET __attribute__((target("avx512f")))
#define NAME(x) x##_avx512
#include "panel_loops.h"

#define VEC __m256
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define ZERO() _mm256_setzero_ps()
#define ALL(a) _mm256_set1_ps(a)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define MIN(a, b) _mm256_min_ps(a, b)
#define BLOCK 8
#define ROWS 6
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(x) x##_avx2
#include "panel_loops.h"
#endif

/* Any machine, any block. */
static void all_plain(const struct pare_panel *p)
{
    const int64_t K = p->runs * p->run + p->last;

    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t b = 0; b < p->blocks; b++) {
            float sum[16] = { 0 };

            for (int c = 0; c < p->block && p->bias; c++)
                sum[c] = p->bias[b * p->block + c];
            for (int64_t k = 0; k < K; k++) {
                const float *w = p->w + (p->w_step ? k * p->w_step + b * p->block
                                                   : pare_panel_at(K, p->blocks, p->block, k,
                                                                   b * p->block));
                int64_t at = p->w_step ? k * p->x_step : k / p->run * p->x_run + k % p->run;
                float x = p->x[r * p->x_row + at];

                for (int c = 0; c < p->block; c++)
                    sum[c] += x * w[c];
            }
            for (int c = 0; c < p->block; c++) {
                int64_t at = r * p->y_row + b * p->y_block + c;
                float v = p->start ? sum[c] + p->start[at] : sum[c];

                v = p->clamp && v < p->low ? p->low : v;
                p->y[at] = p->clamp && v > p->high ? p->high : v;
            }
        }
}

void pare_panel_run(const struct pare_panel *p)
{
#if defined(__x86_64__)
    if (p->block == 16 && __builtin_cpu_supports("avx512f")) {
        all_avx512(p);
        return;
    }
    if (p->block == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        all_avx2(p);
        return;
    }
#endif
    all_plain(p);
}
