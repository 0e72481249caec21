/* optim_adam.c - Adam: Kingma and Ba, "Adam: a method for stochastic optimization", 2015.
 *
 *     g = grad + weight_decay w
 *     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
 *     w = w - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)
 */
#include "optim_adam.h"

#include <math.h>

#include "../base/options.h"
#include "../base/simd.h"

static const struct pare_opt opts[] = {
    PARE_FLOAT("beta1", offsetof(struct pare_adam, beta1), "decay rate of the gradient's mean", 0.9,
               0, 1 - 1e-12),
    PARE_FLOAT("beta2", offsetof(struct pare_adam, beta2),
               "decay rate of the squared gradient's mean", 0.999, 0, 1 - 1e-12),
    PARE_FLOAT("eps", offsetof(struct pare_adam, eps), "term added to the denominator", 1e-8, 0,
               1e30),
    PARE_FLOAT("weight_decay", offsetof(struct pare_adam, weight_decay),
               "L2 penalty: factor of the weight added to the gradient", 0, 0, 1e30),
    PARE_OPT_END
};

PARE_SIMD void pare_adam_update(const struct pare_adam *c, const struct pare_update *u, double l2,
                                double keep)
{
    double c1 = 1 - pow(c->beta1, (double)u->step), c2 = 1 - pow(c->beta2, (double)u->step);
    float b1 = (float)c->beta1, b2 = (float)c->beta2, a1 = (float)(1 - c->beta1);
    float a2 = (float)(1 - c->beta2), rate = (float)(u->lr / c1), root = (float)(1 / sqrt(c2));
    float eps = (float)c->eps, decay = (float)l2, stay = (float)keep;
    float clip = u->clip, scale = u->scale;
    const float *restrict grad = u->grad;
    float *restrict w = u->w, *restrict m = u->slot[0], *restrict v = u->slot[1];

    for (int64_t i = 0; i < u->n; i++) {
        float x = w[i] * stay, g = pare_clipped(grad[i], clip, scale) + decay * x;

        m[i] = b1 * m[i] + a1 * g;
        v[i] = b2 * v[i] + a2 * (g * g);
        w[i] = x - rate * (m[i] / (sqrtf(v[i]) * root + eps));
    }
}

static void update(const void *conf, const struct pare_update *u)
{
    const struct pare_adam *c = conf;

    pare_adam_update(c, u, c->weight_decay, 1);
}

const struct pare_optimizer pare_optimizer_adam = {
    .abi = PARE_ABI,
    .name = "adam",
    .doc = "Adam; weight decay is added to the gradient.",
    .opts = opts,
    .conf_size = sizeof(struct pare_adam),
    .lr = 3e-3,
    .low_lr = 5e-4,
    .n_slots = 2,
    .slot_name = { "exp_avg", "exp_avg_sq" },
    .update = update,
};
