/* runner.h - latency of models in another program, such as ONNX Runtime.
 *
 * A runner is a command that is called as
 *
 *     COMMAND --threads N --seconds X --shape NAME=1,3,32,32 ... MODEL.onnx ...
 *
 * with a --shape for every input.  It runs the models in turn for X seconds in all, on inputs of
 * its own, and prints the microseconds of one run of each model, one number per line; an exit code
 * other than 0 is an error.
 */
#ifndef PARE_SEARCH_RUNNER_H
#define PARE_SEARCH_RUNNER_H

#include "../onnx/model.h"

struct pare_plan;

struct pare_runner {
    struct pare_arena *arena;
    const char *command;           /* without its arguments */
    const char *folder;            /* temporary, for models */
    const char *script;            /* in that folder: ort_runner.mjs; NULL: the user's command */
    const struct pare_model *base; /* the original */
    int64_t batch;                 /* 0: 1 */
    int threads;                   /* 0: all cores */
    double base_us;                /* of the first measurement, to which others refer; 0: none */
    struct pare_err err;           /* of pare_runner_timer() */
};

/* command "ort": node with ort_runner.mjs.  Close it in any case. */
int pare_runner_open(struct pare_runner *r, const char *command, struct pare_err *err);
void pare_runner_close(struct pare_runner *r);

/* Microseconds of the original and of another model, in the same call. */
int pare_runner_race(struct pare_runner *r, const struct pare_model *m, double seconds,
                     double us[2], struct pare_err *err);

/* The `timer` of struct pare_cost_opts; user is a runner.  The runner's time of the whole model is
 * divided among the steps in proportion to the times of this engine: other programs do not say
 * which layer a time belongs to after they fused nodes.  A model's time is its ratio to the
 * original's in the same call times base_us, so that other load on the machine cancels. */
int pare_runner_timer(void *user, struct pare_plan *p, double *step_us, double *total_us);

/* Measure the table of times with the runner.  Then the error of the timer, if rc is one. */
struct pare_cost_opts;
void pare_runner_cost_opts(struct pare_runner *r, struct pare_cost_opts *o);
int pare_runner_error(const struct pare_runner *r, int rc, struct pare_err *err);

#endif
