/* schedule_constant.c - a constant learning rate. */
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
    .doc = "A constant learning rate.",
    .lr = lr,
};
