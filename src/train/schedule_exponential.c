/* schedule_exponential.c - the learning rate falls by the same factor every epoch: base gamma^t.
 *
 * t is the epoch; or, by steps, the same curve without its stairs.
 */
#include "schedule.h"

#include <math.h>
#include <string.h>

#include "../base/options.h"

struct conf {
    double gamma;
    const char *by;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_FLOAT("gamma", offsetof(struct conf, gamma), "what the rate is multiplied by in an epoch", 0.95, 0, 1e30),
    PARE_CHOICE("by", offsetof(struct conf, by), "when the rate changes", "epoch", "epoch|step"),
    PARE_OPT_END
};
/* clang-format on */

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
    .doc = "The learning rate falls by the same factor every epoch.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
