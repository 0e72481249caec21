/* fold_weights.c - intake: Cast or Transpose of a weight becomes a float32 initializer.
 *
 * Converters store weights as float16 with a Cast to float32, or in the order of another framework
 * with a Transpose.  In a model with a layer whose weight is such a result, all of these nodes are
 * computed on load, with views between them, and the initializer keeps its name; if a body of If,
 * Loop or Scan reads the result, it gets the name of the result.  One with further
 * consumers is not changed: layers that share it remain tied.  Integers that DequantizeLinear reads
 * stay: the layer is quantized already.  Saving writes the type of the file again, with a Cast
 * (stored_types.h).
 */
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "../stored_types.h"
#include "intake.h"

struct folds {
    struct pare_intake_graph *g;
    struct pare_graph *graph; /* a copy of the model's, in `scratch` */
    struct pare_arena *scratch;
    int *uses;               /* per value: consumers, outputs and captures */
    bool *captured;          /* per value: bodies of If, Loop or Scan refer to its name */
    bool *stored;            /* per value: a Cast or Transpose follows, after views or none */
    struct pare_map protos;  /* initializers of the main graph */
    struct pare_map renamed; /* output of a removed node to its initializer's name */
    struct pare_map names;   /* initializer to its new name, which bodies read */
    struct pare_map result;  /* initializer to its new contents: const struct pare_tensor * */
};

static bool is_float(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F16 || d == PARE_BF16 || d == PARE_F64;
}

static bool has_flag(const struct pare_node *n, unsigned flags)
{
    return n->op && n->op->flags & flags && n->n_in && n->in[0] && n->n_out == 1 && n->out[0];
}

static bool is_weight(const struct pare_graph *g, const struct pare_value *v)
{
    return v->flags & PARE_V_CONST && !v->maker && g->value[v->id] == v && v->t.rank >= 1 &&
           is_float(v->t.dtype);
}

/* Whether the value is the result of Cast or Transpose of an initializer. */
static bool is_stored(const struct pare_graph *g, const struct pare_value *v)
{
    bool any = false;

    while (v && v->maker && has_flag(v->maker, PARE_OP_STORAGE | PARE_OP_VIEW)) {
        any |= (v->maker->op->flags & PARE_OP_STORAGE) != 0;
        v = v->maker->in[0];
    }
    return any && v && is_weight(g, v);
}

/* Whether the weight of a layer, or what a body of If, Loop or Scan reads, is such a result. */
static bool is_wanted(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        if (n->op && n->op->layer.params && n->op->layer.weight < n->n_in &&
            is_stored(g, n->in[n->op->layer.weight]))
            return true;
        for (int k = 0; k < n->n_cap; k++)
            if (is_stored(g, n->cap[k]))
                return true;
    }
    return false;
}

static int count_uses(struct folds *s, struct pare_err *err)
{
    const struct pare_graph *g = s->graph;
    size_t n = (size_t)g->n_values + 1;

    s->uses = pare_alloc(s->scratch, n, sizeof(*s->uses));
    s->captured = pare_alloc(s->scratch, n, sizeof(*s->captured));
    s->stored = pare_alloc(s->scratch, n, sizeof(*s->stored));
    if (!s->uses || !s->captured || !s->stored)
        return pare_no_memory(err, "for the graph");
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *node = g->node[i];

        for (int k = 0; k < node->n_in; k++)
            if (node->in[k])
                s->uses[node->in[k]->id]++;
        for (int k = 0; k < node->n_cap; k++) {
            s->uses[node->cap[k]->id] += 2;
            s->captured[node->cap[k]->id] = true;
        }
        if (has_flag(node, PARE_OP_STORAGE) ||
            (has_flag(node, PARE_OP_VIEW) && s->stored[node->out[0]->id]))
            s->stored[node->in[0]->id] = true;
    }
    for (int i = 0; i < g->n_out; i++)
        s->uses[g->out[i]->id]++;
    for (size_t i = 0; i < s->g->p->n_initializer; i++)
        if (s->g->p->initializer[i]->name)
            PARE_TRY(pare_map_set(&s->protos, s->scratch, s->g->p->initializer[i]->name, s, err));
    return 0;
}

/* The initializer that the node's input is, or is computed from by nodes that were taken. */
static const char *source(const struct folds *s, const struct pare_node *n)
{
    const struct pare_value *v = n->in[0];
    const char *name = pare_map_get(&s->renamed, v->name);

    if (s->uses[v->id] != 1 || !s->stored[v->id])
        return NULL;
    if (name)
        return name;
    return is_weight(s->graph, v) && pare_map_get(&s->protos, v->name) ? v->name : NULL;
}

/* Compute the node's result; *done is not set if it cannot be computed from constants. */
static int compute(struct folds *s, struct pare_node *n, bool *done, struct pare_err *err)
{
    struct pare_ctx c = { .scratch = s->scratch, .results = s->scratch, .threads = 1 };
    enum pare_dtype from = n->in[0]->t.dtype;
    struct pare_err why = { 0 };
    int rc = 0;

    for (int i = 0; i < n->n_in && !rc; i++)
        if (n->in[i]) {
            rc = pare_value_load(s->scratch, n->in[i], &why);
            if (!rc && !n->in[i]->t.data)
                return 0;
        }
    if (!rc)
        rc = pare_node_infer(n, &why);
    if (!rc &&
        (n->out[0]->t.rank < 1 || (n->out[0]->t.dtype != PARE_F32 && n->out[0]->t.dtype != from)))
        return 0;
    if (!rc)
        rc = pare_node_eval(n, &c, &why);
    *done = !rc;
    if (rc == PARE_ENOMEM)
        *err = why;
    return rc == PARE_ENOMEM ? rc : 0;
}

