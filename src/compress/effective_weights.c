/* effective_weights.c - masks, and the weights that the model computes with. */
#include <string.h>

#include "../base/arena.h"
#include "../base/simd.h"
#include "../onnx/model.h"
#include "../tensor/tensor.h"
#include "method.h"

/* ---- masks ------------------------------------------------------------------------------- */

int pare_mask_new(struct pare_compression *c, const struct pare_tensor *of,
                  struct pare_tensor *mask, struct pare_err *err)
{
    if (mask->data)
        return 0;
    *mask = *of;
    mask->dtype = PARE_BOOL;
    mask->data = NULL;
    PARE_TRY(c->final ? pare_tensor_scratch(c->arena, mask, &c->pages, err)
                      : pare_tensor_alloc(c->arena, mask, err));
    memset(mask->data, 1, (size_t)pare_numel(of));
    return 0;
}

int64_t pare_mask_zeros(const struct pare_tensor *mask)
{
    const uint8_t *m = mask->data;
    int64_t zeros = 0;

    for (int64_t i = 0, n = m ? pare_numel(mask) : 0; i < n; i++)
        zeros += !m[i];
    return zeros;
}

int64_t pare_compression_zeros(struct pare_compression *c)
{
    int64_t zeros = 0;

    for (int i = 0; i < c->n_layers - c->n_hidden; i++) {
        zeros += pare_mask_zeros(&c->layer[i].mask);
        pare_layer_release(&c->layer[i]);
    }
    return zeros;
}

PARE_SIMD static void apply_row(const float *from, const uint8_t *mask, float *to, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = mask[i] ? from[i] : 0;
}

void pare_mask_apply(const float *from, const uint8_t *mask, float *to, int64_t n)
{
    if (mask)
        apply_row(from, mask, to, n);
    else if (from != to)
        memcpy(to, from, (size_t)n * sizeof(float));
}

/* ---- into the model ---------------------------------------------------------------------- */

/* Before the model's copy is overwritten for the first time, copy the float weight out of it,
 * unless the compression is final. */
static int copy_out(struct pare_compression *c, const struct pare_value *v, struct pare_tensor *w,
                    struct pare_err *err)
{
    struct pare_tensor own = v->t;

    if (w->data != v->t.data || c->final)
        return 0;
    PARE_TRY(c->paged ? pare_tensor_scratch(c->arena, &own, &c->pages, err)
                      : pare_tensor_alloc(c->arena, &own, err));
    memcpy(own.data, v->t.data, (size_t)pare_numel(w) * sizeof(float));
    *w = own;
    return 0;
}

int pare_layer_write_masked(struct pare_layer *l, struct pare_err *err)
{
    (void)err;
    if (!l->grad.data)
        pare_mask_apply(pare_f32(&l->w), l->mask.data, pare_f32_mut(&l->weight->t),
                        pare_numel(&l->w));
    return 0;
}

void pare_layer_release(const struct pare_layer *l)
{
    size_t bytes = l->weight ? (size_t)pare_numel(&l->w) * sizeof(float) : 0;

    if (!bytes || l->grad.data)
        return;
    pare_pages_release(l->compression->pages, l->w.data, bytes);
    if (l->mask.data)
        pare_pages_release(l->compression->pages, l->mask.data, (size_t)pare_numel(&l->mask));
    pare_model_release(l->compression->model, l->weight->t.data, bytes);
}

int pare_compression_write_weights(struct pare_compression *c, struct pare_err *err)
{
    if (c->trainer)
        pare_trainer_refresh(c->trainer);
    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (!l->weight)
            continue;
        if (!l->grad.data)
            PARE_TRY(copy_out(c, l->weight, &l->w, err));
        PARE_TRY(c->method->write_weight(l, err));
        if (l->bias && !l->bias_grad.data) {
            PARE_TRY(copy_out(c, l->bias, &l->b, err));
            pare_mask_apply(pare_f32(&l->b), l->bias_mask.data, pare_f32_mut(&l->bias->t),
                            pare_numel(&l->b));
        }
        pare_layer_release(l);
    }
    return 0;
}

void pare_compression_restore(struct pare_compression *c)
{
    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (l->weight && l->w.data != l->weight->t.data)
            memcpy(l->weight->t.data, l->w.data, (size_t)pare_numel(&l->w) * sizeof(float));
        if (l->bias && l->b.data != l->bias->t.data)
            memcpy(l->bias->t.data, l->b.data, (size_t)pare_numel(&l->b) * sizeof(float));
    }
}
