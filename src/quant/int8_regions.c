/* int8_regions.c - which outputs preset int8 quantizes: data flow between quantized layers.
 *
 * Quantizing a value pays only where integers meet on both sides.  An addition, concatenation or
 * average pooling (a "join") is quantized if all its inputs come from quantized layers or joins and
 * one of them reads its result; on the way, values may be moved, pass a fused activation or a
 * BatchNormalization that is folded into its layer.  Attention masks, residual sums around
 * normalizations, positions and shape arithmetic do not satisfy this, whatever their rank.  Values
 * inside written-out patterns (graph/pattern/) stay float: small differences of scores, variances
 * and exponents matter there.
 *
 * The output of a convolution is always quantized, because integer runtimes need its scale; that of
 * a linear layer only for a quantized consumer, because they also return floats.
 */
#include "int8_regions.h"

#include "../base/arena.h"
#include "../onnx/fold_norm.h"

#define NONE (-1)

struct flow {
    struct pare_int8_scan *s;
    int *layer_of; /* per node: index of its layer, or NONE */
    bool *join;    /* per layer: a join that is still a candidate */
    int *first;    /* (values + 1) where the consumers of a value start in `consumer` */
    struct pare_node **consumer;
    int *seen, search;               /* per node: the last search that visited it */
    const struct pare_value **queue; /* (values) of a search */
};

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v && v->id >= 0 && v->id < g->n_values && g->value[v->id] == v;
}

/* Is a result of the node inside a pattern? */
static bool is_inner(const struct flow *f, const struct pare_node *n)
{
    return n->n_out && is_own(f->s->g, n->out[0]) && f->s->inner[n->out[0]->id];
}

/* Integers pass this node unchanged, or a runtime fuses it into the layer before it. */
static bool is_passed(const struct flow *f, const struct pare_node *n)
{
    return n->op && !is_inner(f, n) &&
           (n->op->flags & (PARE_OP_VIEW | PARE_OP_MOVES | PARE_OP_FUSED_ACT) ||
            pare_norm_folds(f->s->g, n));
}

static bool is_integer_node(const struct flow *f, const struct pare_node *n)
{
    int l = f->layer_of[n->id];

    return l != NONE && (f->s->chosen[l] || f->join[l]);
}

static bool comes_from_integers(const struct flow *f, const struct pare_value *v)
{
    for (int hops = 0; is_own(f->s->g, v) && v->maker && hops < f->s->g->n_nodes; hops++) {
        if (is_integer_node(f, v->maker))
            return true;
        if (!is_passed(f, v->maker))
            return false;
        v = v->maker->in[0];
    }
    return false;
}

/* Breadth-first over the nodes that integers pass. */
static bool goes_to_integers(struct flow *f, const struct pare_value *v)
{
    int n = 0, at = 0;

    f->search++;
    f->queue[n++] = v;
    for (; at < n; at++) {
        v = f->queue[at];
        for (int i = f->first[v->id]; i < f->first[v->id + 1]; i++) {
            struct pare_node *u = f->consumer[i];

            if (is_integer_node(f, u) && f->s->layer[f->layer_of[u->id]].add != u)
                return true;
            if (f->seen[u->id] == f->search || !is_passed(f, u) || u->in[0] != v)
                continue;
            f->seen[u->id] = f->search;
            for (int k = 0; k < u->n_out; k++)
                if (is_own(f->s->g, u->out[k]))
                    f->queue[n++] = u->out[k];
        }
    }
    return false;
}

/* ---- joins ----------------------------------------------------------------------------------- */

static bool is_join(const struct pare_layer_info *l)
{
    if (l->weight || !l->in || !l->out || !l->node->op ||
        !(l->node->op->flags & PARE_OP_INT8_JOIN) || l->out->t.dtype != PARE_F32)
        return false;
    for (int i = 0; i < l->node->n_in; i++)
        if (l->node->in[i] && l->node->in[i]->flags & PARE_V_CONST)
            return false;
    return true;
}

static bool holds(struct flow *f, const struct pare_layer_info *l)
{
    for (int i = 0; i < l->node->n_in; i++)
        if (l->node->in[i] && !comes_from_integers(f, l->node->in[i]))
            return false;
    return is_own(f->s->g, l->out) && goes_to_integers(f, l->out);
}

