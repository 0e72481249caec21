/* gradient.c - backward() functions that fit many operators. */
#include "op.h"

int pare_backward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    (void)c, (void)err;
    if (x->grad.data && y->grad.data)
        n->op->dmap(n, pare_f32(&x->t), pare_f32(&y->t), pare_f32(&y->grad), pare_f32(&x->grad),
                    pare_numel(&x->t));
    return 0;
}

#define ROW 512

/* Where the rows of the result start in both operands. */
struct rows {
    struct pare_walk w;
    int64_t count, length;
    int stride[2];
};

static void rows_start(struct rows *r, const struct pare_node *n)
{
    const struct pare_tensor *in[2] = { &n->in[0]->t, &n->in[1]->t }, *y = &n->out[0]->t;

    pare_walk_start(&r->w, y, in, 2);
    r->length = y->rank ? y->dim[y->rank - 1] : 1;
    r->count = r->length ? pare_numel(y) / r->length : 0;
    r->stride[0] = y->rank ? (int)r->w.stride[0][y->rank - 1] : 1;
    r->stride[1] = y->rank ? (int)r->w.stride[1][y->rank - 1] : 1;
    if (y->rank)
        r->w.rank--;            /* walk the rows only */
}

/* Add a piece of a row to a gradient that moves with it, or its sum to one that stands still. */
static void add_piece(const float *piece, int64_t n, float *grad, int stride)
{
    double sum = 0;

    if (stride) {
        for (int64_t i = 0; i < n; i++)
            grad[i] += piece[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        sum += (double)piece[i];
    grad[0] += (float)sum;
}

int pare_backward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *grad[2] = { pare_f32(&n->in[0]->grad), pare_f32(&n->in[1]->grad) };
    const float *x[2] = { pare_f32(&n->in[0]->t), pare_f32(&n->in[1]->t) };
    float piece[2][ROW];
    struct rows r;

    (void)c, (void)err;
    if (!gy || (!grad[0] && !grad[1]))
        return 0;
    rows_start(&r, n);
    for (int64_t i = 0; i < r.count; i++, pare_walk_next(&r.w))
        for (int64_t k = 0; k < r.length; k += ROW) {
            int64_t len = r.length - k < ROW ? r.length - k : ROW;
            int64_t a = r.w.at[0] + (r.stride[0] ? k : 0), b = r.w.at[1] + (r.stride[1] ? k : 0);

            n->op->dmap2(n, x[0] + a, r.stride[0], x[1] + b, r.stride[1], gy + i * r.length + k,
                         grad[0] ? piece[0] : NULL, grad[1] ? piece[1] : NULL, len);
            if (grad[0])
                add_piece(piece[0], len, grad[0] + a, r.stride[0]);
            if (grad[1])
                add_piece(piece[1], len, grad[1] + b, r.stride[1]);
        }
    return 0;
}

int pare_backward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32(&n->in[0]->grad);
    int64_t count = pare_numel(&n->in[0]->t);

    (void)c, (void)err;
    for (int64_t i = 0; gx && gy && i < count; i++)
        gx[i] += gy[i];
    return 0;
}
