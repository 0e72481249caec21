/* schedule.h - learning-rate schedules.
 *
 * A schedule is src/train/schedule_<name>.c with a descriptor at the bottom and one line in
 * schedules.def.  Formulas are PyTorch's closed forms, so that a resumed run needs no state but the
 * step.
 */
#ifndef PARE_TRAIN_SCHEDULE_H
#define PARE_TRAIN_SCHEDULE_H

#include <pare/plugin.h>

/* The position in training. */
struct pare_when {
    int64_t step;        /* updates done: 0 for the first one */
    int64_t epoch_steps; /* updates in an epoch, at least 1 */
    int64_t total_steps; /* updates in the whole training */
};

struct pare_schedule {
    uint32_t abi; /* PARE_ABI */
    const char *name, *doc;
    const struct pare_opt *opts;
    size_t conf_size;
    int64_t warmup; /* default steps of linear warm-up */

    /* The learning rate of the update after `step` others.  A pure function. */
    double (*lr)(const void *conf, double base, const struct pare_when *when);
};

extern const struct pare_schedule *const pare_schedules[]; /* ends with NULL */
extern const struct pare_schedule pare_schedule_constant;

/* By name; the error names the closest one. */
int pare_find_schedule(const char *name, const struct pare_schedule **type, struct pare_err *err);

/* A schedule after a linear warm-up (PyTorch's LinearLR and SequentialLR):
 *
 *     step < warmup:  base (f + (1 - f) step / warmup), f = warmup_factor
 *     else:           the schedule, its time starting at the end of the warm-up
 */
struct pare_lr {
    const struct pare_schedule *type;
    const void *conf; /* filled from type->opts */
    double base;
    int64_t epoch_steps, total_steps; /* total_steps includes the warm-up */
    int64_t warmup;                   /* steps; 0: none; -1: the default of the schedule, at most a
                                         tenth of the training */
    double warmup_factor;             /* of the first step, in [0, 1] */
};

double pare_lr(const struct pare_lr *s, int64_t step);

#endif