static int take(struct folds *s, struct pare_node *n, struct pare_err *err)
{
    const char *name;
    bool done = false;

    if (!has_flag(n, PARE_OP_STORAGE | PARE_OP_VIEW) || n->out[0]->flags & PARE_V_OUTPUT ||
        pare_intake_index(s->g, n) < 0)
        return 0;
    name = source(s, n);
    if (!name)
        return 0;
    PARE_TRY(compute(s, n, &done, err));
    if (!done)
        return 0;
    PARE_TRY(
        s->captured[n->out[0]->id]
            ? pare_map_set(&s->names, s->scratch, name, (void *)(uintptr_t)n->out[0]->name, err)
            : pare_map_set(&s->renamed, s->scratch, n->out[0]->name, (void *)(uintptr_t)name, err));
    PARE_TRY(pare_map_set(&s->result, s->scratch, name, &n->out[0]->t, err));
    PARE_TRY(pare_intake_change(s->g, err));
    s->g->p->node[pare_intake_index(s->g, n)] = NULL;
    ++*s->g->count;
    return 0;
}

/* The initializer with its new type, shape and elements. */
static int replace(struct folds *s, size_t i, struct pare_err *err)
{
    struct pare_arena *a = s->g->m->arena;
    const Onnx__TensorProto *t = s->g->p->initializer[i];
    const struct pare_tensor *to = t->name ? pare_map_get(&s->result, t->name) : NULL;
    Onnx__TensorProto *p = to ? pare_alloc(a, 1, sizeof(*p)) : NULL;
    const char *name;
    size_t bytes;
    void *data;

    if (!to)
        return 0;
    PARE_TRY(pare_tensor_size(to, NULL, &bytes, err));
    data = pare_alloc_raw(a, bytes + 1, 1);
    if (!p || !data)
        return pare_no_memory(err, "for '%s'", t->name);
    memcpy(data, to->data, bytes);
    onnx__tensor_proto__init(p);
    name = pare_map_get(&s->names, t->name);
    p->name = name ? pare_strdup(a, name) : t->name;
    p->doc_string = t->doc_string;
    p->has_data_type = true;
    p->data_type = (int32_t)to->dtype;
    p->n_dims = (size_t)to->rank;
    p->dims = pare_alloc(a, PARE_MAX_RANK, sizeof(*p->dims));
    if (!p->dims || !p->name)
        return pare_no_memory(err, "for the graph");
    memcpy(p->dims, to->dim, p->n_dims * sizeof(*p->dims));
    pare_set_raw_data(p, data, bytes);
    s->g->p->initializer[i] = p;
    if (t->data_type != p->data_type)
        return pare_stored_note(s->g->m, p->name, (enum pare_dtype)t->data_type, err);
    return 0;
}

/* Consumers read the initializer, whose name outlives the scratch memory. */
static int rewire(struct folds *s, size_t i, struct pare_err *err)
{
    Onnx__NodeProto *n = s->g->p->node[i];

    for (size_t k = 0; n && k < n->n_input; k++) {
        const char *to = n->input[k] ? pare_map_get(&s->renamed, n->input[k]) : NULL;

        if (!to)
            continue;
        PARE_TRY(pare_intake_own_node(s->g, i, &n, err));
        n->input[k] = pare_strdup(s->g->m->arena, to);
        if (!n->input[k])
            return pare_no_memory(err, "for the graph");
    }
    return 0;
}

/* Declared types and shapes of the initializers, which are others now. */
static int drop_types(struct folds *s, struct pare_err *err)
{
    Onnx__GraphProto *p = s->g->p;
    Onnx__ValueInfoProto **list;
    size_t kept = 0;

    if (!p->n_value_info)
        return 0;
    list = pare_alloc(s->g->m->arena, p->n_value_info, sizeof(*list));
    if (!list)
        return pare_no_memory(err, "for the graph");
    for (size_t i = 0; i < p->n_value_info; i++)
        if (!p->value_info[i]->name || !pare_map_get(&s->result, p->value_info[i]->name))
            list[kept++] = p->value_info[i];
    p->value_info = list;
    p->n_value_info = kept;
    return 0;
}

static int fold(struct folds *s, struct pare_err *err)
{
    struct pare_map none = { 0 };

    s->graph = pare_graph_clone(s->scratch, s->g->m->graph, err);
    if (!s->graph)
        return err->code;
    PARE_TRY(count_uses(s, err));
    for (int i = 0; i < s->graph->n_nodes; i++)
        PARE_TRY(take(s, s->graph->node[i], err));
    if (!s->g->changed)
        return 0;
    for (size_t i = 0; i < s->g->p->n_initializer; i++)
        PARE_TRY(replace(s, i, err));
    for (size_t i = 0; i < s->g->p->n_node; i++)
        PARE_TRY(rewire(s, i, err));
    PARE_TRY(drop_types(s, err));
    PARE_TRY(pare_intake_drop_inputs(s->g, &s->result, err));
    return pare_intake_drop_dead(s->g, &none, err);
}

static int fold_weights(struct pare_intake_graph *g, struct pare_err *err)
{
    struct folds s = { .g = g };
    int rc;

    if (!is_wanted(g->m->graph))
        return 0;
    s.scratch = pare_arena_new(1 << 16);
    rc = s.scratch ? fold(&s, err) : pare_no_memory(err, "for the graph");
    pare_arena_free(s.scratch);
    return rc;
}

const struct pare_intake_step pare_intake_step_fold_weights = {
    .name = "fold_weights",
    .what = "Cast and Transpose nodes of weights computed",
    .built = fold_weights,
};
