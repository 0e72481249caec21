/* gelu_match.c - match GELU written as Div, Erf, Add, Mul, Mul (before opset 20). */
#include "gelu_match.h"

#include <math.h>

#include "../../op/op.h"

static bool is(const struct pare_node *n, const char *type)
{
    return pare_node_is(n, type) && n->n_in >= 1 && n->n_out == 1;
}

/* Is v a constant scalar close to `want`? */
static bool is_scalar(const struct pare_value *v, double want)
{
    return v && pare_is_const(v) && pare_is_f32(v) && v->t.data && pare_numel(&v->t) == 1 &&
           fabs((double)pare_f32(&v->t)[0] / want - 1) < 1e-6;
}

/* The only consumer of x if it has that type; *other is its second operand. */
static struct pare_node *only_consumer_of_type(const struct pare_match *v,
                                               const struct pare_value *x, const char *type,
                                               struct pare_value **other)
{
    struct pare_node *n = pare_only_consumer(v, x);

    if (!is(n, type) || n->n_in != 2 || n->in[0] == n->in[1])
        return NULL;
    *other = n->in[n->in[0] == x];
    return n;
}

bool pare_gelu_match(const struct pare_match *v, const struct pare_node *n,
                     struct pare_node *list[PARE_GELU_NODES])
{
    struct pare_value *other;

    if (n->n_in != 2 || n->version < 7 ||
        !((is(n, "Div") && is_scalar(n->in[1], sqrt(2))) ||
          (is(n, "Mul") && is_scalar(n->in[1], sqrt(0.5)))))
        return false;
    list[0] = pare_only_consumer(v, n->out[0]);
    if (!is(list[0], "Erf"))
        return false;
    list[1] = only_consumer_of_type(v, list[0]->out[0], "Add", &other);
    if (!list[1] || !is_scalar(other, 1))
        return false;
    list[2] = only_consumer_of_type(v, list[1]->out[0], "Mul", &other);
    if (!list[2] || other != n->in[0])
        return false;
    list[3] = only_consumer_of_type(v, list[2]->out[0], "Mul", &other);
    return list[3] && is_scalar(other, 0.5);
}
