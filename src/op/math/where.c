/* where.c - Where: y = a if the condition holds, else b; broadcast. */
#include "elementwise.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_infer_broadcast(n, err));
    n->out[0]->t.dtype = n->in[1]->t.dtype;
    return 0;
}

/* Selecting only moves bytes, so only the size of an element matters. */
#define LOOP(type)                                                           \
    case sizeof(type):                                                       \
        for (int64_t r = 0; r < rows.n; r++, pare_walk_next(&rows.w)) {      \
            const uint8_t *cs = (const uint8_t *)in[0]->data + rows.w.at[0]; \
            const type *as = (const type *)in[1]->data + rows.w.at[1];       \
            const type *bs = (const type *)in[2]->data + rows.w.at[2];       \
            type *ys = (type *)y->data + r * len;                            \
                                                                             \
            for (int64_t i = 0; i < len; i++)                                \
                ys[i] = cs[i * sc] ? as[i * sa] : bs[i * sb];                \
        }                                                                    \
        return 0;

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[3] = { &n->in[0]->t, &n->in[1]->t, &n->in[2]->t };
    const struct pare_tensor *y = &n->out[0]->t;
    struct pare_rows rows;
    int64_t len;
    int sc, sa, sb;

    (void)c;
    pare_rows_start(&rows, y, in, 3);
    len = rows.len, sc = rows.step[0], sa = rows.step[1], sb = rows.step[2];
    switch (pare_dtype_size(y->dtype)) {
        LOOP(uint8_t)
        LOOP(uint16_t)
        LOOP(uint32_t)
        LOOP(uint64_t)
        LOOP(struct pare_str)
    default:
        return pare_fail(err, PARE_EUNSUPPORTED, "Where is not supported for %s",
                         pare_dtype_name(y->dtype));
    }
}

#define PIECE 512

/* The gradients of a row's elements that came from one operand. */
PARE_SIMD static void chosen(float *part, const float *gy, const uint8_t *cond, int step, bool side,
                             int64_t len)
{
    const bool all = (cond[0] != 0) == side;

    if (step) {
#pragma omp simd
        for (int64_t i = 0; i < len; i++)
            part[i] = (cond[i] != 0) == side ? gy[i] : 0;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < len; i++)
            part[i] = all ? gy[i] : 0;
    }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[3] = { &n->in[0]->t, &n->in[1]->t, &n->in[2]->t };
    const float *gy = pare_f32(&n->out[0]->grad);
    float part[PIECE];
    struct pare_rows r;

    (void)c, (void)err;
    if (!gy)
        return 0;
    pare_rows_start(&r, &n->out[0]->t, in, 3);
    for (int64_t i = 0; i < r.n; i++, pare_walk_next(&r.w))
        for (int64_t at = 0; at < r.len; at += PIECE)
            for (int k = 1; k <= 2; k++) {
                const uint8_t *cond = (const uint8_t *)in[0]->data + r.w.at[0] + at * r.step[0];
                int64_t len = r.len - at < PIECE ? r.len - at : PIECE;
                float *grad = pare_f32_mut(&n->in[k]->grad);

                if (!grad)
                    continue;
                chosen(part, gy + i * r.len + at, cond, r.step[0], k == 1, len);
                pare_add_row(grad + r.w.at[k] + at * r.step[k], r.step[k], part, len);
            }
    return 0;
}

const struct pare_op pare_op_where = {
    .type = "Where",
    .doc = "Select from two inputs by a condition.",
    .since = 9,
    .in = "BTT",
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
};
