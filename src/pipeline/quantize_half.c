/* quantize_half.c - presets fp16 and bf16: conversion of a model to half precision. */
#include <string.h>

#include "../base/arena.h"
#include "../quant/presets.h"
#include "../tensor/tensor.h"
#include "pipeline.h"

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

int pare_quantize_half(struct pare_quantize_job *j, struct pare_model **out, struct pare_err *err)
{
    const struct pare_preset *p = pare_half_preset(j->o.preset);
    const char *compute = j->o.compute;

    if (compute && strcmp(compute, "half") != 0 && strcmp(compute, "float") != 0)
        return pare_fail(err, PARE_ECONFIG, "compute is '%.64s', must be half or float", compute);
    j->half = (struct pare_half){
        .type = p->half,
        .compute = compute ? !strcmp(compute, "half") : p->half_compute,
    };
    return pare_at(err, pare_model_to_half(j->tune.model, &j->half, j->tune.arena, out, err), "%s",
                   j->tune.path);
}
