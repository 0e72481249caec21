/* batch_runner.c - run a model on the batches of a loader, for evaluation and comparison. */
#include "batch_runner.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../tensor/tensor.h"

int pare_batch_runner_init(struct pare_batch_runner *r, const struct pare_model *m,
                           struct pare_loader_opts *lo, struct pare_arena *arena,
                           struct pare_err *err)
{
    const struct pare_io *io;

    r->m = m;
    r->arena = arena;
    r->in = pare_alloc(arena, PARE_DATA_INPUTS, sizeof(*r->in));
    if (!r->in)
        return pare_no_memory(err, "to run a model");
    lo->n_inputs = pare_model_inputs(m, &io);
    if (lo->n_inputs > 0) {
        lo->input = io;
        r->fixed = io[0].rank > 0 && io[0].dim[0] > 0 ? io[0].dim[0] : 0;
        lo->batch = r->fixed ? r->fixed : lo->batch;
    }
    return 0;
}

static int find_plan(struct pare_batch_runner *r, int n_in, struct pare_plan **plan,
                     struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = r->threads,
                                .in = r->in,
                                .tune = r->tune,
                                .choices = r->choices,
                                .cache = r->cache,
                                .precision = r->precision };
    struct pare_plan_build b = { .opts = &o,
                                 .microbatch = PARE_MICROBATCH_AUTO,
                                 .logits = r->logits };

    return pare_shape_plans_get(&r->plans, r->m, &b, n_in, plan, err);
}

/* Pad the last items with zeros for a model of fixed batch size. */
static int fill_up(struct pare_batch_runner *r, const struct pare_batch *b, struct pare_err *err)
{
    for (int k = 0; k < b->n_in; k++) {
        const struct pare_tensor *x = &b->in[k];
        size_t part = pare_dtype_size(x->dtype), outer = 1;
        int axis = b->axis[k];

        r->in[k] = *x;
        if (axis < 0 || x->dim[axis] >= r->fixed)
            continue;
        r->in[k].dim[axis] = r->fixed;
        r->in[k].data = pare_alloc(r->arena, (size_t)pare_numel(&r->in[k]),
                                   pare_dtype_size(x->dtype));
        if (!r->in[k].data)
            return pare_no_memory(err, "for the last batch");
        for (int d = 0; d < x->rank; d++) {
            outer *= d < axis ? (size_t)x->dim[d] : 1;
            part *= d > axis ? (size_t)x->dim[d] : 1;
        }
        for (size_t o = 0; o < outer; o++)
            memcpy((char *)r->in[k].data + o * (size_t)r->fixed * part,
                   (const char *)x->data + o * (size_t)x->dim[axis] * part,
                   (size_t)x->dim[axis] * part);
    }
    return 0;
}

int pare_batch_runner_run(struct pare_batch_runner *r, const struct pare_batch *b,
                          struct pare_tensor *out, int *n, struct pare_err *err)
{
    struct pare_plan *plan;
    double start;

    PARE_TRY(fill_up(r, b, err));
    PARE_TRY(find_plan(r, b->n_in, &plan, err));
    *n = plan->graph->n_out;
    if (*n > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_ELIMIT, "cannot evaluate a model with more than %d outputs",
                         PARE_DATA_OUTPUTS);
    start = pare_now();
    PARE_TRY(pare_plan_execute(plan, r->in, out, err));
    r->seconds += pare_now() - start;
    for (int i = 0; i < *n; i++)
        if (out[i].rank > 0 && b->axis[0] == 0 && out[i].dim[0] == r->in[0].dim[0])
            out[i].dim[0] = b->x.dim[0];
    return 0;
}

void pare_batch_runner_free(struct pare_batch_runner *r)
{
    pare_shape_plans_free(&r->plans);
}
