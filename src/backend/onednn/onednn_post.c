/* onednn_post.c - post-ops as oneDNN primitive attributes. */
#include "onednn_post.h"

static dnnl_alg_kind_t alg_of(enum pare_post_kind kind)
{
    switch (kind) {
    case PARE_POST_RELU: return dnnl_eltwise_relu;
    case PARE_POST_CLIP: return dnnl_eltwise_clip;
    case PARE_POST_SIGMOID: return dnnl_eltwise_logistic;
    case PARE_POST_SWISH: return dnnl_eltwise_swish;
    case PARE_POST_HARDSWISH: return dnnl_eltwise_hardswish;
    case PARE_POST_GELU: return dnnl_eltwise_gelu_erf;
    case PARE_POST_TANH: return dnnl_eltwise_tanh;
    case PARE_POST_ELU: return dnnl_eltwise_elu;
    case PARE_POST_ROUND: return dnnl_eltwise_round;
    case PARE_POST_SUM: break; /* not an eltwise operation */
    }
    return dnnl_alg_kind_undef;
}

bool pare_post_attr(const struct pare_post *p, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    bool ok = dnnl_primitive_attr_create(attr) == dnnl_success &&
              dnnl_post_ops_create(&ops) == dnnl_success;

    for (int i = 0; i < p->n && ok; i++) {
        const struct pare_post_op *o = &p->op[i];

        ok = (o->kind == PARE_POST_SUM
                  ? dnnl_post_ops_append_sum(ops, 1)
                  : dnnl_post_ops_append_eltwise(ops, 1, alg_of(o->kind), o->alpha, o->beta)) ==
             dnnl_success;
    }
    ok = ok && dnnl_primitive_attr_set_post_ops(*attr, ops) == dnnl_success &&
         pare_dnnl_user_scratch(*attr);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return ok;
}
