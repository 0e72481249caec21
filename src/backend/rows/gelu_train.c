/* gelu_train.c - training of GELU written as Div, Erf, Add, Mul, Mul (before opset 20).
 *
 *     y = x (1 + erf(x / sqrt 2)) / 2
 *
 * Fused, so that no value between x and y is saved for the backward pass.
 */
#include "../fuse/gelu_match.h"

#include "../../base/simd.h"
#include "../../tensor/vmath.h"

#define CHUNK 4096
#define NODES PARE_GELU_NODES

struct gelu {
    int64_t count; /* elements, padding lanes included: 0 maps to 0 */
};

static bool gelu_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_node *list[NODES];
    struct gelu *c;
    int block;

    if (!v->train || n->n_in < 1 || !pare_is_f32(n->in[0]) || pare_is_fixed(n->in[0]) ||
        !pare_gelu_match(v, n, list) ||
        !pare_same_shape(&n->in[0]->t, &list[NODES - 1]->out[0]->t) || !pare_numel(&n->in[0]->t))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 1, 1, NODES))
        return false;
    block = pare_block_of(v, n->in[0]);
    c->count = pare_block_numel(&n->in[0]->t, block);
    memcpy(s->fused, list, sizeof(list));
    s->in[0] = n->in[0];
    s->out[0] = list[NODES - 1]->out[0];
    s->in_block[0] = s->out_block[0] = block;
    s->state = c;
    s->unsaved_out = ~0u;
    s->grad_inplace = 1;
    return true;
}

PARE_SIMD static void forward_chunk(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = pare_geluf(x[i]);
}

PARE_SIMD static void assign_grad(const float *x, const float *gy, float *gx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        gx[i] = gy[i] * pare_gelu_slopef(x[i]);
}

PARE_SIMD static void add_grad(const float *x, const float *gy, float *gx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        gx[i] += gy[i] * pare_gelu_slopef(x[i]);
}

static int gelu_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct gelu *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32(&s->out_buf[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->count > CHUNK)
    for (int64_t i = 0; i < c->count; i += CHUNK)
        forward_chunk(x + i, y + i, c->count - i < CHUNK ? c->count - i : CHUNK);
    return 0;
}

static int gelu_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct gelu *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t), *gy = pare_f32(&s->out_buf[0]->grad->t);
    float *gx = pare_f32(&s->in_buf[0]->grad->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->count > CHUNK)
    for (int64_t i = 0; i < c->count; i += CHUNK)
        (s->grad_assign[0] ? assign_grad : add_grad)(x + i, gy + i, gx + i,
                                                     c->count - i < CHUNK ? c->count - i : CHUNK);
    return 0;
}

const struct pare_kernel pare_kernel_gelu_train = {
    .name = "gelu_train",
    .doc = "Training of GELU decomposed with Erf.",
    .match = gelu_train_match,
    .run = gelu_train_run,
    .backward = gelu_train_backward,
};
