/* optim_sgd.c - stochastic gradient descent, with momentum.
 *
 *     g = grad + weight_decay w
 *     b = momentum b + (1 - dampening) g, but b = g in the first step
 *     w = w - lr (g + momentum b with nesterov, else b; g without momentum)
 */
#include "optim.h"

#include "../base/options.h"
#include "../base/simd.h"

struct conf {
    double momentum, dampening, weight_decay;
    bool nesterov;
};

static const struct pare_opt opts[] = {
    PARE_FLOAT("momentum", offsetof(struct conf, momentum), "momentum factor", 0, 0, 1e30),
    PARE_FLOAT("dampening", offsetof(struct conf, dampening), "dampening of the momentum", 0, -1e30,
               1e30),
    PARE_FLOAT("weight_decay", offsetof(struct conf, weight_decay),
               "L2 penalty: factor of the weight added to the gradient", 0, 0, 1e30),
    PARE_FLAG("nesterov", offsetof(struct conf, nesterov), "use Nesterov momentum", 0), PARE_OPT_END
};

static int check(const void *conf, struct pare_err *err)
{
    const struct conf *c = conf;

    if (c->nesterov && (c->momentum <= 0 || c->dampening != 0))
        return pare_fail(err, PARE_ECONFIG,
                         "nesterov needs momentum > 0 and dampening 0, "
                         "they are %g and %g",
                         c->momentum, c->dampening);
    return 0;
}

static bool uses(const void *conf, int slot)
{
    (void)slot;
    return ((const struct conf *)conf)->momentum > 0;
}

PARE_SIMD static void plain(const struct conf *c, const struct pare_update *u)
{
    float rate = (float)u->lr, decay = (float)c->weight_decay, clip = u->clip, scale = u->scale;
    const float *restrict grad = u->grad;
    float *restrict w = u->w;

    for (int64_t i = 0; i < u->n; i++)
        w[i] -= rate * (pare_clipped(grad[i], clip, scale) + decay * w[i]);
}

PARE_SIMD static void heavy(const struct conf *c, const struct pare_update *u)
{
    float rate = (float)u->lr, decay = (float)c->weight_decay, clip = u->clip, scale = u->scale;
    float old = u->step == 1 ? 0 : (float)c->momentum;
    float new = u->step == 1 ? 1 : (float)(1 - c->dampening);
    float from_b = c->nesterov ? (float)c->momentum : 1, from_g = c->nesterov ? 1 : 0;
    const float *restrict grad = u->grad;
    float *restrict w = u->w, *restrict b = u->slot[0];

    for (int64_t i = 0; i < u->n; i++) {
        float g = pare_clipped(grad[i], clip, scale) + decay * w[i];

        b[i] = old * b[i] + new *g;
        w[i] -= rate * (from_g * g + from_b * b[i]);
    }
}

static void update(const void *conf, const struct pare_update *u)
{
    if (u->slot[0])
        heavy(conf, u);
    else
        plain(conf, u);
}

const struct pare_optimizer pare_optimizer_sgd = {
    .abi = PARE_ABI,
    .name = "sgd",
    .doc = "Stochastic gradient descent, optionally with momentum.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = 0.01,
    .low_lr = 0.01,
    .n_slots = 1,
    .slot_name = { "momentum_buffer" },
    .check = check,
    .uses = uses,
    .update = update,
};
