/* schedule_multistep.c - multiply the learning rate by gamma at each milestone. */
#include "schedule.h"

#include <math.h>

#include "../base/options.h"

struct conf {
    struct pare_ints milestones;
    double gamma;
};

static const struct pare_opt opts[] = {
    { "milestones", "epochs at which the learning rate drops", PARE_OPT_INTS,
      offsetof(struct conf, milestones), 0, 0, 1e15, NULL, NULL, true, NULL },
    PARE_FLOAT("gamma", offsetof(struct conf, gamma), "factor of the learning rate at each drop",
               0.1, 0, 1e30),
    PARE_OPT_END
};

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
    .doc = "Multiply the learning rate by gamma at each epoch of milestones.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
