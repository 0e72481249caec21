/* post_ops_blocked.c - what is fused behind a head, for kernels of our own. */
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

    switch ((int)o->alg) {
    case dnnl_eltwise_relu: EACH(x < 0 ? a * x : x);
    case dnnl_eltwise_logistic: EACH(pare_sigmoidf(x));
    case dnnl_eltwise_tanh: EACH(pare_tanhf(x));
    case dnnl_eltwise_elu: EACH(x < 0 ? a * pare_expm1f(x) : x);
    case dnnl_eltwise_swish: EACH(x * pare_sigmoidf(a * x));
    case dnnl_eltwise_clip: EACH((x < a ? a : x) > b ? b : (x < a ? a : x));
    case dnnl_eltwise_hardswish: EACH(x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) * (1.0f / 6));
    }
}

void pare_post_apply(const void *post, float *y, const float *sum, int64_t n)
{
    const struct pare_post *p = post;

    for (int k = 0; k < p->n; k++)
        if (p->op[k].sum)
            for (int64_t i = 0; i < n; i++)
                y[i] += sum[i];
        else
            eltwise(&p->op[k], y, n);
}

static bool is_relu(const struct pare_post_op *o)
{
    return !o->sum && o->alg == dnnl_eltwise_relu && o->alpha == 0;
}

struct pare_end pare_post_end(const struct pare_post *p)
{
    struct pare_end e = { PARE_END_APPLY, pare_post_apply, p };

    if (!p->n)
        e.kind = PARE_END;
    else if (p->n == 1 && p->op[0].sum)
        e.kind = PARE_END_SUM;
    else if (p->n == 1 && is_relu(&p->op[0]))
        e.kind = PARE_END_RELU;
    else if (p->n == 2 && p->op[0].sum && is_relu(&p->op[1]))
        e.kind = PARE_END_SUM_RELU;
    return e;
}
