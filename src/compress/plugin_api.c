/* plugin_api.c - <pare/algorithm.h>: what algorithms read of a compression and its layers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "compression.h"

/* ---- layers ------------------------------------------------------------------------------ */

const char *pare_layer_name(const struct pare_layer *l)
{
    return l->info.name;
}

const char *pare_layer_type(const struct pare_layer *l)
{
    return l->info.torch;
}

int pare_layer_index(const struct pare_layer *l)
{
    return l->index;
}

const struct pare_tensor *pare_layer_weight(const struct pare_layer *l)
{
    return &l->w;
}

int pare_layer_set_weight(struct pare_layer *l, const struct pare_tensor *weight,
                          struct pare_err *err)
{
    PARE_ERR(err);
    if (!l->weight)
        return pare_fail(err, PARE_ECONFIG, "layer '%s' has no weight", l->info.name);
    if (weight->dtype != PARE_F32 || !pare_same_shape(weight, &l->w))
        return pare_fail(err, PARE_ESHAPE,
                         "the new weight of layer '%s' must be float32 and have the shape of the "
                         "old one",
                         l->info.name);
    memcpy(l->w.data, weight->data, (size_t)pare_numel(&l->w) * sizeof(float));
    return 0;
}

const struct pare_tensor *pare_layer_bias(const struct pare_layer *l)
{
    return l->bias ? &l->b : NULL;
}

struct pare_tensor *pare_layer_grad(const struct pare_layer *l)
{
    return l->compression->in_step && l->grad.data ? (struct pare_tensor *)&l->grad : NULL;
}

struct pare_tensor *pare_layer_bias_grad(const struct pare_layer *l)
{
    return l->compression->in_step && l->bias_grad.data ? (struct pare_tensor *)&l->bias_grad
                                                        : NULL;
}

const char *pare_compression_algorithm(const struct pare_compression *c)
{
    return c->algorithm[0]->name;
}

struct pare_tensor *pare_layer_mask(struct pare_layer *l)
{
    struct pare_err err;

    if (l->weight && pare_mask_new(l->compression, &l->w, &l->mask, &err))
        return NULL;
    return &l->mask;
}

struct pare_tensor *pare_layer_bias_mask(struct pare_layer *l)
{
    struct pare_err err;

    if (l->bias && pare_mask_new(l->compression, &l->b, &l->bias_mask, &err))
        return NULL;
    return l->bias ? &l->bias_mask : NULL;
}

int pare_layer_out_axis(const struct pare_layer *l)
{
    return l->out_axis;
}

int pare_layer_output_axis(const struct pare_layer *l, int rank)
{
    const struct pare_op *op = l->info.node->op;

    return op && op->layer.kind == PARE_LAYER_CONV ? 1 : rank - 1;
}

int pare_layer_in_axis(const struct pare_layer *l)
{
    return l->in_axis;
}

const void *pare_layer_conf(const struct pare_layer *l)
{
    return l->conf[l->compression->current];
}

void *pare_layer_state(struct pare_layer *l)
{
    return l->state[l->compression->current];
}

struct pare_compression *pare_layer_compression(const struct pare_layer *l)
{
    return l->compression;
}

static struct pare_buffer *find_buffer(const struct pare_layer *l, const char *name)
{
    for (struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, name))
            return b;
    return NULL;
}

static struct pare_tensor *fail(struct pare_err *err, const struct pare_layer *l, const char *name)
{
    pare_no_memory(err, "for the buffer '%s' of layer '%s'", name, l->info.name);
    return NULL;
}

