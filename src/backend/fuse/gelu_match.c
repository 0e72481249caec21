/* gelu_match.c - match GELU written as Div, Erf, Add, Mul, Mul (before opset 20). */
#include "gelu_match.h"

#include <math.h>

#include "../../op/op.h"
#include "constant_factor.h"

static bool is(const struct pare_node *n, const struct pare_op *op)
{
    return pare_node_is(n, op) && n->n_in >= 1 && n->n_out == 1;
}

/* Is v a constant scalar close to `want`? */
static bool is_scalar(const struct pare_value *v, double want)
{
    return v && pare_is_const(v) && pare_is_f32(v) && v->t.data && pare_numel(&v->t) == 1 &&
           fabs((double)pare_f32(&v->t)[0] / want - 1) < 1e-6;
}

/* The only consumer of x if it has that type; *other is its second operand. */
static struct pare_node *only_consumer_of_type(const struct pare_match *v,
                                               const struct pare_value *x, const struct pare_op *op,
                                               struct pare_value **other)
{
    struct pare_node *n = pare_only_consumer(v, x);

    if (!is(n, op) || n->n_in != 2 || n->in[0] == n->in[1])
        return NULL;
    *other = n->in[n->in[0] == x];
    return n;
}

bool pare_gelu_match(const struct pare_match *v, const struct pare_node *n,
                     struct pare_node *list[PARE_GELU_NODES])
{
    struct pare_value *other;
    double by = 1;

    if (n->n_in != 2 || n->version < 7 || pare_constant_factor(n, &by) != n->in[0] ||
        !(fabs(by / sqrt(0.5) - 1) < 1e-6))
        return false;
    list[0] = pare_only_consumer(v, n->out[0]);
    if (!is(list[0], &pare_op_erf))
        return false;
    list[1] = only_consumer_of_type(v, list[0]->out[0], &pare_op_add, &other);
    if (!list[1] || !is_scalar(other, 1))
        return false;
    list[2] = only_consumer_of_type(v, list[1]->out[0], &pare_op_mul, &other);
    if (!list[2] || other != n->in[0])
        return false;
    list[3] = only_consumer_of_type(v, list[2]->out[0], &pare_op_mul, &other);
    return list[3] && is_scalar(other, 0.5);
}
