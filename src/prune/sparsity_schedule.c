/* sparsity_schedule.c - formulas of sparsity schedules, see sparsity_schedule.h. */
#include "sparsity_schedule.h"

#include <math.h>

double pare_sparsity_linear(double done)
{
    return done;
}

double pare_sparsity_cubic(double done)
{
    return 1 - (1 - done) * (1 - done) * (1 - done);
}

double pare_sparsity_times(pare_curve *curve, double goal, int64_t i, int64_t n)
{
    if (i <= 0)
        return 0;
    return i >= n ? goal : goal * curve((double)i / (double)n);
}

int64_t pare_sparsity_span(const struct pare_epochs *p)
{
    return p->end > p->start ? (p->end - p->start - 1) / p->every * p->every : 0;
}

double pare_sparsity_epochs(const struct pare_epochs *p, pare_curve *curve, int64_t epoch)
{
    int64_t span = pare_sparsity_span(p), t = epoch - p->start;

    if (span <= 0 || p->from >= p->to || t >= span)
        return p->to;
    return t <= 0 ? p->from : p->from + (p->to - p->from) * curve((double)t / (double)span);
}

int pare_sparsity_due(const struct pare_epochs *p, int64_t epoch)
{
    return epoch >= p->start && (epoch - p->start) % p->every == 0;
}

double pare_sparsity_rounds(double goal, int64_t i, int64_t n)
{
    return i >= n ? goal : 1 - pow(1 - goal, (double)i / (double)n);
}

double pare_sparsity_of_rest(double t, double c)
{
    return c < 1 && t > c ? (t - c) / (1 - c) : 0;
}

double pare_sparsity_window(int64_t step, int64_t warm, int64_t cool)
{
    if (step <= warm)
        return 0;
    return step >= cool ? 1 : pare_sparsity_cubic((double)(step - warm) / (double)(cool - warm));
}
