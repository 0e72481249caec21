/* loss_kl.c - Kullback-Leibler divergence of target probabilities t from the model's.
 *
 * The model's output x is log-probabilities.  Each element costs t (log t - x), 0 where t is 0;
 * with log_target, t is given as its logarithm.  The gradient is -t.  As PyTorch's default the mean
 * is over all elements; "batchmean" divides by dimension 0 only, which is the textbook definition.
 */
#include "loss.h"

#include <string.h>

#include "../base/options.h"
#include "../base/simd.h"
#include "../tensor/vmath.h"

struct conf {
    const char *reduction;
    bool log_target;
};

static const struct pare_opt opts[] = {
    PARE_CHOICE("reduction", offsetof(struct conf, reduction),
                "divide by the number of elements, or by the batch size", "mean", "mean|batchmean"),
    PARE_FLAG("log_target", offsetof(struct conf, log_target), "the target is log-probabilities",
              0),
    PARE_OPT_END
};

PARE_SIMD static double cost(const float *x, const float *t, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)(t[i] == 0 ? 0 : t[i] * (pare_logf(t[i]) - x[i]));
    return sum;
}

PARE_SIMD static double log_cost(const float *x, const float *t, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)(pare_expf(t[i]) * (t[i] - x[i]));
    return sum;
}

PARE_SIMD static void fill(const float *t, float *grad, float rate, bool logs, int64_t n)
{
    if (logs)
        for (int64_t i = 0; i < n; i++)
            grad[i] = pare_expf(t[i]) * -rate;
    else
        for (int64_t i = 0; i < n; i++)
            grad[i] = t[i] * -rate;
}

static int run(const void *conf, const struct pare_tensor *out, const struct pare_tensor *target,
               float *grad, double *loss, struct pare_err *err)
{
    const struct conf *c = conf;
    const float *x = pare_f32(out), *t = pare_f32(target);
    int64_t n = pare_numel(out), of = n;

    PARE_TRY(pare_loss_check(out, target, err));
    if (!strcmp(c->reduction, "batchmean"))
        of = out->rank ? out->dim[0] : 1;
    *loss = 0;
    if (!n)
        return 0;
    *loss = (c->log_target ? log_cost(x, t, n) : cost(x, t, n)) / (double)of;
    if (grad)
        fill(t, grad, (float)(1 / (double)of), c->log_target, n);
    return 0;
}

const struct pare_loss pare_loss_kl = {
    .abi = PARE_ABI,
    .name = "kl",
    .doc = "Kullback-Leibler divergence; the output is log-probabilities.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .labels = PARE_LABELS_PROBABILITY,
    .run = run,
};
