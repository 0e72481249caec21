/* schedule.c - the registry of learning-rate schedules, and the linear warm-up. */
#include "schedule.h"

#include <stddef.h>

#include "lookup.h"

#define SCHEDULE(name) extern const struct pare_schedule pare_schedule_##name;
#include "schedules.def"
#undef SCHEDULE

const struct pare_schedule *const pare_schedules[] = {
#define SCHEDULE(name) &pare_schedule_##name,
#include "schedules.def"
#undef SCHEDULE
    NULL
};

int pare_find_schedule(const char *name, const struct pare_schedule **type, struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    for (; pare_schedules[n] && n < PARE_LOOKUP_MAX; n++)
        names[n] = pare_schedules[n]->name;
    PARE_TRY(pare_lookup("schedule", name, names, n, &i, err));
    *type = pare_schedules[i];
    return 0;
}

double pare_lr(const struct pare_lr *s, int64_t step)
{
    int64_t tenth = s->total_steps / 10, usual = s->type->warmup < tenth ? s->type->warmup : tenth;
    int64_t warmup = s->warmup < 0 ? usual : s->warmup;
    double f = s->warmup_factor;
    struct pare_when when = { .step = step - warmup,
                              .epoch_steps = s->epoch_steps > 0 ? s->epoch_steps : 1,
                              .total_steps = s->total_steps - warmup };

    if (step < warmup)
        return s->base * (f + (1 - f) * (double)step / (double)warmup);
    return s->type->lr(s->conf, s->base, &when);
}
