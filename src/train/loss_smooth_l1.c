/* loss_smooth_l1.c - squared error near 0, absolute error further out (Huber).
 *
 * With d = x - t: d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; the gradient is d / beta
 * clamped to [-1, 1].  beta 0 is l1.  The mean over all elements.
 */
#include "loss.h"

#include <math.h>

#include "../base/options.h"
#include "../base/simd.h"

struct conf {
    double beta;
};

static const struct pare_opt opts[] = { PARE_FLOAT("beta", offsetof(struct conf, beta),
                                                   "difference above which the error is absolute",
                                                   1, 0, 1e30),
                                        PARE_OPT_END };

PARE_SIMD static double cost(const float *x, const float *t, float beta, int64_t n)
{
    float half = 0.5f * beta, inv = beta > 0 ? 0.5f / beta : 0;
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float d = fabsf(x[i] - t[i]);

        sum += (double)(d < beta ? d * d * inv : d - half);
    }
    return sum;
}

PARE_SIMD static void fill(const float *x, const float *t, float *grad, float beta, float rate,
                           int64_t n)
{
    float inv = beta > 0 ? rate / beta : 0;

    for (int64_t i = 0; i < n; i++) {
        float d = x[i] - t[i], far = d > 0 ? rate : d < 0 ? -rate : d * 0;

        grad[i] = fabsf(d) < beta ? d * inv : far;
    }
}

static int run(const void *conf, const struct pare_tensor *out, const struct pare_tensor *target,
               float *grad, double *loss, struct pare_err *err)
{
    float beta = (float)((const struct conf *)conf)->beta;
    int64_t n = pare_numel(out);

    PARE_TRY(pare_loss_check(out, target, err));
    *loss = n ? cost(pare_f32(out), pare_f32(target), beta, n) / (double)n : 0;
    if (grad && n)
        fill(pare_f32(out), pare_f32(target), grad, beta, (float)(1 / (double)n), n);
    return 0;
}

const struct pare_loss pare_loss_smooth_l1 = {
    .abi = PARE_ABI,
    .name = "smooth_l1",
    .doc = "Squared error below beta, absolute error above: the mean over all elements.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .labels = PARE_LABELS_TENSOR,
    .run = run,
};
