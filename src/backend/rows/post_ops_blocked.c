/* post_ops_blocked.c - all kinds of post-ops by plain loops, for the sparse kernels. */
#include "../fuse/post_ops.h"

#include "../../base/simd.h"
#include "../../tensor/vmath.h"

#define EACH(value)                   \
    for (int64_t i = 0; i < n; i++) { \
        float x = y[i];               \
                                      \
        y[i] = value;                 \
    }                                 \
    break

PARE_SIMD static void eltwise(const struct pare_post_op *o, float *y, int64_t n)
{
    float a = o->alpha, b = o->beta;

    switch (o->kind) {
    case PARE_POST_RELU: EACH(x < 0 ? a * x : x);
    case PARE_POST_SIGMOID: EACH(pare_sigmoidf(x));
    case PARE_POST_TANH: EACH(pare_tanhf(x));
    case PARE_POST_ELU: EACH(x < 0 ? a * pare_expm1f(x) : x);
    case PARE_POST_SWISH: EACH(x * pare_sigmoidf(a * x));
    case PARE_POST_CLIP: EACH((x < a ? a : x) > b ? b : (x < a ? a : x));
    case PARE_POST_HARDSWISH: EACH(x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) * (1.0f / 6));
    case PARE_POST_SUM:
    case PARE_POST_GELU:
    case PARE_POST_ROUND: break; /* never here: pare_post_follow() */
    }
}

void pare_post_apply(const void *post, float *y, const float *sum, int64_t n)
{
    const struct pare_post *p = post;

    for (int k = 0; k < p->n; k++)
        if (p->op[k].kind == PARE_POST_SUM)
            for (int64_t i = 0; i < n; i++)
                y[i] += sum[i];
        else
            eltwise(&p->op[k], y, n);
}

static bool is_relu(const struct pare_post_op *o)
{
    return o->kind == PARE_POST_RELU && o->alpha == 0;
}

struct pare_end pare_post_end(const struct pare_post *p)
{
    struct pare_end e = { PARE_END_APPLY, pare_post_apply, p };

    if (!p->n)
        e.kind = PARE_END_NONE;
    else if (p->n == 1 && p->op[0].kind == PARE_POST_SUM)
        e.kind = PARE_END_SUM;
    else if (p->n == 1 && is_relu(&p->op[0]))
        e.kind = PARE_END_RELU;
    else if (p->n == 2 && p->op[0].kind == PARE_POST_SUM && is_relu(&p->op[1]))
        e.kind = PARE_END_SUM_RELU;
    return e;
}
