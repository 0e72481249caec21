/* post_ops.c - match activations and residual Adds that a product or convolution can fuse. */
#include "post_ops.h"

#include <math.h>

#include "../../op/op.h"

static bool clip_bounds(const struct pare_node *n, struct pare_post_op *p)
{
    double lo, hi;

    if (!n->op->clamp(n, &lo, &hi))
        return false;
    p->alpha = (float)lo;
    p->beta = (float)hi;
    return true;
}

static bool activation(const struct pare_node *n, struct pare_post_op *p)
{
    static const struct {
        const struct pare_op *op;
        enum pare_post_kind kind;
    } plain[] = {
        { &pare_op_relu, PARE_POST_RELU },       { &pare_op_leaky_relu, PARE_POST_RELU },
        { &pare_op_sigmoid, PARE_POST_SIGMOID }, { &pare_op_tanh, PARE_POST_TANH },
        { &pare_op_elu, PARE_POST_ELU },         { &pare_op_hard_swish, PARE_POST_HARDSWISH },
        { &pare_op_clip, PARE_POST_CLIP },       { &pare_op_swish, PARE_POST_SWISH },
    };

    *p = (struct pare_post_op){ 0 };
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        if (pare_node_is(n, plain[i].op)) {
            p->kind = plain[i].kind;
            p->alpha = (float)pare_attr(n, "alpha");
            return p->kind != PARE_POST_CLIP || clip_bounds(n, p);
        }
    return false;
}

static struct pare_value *other_of(const struct pare_node *n, const struct pare_value *x)
{
    return n->in[0] == x ? n->in[1] : n->in[0];
}

static bool can_sum(const struct pare_match *v, const struct pare_node *n,
                    const struct pare_value *x)
{
    const struct pare_value *o = n->n_in == 2 ? other_of(n, x) : NULL;

    return o && pare_node_is(n, &pare_op_add) && o != x && pare_is_f32(o) && !pare_is_const(o) &&
           pare_is_computed(v, o) && pare_same_shape(&o->t, &x->t);
}

/* oneDNN 2.6 keeps one code generator per eltwise algorithm: a second post-op of the same kind
 * would get the alpha and beta of the first. */
static bool clashes(const struct pare_post *p, const struct pare_post_op *op)
{
    for (int i = 0; i < p->n; i++)
        if (p->op[i].kind != PARE_POST_SUM && p->op[i].kind == op->kind &&
            (p->op[i].alpha != op->alpha || p->op[i].beta != op->beta))
            return true;
    return false;
}

struct pare_value *pare_post_follow(const struct pare_match *v, struct pare_value *x, bool sum,
                                    struct pare_post *p)
{
    struct pare_node *next;

    while (p->n < PARE_MAX_POST) {
        struct pare_post_op op;

        next = pare_only_consumer(v, x);
        if (next && activation(next, &op) && !clashes(p, &op)) {
            p->node[p->n_nodes++] = next;
        } else if (next && sum && !p->sum && can_sum(v, next, x)) {
            op = (struct pare_post_op){ .kind = PARE_POST_SUM };
            p->sum = other_of(next, x);
            p->node[p->n_nodes++] = next;
        } else {
            break;
        }
        p->op[p->n++] = op;
        x = p->node[p->n_nodes - 1]->out[0];
    }
    return x;
}
