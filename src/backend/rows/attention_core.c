/* attention_core.c - pack the matrices of attention; softmax of scores. */
#include "attention_core.h"

#include <math.h>

#include "../gemm/gemm_packed.h"
#include "../simd/transpose8x8.h"

#include "../../tensor/vmath.h"

#define NARROW PARE_ATTENTION_NARROW

static void pack_strided(const struct pare_attention_head *x, int64_t first, int block,
                         int64_t step, float *to)
{
    for (int64_t t = 0; t < x->T; t++)
        for (int c = 0; c < block; c++)
            to[t * step + c] = x->at[t * x->step + (first + c) * x->element_stride];
}

PARE_SIMD static void pack_contiguous(const float *from, int64_t T, int64_t from_step, int block,
                                      int64_t step, float *to)
{
    for (int64_t t = 0; t < T; t++, to += step, from += from_step)
        for (int c = 0; c < block; c += 8)
            PARE_PUT8(to + c, PARE_V8(from + c));
}

void pare_attention_pack(const struct pare_attention_head *x, int block, float *to)
{
    const int64_t blocks = x->D / block;

    for (int64_t b = 0; b < blocks; b++) {
        float *at = to + pare_packed_gemm_at(x->T, blocks, block, 0, b * block);
        int64_t step = (b / 2 * 2 + 1 < blocks ? 2 : 1) * block;

        if (x->element_stride == 1)
            pack_contiguous(x->at + b * block, x->T, x->step, block, step, at);
        else
            pack_strided(x, b * block, block, step, at);
    }
}

/* Up to 8 tokens from `first` on, their elements contiguous. */
PARE_SIMD static void transpose_contiguous(const struct pare_attention_head *x, int64_t first,
                                           int64_t step, float *to)
{
    const float zeros[8] = { 0 };
    const float *row[8];

    for (int64_t i = 0; i < 8; i++)
        row[i] = first + i < x->T ? x->at + (first + i) * x->step : zeros;
    for (int64_t d = 0; d < x->D; d += 8) {
        pare_v8 r[8];

        for (int64_t i = 0; i < 8; i++)
            r[i] = PARE_V8(row[i] + (row[i] == zeros ? 0 : d));
        pare_transpose8x8(r);
        for (int64_t i = 0; i < 8; i++)
            PARE_PUT8(to + (d + i) * step, r[i]);
    }
}

static void transpose_strided(const struct pare_attention_head *x, int64_t first, int64_t step,
                              float *to)
{
    for (int64_t d = 0; d < x->D; d++)
        for (int64_t i = 0; i < 8; i++)
            to[d * step + i] = first + i < x->T
                                   ? x->at[(first + i) * x->step + d * x->element_stride]
                                   : 0;
}

void pare_attention_pack_transposed(const struct pare_attention_head *x, float *to)
{
    const int64_t blocks = (x->T + NARROW - 1) / NARROW;

    for (int64_t b = 0; b < blocks; b++) {
        float *at = to + pare_packed_gemm_at(x->D, blocks, NARROW, 0, b * NARROW);
        int64_t step = (b / 2 * 2 + 1 < blocks ? 2 : 1) * NARROW;

        if (x->element_stride == 1)
            transpose_contiguous(x, b * NARROW, step, at);
        else
            transpose_strided(x, b * NARROW, step, at);
    }
}

PARE_SIMD void pare_attention_softmax(float *x, int64_t n, float scale)
{
    float most = -INFINITY, sum = 0;

#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        x[i] *= scale;
        most = x[i] > most ? x[i] : most;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        x[i] = pare_expf(x[i] - most);
        sum += x[i];
    }
    sum = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        x[i] *= sum;
}
