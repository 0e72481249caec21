/* scale_taker.c - constants before a value that can take a scale for each of its channels. */
#include "scale_taker.h"

#include "../op/channels.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 &&
           pare_graph_only_consumer(g, v);
}

/* The weight of a linear layer without a bias that makes v. */
static bool weight_takes(const struct pare_graph *g, const struct pare_value *v, int64_t k,
                         struct pare_scale_taker *t)
{
    const struct pare_node *n = v->maker;
    struct pare_linear l;

    if (!n || !n->op || !n->op->linear || n->op->layer.kind != PARE_LAYER_LINEAR ||
        !n->op->linear(n, &l) || l.x != 0 || l.w != 1 || l.after || l.adds || l.groups != 1 ||
        l.y_axis != v->t.rank - 1 || !is_own(g, n->in[1]) || n->in[1]->t.rank != 2 ||
        n->in[1]->t.dim[l.w_out] != k)
        return false;
    if (l.bias >= 0 && n->n_in > l.bias && n->in[l.bias])
        return false;
    *t = (struct pare_scale_taker){ n->in[1], l.w_out };
    return true;
}

bool pare_find_scale_taker(const struct pare_graph *g, const struct pare_value *v, int64_t k,
                           struct pare_scale_taker *t)
{
    const struct pare_node *n = v->maker;

    if (!n || v->t.rank < 1)
        return false;
    if (!pare_node_is(n, &pare_op_mul))
        return weight_takes(g, v, k, t);
    for (int i = 0; i < 2; i++) {
        const struct pare_value *c = n->in[i];

        if (is_own(g, c) && c->t.rank > 0 && pare_numel(&c->t) == k &&
            c->t.dim[c->t.rank - 1] == k && c->t.rank <= v->t.rank) {
            *t = (struct pare_scale_taker){ c, c->t.rank - 1 };
            return true;
        }
    }
    for (int i = 0; i < 2; i++) /* a factor that a layer makes, as in gated units */
        if (n->in[i]->t.rank == v->t.rank && pare_graph_only_consumer(g, n->in[i]) == n &&
            weight_takes(g, n->in[i], k, t))
            return true;
    return false;
}
