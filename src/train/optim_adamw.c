/* optim_adamw.c - AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
 *
 * Adam's update of w (1 - lr weight_decay); the decay is not part of the gradient.
 */
#include "optim_adam.h"

#include "../base/options.h"

static const struct pare_opt opts[] = {
    PARE_FLOAT("beta1", offsetof(struct pare_adam, beta1), "decay rate of the gradient's mean", 0.9,
               0, 1 - 1e-12),
    PARE_FLOAT("beta2", offsetof(struct pare_adam, beta2),
               "decay rate of the squared gradient's mean", 0.999, 0, 1 - 1e-12),
    PARE_FLOAT("eps", offsetof(struct pare_adam, eps), "term added to the denominator", 1e-8, 0,
               1e30),
    PARE_FLOAT("weight_decay", offsetof(struct pare_adam, weight_decay),
               "decoupled weight decay, times the learning rate", 0.01, 0, 1e30),
    PARE_OPT_END
};

static void update(const void *conf, const struct pare_update *u)
{
    const struct pare_adam *c = conf;

    pare_adam_update(c, u, 0, 1 - u->lr * c->weight_decay);
}

const struct pare_optimizer pare_optimizer_adamw = {
    .abi = PARE_ABI,
    .name = "adamw",
    .doc = "Adam with decoupled weight decay.",
    .opts = opts,
    .conf_size = sizeof(struct pare_adam),
    .lr = 3e-3,
    .low_lr = 5e-4,
    .n_slots = 2,
    .slot_name = { "exp_avg", "exp_avg_sq" },
    .update = update,
};
