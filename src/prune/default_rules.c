/* default_rules.c - the config_list for a single sparsity: every layer that a pruner can prune. */
#include "default_rules.h"

#include <string.h>

#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../graph/pattern/pattern.h"

struct scan {
    struct pare_arena *arena;
    struct pare_graph *g;
    struct pare_layer_info *layer;
    int n;
    bool *norm; /* by node: part of a normalization that is written out, which is a layer as well */
};

static int layer_of(const struct scan *s, const struct pare_node *n)
{
    for (int i = 0; i < s->n; i++)
        if (s->layer[i].node == n || s->layer[i].add == n)
            return i;
    return -1;
}

/* The main graph, or a body. */
struct place {
    const struct pare_graph *g;
    bool *leads;          /* by value: an output of the model is reached from it without a layer */
    struct place *around; /* NULL: the main graph */
};

static void mark_value(struct place *p, const struct pare_value *v)
{
    for (; p && v; p = p->around)
        if (v->id < p->g->n_values && p->g->value[v->id] == v) {
            p->leads[v->id] = true;
            return;
        }
}

/* Marks layers from which an output of the model is reached without passing another layer: removing
 * output channels there would remove classes.  What only reads their sizes, to reshape or to make a
 * grid, does not count.  False: no memory. */
static bool mark_last(const struct scan *s, const struct pare_graph *g, struct place *around,
                      bool *last)
{
    struct place p = { g, pare_alloc(s->arena, (size_t)g->n_values + 1, sizeof(bool)), around };
    const struct pare_graph *body;

    if (!p.leads)
        return false;
    for (int i = 0; i < g->n_out; i++)
        mark_value(&p, g->out[i]);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = g->node[i];
        int l = layer_of(s, n);
        bool on = false;

        for (int k = 0; k < n->n_out; k++)
            on |= n->out[k] && p.leads[n->out[k]->id];
        for (int b = 0; on && (body = pare_node_body(n, b, NULL)) != NULL; b++)
            if (!mark_last(s, body, &p, last))
                return false;
        if (on && l >= 0)
            last[l] = true;
        on &= !(n->op && n->op->flags & PARE_OP_SHAPES);
        on &= !(g == s->g && s->norm[i]) && l < 0;
        for (int k = 0; k < n->n_in && on; k++)
            if (!(pare_node_body(n, 0, NULL) && n->in[k] && n->in[k]->t.dtype == PARE_BOOL))
                mark_value(&p, n->in[k]); /* a condition chooses outputs; it has no part of them */
    }
    return true;
}

/* Adds a type that the model has; a type without a layer would be an error. */
static int add_type(const char **list, int n, const char *type)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i], type))
            return n;
    list[n] = type;
    return n + 1;
}

static int make_rules(const struct scan *s, const struct pare_algorithm *p, double sparsity,
                      struct pare_rule **rule, int *n_rules)
{
    size_t n = (size_t)s->n + 1;
    const char **types = pare_alloc(s->arena, n, sizeof(*types));
    const char **names = pare_alloc(s->arena, n, sizeof(*names));
    bool *last = pare_alloc(s->arena, n, sizeof(*last));
    bool channels = p->pruner->granularity && strcmp(p->pruner->granularity, "element");
    int n_types = 0, n_names = 0;

    *rule = pare_alloc(s->arena, 2, sizeof(**rule));
    if (!types || !names || !last || !*rule || !mark_last(s, s->g, NULL, last))
        return -1;
    for (int i = 0; i < s->n; i++) {
        const struct pare_layer_info *l = &s->layer[i];

        if (!(p->types ? pare_layer_listed(p->types, l) : pare_is_default_type(l->torch)))
            continue;
        if (last[i] && channels)
            names[n_names++] = l->name;
        else
            n_types = add_type(types, n_types, l->torch);
    }
    (*rule)[0] = (struct pare_rule){ .op_types = types,
                                     .keys = pare_sprintf(s->arena, "sparsity=%.17g", sparsity) };
    (*rule)[1] = (struct pare_rule){ .op_names = names, .exclude = true };
    *n_rules = !n_types ? 0 : n_names ? 2 : 1;
    return (*rule)[0].keys ? 0 : -1;
}

int pare_default_rules(struct pare_graph *g, const struct pare_algorithm *p, double sparsity,
                       struct pare_arena *a, struct pare_rules *r, struct pare_err *err)
{
    struct scan s = { .arena = a, .g = g };

    PARE_TRY(pare_layers(a, g, &s.layer, &s.n, err));
    s.norm = pare_alloc(a, (size_t)g->n_nodes, sizeof(*s.norm));
    if (!s.norm)
        return pare_no_memory(err, "for a configuration");
    PARE_TRY(pare_graph_mark_patterns(g, PARE_PATTERN_ROWS, s.norm, err));
    if (make_rules(&s, p, sparsity, &r->rule, &r->n))
        return pare_no_memory(err, "for a configuration");
    if (!r->n)
        return pare_fail(
            err, PARE_ECONFIG,
            "the model has no layer of the types that %s prunes (%s), other than those that "
            "compute its outputs",
            p->name, p->types ? p->types : "default");
    return 0;
}
