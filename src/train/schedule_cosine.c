/* schedule_cosine.c - cosine annealing from the base to the minimum learning rate.
 *
 *     min_lr + (base - min_lr) (1 + cos(pi t / T)) / 2
 *
 * Loshchilov and Hutter, "SGDR", 2017.  T is t_max epochs, or the whole training; t is counted in
 * steps, or in whole epochs as is common with PyTorch.  After t_max epochs it rises again, as
 * PyTorch's does.  With `restart`, t starts again after T = restart epochs, each time with
 * restart_mult times the last T (PyTorch's CosineAnnealingWarmRestarts).
 */
#include "schedule.h"

#include <math.h>
#include <string.h>

#include "../base/options.h"

struct conf {
    int64_t t_max;
    double min_lr;
    const char *by;
    int64_t restart, restart_mult;
};

static const struct pare_opt opts[] = {
    PARE_INT("t_max", offsetof(struct conf, t_max),
             "epochs until the minimum (0 = the whole training)", 0, 0, 1e15),
    PARE_FLOAT("min_lr", offsetof(struct conf, min_lr), "minimum learning rate", 0, 0, 1e30),
    PARE_INT("restart", offsetof(struct conf, restart),
             "epochs until the rate starts again from the top (0 = never)", 0, 0, 1e9),
    PARE_INT("restart_mult", offsetof(struct conf, restart_mult),
             "epochs after a restart, relative to those before", 1, 1, 1000),
    PARE_CHOICE("by", offsetof(struct conf, by), "update the rate every epoch or every step",
                "step", "epoch|step"),
    PARE_OPT_END
};

/* The time since the last restart, and until the next one from there. */
static void find_period(const struct conf *c, double *t, double *T)
{
    *T = (double)c->restart;
    if (c->restart_mult <= 1)
        *t = fmod(*t, *T);
    for (; *t >= *T; *T *= (double)c->restart_mult)
        *t -= *T;
}

static double lr(const void *conf, double base, const struct pare_when *when)
{
    const struct conf *c = conf;
    double per = (double)when->epoch_steps, t = (double)when->step / per;
    double T = c->t_max ? (double)c->t_max : (double)when->total_steps / per;

    if (!strcmp(c->by, "epoch")) {
        int64_t epoch = when->step / when->epoch_steps;

        t = (double)epoch;
    }
    if (c->restart)
        find_period(c, &t, &T);
    if (!(T > 0))
        return base;
    if (!c->t_max && t > T)
        t = T;
    return c->min_lr + (base - c->min_lr) * (1 + cos(3.141592653589793 * t / T)) / 2;
}

const struct pare_schedule pare_schedule_cosine = {
    .abi = PARE_ABI,
    .name = "cosine",
    .doc = "Cosine annealing from the learning rate to min_lr.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .warmup = 20,
    .lr = lr,
};
