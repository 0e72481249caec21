/* quantize_half.c - presets fp16 and bf16: conversion of a model to half precision. */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../data/data.h"
#include "../onnx/stored_types.h"
#include "../plan/shape_plans.h"
#include "../quant/presets.h"
#include "../tensor/tensor.h"
#include "pipeline.h"

#define BATCHES 4 /* that values are observed on */

bool pare_quantize_is_half(const struct pare_quantize_job *j)
{
    return pare_half_preset(j->o.preset) != NULL;
}

double pare_half_saved(const struct pare_model *m)
{
    double saved = 0;

    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32)
            saved += 2 * (double)pare_numel(&v->t);
    }
    return saved;
}

/* ---- values on data -------------------------------------------------------------------------- */

struct peaks {
    struct pare_finetune *f;
    struct pare_strs names; /* of all values that nodes make */
    double *peak;           /* by name */
    struct pare_shape_plans plans;
    struct pare_plan *plan; /* of the current batch */
    struct pare_map map;
};

static int list_values(struct peaks *p, struct pare_err *err)
{
    const struct pare_graph *g = p->f->model->graph;
    const char **list = pare_alloc(p->f->arena, (size_t)g->n_values + 1, sizeof(*list));

    p->peak = pare_alloc(p->f->arena, (size_t)g->n_values + 1, sizeof(*p->peak));
    if (!list || !p->peak)
        return pare_no_memory(err, "to convert a model");
    p->names.v = list;
    for (int i = 0; i < g->n_values; i++) {
        const struct pare_value *v = g->value[i];

        if (!v->maker || v->flags & PARE_V_CONST || !v->maker->op || !*v->name)
            continue;
        PARE_TRY(pare_map_set(&p->map, p->f->arena, v->name, &p->peak[p->names.n], err));
        list[p->names.n++] = v->name;
    }
    return 0;
}

static void observe(struct peaks *p)
{
    for (int i = 0; i < p->names.n; i++) {
        const struct pare_tensor *t = pare_plan_value(p->plan, i);

        if (!t || t->dtype != PARE_F32 || !t->data)
            continue;
        for (int64_t k = 0; k < pare_numel(t); k++) {
            double x = fabs((double)pare_f32(t)[k]);

            if (x < (double)INFINITY && x > p->peak[i])
                p->peak[i] = x;
        }
    }
}

static int find_plan(struct peaks *p, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = (int)p->f->options->c.threads,
                                .in = b->in,
                                .batch = b->x.dim[0] };
    struct pare_plan_build build = { .opts = &o, .observe = p->names };

    PARE_TRY(pare_shape_plans_get(&p->plans, p->f->model, &build, b->n_in, &p->plan, err));
    if (p->plan->graph->n_out > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_ELIMIT, "the model has more than %d outputs", PARE_DATA_OUTPUTS);
    return 0;
}

static int run_batches(struct peaks *p, struct pare_loader *loader, struct pare_err *err)
{
    struct pare_tensor out[PARE_DATA_OUTPUTS];
    int64_t batch = p->f->options->train.batch ? p->f->options->train.batch
                                               : p->f->data[0]->opts.batch;
    int64_t size = 0, items = BATCHES * batch;

    for (int64_t done = 0; done < items; done += size) {
        const struct pare_batch *b;

        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b || (p->plan && b->whole != size))
            return 0; /* the end of the data */
        size = b->whole;
        PARE_TRY(find_plan(p, b, err));
        PARE_TRY(pare_plan_execute(p->plan, b->in, out, err));
        observe(p);
    }
    return 0;
}

/* The largest magnitude of each value, over a few batches. */
static int find_peaks(struct peaks *p, struct pare_err *err)
{
    struct pare_loader_opts o = { .train = true, .batch = p->f->options->train.batch, .seed = 1 };
    struct pare_loader *loader = NULL;
    const struct pare_io *io;
    int rc = list_values(p, err);

    o.n_inputs = pare_model_inputs(p->f->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    if (!rc)
        rc = pare_loader_new(p->f->data[0], &o, &loader, err);
    if (!rc)
        rc = run_batches(p, loader, err);
    pare_shape_plans_free(&p->plans);
    pare_loader_free(loader);
    return rc;
}

/* Whether loading made it compute in float32 (intake step widen_compute). */
static bool computes_in_half(const struct pare_model *m)
{
    const struct pare_intake_count *list;
    int n = pare_model_intake(m, &list);

    for (int i = 0; i < n; i++)
        if (list[i].count && !strcmp(list[i].name, "widen_compute"))
            return pare_stored_half(m);
    return false;
}

static bool has_integer_weights(const struct pare_model *m)
{
    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && !v->maker && v->t.rank > 1 &&
            (v->t.dtype == PARE_I8 || v->t.dtype == PARE_U8 || pare_is_4bit(v->t.dtype)))
            return true;
    }
    return false;
}

/* What is left to convert of a quantized model may be less than the Cast nodes that it needs. */
static int check_size(const struct pare_model *from, struct pare_model **to,
                      const struct pare_preset *p, struct pare_err *err)
{
    double before = pare_model_message_bytes(from), after = pare_model_message_bytes(*to);

    if (after < before || !has_integer_weights(from))
        return 0;
    pare_model_free(*to);
    *to = NULL;
    return pare_fail(
        err, PARE_ECONFIG,
        "the model is quantized already, and preset %s would make it larger: %.0f bytes "
        "instead of %.0f; convert the float model, or keep this file",
        p->name, after, before);
}

int pare_quantize_half(struct pare_quantize_job *j, struct pare_model **out, struct pare_err *err)
{
    const struct pare_preset *p = pare_half_preset(j->o.preset);
    const char *compute = j->o.compute;
    struct peaks peaks = { .f = &j->tune };

    if (computes_in_half(j->tune.model))
        return pare_fail(err, PARE_ECONFIG,
                         "%s: the model computes in half precision already, so preset %s "
                         "has nothing to convert",
                         j->tune.path, p->name);
    if (compute && strcmp(compute, "half") != 0 && strcmp(compute, "float") != 0)
        return pare_fail(err, PARE_ECONFIG, "compute is '%.64s', must be half or float", compute);
    j->half = (struct pare_half){
        .type = p->half,
        .compute = compute ? !strcmp(compute, "half") : p->half_compute,
    };
    if (j->half.compute && j->half.type == PARE_F16 && pare_finetune_has_data(&j->tune)) {
        PARE_TRY(find_peaks(&peaks, err));
        j->half.peaks = &peaks.map;
    }
    PARE_TRY(pare_at(err, pare_model_to_half(j->tune.model, &j->half, j->tune.arena, out, err),
                     "%s", j->tune.path));
    j->half.peaks = NULL;
    return pare_at(err, check_size(j->tune.model, out, p, err), "%s", j->tune.path);
}
