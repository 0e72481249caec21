/* schedule_onecycle.c - one-cycle policy: up to the learning rate, then down to almost 0.
 *
 * Smith and Topin, "Super-convergence", 2018, with PyTorch's phases:
 *     base / div_factor -> base -> base / div_factor / final_div_factor
 * or, with three_phase, through base / div_factor once more, in cosines or straight lines.  Here
 * base is what PyTorch calls max_lr.  Momentum is constant (PyTorch: cycle_momentum=False).
 */
#include "schedule.h"

#include <math.h>
#include <string.h>

#include "../base/options.h"

struct conf {
    double pct_start, div_factor, final_div_factor;
    const char *anneal;
    bool three_phase;
};

static const struct pare_opt opts[] = {
    PARE_FLOAT("pct_start", offsetof(struct conf, pct_start),
               "fraction of the training in which the rate rises", 0.3, 0, 1),
    PARE_FLOAT("div_factor", offsetof(struct conf, div_factor),
               "ratio of the learning rate to the initial rate", 25, 1e-30, 1e30),
    PARE_FLOAT("final_div_factor", offsetof(struct conf, final_div_factor),
               "ratio of the initial rate to the final rate", 1e4, 1e-30, 1e30),
    PARE_CHOICE("anneal", offsetof(struct conf, anneal), "shape of the phases", "cos",
                "cos|linear"),
    PARE_FLAG("three_phase", offsetof(struct conf, three_phase),
              "fall to the initial rate first, then to the final one", 0),
    PARE_OPT_END
};

static double lr(const void *conf, double base, const struct pare_when *when)
{
    const struct conf *c = conf;
    double total = (double)when->total_steps, rise = c->pct_start * total - 1;
    double low = base / c->div_factor, t = (double)when->step, part, start = 0;
    /* The ends of the phases, and the rates there. */
    double end[3] = { rise, c->three_phase ? 2 * c->pct_start * total - 2 : total - 1, total - 1 };
    double rate[4] = { low, base, c->three_phase ? low : low / c->final_div_factor,
                       low / c->final_div_factor };
    int phase = 0, last = c->three_phase ? 2 : 1;

    while (phase < last && t > end[phase])
        start = end[phase++];
    part = end[phase] > start ? (t - start) / (end[phase] - start) : 1;
    part = part > 1 ? 1 : part;
    if (!strcmp(c->anneal, "linear"))
        return rate[phase] + (rate[phase + 1] - rate[phase]) * part;
    return rate[phase + 1] +
           (rate[phase] - rate[phase + 1]) / 2 * (1 + cos(3.141592653589793 * part));
}

const struct pare_schedule pare_schedule_onecycle = {
    .abi = PARE_ABI,
    .name = "onecycle",
    .doc = "One-cycle policy: up to the learning rate, then down to almost 0.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
