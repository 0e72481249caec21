/* learned_scales.c - quantizers in training: gradients of weights, learned scales. */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "conv_bn_quant.h"

/* Replace the gradient with respect to the quantized weight by the quantizer's. */
static int plain_grad(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct pare_tensor gx = l->grad;
    size_t bytes = (size_t)pare_numel(&gx) * sizeof(float);

    if (!r->quant->quantizer->backward)
        return 0;
    for (int64_t i = 0; r->quant->keep_zeros && i < pare_numel(&gx); i++)
        if (!((const uint8_t *)l->mask.data)[i])
            pare_f32_mut(&gx)[i] = 0;
    if (r->algorithm[0]->flags & PARE_ANY_ORDER)
        return r->quant->quantizer->backward(l, PARE_WEIGHT, &l->w, &l->grad, &gx, err);
    gx.data = pare_alloc_raw(r->scratch, bytes, 1);
    if (!gx.data)
        return pare_no_memory(err, "for a quantizer");
    PARE_TRY(r->quant->quantizer->backward(l, PARE_WEIGHT, &l->w, &l->grad, &gx, err));
    memcpy(l->grad.data, gx.data, bytes);
    return 0;
}

static int weight_grad(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct pare_call_scope t = pare_call_begin(r, 0);
    int rc = l->quant->norm ? pare_conv_bn_grad(l, err) : plain_grad(r, l, err);

    pare_call_end(r, t);
    return pare_at(err, rc, "weight of layer '%s'", l->info.name);
}

int pare_quant_weight_grads(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].quant->quantized[PARE_WEIGHT] && r->layer[i].grad.data)
            PARE_TRY(weight_grad(r, &r->layer[i], err));
    return 0;
}

/* ---- buffers of the best parameters ---------------------------------------------------------- */

#define KEPT "best." /* prefix of these buffers; checkpoints store them like all others */

static struct pare_buffer *best_buffer(const struct pare_layer *l, const char *name)
{
    for (struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strncmp(b->name, KEPT, strlen(KEPT)) && !strcmp(b->name + strlen(KEPT), name))
            return b;
    return NULL;
}

static int keep_best(struct pare_layer *l, struct pare_buffer *b, bool back, struct pare_err *err)
{
    size_t bytes = (size_t)pare_numel(&b->t) * pare_dtype_size(b->t.dtype);
    struct pare_buffer *kept = best_buffer(l, b->name);
    struct pare_tensor *t;
    char *name;

    if (back && kept)
        memcpy(b->t.data, kept->t.data, bytes);
    if (back)
        return 0;
    name = pare_sprintf(l->compression->scratch, KEPT "%s", b->name);
    if (!name)
        return pare_no_memory(err, "for a quantizer");
    t = pare_layer_buffer(l, name, b->t.dtype, b->t.rank, b->t.dim, err);
    if (!t)
        return err->code;
    memcpy(t->data, b->t.data, bytes);
    return 0;
}

/* Scales belong to the weights that they were learned with: keep and restore both. */
int pare_quant_keep(struct pare_compression *r, bool back, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(r->scratch);
    int rc = 0;

    for (int i = 0; i < r->n_layers; i++)
        for (struct pare_buffer *b = r->layer[i].buffers; b && !rc; b = b->next)
            if (strncmp(b->name, KEPT, strlen(KEPT)) != 0)
                rc = keep_best(&r->layer[i], b, back, err);
    pare_rewind(r->scratch, mark);
    return rc || !back ? rc : pare_compression_write_weights(r, err);
}

/* ---- learned buffers ----------------------------------------------------------------------- */

/* Merges the gradients of learned buffers, before those of weights are computed.  Also sends the
 * random state: a process may have drawn fewer numbers for gradients than the others. */
int pare_quant_merge_learned(struct pare_compression *r, struct pare_err *err)
{
    if (!r->dist)
        return 0;
    for (struct pare_learned_buffer *b = r->quant->learned; b; b = b->next)
        PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F32, b->grad.data,
                                 pare_numel(&b->grad), err));
    return pare_dist_broadcast(r->dist, &r->rng, sizeof(r->rng), err);
}

struct pare_tensor *pare_layer_learn(struct pare_layer *l, const char *buffer, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_compression *r = l->compression;
    char *name = pare_sprintf(r->arena, "%s.%s", l->info.name, buffer);
    struct pare_learned_buffer *b = r->quant->learned;
    struct pare_buffer *of = l->buffers;

    while (name && b && strcmp(b->name, name))
        b = b->next;
    if (b)
        return &b->grad;
    while (of && strcmp(of->name, buffer))
        of = of->next;
    if (!of || of->t.dtype != PARE_F32 || r->quant->optim) {
        pare_fail(err, PARE_ECONFIG, "layer '%s' has no float32 buffer '%.64s' to learn%s",
                  l->info.name, buffer,
                  r->quant->optim ? ", or training has begun without it" : "");
        return NULL;
    }
    b = pare_alloc(r->arena, 1, sizeof(*b));
    if (!name || !b || pare_tensor_new(r->arena, &b->grad, PARE_F32, of->t.rank, of->t.dim, err)) {
        pare_no_memory(err, "for a quantizer");
        return NULL;
    }
    b->name = name;
    b->value = of->t;
    b->next = r->quant->learned;
    r->quant->learned = b;
    return &b->grad;
}

int pare_quant_optim(struct pare_compression *r, struct pare_err *err)
{
    const struct pare_trainer_opts *t = &r->trainer->o;
    struct pare_optim_opts o = { .type = t->optimizer, .conf = t->optimizer_conf, .threads = 1 };
    struct pare_optim_param *p;
    int n = 0;

    for (struct pare_learned_buffer *b = r->quant->learned; b; b = b->next)
        n++;
    p = pare_alloc(r->arena, (size_t)n, sizeof(*p));
    if (!p)
        return pare_no_memory(err, "for a quantizer");
    for (struct pare_learned_buffer *b = r->quant->learned; b; b = b->next)
        p[o.n_params++] = (struct pare_optim_param){ .name = b->name,
                                                     .value = b->value,
                                                     .grad = b->grad };
    o.param = p;
    return pare_optim_new(r->arena, &o, &r->quant->optim, err);
}

int pare_quant_learn_step(struct pare_compression *r, struct pare_err *err)
{
    if (!r->quant->learned)
        return 0;
    if (!r->quant->optim)
        PARE_TRY(pare_quant_optim(r, err));
    PARE_TRY(pare_optim_step(r->quant->optim, r->trainer->lr, err));
    for (struct pare_learned_buffer *b = r->quant->learned; b; b = b->next)
        memset(b->grad.data, 0, (size_t)pare_numel(&b->grad) * sizeof(float));
    return 0;
}
