/* allreduce.c - sum the gradients of several processes during the backward pass. */
#include "allreduce.h"

#include <string.h>

#include "trainer.h"

#define BUCKET ((int64_t)1 << 18) /* floats, 1 MB: see docs/scaling.md */
#define LINE 16                   /* floats of a cache line: every gradient starts at one */

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t room(const struct pare_tensor *t)
{
    return (pare_numel(t) + LINE - 1) / LINE * LINE;
}

/* In the order of the backward pass: the gradients of the last parameters come first. */
static int place(const struct pare_allreduce_opts *o, struct pare_arena *a, struct pare_err *err)
{
    int64_t total = 0;
    float *at;

    for (int i = 0; i < o->n_params; i++)
        total += room(&o->param[i].value);
    at = pare_alloc(a, (size_t)total, sizeof(*at));
    if (!at)
        return pare_no_memory(err, "for gradients");
    for (int i = o->n_params - 1; i >= 0; i--) {
        o->grad[i] = o->param[i].value;
        o->grad[i].data = at;
        at += room(&o->grad[i]);
    }
    return 0;
}

/* An all-reduce of n processes takes 2 (n - 1) messages in sequence, so more than 32 processes need
 * larger buckets than 1 MB. */
static int64_t bucket_size(const struct pare_dist *d)
{
    return pare_dist_size(d) > 32 ? BUCKET * pare_dist_size(d) / 32 : BUCKET;
}

static int make_buckets(struct pare_allreduce *g, const struct pare_allreduce_opts *o,
                        struct pare_arena *a, struct pare_err *err)
{
    struct pare_bucket *b = NULL;

    g->bucket = pare_alloc(a, (size_t)o->n_params, sizeof(*g->bucket));
    g->of = pare_alloc(a, (size_t)o->n_params, sizeof(*g->of));
    if (!g->bucket || !g->of)
        return pare_no_memory(err, "for gradients");
    for (int i = o->n_params - 1; i >= 0; i--) {
        int64_t n = room(&o->grad[i]);

        if (!b || b->n + n > bucket_size(g->dist)) {
            b = &g->bucket[g->n_buckets++];
            b->data = o->grad[i].data;
        }
        b->n += n;
        b->params++;
        g->of[i] = g->n_buckets - 1;
    }
    return 0;
}

static int make_mean(struct pare_allreduce *g, const struct pare_allreduce_opts *o,
                     struct pare_arena *a, struct pare_err *err)
{
    g->state = o->state;
    g->n_state = o->n_state;
    for (int i = 0; i < o->n_state; i++)
        g->n_mean += pare_numel(&o->state[i].t);
    if (o->synced || !g->n_mean)
        return 0;
    g->mean = pare_alloc(a, (size_t)g->n_mean, sizeof(*g->mean));
    return g->mean ? 0 : pare_no_memory(err, "for gradients");
}

int pare_allreduce_init(struct pare_allreduce *g, const struct pare_allreduce_opts *o,
                        struct pare_arena *a, struct pare_err *err)
{
    *g = (struct pare_allreduce){ .dist = o->dist };
    PARE_TRY(place(o, a, err));
    if (!g->dist)
        return 0;
    PARE_TRY(make_buckets(g, o, a, err));
    return make_mean(g, o, a, err);
}

/* ---- one training step ----------------------------------------------------------------------- */

static int begin_mean(struct pare_allreduce *g, struct pare_err *err)
{
    float part = (float)pare_dist_part(g->dist), *to = g->mean;

    for (int i = 0; i < g->n_state; i++) {
        const struct pare_tensor *t = &g->state[i].t;

        for (int64_t k = 0, n = pare_numel(t); k < n; k++)
            *to++ = part * pare_f32(t)[k];
    }
    return pare_dist_start(g->dist, PARE_F32, g->mean, g->n_mean, err);
}

static void end_mean(struct pare_allreduce *g)
{
    const float *from = g->mean;

    for (int i = 0; i < g->n_state; i++) {
        const struct pare_tensor *t = &g->state[i].t;

        memcpy(t->data, from, (size_t)pare_numel(t) * sizeof(float));
        from += pare_numel(t);
    }
}

int pare_allreduce_begin(struct pare_allreduce *g, const struct pare_plan *p,
                         const struct pare_score *s, bool stop, struct pare_err *err)
{
    const double numbers[] = { s->loss, (double)s->n, (double)s->top1, (double)s->top5, stop };

    g->plan = p;
    g->next = 0;
    g->err.code = 0;
    for (int i = 0; i < g->n_buckets; i++)
        g->bucket[i].left = g->bucket[i].params;
    for (int i = 0; i < p->n_params; i++) /* no step changes these gradients */
        g->bucket[g->of[i]].left -= p->param[i].last < 0;
    memcpy(g->numbers, numbers, sizeof(numbers));
    PARE_TRY(pare_dist_start(g->dist, PARE_F64, g->numbers, 5, err));
    return g->mean ? begin_mean(g, err) : 0;
}

/* Start complete buckets, always in order: a process with a smaller part of the batch may use
 * kernels that complete gradients in another order. */
static void start_whole(struct pare_allreduce *g)
{
    while (g->next < g->n_buckets && g->bucket[g->next].left <= 0 && !g->err.code) {
        struct pare_bucket *b = &g->bucket[g->next++];

        pare_dist_start(g->dist, PARE_F32, b->data, b->n, &g->err);
    }
}

void pare_allreduce_on_back(void *allreduce, int step)
{
    struct pare_allreduce *g = allreduce;

    for (int i = 0; i < g->plan->n_params; i++)
        g->bucket[g->of[i]].left -= g->plan->param[i].last == step;
    start_whole(g);
    pare_dist_poll(g->dist);
}

int pare_allreduce_end(struct pare_allreduce *g, struct pare_score *s, bool *stop,
                       struct pare_err *err)
{
    for (int i = 0; i < g->n_buckets; i++)
        g->bucket[i].left = 0;
    start_whole(g);
    if (g->err.code) {
        *err = g->err;
        return err->code;
    }
    PARE_TRY(pare_dist_finish(g->dist, err));
    if (g->mean)
        end_mean(g);
    s->loss = g->numbers[0];
    s->n = (int64_t)g->numbers[1];
    s->top1 = (int64_t)g->numbers[2];
    s->top5 = (int64_t)g->numbers[3];
    *stop = g->numbers[4] > 0;
    return 0;
}