struct pare_tensor *pare_layer_buffer(struct pare_layer *l, const char *name, enum pare_dtype dtype,
                                      int rank, const int64_t *dim, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_arena *a = l->compression->arena;
    struct pare_buffer *b = find_buffer(l, name);
    struct pare_tensor want = { .dtype = dtype, .rank = rank };

    if (rank < 0 || rank > PARE_MAX_RANK) {
        pare_fail(err, PARE_ESHAPE, "a buffer has at most %d dimensions, '%s' has %d",
                  PARE_MAX_RANK, name, rank);
        return NULL;
    }
    for (int i = 0; i < rank; i++)
        want.dim[i] = dim[i];
    if (b && (b->t.dtype != dtype || !pare_same_shape(&b->t, &want))) {
        pare_fail(err, PARE_ESHAPE, "the buffer '%s' of layer '%s' exists with another shape", name,
                  l->info.name);
        return NULL;
    }
    if (b)
        return &b->t;
    b = pare_alloc(a, 1, sizeof(*b));
    if (!b)
        return fail(err, l, name);
    b->name = pare_strdup(a, name);
    if (!b->name || pare_tensor_new(a, &b->t, dtype, rank, dim, err))
        return fail(err, l, name);
    b->next = l->buffers;
    l->buffers = b;
    return &b->t;
}

/* m and v are PyTorch's exp_avg and exp_avg_sq. */
int pare_layer_adam(struct pare_layer *l, const char *buffer, const float *grad, double lr,
                    struct pare_err *err)
{
    PARE_ERR(err);
    static const int64_t one = 1;
    const double beta1 = 0.9, beta2 = 0.999;
    struct pare_buffer *b = find_buffer(l, buffer);
    struct pare_tensor *m, *v, *step;
    char name[3][128];
    double c1, c2;

    if (!b || b->t.dtype != PARE_F32 || strlen(buffer) > 100)
        return pare_fail(err, PARE_ECONFIG, "layer '%s' has no float32 buffer '%.100s' to learn",
                         l->info.name, buffer);
    snprintf(name[0], sizeof(name[0]), "%s.exp_avg", buffer);
    snprintf(name[1], sizeof(name[1]), "%s.exp_avg_sq", buffer);
    snprintf(name[2], sizeof(name[2]), "%s.step", buffer);
    m = pare_layer_buffer(l, name[0], PARE_F32, b->t.rank, b->t.dim, err);
    v = m ? pare_layer_buffer(l, name[1], PARE_F32, b->t.rank, b->t.dim, err) : NULL;
    step = v ? pare_layer_buffer(l, name[2], PARE_I64, 1, &one, err) : NULL;
    if (!step)
        return err->code;
    ++*pare_i64_mut(step);
    c1 = 1 - pow(beta1, (double)*pare_i64(step));
    c2 = sqrt(1 - pow(beta2, (double)*pare_i64(step)));
    for (int64_t i = 0, n = pare_numel(&b->t); i < n; i++) {
        float *pm = pare_f32_mut(m) + i, *pv = pare_f32_mut(v) + i;

        *pm = (float)(beta1 * (double)*pm + (1 - beta1) * (double)grad[i]);
        *pv = (float)(beta2 * (double)*pv + (1 - beta2) * (double)grad[i] * (double)grad[i]);
        pare_f32_mut(&b->t)[i] -= (float)(lr / c1 * (double)*pm / (sqrt((double)*pv) / c2 + 1e-8));
    }
    return 0;
}

/* ---- a compression --------------------------------------------------------------------------- */

int pare_compression_layers(const struct pare_compression *c)
{
    return c->n_layers - c->n_hidden;
}

struct pare_layer *pare_compression_layer(struct pare_compression *c, int i)
{
    return i >= 0 && i < c->n_layers - c->n_hidden ? &c->layer[i] : NULL;
}

const void *pare_compression_conf(const struct pare_compression *c)
{
    return c->conf[c->current];
}

void *pare_compression_state(struct pare_compression *c)
{
    return c->state[c->current];
}

struct pare_arena *pare_compression_scratch(struct pare_compression *c)
{
    return c->scratch;
}

struct pare_rng *pare_compression_rng(struct pare_compression *c)
{
    return &c->rng;
}

int pare_compression_threads(const struct pare_compression *c)
{
    return c->threads;
}

int64_t pare_compression_steps(const struct pare_compression *c)
{
    return c->trainer ? c->trainer->optim->step : 0;
}
