/* loss_mse.c - squared error, the mean over all elements. */
#include "loss.h"

#include "../base/simd.h"

PARE_SIMD static double cost(const float *x, const float *t, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double d = (double)(x[i] - t[i]);

        sum += d * d;
    }
    return sum;
}

PARE_SIMD static void fill(const float *x, const float *t, float *grad, float rate, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        grad[i] = (x[i] - t[i]) * rate;
}

static int run(const void *conf, const struct pare_tensor *out, const struct pare_tensor *target,
               float *grad, double *loss, struct pare_err *err)
{
    int64_t n = pare_numel(out);

    (void)conf;
    PARE_TRY(pare_loss_check(out, target, err));
    *loss = n ? cost(pare_f32(out), pare_f32(target), n) / (double)n : 0;
    if (grad && n)
        fill(pare_f32(out), pare_f32(target), grad, (float)(2 / (double)n), n);
    return 0;
}

const struct pare_loss pare_loss_mse = {
    .abi = PARE_ABI,
    .name = "mse",
    .doc = "Mean squared error over all elements.",
    .labels = PARE_LABELS_TENSOR,
    .run = run,
};
