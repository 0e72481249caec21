/* plan_api.c - pare_plan_new() and pare_plan_run() of <pare/pare.h>: checked counts. */
#include "plan.h"

#include <string.h>

#include "../base/sized.h"

int pare_plan_new(const struct pare_model *model, const struct pare_plan_opts *opts,
                  struct pare_plan **plan, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_plan_opts o;

    *plan = NULL;
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    if (o.in && o.n_in != model->n_in)
        return pare_fail(err, PARE_ECONFIG, "the shapes of %d inputs are given, the model has %d",
                         o.n_in, model->n_in);
    return pare_plan_make(model, &o, plan, err);
}

int pare_plan_run(struct pare_plan *p, const struct pare_tensor *in, int n_in,
                  struct pare_tensor *out, int n_out, struct pare_err *err)
{
    PARE_ERR(err);
    int n = p->model->n_out;

    if (n_in != p->model->n_in)
        return pare_fail(err, PARE_ECONFIG, "%d inputs are given, the model has %d", n_in,
                         p->model->n_in);
    if (!p->out) {
        p->out = pare_alloc(p->arena, (size_t)n + 1, sizeof(*p->out));
        if (!p->out)
            return pare_no_memory(err, "for the outputs");
    }
    PARE_TRY(pare_plan_execute(p, in, p->out, err));
    for (int i = 0; i < n; i++)
        if (!pare_is_tensor(&p->out[i]))
            return pare_fail(
                err, PARE_EUNSUPPORTED,
                "output '%s' is %s; make a tensor of it in the model, for example with "
                "ConcatFromSequence",
                p->model->out[i].name, pare_dtype_name(p->out[i].dtype));
    memcpy(out, p->out, (size_t)(n_out < n ? n_out : n) * sizeof(*out));
    return 0;
}
