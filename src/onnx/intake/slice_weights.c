/* slice_weights.c - intake: Slice or Split of a weight become initializers of their own.
 *
 * PyTorch stores the projections of queries, keys and values as one weight and slices it where
 * queries and keys have different inputs.  A weight that is only read in disjoint parts along one
 * axis, at least one of them the weight of a layer, is replaced by its parts, named as the results
 * of the removed nodes.  So are parts of a bias whose elements are all equal, which an exporter may
 * have merged with others.  Overlapping parts are shared and remain as they are.
 *
 * Where the borders of a part are computed from the shape of a value, shapes are inferred, and the
 * borders must be the same for all sizes of free dimensions.
 */
#include <string.h>

#include "../../graph/free_dims.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "intake.h"

#define PARTS 16

/* Parts of one weight along an axis: elements [from, to). */
struct part {
    struct pare_value *v;
    struct pare_node *n;
    int64_t from, to;
};

struct parts {
    struct part list[PARTS];
    int n, axis; /* axis -1: not known yet */
};

struct slices {
    struct pare_intake_graph *g;
    struct pare_graph *graph; /* a copy of the model's, in `scratch` */
    struct pare_varying varying;
    struct pare_arena *scratch;
    int *uses;            /* per value: inputs of nodes, outputs and captures */
    bool *layer;          /* per value: the weight of a layer, after Cast, Transpose or views */
    struct pare_map dead; /* initializers and constants that no node uses any more */
};

static bool is_weight(const struct pare_graph *g, const struct pare_value *v)
{
    enum pare_dtype d = v ? v->t.dtype : PARE_NONE;

    return v && v->flags & PARE_V_CONST && !v->maker && g->value[v->id] == v && v->t.rank >= 1 &&
           (d == PARE_F32 || d == PARE_F16 || d == PARE_BF16 || d == PARE_F64);
}

static bool takes_parts(const struct pare_node *n)
{
    bool split = pare_node_is(n, &pare_op_split);

    return (split || pare_node_is(n, &pare_op_slice)) && n->n_in && n->in[0] && n->n_out;
}

static int count_uses(struct slices *s, struct pare_err *err)
{
    const struct pare_graph *g = s->graph;
    size_t n = (size_t)g->n_values + 1;

    s->uses = pare_alloc(s->scratch, n, sizeof(*s->uses));
    s->layer = pare_alloc(s->scratch, n, sizeof(*s->layer));
    if (!s->uses || !s->layer)
        return pare_no_memory(err, "for the graph");
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *node = g->node[i];
        int w = node->op && node->op->layer.params ? node->op->layer.weight : node->n_in;

        for (int k = 0; k < node->n_in; k++)
            if (node->in[k])
                s->uses[node->in[k]->id]++;
        for (int k = 0; k < node->n_cap; k++)
            s->uses[node->cap[k]->id]++;
        if (w < node->n_in && node->in[w])
            s->layer[node->in[w]->id] = true;
        if (node->op && node->op->flags & (PARE_OP_STORAGE | PARE_OP_VIEW) && node->n_in &&
            node->in[0] && node->n_out && node->out[0] && s->layer[node->out[0]->id])
            s->layer[node->in[0]->id] = true;
    }
    for (int i = 0; i < g->n_out; i++)
        s->uses[g->out[i]->id]++;
    return 0;
}

static bool all_equal(const struct pare_value *v)
{
    const char *p = v->raw ? v->raw : v->t.data;
    size_t size = pare_dtype_size(v->t.dtype), bytes = (size_t)pare_numel(&v->t) * size;

    return p && bytes >= size && !memcmp(p, p + size, bytes - size);
}

/* Add result k of the node; false: it is not a range along one axis, the same for all parts. */
static bool add_part(struct parts *p, struct pare_node *n, int k)
{
    const struct pare_tensor *w = &n->in[0]->t, *t = &n->out[k]->t;
    struct pare_index_map m;
    int64_t from = 0, to = 0;

    if (p->n == PARTS || t->rank != w->rank || !pare_numel(t) || !pare_index_map(n, k, &m) ||
        m.offset)
        return false;
    for (int i = 0; i < w->rank; i++) {
        if (m.axis[i] != i || (m.step[i] != 1 && t->dim[i] > 1))
            return false;
        if (t->dim[i] == w->dim[i])
            continue;
        if (p->axis >= 0 && p->axis != i)
            return false;
        p->axis = i;
        from = m.first[i];
        to = from + t->dim[i];
    }
    if (to == from) /* all of it */
        return false;
    for (int i = 0; i < p->n; i++)
        if (from < p->list[i].to && p->list[i].from < to)
            return false;
    p->list[p->n++] = (struct part){ n->out[k], n, from, to };
    return true;
}

