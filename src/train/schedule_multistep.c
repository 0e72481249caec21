/* schedule_multistep.c - the learning rate drops at given epochs: base gamma^(those past). */
#include "schedule.h"

#include <math.h>

#include "../base/options.h"

struct conf {
    struct pare_ints milestones;
    double gamma;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    { "milestones", "epochs at which the rate drops", PARE_OPT_INTS, offsetof(struct conf, milestones), 0, 0, 1e15, NULL, NULL, true, NULL },
    PARE_FLOAT("gamma", offsetof(struct conf, gamma), "what the rate is multiplied by", 0.1, 0, 1e30),
    PARE_OPT_END
};
/* clang-format on */

static double lr(const void *conf, double base, const struct pare_when *when)
{
    const struct conf *c = conf;
    int past = 0;

    for (int i = 0; i < c->milestones.n; i++)
        past += c->milestones.v[i] <= when->step / when->epoch_steps;
    return base * pow(c->gamma, past);
}

const struct pare_schedule pare_schedule_multistep = {
    .abi = PARE_ABI,
    .name = "multistep",
    .doc = "The learning rate drops at the epochs named by milestones.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
