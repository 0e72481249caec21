/* hoist_constants.c - intake: weights in Constant nodes become initializers.
 *
 * PaddlePaddle, TensorFlow and some optimizers write parameters as Constant nodes; PyTorch writes
 * parameters as initializers and everything else, such as the mean of an image, as Constant nodes.
 * So Constant nodes are parameters only in a model with a layer whose weight is one.  In such a
 * model all of them with more than one element become initializers, also those inside bodies of If
 * and Loop, in the body.  Scalars (the exponent of a Pow) stay, unless they belong to a layer.
 */
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "intake.h"
#include "name_set.h"

struct search {
    struct pare_arena *a;
    struct pare_name_set held; /* names of candidates, and of what views and casts make of them */
    struct pare_map used;      /* names of candidates that are parameters of layers */
    struct pare_map out;       /* names of outputs of graphs */
    bool found;                /* a layer's weight is a candidate */
    struct pare_op_memo ops;
};

static bool is_parameter_type(int type)
{
    return type == PARE_F32 || type == PARE_F16 || type == PARE_BF16 || type == PARE_F64 ||
           type == PARE_I8 || type == PARE_U8 || type == PARE_I4 || type == PARE_U4;
}

/* The tensor of a Constant node that may be a parameter; else NULL. */
static const Onnx__TensorProto *candidate(const Onnx__NodeProto *n)
{
    const Onnx__AttributeProto *at = n->n_attribute == 1 ? n->attribute[0] : NULL;

    if (!at || n->n_output != 1 || !n->output[0] || !*n->output[0] || !at->t ||
        !pare_intake_is(n, "Constant") || !at->name || strcmp(at->name, "value") ||
        (at->ref_attr_name && *at->ref_attr_name))
        return NULL;
    return at->t->n_dims && !at->t->segment && is_parameter_type(at->t->data_type) ? at->t : NULL;
}

static bool is_single(const Onnx__TensorProto *t)
{
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] != 1)
            return false;
    return true;
}

static int hold(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct search *s = state;

    for (size_t i = 0; i < g->n_node; i++)
        if (candidate(g->node[i]))
            PARE_TRY(pare_name_set(&s->held, s->a, g->node[i]->output[0], s, err));
    return 0;
}

/* Nodes of most files are sorted, so one pass follows chains of views. */
static int see_uses(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct search *s = state;

    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name)
            PARE_TRY(pare_map_set(&s->out, s->a, g->output[i]->name, s, err));
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        const struct pare_op *op;
        bool any = false;

        for (size_t k = 0; k < n->n_input; k++)
            any |= n->input[k] && pare_name_get(&s->held, n->input[k]);
        op = any ? pare_intake_op(&s->ops, n) : NULL;
        if (!op)
            continue;
        for (size_t k = 0; k < n->n_input && k < 32; k++)
            if (op->layer.params & PARE_IN(k) && pare_name_get(&s->held, n->input[k])) {
                PARE_TRY(pare_map_set(&s->used, s->a, n->input[k], s, err));
                s->found |= (int)k == op->layer.weight;
            }
        if (op->flags & (PARE_OP_VIEW | PARE_OP_STORAGE | PARE_OP_LAZY) && n->n_output &&
            pare_name_get(&s->held, n->input[0]))
            PARE_TRY(pare_name_set(&s->held, s->a, n->output[0], s, err));
    }
    return 0;
}

static int wanted(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;
    struct search *s = pare_alloc(m->arena, 1, sizeof(*s));

    (void)opts;
    if (!s)
        return pare_no_memory(err, "for the graph");
    s->a = m->arena;
    *state = s;
    PARE_TRY(pare_intake_each(g, hold, s, err));
    if (s->held.map.n)
        PARE_TRY(pare_intake_each(g, see_uses, s, err));
    *yes = s->found;
    return 0;
}

static int hoist(struct pare_intake_graph *g, void *state, struct pare_err *err)
{
    const struct search *s = state;

    for (size_t i = 0; i < g->p->n_node; i++) {
        const Onnx__NodeProto *n = g->p->node[i];
        const Onnx__TensorProto *t = candidate(n);

        if (!t || (is_single(t) && !pare_map_get(&s->used, n->output[0])) ||
            pare_map_get(&s->out, n->output[0]))
            continue;
        PARE_TRY(pare_intake_add_constant(g, t, n->output[0], NULL, err));
        g->p->node[i] = NULL;
        ++*g->count;
    }
    if (g->changed)
        pare_intake_drop_nodes(g);
    return 0;
}

const struct pare_intake_step pare_intake_step_hoist_constants = {
    .name = "hoist_constants",
    .what = "weights of Constant nodes made initializers",
    .wanted = wanted,
    .graph = hoist,
};
