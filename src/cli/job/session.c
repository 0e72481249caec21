/* session.c - a loaded model with inputs and a plan, ready to run. */
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model_intake.h"
#include "../../plan/plan_precision.h"

#include "../output_paths.h"

enum pare_precision pare_precision_of(const char *text)
{
    if (!strcmp(text, "bf16"))
        return PARE_PRECISION_BF16;
    return strcmp(text, "auto") ? PARE_PRECISION_F32 : PARE_PRECISION_AUTO;
}

int pare_session_open(struct pare_cli *c, const char *path, struct pare_session *s,
                      struct pare_err *err)
{
    *s = (struct pare_session){ .path = path };
    PARE_TRY(pare_cli_load(c, path, &s->model, err));
    PARE_TRY(pare_output_paths_model(c, s->model, NULL, err));
    s->n_out = pare_model_outputs(s->model, &s->io);
    s->out = pare_alloc(c->arena, (size_t)s->n_out, sizeof(*s->out));
    return s->out ? 0 : pare_no_memory(err, "for the outputs");
}

int pare_session_plan(struct pare_cli *c, struct pare_session *s, const struct pare_plan_opts *opts,
                      uint64_t seed, struct pare_err *err)
{
    struct pare_plan_opts o = *opts;
    double start;
    int rc;

    PARE_TRY(pare_at(err, pare_inputs_fill(c, &s->in, seed, err), "%s", s->path));
    o.in = s->in.t;
    start = pare_now();
    rc = pare_plan_make(s->model, &o, &s->plan, err);
    s->plan_seconds = pare_now() - start;
    return rc;
}

int pare_session_run(struct pare_session *s, struct pare_err *err)
{
    return pare_at(err, pare_plan_execute(s->plan, s->in.t, s->out, err), "%s", s->path);
}

int pare_session_measure_bf16(struct pare_session *s, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = s->plan->backend.threads, .in = s->in.t };
    struct pare_plan_build b = { .opts = &o, .compact = true, .microbatch = PARE_MICROBATCH_AUTO };

    if (!s->plan->backend.bf16 || s->plan->bf16_error >= 0)
        return 0;
    return pare_at(err, pare_plan_measure_bf16(s->plan, &b, s->in.t, err), "%s", s->path);
}

void pare_session_print_precision(const struct pare_session *s, const char *precision)
{
    const struct pare_plan *p = s->plan;
    const bool automatic = !strcmp(precision, "auto");

    if (p->backend.bf16)
        printf("precision bf16: relative error of the outputs %.2g (%.1f dB)%s\n", p->bf16_error,
               -20 * log10(fmax(p->bf16_error, 1e-12)),
               p->backend.has_bf16 ? "" : "; this CPU has no AVX512_BF16, so it is slow");
    else if (automatic && p->bf16_error >= 0)
        printf("precision f32: with bf16 the relative error of the outputs is %.2g, more than %g\n",
               p->bf16_error, PARE_BF16_ERROR);
    else if (automatic)
        printf("precision f32: %s\n", p->backend.has_bf16 ? "the outputs of bf16 cannot be compared"
                                                          : "this CPU has no AVX512_BF16");
}

void pare_session_json_precision(const struct pare_session *s, const char *precision, json_t *j)
{
    if (!j || !strcmp(precision, "f32"))
        return;
    json_object_set_new(j, "precision", json_string(s->plan->backend.bf16 ? "bf16" : "f32"));
    json_object_set_new(j, "bf16_error",
                        s->plan->bf16_error < 0 ? json_null()
                                                : pare_json_real(s->plan->bf16_error));
}

void pare_session_close(struct pare_session *s)
{
    pare_plan_free(s->plan);
    pare_model_free(s->model);
}
