/* panel.c - products with constant matrices that are packed by panels of columns. */
#include "panel.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define VEC __m512
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define ZERO() _mm512_setzero_ps()
#define ALL(a) _mm512_set1_ps(a)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
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
#define BLOCK 8
#define ROWS 6
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(x) x##_avx2
#include "panel_loops.h"
#endif

/* Any machine, any block. */
static void all_plain(const struct pare_panel *p)
{
    const int64_t K = p->runs * p->run;

    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t b = 0; b < p->blocks; b++) {
            float sum[16] = { 0 };

            for (int64_t k = 0; k < K; k++) {
                const float *w = p->w + pare_panel_at(K, p->blocks, p->block, k, b * p->block);
                float x = p->x[r * p->x_row + k / p->run * p->x_run + k % p->run];

                for (int c = 0; c < p->block; c++)
                    sum[c] += x * w[c];
            }
            for (int c = 0; c < p->block; c++)
                p->y[r * p->y_row + b * p->y_block + c] = sum[c];
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
