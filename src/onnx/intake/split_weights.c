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
    struct pare_graph *graph;
    size_t n;               /* initializers; building gives them the first ids, in order */
    struct about {          /* per initializer */
        int uses;           /* nodes, graph outputs and bodies */
        int params;         /* uses as a trained parameter */
        int statistics;     /* uses as a running statistic */
        int kept;           /* uses that is_merged() has seen */
        const char *weight; /* weight of the first layer with this bias or statistic */
    } * about;
    char *result; /* per node: what its result is used as, bits of enum use */
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
    return v && (size_t)v->id < s->n && v->flags & PARE_V_CONST && v->t.rank >= 1 &&
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

/* Whether an initializer is a parameter of several nodes, or a parameter and read by Identity: else
 * the uses of all values need not be counted. */
static int is_wanted(const struct split *s, bool *yes, struct pare_err *err)
{
    char *seen = pare_alloc(s->g->m->arena, s->n + 1, 1);

    *yes = false;
    if (!seen)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < s->graph->n_nodes && !*yes; i++) {
        const struct pare_node *n = s->graph->node[i];
        bool identity = is_identity(n);

        for (int k = 0; k < n->n_in && !*yes; k++)
            if ((identity || use_of(n, k)) && n->in[k] && (size_t)n->in[k]->id < s->n)
                *yes = identity || seen[n->in[k]->id]++;
    }
    return 0;
}

static void count_use(struct split *s, const struct pare_value *v, enum use u)
{
    if ((size_t)v->id < s->n) {
        s->about[v->id].uses++;
        s->about[v->id].statistics += u == STATISTIC;
        s->about[v->id].params += u == PARAM || u == BIAS;
    } else if (v->maker && u) {
        s->result[v->maker->id] |= (char)(1 << u);
    }
}

static int count(struct split *s, struct pare_err *err)
{
    const struct pare_graph *g = s->graph;

    s->about = pare_alloc(s->g->m->arena, s->n + 1, sizeof(*s->about));
    s->result = pare_alloc(s->g->m->arena, (size_t)g->n_nodes + 1, 1);
    if (!s->about || !s->result)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k])
                count_use(s, n->in[k], use_of(n, k));
        for (int k = 0; k < n->n_cap; k++)
            count_use(s, n->cap[k], NONE);
    }
    for (int i = 0; i < g->n_out; i++)
        count_use(s, g->out[i], NONE);
    return 0;
}

static void copy_constant(struct pare_value *to, const struct pare_value *from)
{
    to->t = from->t;
    to->raw = from->raw;
    to->flags |= PARE_V_CONST;
    to->maker = NULL;
}

/* Replace an Identity by an initializer of its own; finish() does the same in the graph. */
static int split_identity(struct split *s, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_value *v = n->in[0], *out = n->out[0];
    struct about *a = &s->about[v->id];
    int i = pare_intake_index(s->g, n), as = s->result[n->id];

    if (i < 0 || a->uses < 2 || out->flags & PARE_V_OUTPUT ||
        !(as & 1 << STATISTIC || (as && all_equal(v))))
        return 0;
    PARE_TRY(pare_intake_add_constant(s->g, s->g->p->initializer[v->id], out->name, NULL, err));
    s->g->p->node[i] = NULL;
    a->uses--;
    ++*s->g->count;
    return 0;
}

/* Give input k an initializer of its own, with a name that no value has. */
static int split_input(struct split *s, const struct pare_node *n, int k, struct pare_err *err)
{
    const struct pare_value *v = n->in[k];
    int at = pare_intake_index(s->g, n);
    const char *name = NULL;
    Onnx__NodeProto *own;
    struct pare_value *to;

    if (at < 0)
        return 0;
    for (int64_t i = 2; !name || pare_map_get(&s->graph->names, name); i++) {
        name = pare_sprintf(s->g->m->arena, "%s.%lld", v->name,
                            (long long)(i + s->about[v->id].kept));
        if (!name)
            return pare_no_memory(err, "for the graph");
    }
    PARE_TRY(pare_intake_own_node(s->g, (size_t)at, &own, err));
    PARE_TRY(pare_intake_add_constant(s->g, s->g->p->initializer[v->id], name, NULL, err));
    own->input[k] = (char *)(uintptr_t)name;
    to = pare_graph_value(s->graph, name, err);
    if (!to)
        return err->code;
    copy_constant(to, v);
    n->in[k] = to;
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

/* Results of removed Identity nodes become constants of the graph. */
static int finish(struct split *s, struct pare_err *err)
{
    struct pare_map none = { 0 };

    for (int i = 0; i < s->graph->n_nodes; i++) {
        const struct pare_node *n = s->graph->node[i];
        int at = pare_intake_index(s->g, n);

        if (at >= 0 && !s->g->p->node[at])
            copy_constant(n->out[0], n->in[0]);
    }
    return pare_intake_patch(s->g, &none, err);
}

static int split_weights(struct pare_intake_graph *g, struct pare_err *err)
{
    struct split s = { .g = g, .graph = g->m->graph, .n = g->p->n_initializer };
    bool yes;

    PARE_TRY(is_wanted(&s, &yes, err));
    if (!yes)
        return 0;
    PARE_TRY(count(&s, err));
    for (int i = 0; i < s.graph->n_nodes; i++)
        if (is_identity(s.graph->node[i]) && is_initializer(&s, s.graph->node[i]->in[0]))
            PARE_TRY(split_identity(&s, s.graph->node[i], err));
    for (int i = 0; i < s.graph->n_nodes; i++) {
        const struct pare_node *n = s.graph->node[i];

        for (int k = 0; k < n->n_in; k++)
            if (is_initializer(&s, n->in[k]) && is_merged(&s, n, k))
                PARE_TRY(split_input(&s, n, k, err));
    }
    return g->changed ? finish(&s, err) : 0;
}

const struct pare_intake_step pare_intake_step_split_weights = {
    .name = "split_weights",
    .what = "parameters separated that the exporter had merged",
    .built = split_weights,
};
