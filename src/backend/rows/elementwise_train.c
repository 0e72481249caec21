/* elementwise_train.c - training of elementwise operators, in any layout.
 *
 * One operand, two of the same shape, or one and a constant scalar; both passes use the operator's
 * map and dmap, chunk by chunk.
 */
#include "../backend.h"

#define CHUNK 2048

struct map {
    int64_t count; /* elements, padding lanes included */
    int64_t channels, rows, length;
    int block;
    const float *number; /* the constant scalar operand; NULL: none */
    int number_at;       /* its input index */
};

static bool small_settings(const struct pare_node *n)
{
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!pare_is_const(n->in[i]) || !n->in[i]->t.data))
            return false;
    return true;
}

/* Do the operands have the shape of the result, except for one constant scalar? */
static bool read_operands(const struct pare_match *v, struct pare_node *n, bool two, struct map *c)
{
    c->block = 1;
    for (int i = 0; i < (two ? 2 : 1); i++) {
        const struct pare_value *x = n->in[i];

        if (two && !c->number && pare_is_f32(x) && pare_is_const(x) && x->t.data &&
            pare_numel(&x->t) == 1) {
            c->number = pare_f32(&x->t);
            c->number_at = i;
            continue;
        }
        if (!pare_is_f32(x) || !pare_same_shape(&x->t, &n->out[0]->t) || pare_is_fixed(x))
            return false;
        if (pare_block_of(v, x) > c->block)
            c->block = pare_block_of(v, x);
    }
    return true;
}

static bool elementwise_train_match(const struct pare_match *v, struct pare_node *n,
                                    struct pare_step *s)
{
    bool one = n->op->map && n->op->dmap && small_settings(n);
    bool two = n->op->map2 && n->op->dmap2 && n->n_in == 2 && n->version >= 7;
    struct map *c;
    int block;

    if (!v->train || (!one && !two) || n->n_out != 1 || !pare_is_f32(n->out[0]) ||
        !pare_numel(&n->out[0]->t))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !read_operands(v, n, two, c) ||
        !pare_step_lists(s, v, two && !c->number ? 2 : 1, 1, 0))
        return false;
    block = c->block;
    c->count = pare_block_numel(&n->out[0]->t, block);
    if (block > 1) {
        c->channels = n->out[0]->t.dim[1];
        c->rows = n->out[0]->t.dim[0] * ((c->channels + block - 1) / block);
        c->length = c->count / c->rows;
    }
    for (int i = 0; i < s->n_in; i++) {
        s->in[i] = n->in[c->number && c->number_at == 0 ? 1 : i];
        s->in_block[i] = block;
    }
    s->out[0] = n->out[0];
    s->out_block[0] = block;
    s->state = c;
    s->grad_inplace = 1;
    if (n->op->flags & PARE_OP_LINEAR)
        s->unsaved_in = s->unsaved_out = ~0u;
    else if (one && n->op->flags & PARE_OP_BY_Y)
        s->unsaved_in = ~0u;
    s->inplace = s->unsaved_in ? 1 : 0;
    return true;
}

/* Lanes beyond the channels are zero, whatever f(0) is. */
static void clear_padding(const struct map *c, float *y)
{
    int64_t blocks = c->block > 1 ? (c->channels + c->block - 1) / c->block : 0;
    int64_t used = c->block > 1 ? c->channels % c->block : 0;

    if (!used)
        return;
    for (int64_t r = blocks - 1; r < c->rows; r += blocks)
        for (int64_t i = 0; i < c->length; i += c->block)
            memset(y + r * c->length + i + used, 0, (size_t)(c->block - used) * sizeof(*y));
}

static int elementwise_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct map *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    const float *z = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) : NULL;
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->count > 16384)
    for (int64_t i = 0; i < c->count; i += CHUNK) {
        int64_t n = c->count - i < CHUNK ? c->count - i : CHUNK;

        if (c->number && c->number_at)
            s->node->op->map2(s->node, x + i, 1, c->number, 0, y + i, n);
        else if (c->number)
            s->node->op->map2(s->node, c->number, 0, x + i, 1, y + i, n);
        else if (z)
            s->node->op->map2(s->node, x + i, 1, z + i, 1, y + i, n);
        else
            s->node->op->map(s->node, x + i, y + i, n);
    }
    clear_padding(c, y);
    return 0;
}

static void store_grad(float *grad, const float *piece, int64_t n, bool first)
{
    if (first)
        memcpy(grad, piece, (size_t)n * sizeof(*grad));
    else
        for (int64_t i = 0; i < n; i++)
            grad[i] += piece[i];
}

static void backward_two(struct pare_step *s, int64_t i, int64_t n)
{
    const float *a = pare_f32(&s->in_buf[0]->t) + i, *z = pare_f32(&s->in_buf[1]->t) + i;
    struct pare_buf *ga = s->in_buf[0]->grad, *gz = s->in_buf[1]->grad;
    float pa[CHUNK], pz[CHUNK];

    s->node->op->dmap2(s->node, a, 1, z, 1, pare_f32(&s->out_buf[0]->grad->t) + i, ga ? pa : NULL,
                       gz ? pz : NULL, n);
    if (ga)
        store_grad(pare_f32_mut(&ga->t) + i, pa, n, s->grad_assign[0]);
    if (gz)
        store_grad(pare_f32_mut(&gz->t) + i, pz, n, s->grad_assign[1]);
}

static void backward_scalar(struct pare_step *s, const struct map *c, int64_t i, int64_t n)
{
    const float *x = pare_f32(&s->in_buf[0]->t) + i, *gy = pare_f32(&s->out_buf[0]->grad->t) + i;
    float part[CHUNK];

    if (c->number_at)
        s->node->op->dmap2(s->node, x, 1, c->number, 0, gy, part, NULL, n);
    else
        s->node->op->dmap2(s->node, c->number, 0, x, 1, gy, NULL, part, n);
    store_grad(pare_f32_mut(&s->in_buf[0]->grad->t) + i, part, n, s->grad_assign[0]);
}

static int elementwise_train_backward(struct pare_step *s, struct pare_backend *b,
                                      struct pare_err *err)
{
    const struct map *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t), *y = pare_f32(&s->out_buf[0]->t);
    const float *gy = pare_f32(&s->out_buf[0]->grad->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->count > 16384)
    for (int64_t i = 0; i < c->count; i += CHUNK) {
        int64_t n = c->count - i < CHUNK ? c->count - i : CHUNK;

        if (c->number) {
            backward_scalar(s, c, i, n);
        } else if (s->n_in > 1) {
            backward_two(s, i, n);
        } else {
            float *gx = pare_f32_mut(&s->in_buf[0]->grad->t) + i, part[CHUNK];

            if (s->grad_assign[0]) { /* into a separate chunk, since gx may be gy */
                memset(part, 0, (size_t)n * sizeof(*part));
                s->node->op->dmap(s->node, x + i, y + i, gy + i, part, n);
                memcpy(gx, part, (size_t)n * sizeof(*part));
            } else {
                s->node->op->dmap(s->node, x + i, y + i, gy + i, gx, n);
            }
        }
    }
    for (int k = 0; k < s->n_in; k++)
        if (s->in_buf[k]->grad)
            clear_padding(c, pare_f32_mut(&s->in_buf[k]->grad->t));
    return 0;
}

const struct pare_kernel pare_kernel_elementwise_train = {
    .name = "elementwise_train",
    .doc = "Training of elementwise operators.",
    .match = elementwise_train_match,
    .run = elementwise_train_run,
    .backward = elementwise_train_backward,
};
