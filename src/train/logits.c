/* logits.c - softmax over one axis, for losses. */
#include "logits.h"

#include "../base/simd.h"
#include "../tensor/vmath.h"

struct pare_logits pare_logits(const struct pare_tensor *t, int axis)
{
    struct pare_logits l = { 1, t->dim[axis], 1 };

    for (int i = 0; i < axis; i++)
        l.N *= t->dim[i];
    for (int i = axis + 1; i < t->rank; i++)
        l.inner *= t->dim[i];
    return l;
}

/* One position whose classes are neighbors.  The maximum is computed by lanes, since compilers do
 * not vectorize a float maximum. */
PARE_SIMD static void row(const float *x, int64_t C, float scale, struct pare_softmax *s)
{
    float lane[16], max;
    double sum = 0;
    int64_t c = 0;

    for (int j = 0; j < 16; j++)
        lane[j] = -INFINITY;
    for (; c + 16 <= C; c += 16)
        for (int j = 0; j < 16; j++)
            lane[j] = scale * x[c + j] > lane[j] ? scale * x[c + j] : lane[j];
    for (; c < C; c++)
        lane[0] = scale * x[c] > lane[0] ? scale * x[c] : lane[0];
    max = lane[0];
    for (int j = 1; j < 16; j++)
        max = lane[j] > max ? lane[j] : max;
#pragma omp simd reduction(+ : sum)
    for (c = 0; c < C; c++)
        sum += (double)pare_expf(scale * x[c] - max);
    s->max[0] = max;
    s->sum[0] = sum;
}

PARE_SIMD static void tile(const float *x, int64_t C, int64_t stride, int width, float scale,
                           struct pare_softmax *s)
{
    for (int j = 0; j < width; j++) {
        s->max[j] = -INFINITY;
        s->sum[j] = 0;
    }
    for (int64_t c = 0; c < C; c++)
        for (int j = 0; j < width; j++) {
            float v = scale * x[c * stride + j];

            s->max[j] = v > s->max[j] ? v : s->max[j];
        }
    for (int64_t c = 0; c < C; c++)
        for (int j = 0; j < width; j++)
            s->sum[j] += (double)pare_expf(scale * x[c * stride + j] - s->max[j]);
}

void pare_softmax_tile(const float *x, int64_t C, int64_t stride, int width, float scale,
                       struct pare_softmax *s)
{
    if (stride == 1)
        row(x, C, scale, s);
    else
        tile(x, C, stride, width, scale, s);
}