static bool drop_join(struct flow *f, int i)
{
    const struct pare_layer_info *l = &f->s->layer[i];
    bool drop = f->join[i] && (is_inner(f, l->node) || !holds(f, l));

    f->join[i] &= !drop;
    return drop;
}

/* A join may hold only because of another one: repeat until none is removed.  Both directions, as
 * chains of joins are long. */
static void find_joins(struct flow *f)
{
    bool changed = true;

    for (int i = 0; i < f->s->n; i++)
        f->join[i] = is_join(&f->s->layer[i]);
    while (changed) {
        changed = false;
        for (int i = 0; i < f->s->n; i++)
            changed |= drop_join(f, i);
        for (int i = f->s->n - 1; i >= 0; i--)
            changed |= drop_join(f, i);
    }
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* The consumer of a layer's output, or of the normalization that is folded into the layer. */
static const struct pare_node *next_consumer(const struct pare_graph *g,
                                             const struct pare_layer_info *l)
{
    const struct pare_node *u = pare_graph_only_consumer(g, l->out);

    return u && pare_norm_folds(g, u) ? pare_graph_only_consumer(g, u->out[0]) : u;
}

/* If an activation follows a layer, its output is quantized instead of the layer's. */
static void mark_output(const struct flow *f, int i)
{
    const struct pare_node *u = next_consumer(f->s->g, &f->s->layer[i]);
    int k = u && is_passed(f, u) && u->op->flags & PARE_OP_FUSED_ACT ? f->layer_of[u->id] : NONE;

    f->s->rounded[k == NONE ? i : k] = true;
}

static bool is_rounded(struct flow *f, int i)
{
    const struct pare_layer_info *l = &f->s->layer[i];

    if (f->join[i] || !f->s->chosen[i])
        return f->join[i];
    if (is_own(f->s->g, l->out) && f->s->inner[l->out->id])
        return false;
    return l->weight->t.rank > 2 || (is_own(f->s->g, l->out) && goes_to_integers(f, l->out));
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void list_consumers(struct flow *f)
{
    const struct pare_graph *g = f->s->g;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < g->n_nodes; i++)
            for (int k = 0; k < g->node[i]->n_in; k++)
                if (is_own(g, g->node[i]->in[k])) {
                    int *at = &f->first[g->node[i]->in[k]->id + (pass ? 0 : 1)];

                    if (pass)
                        f->consumer[*at] = g->node[i];
                    ++*at;
                }
        for (int i = 0; !pass && i < g->n_values; i++)
            f->first[i + 1] += f->first[i];
    }
    for (int i = g->n_values; i > 0; i--) /* the second pass moved each start to its end */
        f->first[i] = f->first[i - 1];
    f->first[0] = 0;
}

int pare_int8_regions(struct pare_int8_scan *s, struct pare_arena *a, struct pare_err *err)
{
    size_t nodes = (size_t)s->g->n_nodes, values = (size_t)s->g->n_values, inputs = 0;
    struct flow f = { .s = s };

    for (int i = 0; i < s->g->n_nodes; i++)
        inputs += (size_t)s->g->node[i]->n_in;
    f.layer_of = pare_alloc(a, nodes + 1, sizeof(*f.layer_of));
    f.join = pare_alloc(a, (size_t)s->n + 1, sizeof(*f.join));
    f.first = pare_alloc(a, values + 2, sizeof(*f.first));
    f.consumer = pare_alloc(a, inputs + 1, sizeof(*f.consumer));
    f.seen = pare_alloc(a, nodes + 1, sizeof(*f.seen));
    f.queue = pare_alloc(a, values + 1, sizeof(*f.queue));
    if (!f.layer_of || !f.join || !f.first || !f.consumer || !f.seen || !f.queue)
        return pare_no_memory(err, "for a configuration");
    for (size_t i = 0; i < nodes; i++)
        f.layer_of[i] = NONE;
    for (int i = 0; i < s->n; i++) {
        if (s->layer[i].body)
            continue;
        f.layer_of[s->layer[i].node->id] = i;
        if (s->layer[i].add)
            f.layer_of[s->layer[i].add->id] = i;
    }
    list_consumers(&f);
    find_joins(&f);
    for (int i = 0; i < s->n; i++)
        if (is_rounded(&f, i))
            mark_output(&f, i);
    return 0;
}
