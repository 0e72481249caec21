/* schedule_constant.c - the learning rate stays as it is. */
#include "schedule.h"

static double lr(const void *conf, double base, const struct pare_when *when)
{
    (void)conf;
    (void)when;
    return base;
}

const struct pare_schedule pare_schedule_constant = {
    .abi = PARE_ABI,
    .name = "constant",
    .doc = "The learning rate stays as it is.",
    .lr = lr,
};
