/* hold_zeros.c - weights that are 0 stay 0 in training, so that a pruned model stays pruned. */
#include "hold_zeros.h"

#include <string.h>

#include "../base/arena.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "wrap.h"

/* Remove from the mask of a parameter, created on first use, what `any` does not have.  A
 * parameter that is not trained stays as it is. */
static int hold(struct pare_trainer *t, uint8_t **mask, const struct pare_value *v,
                const uint8_t *any, struct pare_err *err)
{
    int i = pare_trainer_param(t, v->name);
    int64_t n = i < 0 ? 0 : pare_numel(&t->param[i].value);

    if (i < 0)
        return 0;
    if (!mask[i]) {
        mask[i] = pare_alloc_raw(t->arena, (size_t)n + 1, 1);
        if (!mask[i])
            return pare_no_memory(err, "for masks");
        memset(mask[i], 1, (size_t)n);
    }
    for (int64_t k = 0; k < n; k++)
        mask[i][k] &= any[k];
    return 0;
}

/* A channel without weights whose bias is 0 was removed: its bias, and the scale of a
 * normalization, which is its weight, stay 0. */
static int hold_channels(struct pare_trainer *t, const struct pare_layer_info *l, uint8_t **mask,
                         struct pare_err *err)
{
    const struct pare_value *w = pare_value_root(l->weight);
    const struct pare_value *b = l->bias ? pare_value_root(l->bias) : NULL;
    int out = -1, in = -1;
    int64_t inner = 1, n;
    uint8_t *any;

    if (!l->node->op || !l->node->op->axes || !b || w->t.dtype != PARE_F32 || !w->t.data ||
        b->t.dtype != PARE_F32 || !b->t.data)
        return 0;
    l->node->op->axes(l->node, &out, &in);
    out = pare_root_axis(l->weight, out);
    if (out < 0 || pare_numel(&b->t) != w->t.dim[out])
        return 0;
    n = w->t.dim[out];
    any = pare_alloc(t->arena, (size_t)n + 1, 1);
    if (!any)
        return pare_no_memory(err, "for masks");
    for (int i = out + 1; i < w->t.rank; i++)
        inner *= w->t.dim[i];
    for (int64_t i = 0; i < pare_numel(&w->t); i++)
        any[i / inner % n] |= pare_f32(&w->t)[i] != 0;
    for (int64_t i = 0; i < n; i++)
        any[i] |= pare_f32(&b->t)[i] != 0;
    if (!memchr(any, 0, (size_t)n))
        return 0;
    PARE_TRY(hold(t, mask, b, any, err));
    return l->node->op->layer.norm && pare_numel(&w->t) == n ? hold(t, mask, w, any, err) : 0;
}

int pare_hold_zeros(struct pare_trainer *t, struct pare_err *err)
{
    uint8_t **mask = pare_alloc(t->arena, (size_t)t->n_params + 1, sizeof(*mask));
    struct pare_layer_info *info;
    struct pare_graph *g;
    int n_layers;

    if (!mask)
        return pare_no_memory(err, "for masks");
    PARE_TRY(pare_model_layers(t->model, t->arena, &g, &info, &n_layers, err));
    for (int i = 0; i < n_layers; i++)
        if (info[i].weight)
            PARE_TRY(hold_channels(t, &info[i], mask, err));
    for (int i = 0; i < t->n_params; i++) {
        const struct pare_value *v = pare_graph_find(t->model->graph, t->name[i]);
        int64_t n = v && v->t.rank > 1 ? pare_numel(&v->t) : 0, zeros = mask[i] != NULL;
        struct pare_tensor value;

        if (n && !mask[i])
            mask[i] = pare_alloc(t->arena, (size_t)n + 1, 1);
        if (n && !mask[i])
            return pare_no_memory(err, "for masks");
        for (int64_t k = 0; k < n; k++) {
            mask[i][k] = pare_f32(&v->t)[k] != 0;
            zeros += !mask[i][k];
        }
        if (zeros)
            PARE_TRY(pare_trainer_mask(t, t->name[i], mask[i], &value, err));
    }
    return 0;
}
