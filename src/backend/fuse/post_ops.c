/* post_ops.c - which activations and sums oneDNN can do behind a primitive. */
#include "post_ops.h"

#include <math.h>

#include "../../op/op.h"

static bool const_scalar(const struct pare_value *v, float *out)
{
    if (!v || !pare_is_const(v) || !pare_is_f32(v) || !v->t.data || pare_numel(&v->t) != 1)
        return false;
    *out = pare_f32(&v->t)[0];
    return true;
}

static bool clip_bounds(const struct pare_node *n, struct pare_post_op *p)
{
    p->alpha = -INFINITY;
    p->beta = INFINITY;
    if (n->version < 11) {
        p->alpha = (float)pare_attr(n, "min");
        p->beta = (float)pare_attr(n, "max");
        return true;
    }
    return (n->n_in < 2 || !n->in[1] || const_scalar(n->in[1], &p->alpha)) &&
           (n->n_in < 3 || !n->in[2] || const_scalar(n->in[2], &p->beta));
}

/* The activation as oneDNN knows it. */
static bool activation(const struct pare_node *n, struct pare_post_op *p)
{
    static const struct {
        const char *type;
        dnnl_alg_kind_t alg;
    } plain[] = {
        { "Relu", dnnl_eltwise_relu },        { "LeakyRelu", dnnl_eltwise_relu },
        { "Sigmoid", dnnl_eltwise_logistic }, { "Tanh", dnnl_eltwise_tanh },
        { "Elu", dnnl_eltwise_elu },          { "HardSwish", dnnl_eltwise_hardswish },
        { "Clip", dnnl_eltwise_clip },
    };

    *p = (struct pare_post_op){ 0 };
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        if (!strcmp(n->type, plain[i].type)) {
            p->alg = plain[i].alg;
            p->alpha = (float)pare_attr(n, "alpha");
            return p->alg != dnnl_eltwise_clip || clip_bounds(n, p);
        }
    return false;
}

/* x * gate(x): Sigmoid gives swish, HardSigmoid(1/6, 1/2) gives hardswish.  Both nodes. */
static bool gated(const struct pare_match *v, const struct pare_value *x, struct pare_post_op *p,
                  struct pare_node **gate, struct pare_node **mul)
{
    const struct pare_uses *u = &v->use[x->id];

    if (u->n != 2 || x->flags & PARE_V_OUTPUT)
        return false;
    *gate = u->node[0]->n_in == 1 ? u->node[0] : u->node[1];
    *mul = *gate == u->node[0] ? u->node[1] : u->node[0];
    if (strcmp((*mul)->type, "Mul") || pare_only_use(v, (*gate)->out[0]) != *mul)
        return false;
    if (!strcmp((*gate)->type, "Sigmoid")) {
        *p = (struct pare_post_op){ .alg = dnnl_eltwise_swish, .alpha = 1 };
        return true;
    }
    *p = (struct pare_post_op){ .alg = dnnl_eltwise_hardswish };
    return !strcmp((*gate)->type, "HardSigmoid") &&
           fabs(pare_attr(*gate, "alpha") - 1.0 / 6) < 1e-6 &&
           fabs(pare_attr(*gate, "beta") - 0.5) < 1e-6;
}

static struct pare_value *other_of(const struct pare_node *n, const struct pare_value *x)
{
    return n->in[0] == x ? n->in[1] : n->in[0];
}

static bool can_sum(const struct pare_match *v, const struct pare_node *n,
                    const struct pare_value *x)
{
    const struct pare_value *o = n->n_in == 2 ? other_of(n, x) : NULL;

    return o && !strcmp(n->type, "Add") && o != x && pare_is_f32(o) && !pare_is_const(o) &&
           pare_is_made(v, o) && pare_same_shape(&o->t, &x->t);
}

/* oneDNN 2.6 keeps one generator of code for each algorithm: a second use of it would get the
 * numbers of the first. */
static bool clashes(const struct pare_post *p, const struct pare_post_op *op)
{
    for (int i = 0; i < p->n; i++)
        if (!p->op[i].sum && p->op[i].alg == op->alg &&
            (p->op[i].alpha != op->alpha || p->op[i].beta != op->beta))
            return true;
    return false;
}

struct pare_value *pare_post_follow(const struct pare_match *v, struct pare_value *x, bool sum,
                                    struct pare_post *p)
{
    struct pare_node *next, *gate, *mul;

    while (p->n < PARE_MAX_POST) {
        struct pare_post_op op;

        next = pare_only_use(v, x);
        if (next && activation(next, &op) && !clashes(p, &op)) {
            p->node[p->n_nodes++] = next;
        } else if (next && sum && !p->sum && can_sum(v, next, x)) {
            op = (struct pare_post_op){ .sum = true };
            p->sum = other_of(next, x);
            p->node[p->n_nodes++] = next;
        } else if (gated(v, x, &op, &gate, &mul)) {
            p->node[p->n_nodes++] = gate;
            p->node[p->n_nodes++] = mul;
        } else {
            break;
        }
        p->op[p->n++] = op;
        x = p->node[p->n_nodes - 1]->out[0];
    }
    return x;
}

bool pare_post_attr(const struct pare_post *p, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    bool ok = dnnl_primitive_attr_create(attr) == dnnl_success &&
              dnnl_post_ops_create(&ops) == dnnl_success;

    for (int i = 0; i < p->n && ok; i++) {
        const struct pare_post_op *o = &p->op[i];

        ok = (o->sum ? dnnl_post_ops_append_sum(ops, 1)
                     : dnnl_post_ops_append_eltwise(ops, 1, o->alg, o->alpha, o->beta)) ==
             dnnl_success;
    }
    ok = ok && dnnl_primitive_attr_set_post_ops(*attr, ops) == dnnl_success &&
         pare_dnnl_user_scratch(*attr);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return ok;
}
