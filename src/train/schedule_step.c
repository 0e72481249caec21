/* schedule_step.c - multiply the learning rate by gamma every few epochs: base gamma^floor(epoch /
 * size). */
#include "schedule.h"

#include <math.h>

#include "../base/options.h"

struct conf {
    int64_t step_size;
    double gamma;
};

static const struct pare_opt opts[] = {
    PARE_INT("step_size", offsetof(struct conf, step_size), "epochs between drops", 10, 1, 1e15),
    PARE_FLOAT("gamma", offsetof(struct conf, gamma), "factor of the learning rate at each drop",
               0.1, 0, 1e30),
    PARE_OPT_END
};

static double lr(const void *conf, double base, const struct pare_when *when)
{
    const struct conf *c = conf;
    int64_t drops = when->step / when->epoch_steps / c->step_size;

    return base * pow(c->gamma, (double)drops);
}

const struct pare_schedule pare_schedule_step = {
    .abi = PARE_ABI,
    .name = "step",
    .doc = "Multiply the learning rate by gamma every step_size epochs.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
