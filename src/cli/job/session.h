/* session.h - a model that is ready to run: loaded, with inputs, compiled. */
#ifndef PARE_CLI_JOB_SESSION_H
#define PARE_CLI_JOB_SESSION_H

#include "../../base/clock.h"
#include "input.h"

/* Options of commands that make plans, for struct S with these fields; `on` is what they do when
 * nothing is said. */
/* clang-format off */
#define PARE_TUNE_OPTS(S, on)                                                                     \
    PARE_FLAG("tune", offsetof(S, tune), \
              "time the kernels that can run a layer, and use the fastest", on), \
    PARE_TEXT("choices", offsetof(S, choices), "FILE", \
              "file of kernels to use for layers, which gets those found by tuning", NULL)
/* clang-format on */

struct pare_session {
    const char *path;
    struct pare_model *model;
    struct pare_inputs in;
    struct pare_plan *plan;
    double plan_seconds; /* what compiling took */
    int n_out;
    const struct pare_io *io; /* the outputs as the file declares them */
    struct pare_tensor *out;  /* ... and as they are, after a run */
};

/* Load the model.  Close it in any case. */
int pare_session_open(struct pare_cli *c, const char *path, struct pare_session *s,
                      struct pare_err *err);

/* Random contents for inputs that have none, and a plan for their shapes. */
int pare_session_plan(struct pare_cli *c, struct pare_session *s, const struct pare_plan_opts *opts,
                      uint64_t seed, struct pare_err *err);

int pare_session_run(struct pare_session *s, struct pare_err *err);
void pare_session_close(struct pare_session *s);

#endif
