/* split_weights.c - intake: parameters that an exporter merged because their values were equal.
 *
 * Exporters write equal tensors once: in a fresh network the running variance of a batch
 * normalization and its scale are both 1, so one initializer serves as both, directly or through
 * Identity.  Training one would change the other.  An initializer is used as several parameters
 * only because of its value, and becomes several initializers, if
 *   - one use is a running statistic and another is something else, or of another layer;
 *   - all its elements are equal and one use is through Identity (PyTorch names the second
 *     parameter so), or it is a bias of layers with different weights.
 * Every other initializer with several uses is a tied weight, which remains tied: weights that
 * happen to be equal without being constant do not occur.  The elements stay shared in the file
 * until one of the initializers changes.
 */
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "intake.h"

enum use { NONE, PARAM, BIAS, STATISTIC };

struct split {
    struct pare_intake_graph *g;
    const struct pare_graph *graph;
    struct about {          /* per value, of initializers */
        int uses;           /* nodes, graph outputs and bodies */
        int params;         /* uses as a trained parameter */
        int statistics;     /* uses as a running statistic */
        int kept;           /* uses that is_merged() has seen */
        const char *weight; /* weight of the first layer with this bias or statistic */
    } * about;
    struct pare_map protos; /* TensorProto by name, once one is needed */
    struct pare_map made;   /* names of new initializers */
};

/* What input k of a node is. */
static enum use use_of(const struct pare_node *n, int k)
{
    if (!n->op || k > 31)
        return NONE;
    if (k > 2 && n->op->settings & PARE_IN(k) && pare_node_is(n, &pare_op_batch_normalization))
        return STATISTIC;
    if (!(n->op->layer.params & PARE_IN(k)))
        return NONE;
    return k && k == n->op->layer.bias ? BIAS : PARAM;
}

static bool is_initializer(const struct split *s, const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST && !v->maker && s->graph->value[v->id] == v &&
           v->t.rank >= 1 &&
           (v->t.dtype == PARE_F32 || v->t.dtype == PARE_F16 || v->t.dtype == PARE_BF16 ||
            v->t.dtype == PARE_F64);
}

static bool is_identity(const struct pare_node *n)
{
    return n->op && n->op->flags & PARE_OP_PASSES && n->n_in == 1 && n->n_out == 1 && n->out[0];
}

static bool all_equal(const struct pare_value *v)
{
    const char *p = v->raw ? v->raw : v->t.data;
    size_t size = pare_dtype_size(v->t.dtype), bytes = (size_t)pare_numel(&v->t) * size;

    return p && bytes >= size && !memcmp(p, p + size, bytes - size);
}

static int count(struct split *s, struct pare_err *err)
{
    const struct pare_graph *g = s->graph;

    s->about = pare_alloc(s->g->m->arena, (size_t)g->n_values + 1, sizeof(*s->about));
    if (!s->about)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in; k++) {
            enum use u = n->in[k] ? use_of(n, k) : NONE;

            if (!n->in[k])
                continue;
            s->about[n->in[k]->id].uses++;
            s->about[n->in[k]->id].statistics += u == STATISTIC;
            s->about[n->in[k]->id].params += u == PARAM || u == BIAS;
        }
        for (int k = 0; k < n->n_cap; k++)
            s->about[n->cap[k]->id].uses++;
    }
    for (int i = 0; i < g->n_out; i++)
        s->about[g->out[i]->id].uses++;
    return 0;
}

static int find_proto(struct split *s, const char *name, const Onnx__TensorProto **t,
                      struct pare_err *err)
{
    const Onnx__GraphProto *p = s->g->p;

    if (!s->protos.n)
        for (size_t i = 0; i < p->n_initializer; i++)
            PARE_TRY(pare_map_set(&s->protos, s->g->m->arena, p->initializer[i]->name,
                                  p->initializer[i], err));
    *t = pare_map_get(&s->protos, name); /* NULL: a sparse initializer */
    return 0;
}

/* Replace an Identity by an initializer of its own. */
static int split_identity(struct split *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *v = n->in[0], *out = n->out[0];
    struct about *a = &s->about[v->id];
    int i = pare_intake_index(s->g, n);
    const Onnx__TensorProto *t;

    if (i < 0 || a->uses < 2 || out->flags & PARE_V_OUTPUT ||
        !(s->about[out->id].statistics || (s->about[out->id].params && all_equal(v))))
        return 0;
    PARE_TRY(find_proto(s, v->name, &t, err));
    if (!t)
        return 0;
    PARE_TRY(pare_intake_add_constant(s->g, t, out->name, NULL, err));
    s->g->p->node[i] = NULL;
    a->uses--;
    ++*s->g->count;
    return 0;
}

static int split_input(struct split *s, const struct pare_node *n, int k, struct pare_err *err)
{
    const struct pare_value *v = n->in[k];
    const Onnx__TensorProto *t;
    const char *name = NULL;
    Onnx__NodeProto *own;

    PARE_TRY(find_proto(s, v->name, &t, err));
    for (int64_t i = 2;
         t && (!name || pare_map_get(&s->graph->names, name) || pare_map_get(&s->made, name));
         i++) {
        name = pare_sprintf(s->g->m->arena, "%s.%lld", v->name,
                            (long long)(i + s->about[v->id].kept));
        if (!name)
            return pare_no_memory(err, "for the graph");
    }
    if (!t || pare_intake_index(s->g, n) < 0)
        return 0;
    PARE_TRY(pare_intake_own_node(s->g, (size_t)pare_intake_index(s->g, n), &own, err));
    PARE_TRY(pare_intake_add_constant(s->g, t, name, NULL, err));
    PARE_TRY(pare_map_set(&s->made, s->g->m->arena, name, own, err));
    own->input[k] = (char *)(uintptr_t)name;
    ++*s->g->count;
    return 0;
}

/* Whether input k must get an initializer of its own; the first use keeps the original, and layers
 * with the same weight (one module applied twice) the same bias. */
static bool is_merged(const struct split *s, const struct pare_node *n, int k)
{
    const struct pare_value *v = n->in[k];
    struct about *a = &s->about[v->id];
    enum use u = use_of(n, k);
    const struct pare_value *w;

    if (u == NONE || a->uses < 2)
        return false;
    if (a->statistics && a->params + a->statistics < a->uses) /* used by other operators, too */
        return u == STATISTIC;
    if (a->statistics && a->params)
        return a->kept++ > 0 || u == STATISTIC;
    w = n->in[n->op->layer.weight];
    if (u == PARAM || !w || w == v || v->t.rank != 1)
        return false;
    if (!a->weight)
        a->weight = w->name;
    return strcmp(a->weight, w->name) != 0 && (u == STATISTIC || all_equal(v)) && ++a->kept;
}

static int split_weights(struct pare_intake_graph *g, struct pare_err *err)
{
    struct split s = { .g = g, .graph = g->m->graph };
    struct pare_map dead = { 0 };

    PARE_TRY(count(&s, err));
    for (int i = 0; i < s.graph->n_nodes; i++) {
        const struct pare_node *n = s.graph->node[i];

        if (is_identity(n) && is_initializer(&s, n->in[0]))
            PARE_TRY(split_identity(&s, n, err));
        for (int k = 0; k < n->n_in; k++)
            if (is_initializer(&s, n->in[k]) && is_merged(&s, n, k))
                PARE_TRY(split_input(&s, n, k, err));
    }
    return g->changed ? pare_intake_drop_dead(g, &dead, err) : 0;
}

const struct pare_intake_step pare_intake_step_split_weights = {
    .name = "split_weights",
    .what = "parameters separated that the exporter had merged",
    .built = split_weights,
};
