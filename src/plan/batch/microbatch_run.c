/* microbatch_run.c - build and run micro-batches. */
#include "microbatch.h"

#include <omp.h>
#include <string.h>

/* Inputs and outputs of one plan. */
struct pare_microbatch_io {
    struct pare_tensor *in, *out;
    struct pare_err err; /* of its first micro-batch that failed */
    int64_t failed;      /* index of that micro-batch; -1: none */
};

/* ---- building ----------------------------------------------------------------------------- */

static struct pare_microbatch *create(const struct pare_graph *g, int64_t items, int n)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_microbatch *s = a ? pare_alloc(a, 1, sizeof(*s)) : NULL;
    bool ok = s != NULL;

    if (!ok) {
        pare_arena_free(a);
        return NULL;
    }
    *s = (struct pare_microbatch){ .arena = a, .batch = g->in[0]->t.dim[0], .items = items };
    s->plan = pare_alloc(a, (size_t)n, sizeof(struct pare_plan *));
    s->io = pare_alloc(a, (size_t)n, sizeof(*s->io));
    for (int i = 0; i < n && s->io; i++) {
        s->io[i].in = pare_alloc(a, (size_t)g->n_in, sizeof(struct pare_tensor));
        s->io[i].out = pare_alloc(a, (size_t)g->n_out, sizeof(struct pare_tensor));
        ok &= s->io[i].in && s->io[i].out;
    }
    if (ok && s->plan && s->io)
        return s;
    pare_arena_free(a);
    return NULL;
}

int pare_microbatch_new(const struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                        double *seconds, struct pare_microbatch **made, struct pare_err *err)
{
    int64_t parts = p->graph->in[0]->t.dim[0] / items;
    int n = parts < p->backend.threads ? (int)parts : p->backend.threads;
    struct pare_microbatch *s = create(p->graph, items, n);
    struct pare_plan_opts opts = *o;
    struct pare_plan_slice slice = { .whole = p, .items = items, .seconds = seconds };
    struct pare_plan_build build = { .opts = &opts, .slice = &slice };
    int rc = 0;

    *made = NULL;
    opts.threads = parts > 1 ? 1 : p->backend.threads;
    if (!s)
        return pare_no_memory(err, "for micro-batches");
    for (; s->n < n && !rc; s->n += !rc) {
        slice.like = s->n ? s->plan[0] : NULL;
        rc = pare_plan_build(p->model, &build, &s->plan[s->n], err);
    }
    if (!rc) {
        *made = s;
        return 0;
    }
    pare_microbatch_free(s);
    if (rc == PARE_ENOMEM || parts == 1)
        return rc;
    err->code =
        0; /* the plan of the whole batch will report errors that are not about micro-batches */
    return 0;
}

void pare_microbatch_free(struct pare_microbatch *s)
{
    if (!s)
        return;
    for (int i = s->n - 1; i >= 0; i--) /* plan[0] last: the others use its weights */
        pare_plan_free(s->plan[i]);
    pare_arena_free(s->arena);
}

/* ---- running ------------------------------------------------------------------------------ */

static size_t item_bytes(const struct pare_tensor *t)
{
    return (size_t)(pare_numel(t) / t->dim[0]) * pare_dtype_size(t->dtype);
}

static int run_part(struct pare_microbatch *s, int k, int64_t at, const struct pare_tensor *in,
                    const struct pare_tensor *out)
{
    const struct pare_graph *g = s->plan[k]->graph;
    struct pare_microbatch_io *io = &s->io[k];

    for (int i = 0; i < g->n_in; i++) {
        io->in[i] = in[i];
        io->in[i].dim[0] = s->items;
        io->in[i].data = (char *)in[i].data + (size_t)(at * s->items) * item_bytes(&in[i]);
    }
    PARE_TRY(pare_plan_execute(s->plan[k], io->in, io->out, &io->err));
    for (int i = 0; i < g->n_out; i++) {
        size_t bytes = (size_t)pare_numel(&io->out[i]) * pare_dtype_size(io->out[i].dtype);

        if (bytes)
            memcpy((char *)out[i].data + (size_t)at * bytes, io->out[i].data, bytes);
    }
    return 0;
}

/* Dynamic scheduling, so that a thread that another program delays does not delay the rest. */
int pare_microbatch_parts(struct pare_microbatch *s, int64_t from, int64_t to,
                          const struct pare_tensor *in, const struct pare_tensor *out,
                          struct pare_err *err)
{
    const struct pare_microbatch_io *first = NULL;

    for (int k = 0; k < s->n; k++)
        s->io[k].failed = -1;
#pragma omp parallel for num_threads(s->n) if (s->n > 1) schedule(dynamic, 1)
    for (int64_t i = from; i < to; i++) {
        int k = s->n > 1 ? omp_get_thread_num() : 0;

        if (s->io[k].failed < 0 && run_part(s, k, i, in, out))
            s->io[k].failed = i;
    }
    for (int k = 0; k < s->n; k++)
        if (s->io[k].failed >= 0 && (!first || s->io[k].failed < first->failed))
            first = &s->io[k];
    if (first)
        *err = first->err;
    return first ? first->err.code : 0;
}

int pare_microbatch_run(struct pare_plan *p, const struct pare_tensor *in, struct pare_tensor *out,
                        struct pare_err *err)
{
    struct pare_microbatch *s = p->microbatch;

    if (s->items == s->batch)
        return pare_plan_execute(s->plan[0], in, out, err);
    PARE_TRY(pare_plan_check(p, in, err));
    for (int i = 0; i < p->graph->n_out; i++)
        out[i] = p->graph->out[i]->t;
    return pare_microbatch_parts(s, 0, s->batch / s->items, in, out, err);
}
