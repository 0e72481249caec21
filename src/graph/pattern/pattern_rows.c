/* pattern_rows.c - parts of normalizations along the last axis: mean, root mean square, scale. */
#include <math.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "pattern.h"

static bool is_float(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_F32 && v->t.rank >= 1;
}

bool pare_found_row_mean(struct pare_found *f, const struct pare_value *v,
                         const struct pare_value *x)
{
    const struct pare_node *n = pare_found_maker(f, v, &pare_op_reduce_mean);

    if (!n || n->in[0] != x || !is_float(x) || v->t.rank != x->t.rank ||
        v->t.dim[v->t.rank - 1] != 1)
        return false;
    for (int i = 0; i < x->t.rank - 1; i++)
        if (x->t.dim[i] != v->t.dim[i])
            return false;
    return pare_numel(&x->t) > 0;
}

/* Do both subtract the same, or are they the same value? */
static bool same_difference(struct pare_found *f, const struct pare_value *a,
                            const struct pare_value *b)
{
    const struct pare_node *m, *n;

    if (a == b)
        return true;
    m = pare_found_maker(f, a, &pare_op_sub);
    n = m ? pare_found_maker(f, b, &pare_op_sub) : NULL;
    return n && n->in[0] == m->in[0] && n->in[1] == m->in[1];
}

/* Is v the mean along the last axis of d^2: Pow(d, 2) or Mul(d, d)? */
static bool is_mean_square(struct pare_found *f, const struct pare_value *v,
                           const struct pare_value *d)
{
    const struct pare_node *n;
    const struct pare_value *square = v && v->maker && v->maker->n_in ? v->maker->in[0] : NULL;
    double two;

    if (!square || !pare_found_row_mean(f, v, square))
        return false;
    n = pare_found_maker(f, square, &pare_op_mul);
    if (n)
        return n->in[0] == n->in[1] && same_difference(f, d, n->in[0]);
    n = pare_found_maker(f, square, &pare_op_pow);
    return n && pare_value_scalar(n->in[1], &two) && two == 2 && same_difference(f, d, n->in[0]);
}

/* Is v the mean of d^2 plus a constant? */
static bool is_variance(struct pare_found *f, const struct pare_value *v,
                        const struct pare_value *d)
{
    const struct pare_node *n = pare_found_maker(f, v, &pare_op_add);

    for (int i = 0; i < 2 && n; i++)
        if (pare_value_scalar(n->in[1 - i], &f->epsilon))
            return f->epsilon >= 0 && is_mean_square(f, n->in[i], d);
    return false;
}

/* Is v the variance to this power: Pow, or Sqrt, or the reciprocal of it? */
static bool is_power(struct pare_found *f, const struct pare_value *v, double power,
                     const struct pare_value *d)
{
    const struct pare_node *n = pare_found_maker(f, v, &pare_op_pow);
    double x;

    if (n)
        return pare_value_scalar(n->in[1], &x) && x == power && is_variance(f, n->in[0], d);
    if (power > 0)
        return (n = pare_found_maker(f, v, &pare_op_sqrt)) && is_variance(f, n->in[0], d);
    if ((n = pare_found_maker(f, v, &pare_op_reciprocal)))
        return is_power(f, n->in[0], 0.5, d);
    n = pare_found_maker(f, v, &pare_op_div);
    return n && pare_value_scalar(n->in[0], &x) && x == 1 && is_power(f, n->in[1], 0.5, d);
}

/* The value whose squares are averaged, a few nodes before v; NULL: there is none. */
static struct pare_value *squared_before(const struct pare_value *v)
{
    for (int i = 0; i < 5 && v && v->maker && v->maker->n_in; i++) {
        const struct pare_node *n = v->maker;
        int k = n->n_in > 1 && n->in[0] && n->in[0]->flags & PARE_V_CONST;

        v = n->in[k];
        if (pare_node_is(n, &pare_op_reduce_mean))
            return v && v->maker && v->maker->n_in ? v->maker->in[0] : NULL;
    }
    return NULL;
}

bool pare_found_inverse_root(struct pare_found *f, const struct pare_value *v,
                             struct pare_value **d)
{
    *d = squared_before(v);
    return *d && is_float(*d) && is_power(f, v, -0.5, *d);
}

bool pare_found_normalized(struct pare_found *f, struct pare_node *last, struct pare_value **d)
{
    int n = f->n;

    if (!pare_found_add(f, last) || last->n_in != 2 || !is_float(last->out[0]))
        return false;
    if (pare_node_is(last, &pare_op_div)) {
        *d = last->in[0];
        return is_float(*d) && is_power(f, last->in[1], 0.5, *d);
    }
    for (int i = 0; i < 2 && pare_node_is(last, &pare_op_mul); i++) {
        *d = last->in[i];
        f->n = n;
        if (pare_found_add(f, last) && is_float(*d) && is_power(f, last->in[1 - i], -0.5, *d))
            return true;
    }
    return false;
}

/* One number per channel: a constant, or a parameter that is trained.  Other ranks are copied to a
 * list, so their contents must be there. */
static bool is_row(const struct pare_value *v, int64_t n)
{
    return is_float(v) && v->flags & (PARE_V_CONST | PARE_V_PARAM) && pare_numel(&v->t) == n &&
           v->t.dim[v->t.rank - 1] == n &&
           (v->t.rank == 1 || (!(v->flags & PARE_V_PARAM) && (v->t.data || v->raw)));
}

struct pare_value *pare_row_operand(const struct pare_node *n, int *which)
{
    const struct pare_value *y = n->out[0];

    for (int i = 0; i < 2 && n->n_in == 2 && is_float(y); i++)
        if (is_row(n->in[i], y->t.dim[y->t.rank - 1]) && is_float(n->in[1 - i]) &&
            !(n->in[1 - i]->flags & PARE_V_CONST)) {
            *which = i;
            return n->in[i];
        }
    return NULL;
}
