/* session.h - a loaded model with inputs and a plan, ready to run. */
#ifndef PARE_CLI_JOB_SESSION_H
#define PARE_CLI_JOB_SESSION_H

#include "../../base/clock.h"
#include "input.h"

/* Tuning options of commands that make plans; struct S has the fields `tune` and `choices`, `on` is
 * the default of --tune. */
/* clang-format off */
#define PARE_TUNE_OPTS(S, on)                                                                     \
    PARE_FLAG("tune", offsetof(S, tune), \
              "measure the kernels that can run a layer and use the fastest", on), \
    PARE_TEXT("choices", offsetof(S, choices), "FILE", \
              "read kernel choices from FILE and add those found by tuning", NULL)
/* clang-format on */

struct pare_session {
    const char *path;
    struct pare_model *model;
    struct pare_inputs in;
    struct pare_plan *plan;
    double plan_seconds; /* time spent in pare_plan_new() */
    int n_out;
    const struct pare_io *io; /* outputs as declared in the file */
    struct pare_tensor *out;  /* outputs of the last run */
};

/* Load the model.  Close the session even if this fails. */
int pare_session_open(struct pare_cli *c, const char *path, struct pare_session *s,
                      struct pare_err *err);

/* Fill inputs without data at random and make a plan for the shapes. */
int pare_session_plan(struct pare_cli *c, struct pare_session *s, const struct pare_plan_opts *opts,
                      uint64_t seed, struct pare_err *err);

int pare_session_run(struct pare_session *s, struct pare_err *err);
void pare_session_close(struct pare_session *s);

#endif
