/* session.h - a loaded model with inputs and a plan, ready to run. */
#ifndef PARE_CLI_JOB_SESSION_H
#define PARE_CLI_JOB_SESSION_H

#include <jansson.h>

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

/* The same for precision; struct S has a text of this name. */
#define PARE_PRECISION_OPT(S)                                                                     \
    PARE_CHOICE("precision", offsetof(S, precision), \
                "operands of products and convolutions: float32; bfloat16, faster with " \
                "AVX512_BF16; auto: bf16 if the CPU has it and the outputs agree", \
                "f32", "f32|bf16|auto")
/* clang-format on */

/* "f32", "bf16" or "auto". */
enum pare_precision pare_precision_of(const char *text);

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

/* The error of a bf16 plan, from a plan in float32, unless it is known. */
int pare_session_measure_bf16(struct pare_session *s, struct pare_err *err);

/* Print the precision of the plan and the error, if it was requested; as JSON members. */
void pare_session_print_precision(const struct pare_session *s, const char *precision);
void pare_session_json_precision(const struct pare_session *s, const char *precision, json_t *j);
void pare_session_close(struct pare_session *s);

#endif
