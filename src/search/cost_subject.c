/* cost_subject.c - the model of one assignment with its plan, and the times of its layers. */
#include "cost_subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/map.h"
#include "../graph/layer.h"
#include "../plan/plan.h"
#include "../speedup/speedup.h"
#include "../tensor/tensor.h"

#define RUNS 5 /* of a round, of which the median counts */

/* ---- the layer of each step ------------------------------------------------------------------ */

struct tracer {
    const struct pare_cost_table *t;
    struct pare_map layers; /* name of a node's output to the number of its layer, from 1 */
    int *number;
};

static int map_layers(struct tracer *r, const struct pare_model *m, struct pare_arena *a,
                      struct pare_err *err)
{
    struct pare_layer_info *list;
    struct pare_graph *g;
    int n;

    PARE_TRY(pare_model_find_layers(m, a, &g, &list, &n, err));
    r->number = pare_alloc(a, (size_t)r->t->n_layers + 1, sizeof(int));
    if (!r->number)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < r->t->n_layers; i++) {
        r->number[i] = i + 1;
        for (int k = 0; k < n; k++)
            if (!strcmp(list[k].name, r->t->layer[i].name) && list[k].node->out[0])
                PARE_TRY(
                    pare_map_set(&r->layers, a, list[k].node->out[0]->name, &r->number[i], err));
    }
    return 0;
}

/* -1: not a layer. */
static int layer_of(const struct tracer *r, const struct pare_node *n)
{
    const int *number = n && n->n_out && n->out[0] ? pare_map_get(&r->layers, n->out[0]->name)
                                                   : NULL;

    return number ? *number - 1 : -1;
}

/* The last layer before the value; -1: none. */
static int trace(const struct tracer *r, const struct pare_value *v, int depth)
{
    const struct pare_node *n = v ? v->maker : NULL;
    int l = layer_of(r, n);

    if (!n || l >= 0 || depth > 64)
        return l;
    for (int k = 0; k < n->n_in && l < 0; k++)
        if (n->in[k] && !(n->in[k]->flags & PARE_V_CONST))
            l = trace(r, n->in[k], depth + 1);
    return l;
}

