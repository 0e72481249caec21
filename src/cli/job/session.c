/* session.c - a loaded model with inputs and a plan, ready to run. */
#include "session.h"

#include "model_intake.h"
#include "../../plan/plan.h"

#include "../output_paths.h"

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

void pare_session_close(struct pare_session *s)
{
    pare_plan_free(s->plan);
    pare_model_free(s->model);
}
