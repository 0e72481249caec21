/* constant_factor.c - match a product with a constant scalar, or a division by one. */
#include "constant_factor.h"

#include "../op.h"

static bool is_scalar(const struct pare_value *c)
{
    return c->flags & PARE_V_CONST && c->t.dtype == PARE_F32 && c->t.data && pare_numel(&c->t) == 1;
}

struct pare_value *pare_constant_factor(const struct pare_node *n, double *by)
{
    bool mul = pare_node_is(n, &pare_op_mul);
    bool div = pare_node_is(n, &pare_op_div);

    for (int k = div ? 1 : 0; k < 2 && (mul || div) && n->n_in == 2; k++) {
        const struct pare_value *c = n->in[k];

        if (is_scalar(c) && n->in[!k]->t.rank >= c->t.rank) {
            *by *= mul ? (double)pare_f32(&c->t)[0] : 1 / (double)pare_f32(&c->t)[0];
            return n->in[!k];
        }
    }
    return NULL;
}
