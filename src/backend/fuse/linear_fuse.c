/* linear_fuse.c - match Gemm and MatMul with constant weights and bias. */
#include "linear_fuse.h"

#include "../../op/matrix/matrix.h"

/* A constant of N elements along the last axis. */
static bool is_row(const struct pare_value *v, int64_t N)
{
    const struct pare_tensor *t = &v->t;

    return pare_is_const(v) && pare_is_f32(v) && t->rank >= 1 && t->dim[t->rank - 1] == N &&
           pare_numel(t) == N;
}

static bool read_node(const struct pare_node *n, struct pare_linear_fuse *l)
{
    const struct pare_tensor *x, *w;

    if (n->op->domain || n->n_in < 2 || !pare_is_f32(n->in[0]) || !pare_is_f32(n->in[1]) ||
        !pare_is_const(n->in[1]) || pare_is_const(n->in[0]))
        return false;
    x = &n->in[0]->t;
    w = &n->in[1]->t;
    if (w->rank != 2 || x->rank < 2 || !pare_numel(&n->out[0]->t))
        return false;
    if (!pare_is_plain_product(n, &l->tb))
        return false;
    l->b = n->n_in > 2 ? n->in[2] : NULL;
    if (l->b && !is_row(l->b, n->out[0]->t.dim[1]))
        return false;
    l->w = n->in[1];
    l->K = x->dim[x->rank - 1];
    l->N = w->dim[l->tb ? 0 : 1];
    l->M = l->K ? pare_numel(x) / l->K : 0;
    return l->M > 0;
}

bool pare_linear_fuse_read(const struct pare_match *v, struct pare_node *n,
                           struct pare_linear_fuse *l)
{
    struct pare_node *add;

    *l = (struct pare_linear_fuse){ .out = n->out[0] };
    if (!read_node(n, l))
        return false;
    add = l->b ? NULL : pare_only_consumer(v, l->out);
    if (pare_node_is(add, &pare_op_add) && add->in[0] != add->in[1] &&
        is_row(add->in[add->in[0] == l->out], l->N) &&
        pare_same_shape(&add->out[0]->t, &l->out->t)) {
        l->b = add->in[add->in[0] == l->out];
        l->add = add;
        l->out = add->out[0];
    }
    return true;
}
