/* constant_factor.c - match a product with a constant scalar, or a division by one. */
#include "constant_factor.h"

#include "../../op/op.h"

struct pare_value *pare_constant_factor(const struct pare_node *n, double *by)
{
    bool mul = pare_node_is(n, &pare_op_mul);
    bool div = pare_node_is(n, &pare_op_div);

    for (int k = div ? 1 : 0; k < 2 && (mul || div) && n->n_in == 2; k++) {
        const struct pare_value *c = n->in[k];

        if (pare_is_const(c) && pare_is_f32(c) && c->t.data && pare_numel(&c->t) == 1 &&
            n->in[!k]->t.rank >= c->t.rank) {
            *by *= mul ? (double)pare_f32(&c->t)[0] : 1 / (double)pare_f32(&c->t)[0];
            return n->in[!k];
        }
    }
    return NULL;
}
