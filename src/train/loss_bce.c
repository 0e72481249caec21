/* loss_bce.c - binary cross-entropy of logits: each output is an independent yes or no.
 *
 * With target probability t and sigmoid s, -t log s(x) - (1 - t) log(1 - s(x)), computed as max(x,
 * 0) - x t + log(1 + exp(-|x|)), which avoids cancellation; the gradient is s(x) - t.  The mean
 * over all elements.
 */
#include "loss.h"

#include "../base/simd.h"
#include "../op/operator.h"
#include "../tensor/vmath.h"

PARE_SIMD static double cost(const float *x, const float *t, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float most = (x[i] > 0 ? x[i] : 0) - x[i] * t[i];

        sum += (double)(most + pare_log1p_unit(pare_expf(-fabsf(x[i]))));
    }
    return sum;
}

PARE_SIMD static void fill(const float *x, const float *t, float *grad, float rate, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        grad[i] = (pare_sigmoidf(x[i]) - t[i]) * rate;
}

static int run(const void *conf, const struct pare_tensor *out, const struct pare_tensor *target,
               float *grad, double *loss, struct pare_err *err)
{
    int64_t n = pare_numel(out);

    (void)conf;
    PARE_TRY(pare_loss_check(out, target, err));
    *loss = n ? cost(pare_f32(out), pare_f32(target), n) / (double)n : 0;
    if (grad && n)
        fill(pare_f32(out), pare_f32(target), grad, (float)(1 / (double)n), n);
    return 0;
}

const struct pare_loss pare_loss_bce = {
    .abi = PARE_ABI,
    .name = "bce",
    .doc = "Binary cross-entropy of logits: the mean over all elements.",
    .labels = PARE_LABELS_TENSOR,
    .logits = PARE_OP_SIGMOID,
    .run = run,
};
