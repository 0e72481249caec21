/* analyses.c - pare_analyze_count(), pare_analyze_sensitivity(), pare_analyze_quantization(). */
#include "analyses.h"

#include <string.h>

#include "../analyze/quant_error.h"
#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/sized.h"
#include "../data/data.h"
#include "../graph/macs.h"
#include "../onnx/model.h"
#include "../train/train_options.h"

static int count_list(const char *const *list)
{
    int n = 0;

    while (list && list[n])
        n++;
    return n;
}

/* Copies of n names in the arena. */
static int copy_names(struct pare_arena *a, const char *const *from, int n, const char ***to,
                      struct pare_err *err)
{
    *to = pare_alloc(a, (size_t)n + 1, sizeof(**to));
    for (int i = 0; *to && i < n; i++)
        if (!((*to)[i] = pare_strdup(a, from[i])))
            *to = NULL;
    return *to ? 0 : pare_no_memory(err, "for a report");
}

static int copy_bytes(struct pare_arena *a, const void *from, size_t n, size_t size, void *to,
                      struct pare_err *err)
{
    void *copy = pare_alloc(a, n + 1, size);

    if (!copy)
        return pare_no_memory(err, "for a report");
    memcpy(copy, from, n * size);
    memcpy(to, &copy, sizeof(copy));
    return 0;
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* A clone of the graph with shapes; free dimensions are 1. */
static int graph_with_shapes(const struct pare_model *m, const struct pare_count_opts *o,
                             struct pare_arena *a, struct pare_graph **graph, struct pare_err *err)
{
    struct pare_graph *g = pare_graph_clone(a, m->graph, err);

    if (!g)
        return err->code;
    if (o->in && o->n_in != m->n_in)
        return pare_fail(err, PARE_ECONFIG, "%d inputs are given, the model has %d", o->n_in,
                         m->n_in);
    for (int i = 0; o->in && i < m->n_in; i++)
        g->in[i]->t = o->in[i];
    if (!o->in)
        pare_graph_bind(g, 1);
    *graph = g;
    return pare_graph_infer(g, true, err);
}

int pare_analyze_count(const struct pare_model *m, const struct pare_count_opts *opts,
                       struct pare_arena *a, struct pare_count_report *r, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_count_opts o;
    struct pare_graph *g = NULL;
    struct pare_count n;

    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    PARE_TRY(graph_with_shapes(m, &o, a, &g, err));
    PARE_TRY(
        pare_count(a, g, o.in && o.n_in && o.in[0].rank > 0 ? o.in[0].dim[0] : 1, o.full, &n, err));
    *r = (struct pare_count_report){ .n_layers = n.n,
                                     .unknown = n.unknown,
                                     .macs = n.flops,
                                     .params = n.params };
    r->layer = pare_alloc(a, (size_t)n.n + 1, sizeof(*r->layer));
    if (!r->layer)
        return pare_no_memory(err, "for a report");
    for (int i = 0; i < n.n; i++) {
        const struct pare_layer_info *l = n.row[i].layer;

        r->layer[i] = (struct pare_count_layer){ .name = l->name,
                                                 .type = l->torch,
                                                 .macs = n.row[i].flops,
                                                 .params = n.row[i].params };
        if (l->weight)
            r->layer[i].weight = l->weight->t;
        if (l->out)
            r->layer[i].out = l->out->t;
        r->layer[i].weight.data = r->layer[i].out.data = NULL;
    }
    return 0;
}

/* ---- sensitivity ----------------------------------------------------------------------------- */

struct measuring {
    const struct pare_data *data;
    const struct pare_sensitivity_opts *o;
    struct pare_analysis *x;
    double start;
    bool canceled;
};

static int measure(void *user, const struct pare_model *m, double *metric, struct pare_err *err)
{
    struct measuring *j = user;
    struct pare_eval_opts o = { .threads = j->o->threads,
                                .loss = j->x->loss,
                                .loss_conf = j->x->loss_conf,
                                .task = j->x->task,
                                .metric = j->x->metric };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_eval e = { 0 };
    struct pare_metrics all;
    int rc;

    if (!a)
        return pare_no_memory(err, "to evaluate the model");
    if (j->canceled)
        rc = pare_fail(err, PARE_ECANCEL, "the analysis was canceled");
    else
        rc = pare_evaluate_model(m, j->data, &o, a, &e, err);
    if (!rc) {
        all = pare_eval_metrics(&e);
        j->x->measured = pare_metrics_main(&all);
        *metric = j->x->measured.value;
    }
    pare_arena_free(a);
    return rc;
}

static void after_item(void *user, const struct pare_sensitivity *s, int item)
{
    struct measuring *j = user;
    struct pare_progress p = { "analyze", item + 1, (int64_t)s->n_layers * s->n_sparsities,
                               pare_now() - j->start };

    if (j->x->say)
        j->x->say(j->x->user, s, item);
    if (j->o->progress && !j->o->progress(j->o->user, &p))
        j->canceled = true;
}

static int copy_sensitivity(const struct pare_sensitivity *s, struct pare_arena *a,
                            struct pare_sensitivity_report *r, struct pare_err *err)
{
    size_t n = (size_t)s->n_layers, k = (size_t)s->n_sparsities;

