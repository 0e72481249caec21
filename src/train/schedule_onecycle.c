/* schedule_onecycle.c - up to the learning rate, then down to almost nothing.
 *
 * Smith and Topin, "Super-convergence", 2018, with PyTorch's phases.  The rate goes
 *     base / div_factor -> base -> base / div_factor / final_div_factor
 * or, with three_phase, through base / div_factor once more, in cosines or straight lines.  Here
 * base is what PyTorch calls max_lr.  Momentum stays as it is (PyTorch: cycle_momentum=False).
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

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_FLOAT("pct_start", offsetof(struct conf, pct_start), "part of the training in which the rate rises", 0.3, 0, 1),
    PARE_FLOAT("div_factor", offsetof(struct conf, div_factor), "the rate starts at this part", 25, 1e-30, 1e30),
    PARE_FLOAT("final_div_factor", offsetof(struct conf, final_div_factor), "... and ends at this part of that", 1e4, 1e-30, 1e30),
    PARE_CHOICE("anneal", offsetof(struct conf, anneal), "how it gets there", "cos", "cos|linear"),
    PARE_FLAG("three_phase", offsetof(struct conf, three_phase), "fall as long as it rose, then to the end", 0),
    PARE_OPT_END
};
/* clang-format on */

static double lr(const void *conf, double base, const struct pare_when *when)
{
    const struct conf *c = conf;
    double total = (double)when->total_steps, rise = c->pct_start * total - 1;
    double low = base / c->div_factor, t = (double)when->step, part, start = 0;
    /* Where phases end, and the rates there. */
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
    .doc = "Up to the learning rate, then down to almost nothing.",
    .opts = opts,
    .conf_size = sizeof(struct conf),
    .lr = lr,
};