static int step_layer(const struct tracer *r, const struct pare_step *s)
{
    int l = layer_of(r, s->node);

    for (int k = 0; k < s->n_fused && l < 0; k++)
        l = layer_of(r, s->fused[k]);
    if (l >= 0)
        return l;
    if (s->node && s->node->n_in)
        for (int k = 0; k < s->node->n_in && l < 0; k++)
            l = trace(r, s->node->in[k], 0);
    else if (s->n_in)
        l = trace(r, s->in[0], 0);
    return l < 0 ? -1 : r->t->n_layers + l;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int fill_inputs(const struct pare_model *m, struct pare_cost_subject *s,
                       struct pare_arena *a, struct pare_err *err)
{
    const struct pare_graph *g = s->plan->graph;
    struct pare_sample sample = { .arena = a, .n = s->n_in };
    bool *given = pare_alloc(a, (size_t)s->n_in + 1, sizeof(*given));

    pare_model_inputs(m, &sample.io);
    sample.in = s->in = pare_alloc(a, (size_t)s->n_in + 1, sizeof(*s->in));
    sample.given = given;
    s->out = pare_alloc(a, (size_t)s->n_out + 1, sizeof(*s->out));
    if (!s->in || !given || !s->out)
        return pare_no_memory(err, "for random inputs");
    for (int i = 0; i < s->n_in; i++) {
        s->in[i] = g->in[i]->t;
        s->in[i].data = NULL;
        PARE_TRY(pare_tensor_alloc(a, &s->in[i], err));
    }
    return pare_sample_fill(&sample, g, 1, err);
}

static int open_plan(const struct pare_model *m, const struct pare_cost_table *t,
                     const struct pare_cost_opts *o, struct pare_cost_subject *s,
                     struct pare_err *err)
{
    struct pare_plan_opts po = { .threads = o->threads,
                                 .batch = t->batch,
                                 .tune = !o->untuned,
                                 .cache = o->cache };
    struct tracer r = { .t = t };
    const struct pare_plan *inner;
    struct pare_arena *a;

    PARE_TRY(pare_plan_new(m, &po, &s->plan, err));
    a = s->plan->arena;
    s->n_in = m->n_in;
    s->n_out = m->n_out;
    s->bytes = pare_model_message_bytes(m);
    PARE_TRY(fill_inputs(m, s, a, err));
    PARE_TRY(map_layers(&r, m, a, err));
    inner = pare_plan_inner(s->plan);
    s->n_steps = inner->n_steps;
    s->layer = pare_alloc(a, (size_t)s->n_steps + 1, sizeof(*s->layer));
    s->step_us = pare_alloc(a, (size_t)s->n_steps + 1, sizeof(*s->step_us));
    s->run_us = pare_alloc(a, ((size_t)s->n_steps + 1) * RUNS, sizeof(*s->run_us));
    s->layer_us = pare_alloc(a, 2 * (size_t)t->n_layers + 1, sizeof(*s->layer_us));
    if (!s->layer || !s->step_us || !s->run_us || !s->layer_us)
        return pare_no_memory(err, "for times");
    for (int i = 0; i < s->n_steps; i++) {
        s->layer[i] = step_layer(&r, inner->step[i]);
        s->step_us[i] = INFINITY;
    }
    s->total_us = INFINITY;
    return 0;
}

int pare_cost_subject_open(const struct pare_model *m, const struct pare_cost_table *t,
                           const struct pare_cost_opts *o, struct pare_cost_subject *s,
                           struct pare_err *err)
{
    struct pare_model *small;
    int rc;

    s->plan = NULL;
    PARE_TRY(pare_cost_build(m, t, s->count, s->format, &small, err));
    rc = open_plan(small, t, o, s, err);
    pare_model_free(small); /* the plan has a reference */
    return rc;
}

void pare_cost_subject_close(struct pare_cost_subject *s)
{
    pare_plan_free(s->plan);
    s->plan = NULL;
}

/* ---- times ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_size);
    return x[n / 2];
}

/* One run with the times of all steps, into column `run`. */
static int profile_run(struct pare_cost_subject *s, int run, struct pare_err *err)
{
    const struct pare_plan *inner = pare_plan_inner(s->plan);

    pare_plan_profile(s->plan, true);
    PARE_TRY(pare_plan_run(s->plan, s->in, s->n_in, s->out, s->n_out, err));
    for (int i = 0; i < s->n_steps; i++)
        s->run_us[i * RUNS + run] = inner->step[i]->seconds * 1e6;
    pare_plan_profile(s->plan, false);
    return 0;
}

int pare_cost_subject_round(struct pare_cost_subject *s, const struct pare_cost_opts *o,
                            struct pare_err *err)
{
    double total[RUNS], start;

    if (o->timer)
        return o->timer(o->timer_user, s->plan, s->step_us, &s->total_us);
    PARE_TRY(pare_plan_run(s->plan, s->in, s->n_in, s->out, s->n_out, err));
    for (int k = 0; k < RUNS; k++) {
        PARE_TRY(profile_run(s, k, err));
        start = pare_now();
        PARE_TRY(pare_plan_run(s->plan, s->in, s->n_in, s->out, s->n_out, err));
        total[k] = (pare_now() - start) * 1e6;
    }
    for (int i = 0; i < s->n_steps; i++)
        s->step_us[i] = fmin(s->step_us[i], median(&s->run_us[i * RUNS], RUNS));
    s->total_us = fmin(s->total_us, median(total, RUNS));
    return 0;
}

void pare_cost_subject_sum(const struct pare_cost_table *t, struct pare_cost_subject *s)
{
    memset(s->layer_us, 0, 2 * (size_t)t->n_layers * sizeof(*s->layer_us));
    for (int i = 0; i < s->n_steps; i++)
        if (s->layer[i] >= 0)
            s->layer_us[s->layer[i]] += s->step_us[i];
}