/* Infer the node's results, which must follow from constants. */
static int infer(const struct slices *s, struct pare_node *n, bool *known, struct pare_err *err)
{
    struct pare_err why = { 0 };
    int rc = 0;

    *known = pare_intake_index(s->g, n) >= 0;
    for (int i = 1; i < n->n_in && *known; i++) {
        if (!n->in[i])
            continue;
        *known = n->in[i]->flags & PARE_V_CONST && !pare_varies(&s->varying, n->in[i]);
        rc = *known ? pare_value_load(s->scratch, n->in[i], &why) : 0;
        *known &= !rc && n->in[i]->t.data;
    }
    if (*known) {
        rc = pare_node_infer(n, &why);
        *known = !rc;
    }
    if (rc == PARE_ENOMEM)
        *err = why;
    return rc == PARE_ENOMEM ? rc : 0;
}

/* Find the parts of the weight; none if it must stay as it is. */
static int find_parts(const struct slices *s, const struct pare_value *w, struct parts *p,
                      struct pare_err *err)
{
    bool layer = false, fits = true, known;
    int uses = 0;

    *p = (struct parts){ .axis = -1 };
    for (int i = 0; i < s->graph->n_nodes && fits; i++) {
        struct pare_node *n = s->graph->node[i];

        if (!takes_parts(n) || n->in[0] != w)
            continue;
        uses++;
        PARE_TRY(infer(s, n, &known, err));
        fits = known;
        for (int k = 0; k < n->n_out && fits; k++) {
            fits = n->out[k] && !(n->out[k]->flags & PARE_V_OUTPUT) && add_part(p, n, k);
            layer |= fits && s->layer[n->out[k]->id];
        }
    }
    if (!fits || !(w->t.rank == 1 ? all_equal(w) || uses == s->uses[w->id]
                                  : layer && uses == s->uses[w->id]))
        p->n = 0;
    return 0;
}

/* Constants that only removed nodes read are not needed any more. */
static int drop_use(struct slices *s, const struct pare_value *v, struct pare_err *err)
{
    if (!v || --s->uses[v->id] || (v->maker && v->maker->n_in))
        return 0;
    return pare_map_set(&s->dead, s->g->m->arena, v->name, s, err);
}

/* An initializer with the elements of the part. */
static int add_initializer(const struct slices *s, const struct part *p, struct pare_err *err)
{
    struct pare_arena *a = s->g->m->arena;
    const struct pare_tensor *t = &p->v->t;
    const char *name = pare_strdup(a, p->v->name);
    Onnx__TensorProto empty, *to;
    size_t bytes;
    void *data;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    data = pare_alloc_raw(a, bytes + 1, 1);
    onnx__tensor_proto__init(&empty);
    empty.has_data_type = true;
    empty.data_type = (int32_t)t->dtype;
    empty.n_dims = (size_t)t->rank;
    empty.dims = pare_alloc(a, PARE_MAX_RANK, sizeof(*empty.dims));
    if (!name || !data || !empty.dims)
        return pare_no_memory(err, "for '%s'", p->v->name);
    memcpy(data, t->data, bytes);
    memcpy(empty.dims, t->dim, empty.n_dims * sizeof(*empty.dims));
    PARE_TRY(pare_intake_add_constant(s->g, &empty, name, &to, err));
    pare_set_raw_data(to, data, bytes);
    return 0;
}

static int replace(struct slices *s, struct pare_value *w, const struct parts *p,
                   struct pare_err *err)
{
    struct pare_ctx c = { .scratch = s->scratch, .results = s->scratch, .threads = 1 };

