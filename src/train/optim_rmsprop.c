/* optim_rmsprop.c - RMSprop (Hinton's lecture 6e, 2012), with PyTorch's formulas.
 *
 *     g = grad + weight_decay w
 *     v = alpha v + (1 - alpha) g^2
 *     a = alpha a + (1 - alpha) g, if centered; else a = 0
 *     d = g / (sqrt(v - a^2) + eps)
 *     w = w - lr d, or with momentum b = momentum b + d, w = w - lr b
 */
#include "optim.h"

#include <math.h>

#include "../base/options.h"
#include "../base/simd.h"

struct conf {
    double alpha, eps, weight_decay, momentum;
    bool centered;
};

enum { SQUARE, MOMENTUM, MEAN };

static const struct pare_opt opts[] = {
    PARE_FLOAT("alpha", offsetof(struct conf, alpha), "decay rate of the squared gradient's mean",
               0.99, 0, 1e30),
    PARE_FLOAT("eps", offsetof(struct conf, eps), "term added to the denominator", 1e-8, 0, 1e30),
    PARE_FLOAT("weight_decay", offsetof(struct conf, weight_decay),
               "L2 penalty: factor of the weight added to the gradient", 0, 0, 1e30),
    PARE_FLOAT("momentum", offsetof(struct conf, momentum), "momentum factor", 0, 0, 1e30),
    PARE_FLAG("centered", offsetof(struct conf, centered),
              "divide by the standard deviation instead of the root mean square", 0),
    PARE_OPT_END
};

static bool uses(const void *conf, int slot)
{
    const struct conf *c = conf;

    return slot == SQUARE || (slot == MOMENTUM ? c->momentum > 0 : c->centered);
}

struct rates {
    float rate, decay, clip, scale, alpha, rest, eps, momentum;
};

static struct rates rates(const struct conf *c, const struct pare_update *u)
{
    return (struct rates){ (float)u->lr,  (float)c->weight_decay, u->clip,
                           u->scale,      (float)c->alpha,        (float)(1 - c->alpha),
                           (float)c->eps, (float)c->momentum };
}

/* Inlined for each of the four cases, so that the branches are constant. */
static inline void pass(const struct rates *r, const struct pare_update *u, bool centered,
                        bool momentum)
{
    const float *restrict grad = u->grad;
    float *restrict w = u->w, *restrict v = u->slot[SQUARE];
    float *restrict b = u->slot[MOMENTUM], *restrict a = u->slot[MEAN];
    struct rates k = *r;

    for (int64_t i = 0; i < u->n; i++) {
        float g = pare_clipped(grad[i], k.clip, k.scale) + k.decay * w[i], d = 0;

        v[i] = k.alpha * v[i] + k.rest * (g * g);
        if (centered) {
            a[i] = k.alpha * a[i] + k.rest * g;
            d = v[i] - a[i] * a[i];
            d = d < 0 ? 0 : d; /* rounding, when all gradients were equal */
        } else {
            d = v[i];
        }
        d = g / (sqrtf(d) + k.eps);
        if (momentum)
            d = b[i] = k.momentum * b[i] + d;
        w[i] -= k.rate * d;
    }
}

PARE_SIMD static void run(const struct rates *r, const struct pare_update *u)
{
    if (u->slot[MEAN] && u->slot[MOMENTUM])
        pass(r, u, true, true);
    else if (u->slot[MEAN])
        pass(r, u, true, false);
    else if (u->slot[MOMENTUM])
        pass(r, u, false, true);
    else
        pass(r, u, false, false);
}

static void update(const void *conf, const struct pare_update *u)
{
    struct rates r = rates(conf, u);

    run(&r, u);
}

const struct pare_optimizer pare_optimizer_rmsprop = {
    .abi = PARE_ABI,
    .name = "rmsprop",
    .doc = "RMSprop, optionally centered and with momentum.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = 1e-3,
    .low_lr = 1e-3,
    .n_slots = 3,
    .slot_name = { "square_avg", "momentum_buffer", "grad_avg" },
    .uses = uses,
    .update = update,
};
