/* schedule_exponential.c - exponential decay of the learning rate: base gamma^t.
 *
 * t is the epoch, or with by=step a fraction of it.
 */
#include "schedule.h"

#include <math.h>
#include <string.h>

#include "../base/options.h"

struct conf {
    double gamma;
    const char *by;
};

static const struct pare_opt opts[] = {
    PARE_FLOAT("gamma", offsetof(struct conf, gamma), "factor of the learning rate per epoch", 0.95,
               0, 1e30),
    PARE_CHOICE("by", offsetof(struct conf, by), "update the rate every epoch or every step",
                "epoch", "epoch|step"),
    PARE_OPT_END
};

static double lr(const void *conf, double base, const struct pare_when *when)
{
    const struct conf *c = conf;
    int64_t epoch = when->step / when->epoch_steps;
    double t = (double)epoch;

    if (!strcmp(c->by, "step"))
        t = (double)when->step / (double)when->epoch_steps;
    return base * pow(c->gamma, t);
}

const struct pare_schedule pare_schedule_exponential = {
    .abi = PARE_ABI,
    .name = "exponential",
    .doc = "Multiply the learning rate by gamma every epoch.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