    PARE_TRY(pare_value_load(s->scratch, w, err));
    for (int i = 0; i < p->n; i++) {
        struct pare_node *n = p->list[i].n;

        if ((!i || p->list[i - 1].n != n) && !p->list[i].v->t.data)
            PARE_TRY(pare_node_eval(n, &c, err));
        PARE_TRY(add_initializer(s, &p->list[i], err));
        if (i + 1 < p->n && p->list[i + 1].n == n)
            continue;
        s->g->p->node[pare_intake_index(s->g, n)] = NULL;
        ++*s->g->count;
        for (int k = 0; k < n->n_in; k++)
            PARE_TRY(drop_use(s, n->in[k], err));
    }
    return 0;
}

/* May the node be one that find_parts() accepts? */
static bool may_fit(const struct slices *s, const struct pare_node *n)
{
    bool layer = false;

    if (!takes_parts(n) || !is_weight(s->graph, n->in[0]) || pare_intake_index(s->g, n) < 0)
        return false;
    for (int k = 0; k < n->n_out; k++)
        layer |= n->out[k] && s->layer[n->out[k]->id];
    return layer || n->in[0]->t.rank == 1;
}

/* Is a border of a part of a layer's weight computed? */
static bool needs_shapes(const struct slices *s)
{
    for (int i = 0; i < s->graph->n_nodes; i++) {
        const struct pare_node *n = s->graph->node[i];
        bool layer = false, computed = false;

        if (!takes_parts(n) || !is_weight(s->graph, n->in[0]))
            continue;
        for (int k = 0; k < n->n_out; k++)
            layer |= n->out[k] && s->layer[n->out[k]->id];
        for (int k = 1; k < n->n_in; k++)
            computed |= n->in[k] && !(n->in[k]->flags & PARE_V_CONST);
        if (layer && computed)
            return true;
    }
    return false;
}

/* The graph with shapes, if it has any. */
static int infer_shapes(struct slices *s, struct pare_err *err)
{
    struct pare_all_sizes all = { 0 };
    struct pare_err why = { 0 };
    int rc = pare_graph_all_sizes(s->scratch, s->g->m->graph, s->g->m->in, NULL, &all, &why);

    if (rc == PARE_ENOMEM)
        *err = why;
    if (rc)
        return rc == PARE_ENOMEM ? rc : 0;
    s->graph = all.g;
    s->varying = all.varying;
    return 0;
}

static int slice_all(struct slices *s, struct pare_err *err)
{
    struct parts p;
    bool any = false;

    s->graph = s->g->m->graph;
    PARE_TRY(count_uses(s, err));
    for (int i = 0; i < s->graph->n_nodes && !any; i++)
        any = may_fit(s, s->graph->node[i]);
    if (!any)
        return 0;
    s->graph = pare_graph_clone(s->scratch, s->g->m->graph, err);
    if (!s->graph)
        return err->code;
    if (needs_shapes(s))
        PARE_TRY(infer_shapes(s, err));
    for (int i = 0; i < s->graph->n_nodes; i++) {
        struct pare_node *n = s->graph->node[i];
        int at = pare_intake_index(s->g, n);

        if (!takes_parts(n) || !is_weight(s->graph, n->in[0]) || at < 0 || !s->g->p->node[at])
            continue;
        PARE_TRY(find_parts(s, n->in[0], &p, err));
        if (p.n)
            PARE_TRY(replace(s, n->in[0], &p, err));
    }
    if (!s->g->changed)
        return 0;
    PARE_TRY(pare_intake_drop_inputs(s->g, &s->dead, err));
    return pare_intake_drop_dead(s->g, &s->dead, err);
}

static int slice_weights(struct pare_intake_graph *g, struct pare_err *err)
{
    struct slices s = { .g = g };
    bool any = false;
    int rc;

    for (int i = 0; i < g->m->graph->n_nodes && !any; i++) {
        const struct pare_node *n = g->m->graph->node[i];

        any = takes_parts(n) && is_weight(g->m->graph, n->in[0]);
    }
    if (!any)
        return 0;
    s.scratch = pare_arena_new(1 << 16);
    rc = s.scratch ? slice_all(&s, err) : pare_no_memory(err, "for the graph");
    pare_arena_free(s.scratch);
    return rc;
}

const struct pare_intake_step pare_intake_step_slice_weights = {
    .name = "slice_weights",
    .what = "Slice and Split nodes of weights computed",
    .built = slice_weights,
};
