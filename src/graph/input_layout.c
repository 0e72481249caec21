/* input_layout.c - whether an image input has its channels first (NCHW) or last (NHWC). */
#include <string.h>

#include "../base/options.h"
#include "../op/op.h"
#include "graph.h"

#define STEPS 16 /* nodes to follow from the input on */

/* The first node that computes with v. */
static const struct pare_node *consumer(const struct pare_graph *g, const struct pare_value *v)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v && g->node[i]->op &&
                !(g->node[i]->op->flags & PARE_OP_SHAPES))
                return g->node[i];
    return NULL;
}

/* Whether the node moves the last axis to the position after the batch. */
static bool channels_to_front(const struct pare_node *n)
{
    static const int64_t want[] = { 0, 3, 1, 2 };
    const struct pare_opt *o = pare_opt_find(n->op->attrs, "perm");
    const struct pare_ints *perm;

    if (!pare_node_is(n, &pare_op_transpose) || !o)
        return false;
    perm = (const struct pare_ints *)(const void *)((const char *)n->attr + o->offset);
    return perm->n == 4 && !memcmp(perm->v, want, sizeof(want));
}

/* A convolution, a batch normalization, a pool: channels are axis 1 of input 0. */
static bool channels_are_second(const struct pare_node *n, const struct pare_value *v)
{
    return n->in[0] == v &&
           (n->op->flags & PARE_OP_POOL || (n->op->torch && strchr(n->op->torch, '#')));
}

/* The axes of output 0 are those of v, in the same order. */
static bool keeps_axes(const struct pare_node *n)
{
    return n->op->map || n->op->map2 || n->op->flags & (PARE_OP_PASSES | PARE_OP_KEEPS_AXES);
}

/* The sizes alone: (N, H, W, 3) and (N, 3, H, W). */
static enum pare_layout by_sizes(const struct pare_tensor *t)
{
    bool second = t->dim[1] == 1 || t->dim[1] == 3 || t->dim[1] == 4;
    bool last = t->dim[3] == 1 || t->dim[3] == 3 || t->dim[3] == 4;

    return last && !second ? PARE_NHWC : second && !last ? PARE_NCHW : PARE_LAYOUT_UNKNOWN;
}

enum pare_layout pare_graph_layout(const struct pare_graph *g, const struct pare_value *in)
{
    const struct pare_value *v = in;

    if (in->t.rank != 4)
        return PARE_LAYOUT_UNKNOWN;
    for (int i = 0; i < STEPS && v; i++) {
        const struct pare_node *n = consumer(g, v);

        if (n && channels_to_front(n))
            return PARE_NHWC;
        if (n && channels_are_second(n, v))
            return PARE_NCHW;
        v = n && n->n_out && keeps_axes(n) ? n->out[0] : NULL;
    }
    return by_sizes(&in->t);
}
