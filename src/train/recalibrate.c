/* recalibrate.c - re-estimate running statistics of batch normalizations after weights changed.
 *
 * A training step makes running = momentum * running + (1 - momentum) * batch.  From 0, a
 * normalization that is used k times makes (1 - momentum^k) times a mean of the statistics of its
 * batches, so these are read from what any kernel leaves.
 */
#include "recalibrate.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../dist/dist.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

/* One running mean or variance. */
struct stat {
    struct pare_tensor t; /* of the model */
    double left;          /* momentum^k, of k uses */
    double *sum;
    float *before;
};

struct job {
    struct pare_trainer *t;
    struct pare_arena *arena;
    struct stat *stat;
    int64_t count; /* batches */
};

int pare_recalibrate_count(const struct pare_trainer *t)
{
    return t->n_state;
}

/* Multiply the momentum of every use into stat[].left, also of uses in bodies. */
static void find_momentum(struct job *j, const struct pare_graph *g)
{
    const struct pare_graph *body;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in && n->op; k++)
            for (int s = 0; n->in[k] && n->op->statistics >> k & 1 && s < j->t->n_state; s++)
                if (j->t->state[s].name == n->in[k]->name)
                    j->stat[s].left *= pare_attr(n, "momentum");
        for (int b = 0; (body = pare_node_body(n, b, NULL)) != NULL; b++)
            find_momentum(j, body);
    }
}

static int prepare(struct job *j, struct pare_err *err)
{
    j->stat = pare_alloc(j->arena, (size_t)j->t->n_state, sizeof(*j->stat));
    if (!j->stat)
        return pare_no_memory(err, "for running statistics");
    for (int i = 0; i < j->t->n_state; i++) {
        struct stat *s = &j->stat[i];
        size_t n = (size_t)pare_numel(&j->t->state[i].t);

        *s = (struct stat){ .t = j->t->state[i].t, .left = 1 };
        s->sum = pare_alloc(j->arena, n, sizeof(*s->sum));
        s->before = pare_alloc(j->arena, n, sizeof(*s->before));
        if (!s->sum || !s->before)
            return pare_no_memory(err, "for running statistics");
        memcpy(s->before, s->t.data, n * sizeof(float));
    }
    find_momentum(j, j->t->model->graph);
    return 0;
}

static void clear(const struct job *j)
{
    for (int i = 0; i < j->t->n_state; i++)
        memset(j->stat[i].t.data, 0, (size_t)pare_numel(&j->stat[i].t) * sizeof(float));
}

static void add(struct job *j)
{
    for (int i = 0; i < j->t->n_state; i++)
        for (int64_t k = 0; k < pare_numel(&j->stat[i].t); k++)
            j->stat[i].sum[k] += (double)pare_f32(&j->stat[i].t)[k];
    j->count++;
}

/* The average, or what it was: with momentum 1, or if no batch got there (a body that did not run),
 * which a variance of 0 everywhere tells together with a mean of 0. */
static int finish(struct job *j, bool failed, struct pare_err *err)
{
    double count = (double)j->count;

    if (!failed && j->t->o.dist)
        PARE_TRY(pare_dist_merge(j->t->o.dist, PARE_MERGE_SUM, PARE_F64, &count, 1, err));
    for (int i = 0; i < j->t->n_state; i++) {
        struct stat *s = &j->stat[i];
        double part = 1 - s->left, any = 0;
        int64_t n = pare_numel(&s->t);

        if (!failed && j->t->o.dist)
            PARE_TRY(pare_dist_merge(j->t->o.dist, PARE_MERGE_SUM, PARE_F64, s->sum, n, err));
        for (int64_t k = 0; k < n; k++)
            any = fmax(any, fabs(s->sum[k]));
        for (int64_t k = 0; k < n; k++)
            pare_f32_mut(&s->t)[k] = failed || !(part > 0) || !(count > 0) || any == 0
                                         ? s->before[k]
                                         : (float)(s->sum[k] / (part * count));
    }
    return 0;
}

static int run(struct job *j, struct pare_loader *l, const struct pare_recalibrate_opts *o,
               struct pare_err *err)
{
    int64_t all = pare_loader_batches(l), most = o->batches < all ? o->batches : all;
    int64_t full = pare_loader_batch_size(l);
    double start = pare_now();

    for (int64_t i = 0; i < most; i++) {
        struct pare_progress now = { "recalibrate", i, most, pare_now() - start };
        const struct pare_batch *b;

        if (o->progress && !o->progress(o->user, &now))
            return pare_fail(err, PARE_ECANCEL, "the re-estimation of statistics was canceled");
        PARE_TRY(pare_loader_next(l, &b, err));
        if (!b || (j->count && pare_batch_items(b) < full)) /* a smaller one would count too much */
            break;
        clear(j);
        PARE_TRY(pare_trainer_forward(j->t, b->in, NULL, err));
        add(j);
    }
    return 0;
}

int pare_recalibrate(struct pare_trainer *t, const struct pare_data *data,
                     const struct pare_recalibrate_opts *o, int64_t *done, struct pare_err *err)
{
    struct job j = { .t = t, .arena = pare_arena_new(1 << 16) };
    struct pare_loader_opts lo = { .train = true,
                                   .batch = o->batch,
                                   .seed = o->seed,
                                   .rank = pare_dist_rank(t->o.dist),
                                   .ranks = pare_dist_size(t->o.dist) };
    struct pare_loader *l = NULL;
    struct pare_err other;
    const struct pare_io *io;
    int rc;

    *done = 0;
    lo.n_inputs = pare_model_inputs(t->model, &io);
    if (lo.n_inputs > 0)
        lo.input = io;
    rc = j.arena ? prepare(&j, err) : pare_no_memory(err, "for running statistics");
    if (!rc && t->n_state && o->batches > 0) {
        rc = pare_loader_new(data, &lo, &l, err);
        if (!rc)
            rc = run(&j, l, o, err);
        if (rc)
            finish(&j, true, &other);
        else
            rc = finish(&j, false, err);
        *done = j.count;
    }
    pare_loader_free(l);
    pare_arena_free(j.arena);
    return rc;
}