    *r = (struct pare_sensitivity_report){ .base = s->base,
                                           .n_layers = s->n_layers,
                                           .n_sparsities = s->n_sparsities };
    PARE_TRY(copy_names(a, s->name, s->n_layers, &r->name, err));
    PARE_TRY(copy_names(a, s->type, s->n_layers, &r->type, err));
    PARE_TRY(copy_bytes(a, s->already, n, sizeof(double), &r->already, err));
    PARE_TRY(copy_bytes(a, s->sparsity, k, sizeof(double), &r->sparsity, err));
    return copy_bytes(a, s->metric, n * k, sizeof(double), &r->metric, err);
}

int pare_sensitivity_analysis(const struct pare_model *m, const struct pare_data *data,
                              const struct pare_sensitivity_opts *o, struct pare_analysis *x,
                              struct pare_arena *a, struct pare_sensitivity_report *r,
                              struct pare_err *err)
{
    struct measuring j = { data, o, x, pare_now(), false };
    struct pare_sensitivity_setup so = {
        .pruner = o->pruner ? o->pruner : "l1",
        .settings = o->settings,
        .registry = o->registry,
        .sparsity = { (double *)o->sparsity, o->sparsity ? o->n_sparsities : 0 },
        .layers = { (const char **)o->layers, count_list(o->layers) },
        .early_stop = o->early_stop,
        .early_stop_value = o->early_stop_value,
        .threads = o->threads,
        .seed = o->seed,
        .dist = x->dist,
        .measure = measure,
        .say = after_item,
        .user = &j,
    };
    struct pare_sensitivity *s;
    int rc;

    PARE_TRY(pare_sensitivity_new(m, &so, &s, err));
    rc = pare_sensitivity_run(s, err);
    if (!rc && j.canceled)
        rc = pare_fail(err, PARE_ECANCEL, "the analysis was canceled");
    if (!rc)
        rc = copy_sensitivity(s, a, r, err);
    pare_sensitivity_free(s);
    return rc;
}

int pare_analyze_sensitivity(const struct pare_model *m, const struct pare_data *data,
                             const struct pare_sensitivity_opts *opts, struct pare_arena *a,
                             struct pare_sensitivity_report *r, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_train_options *setup;
    struct pare_sensitivity_opts o;
    struct pare_analysis x = { 0 };
    struct pare_given set[2];
    int n = 0;

    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    if (o.loss)
        set[n++] = (struct pare_given){ "loss", o.loss };
    if (o.metric)
        set[n++] = (struct pare_given){ "metric", o.metric };
    PARE_TRY(pare_train_options_eval(set, n, a, &setup, err));
    PARE_TRY(pare_train_options_goal(setup, m, data, err));
    x.loss = setup->trainer.loss;
    x.loss_conf = setup->trainer.loss_conf;
    x.task = setup->goal.task;
    x.metric = setup->goal.metric;
    return pare_sensitivity_analysis(m, data, &o, &x, a, r, err);
}

/* ---- quantization error ---------------------------------------------------------------------- */

static int copy_errors(const struct pare_qerror *q, struct pare_arena *a,
                       struct pare_quant_error_report *r, struct pare_err *err)
{
    size_t n = (size_t)q->n_layers, k = (size_t)q->n_bits;

    *r = (struct pare_quant_error_report){ .n_layers = q->n_layers, .n_bits = q->n_bits };
    PARE_TRY(copy_names(a, q->name, q->n_layers, &r->name, err));
    PARE_TRY(copy_names(a, q->type, q->n_layers, &r->type, err));
    PARE_TRY(copy_bytes(a, q->bits, k, sizeof(*q->bits), &r->bits, err));
    return copy_bytes(a, q->item, n * k, sizeof(*q->item), &r->item, err);
}

int pare_quant_error_analysis(const struct pare_model *m, const struct pare_tensor *in,
                              const struct pare_quant_error_opts *o, struct pare_dist *dist,
                              struct pare_arena *a, struct pare_quant_error_report *r,
                              struct pare_err *err)
{
    struct pare_qerror_opts qo = {
        .bits = { (int64_t *)o->bits, o->bits ? o->n_bits : 0 },
        .layers = { (const char **)o->layers, count_list(o->layers) },
        .weights = o->weights_only,
        .in = in,
        .dist = dist,
        .threads = o->threads,
        .progress = o->progress,
        .user = o->user,
    };
    struct pare_qerror *q;
    int rc;

    PARE_TRY(pare_qerror_new(m, &qo, &q, err));
    rc = pare_qerror_run(q, err);
    if (!rc)
        rc = copy_errors(q, a, r, err);
    pare_qerror_free(q);
    return rc;
}

int pare_analyze_quantization(const struct pare_model *m, const struct pare_tensor *in, int n_in,
                              const struct pare_quant_error_opts *opts, struct pare_arena *a,
                              struct pare_quant_error_report *r, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_quant_error_opts o;

    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    if (n_in != m->n_in)
        return pare_fail(err, PARE_ECONFIG, "%d inputs are given, the model has %d", n_in, m->n_in);
    return pare_quant_error_analysis(m, in, &o, NULL, a, r, err);
}
