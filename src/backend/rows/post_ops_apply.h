/* post_ops_apply.h - post-ops (residual sum, activations) and their vector loops. */
#ifndef PARE_BACKEND_ROWS_POST_OPS_APPLY_H
#define PARE_BACKEND_ROWS_POST_OPS_APPLY_H

#include <stdbool.h>
#include <stdint.h>

/* The order matters: Winograd's output transform applies the kinds up to PARE_POST_CLIP itself. */
enum pare_post_kind {
    PARE_POST_SUM,       /* + the other operand of a residual Add */
    PARE_POST_RELU,      /* alpha: slope below 0 */
    PARE_POST_CLIP,      /* alpha, beta: bounds */
    PARE_POST_SIGMOID,   /* 1 / (1 + exp(-x)) */
    PARE_POST_SWISH,     /* x sigmoid(alpha x) */
    PARE_POST_HARDSWISH, /* x clip(x + 3, 0, 6) / 6 */
    PARE_POST_GELU,      /* x P(N(0, 1) < x) */
    /* Not implemented by pare_post_ops_run(): */
    PARE_POST_TANH,
    PARE_POST_ELU,   /* alpha: limit below 0 */
    PARE_POST_ROUND, /* to the nearest integer, halves to even */
};

struct pare_post_op {
    enum pare_post_kind kind;
    float alpha, beta;
};

/* `rows` rows of n floats (n a multiple of 8) with a stride of `step` floats.  sum, the operand of
 * PARE_POST_SUM or NULL, has the same shape and stride as y. */
struct pare_post_area {
    float *y;
    const float *sum;
    int64_t rows, step, n;
};

/* Apply the post-ops to y in place, in order. */
void pare_post_ops_run(const struct pare_post_op *post, int n_post, const struct pare_post_area *a);

#endif
