/* layer.c - layers of a graph (nodes with constant weights), under the names of the author. */
#include "layer.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

struct scan {
    struct pare_arena *arena;
    const struct pare_graph *g;
    int *uses;               /* per value: how many nodes and graph outputs use it */
    struct pare_node **user; /* per value: one of them */
    bool *counted;           /* per value: its elements have been counted */
    struct pare_map *names;
    const struct scan *outer; /* of the graph around a body; NULL: the main graph */
    const char *path;         /* of the body, "If_0/then"; NULL: the main graph */
};

/* The operator, also of a node that cannot run (an opset that is too old); NULL: unknown. */
static const struct pare_op *op_of(const struct pare_node *n)
{
    return n->op ? n->op : pare_find_op(n->domain ? n->domain : "", n->type);
}

/* NULL: the operator has no weights. */
static const struct pare_op_weights *weights_of(const struct pare_node *n)
{
    const struct pare_op *op = op_of(n);

    return op && op->layer.params ? &op->layer : NULL;
}

static struct pare_value *input(const struct pare_node *n, int i)
{
    return i >= 0 && i < n->n_in ? n->in[i] : NULL;
}

/* Values of an enclosing graph are not in the arrays. */
static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v && v->id < g->n_values && g->value[v->id] == v;
}

static bool is_const(const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST;
}

static bool is_float(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F16 || d == PARE_BF16 || d == PARE_F64;
}

const struct pare_value *pare_value_root(const struct pare_value *v)
{
    while (v->maker && v->maker->n_in && is_const(v->maker->in[0]))
        v = v->maker->in[0];
    return v;
}

static bool shapes_known(const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->t.dtype == PARE_NONE)
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->t.dtype == PARE_NONE)
            return false;
    return true;
}

double pare_node_macs(const struct pare_node *n)
{
    if (!n->op || !shapes_known(n))
        return -1;
    return n->op->macs ? n->op->macs(n) : 0;
}

bool pare_layer_is_product(const struct pare_layer_info *l)
{
    enum pare_layer_kind kind = l->node->op ? l->node->op->layer.kind : PARE_LAYER_OTHER;

    return kind == PARE_LAYER_CONV || kind == PARE_LAYER_LINEAR;
}

static bool is_layer(const struct pare_node *n, const struct pare_op_weights *k)
{
    const struct pare_value *w = input(n, k->weight);

    if (!is_const(w) || w->t.rank < 1 || w->t.dtype == PARE_NONE)
        return false;
    return !k->is_layer || k->is_layer(n);
}

/* ---- names -------------------------------------------------------------------------------- */

/* Set *to to `name` without `ending`, NULL: no memory; false: it does not end in it or has nothing
 * before it. */
static bool without(struct pare_arena *a, const char *name, const char *ending, const char **to)
{
    size_t n = strlen(name), e = strlen(ending);

    if (n <= e || strcmp(name + n - e, ending) != 0)
        return false;
    *to = pare_strndup(a, name, n - e);
    return true;
}

/* PyTorch names nodes after their modules, and a member of a list with the list's name:
 * /layer1/layer1.0/conv1/Conv.  So a part that starts with the previous part and a dot replaces it.
 * False: no scope; *to NULL: no memory. */
static bool scope_of(struct pare_arena *a, const char *name, const char **to)
{
    char *out = pare_alloc(a, strlen(name) + 1, 1);
    size_t at = 0, last = 0; /* length of the result, and of its last part */

    *to = out;
    if (!out || name[0] != '/')
        return !out;
    for (const char *p = name + 1, *slash = strchr(p, '/'); slash;
         p = slash + 1, slash = strchr(p, '/')) {
        size_t n = (size_t)(slash - p);

        if (at && n > last && !memcmp(out + at - last, p, last) && p[last] == '.')
            at -= last;
        else if (at)
            out[at++] = '.';
        memcpy(out + at, p, n);
        at += n;
        last = n;
    }
    out[at] = '\0';
    return at > 0;
}

/* NULL: no memory. */
static const char *base_name(const struct scan *s, const struct pare_layer_info *l, int index)
{
    const char *root = pare_value_root(l->weight)->name, *name;

    if (without(s->arena, root, ".weight", &name) ||
        without(s->arena, root, ".weight_quantized", &name) || /* as in quantized files */
        (l->bias && without(s->arena, pare_value_root(l->bias)->name, ".bias", &name)) ||
        scope_of(s->arena, l->node->name, &name))
        return name;
    if (*l->node->name)
        return l->node->name;
    return pare_sprintf(s->arena, "%s_%d", l->node->type, index);
}

static int give_name(struct scan *s, struct pare_layer_info *l, int index, struct pare_err *err)
{
    const char *base = base_name(s, l, index);
    size_t n = s->path ? strlen(s->path) : 0;

    if (base && n && (strncmp(base, s->path, n) != 0 || base[n] != '/'))
        base = pare_sprintf(s->arena, "%s/%s", s->path, base);
    l->name = base;
    for (int i = 2; l->name && pare_map_get(s->names, l->name); i++)
        l->name = pare_sprintf(s->arena, "%s_%d", base, i);
    if (!l->name)
        return pare_no_memory(err, "for the layers' names");
    return pare_map_set(s->names, s->arena, l->name, l->node, err);
}

/* ---- one layer ---------------------------------------------------------------------------- */

/* PyTorch's name of a module with x->rank - 2 spatial axes. */
static const char *torch_name(struct pare_arena *a, const struct pare_node *n,
                              const struct pare_value *x)
{
    const struct pare_op *op = op_of(n);
    const char *mark = op && op->torch ? strchr(op->torch, '#') : NULL;
    int spatial = x && x->t.rank > 3 ? x->t.rank - 2 : 1;

    if (!op || !op->torch)
        return n->type;
    if (!mark)
        return op->torch;
    return pare_sprintf(a, "%.*s%d%s", (int)(mark - op->torch), op->torch, spatial, mark + 1);
}

/* The constant operand of an Add that is the bias of `v`: a list of n elements, n the size of the
 * last axis of v. */
static struct pare_value *bias_operand(const struct pare_node *add, const struct pare_value *v,
                                       int64_t n)
{
    struct pare_value *b;

    if (add->n_in != 2 || !pare_node_is(add, &pare_op_add))
        return NULL;
    b = add->in[0] == v ? add->in[1] : add->in[0];
    return b != v && is_const(b) && b->t.rank == 1 && b->t.dim[0] == n ? b : NULL;
}

/* Set input, output and bias.  A MatMul whose only consumer is an Add with a constant is one layer
 * with it. */
static void find_ends(const struct scan *s, const struct pare_op_weights *k,
                      struct pare_layer_info *l)
{
    struct pare_node *next;
    struct pare_value *bias;

    for (int i = 0; i < l->node->n_in && !l->in; i++)
        if (l->node->in[i] && !is_const(l->node->in[i]))
            l->in = l->node->in[i];
    for (int i = 0; i < l->node->n_out && !l->out; i++)
        l->out = l->node->out[i];
    l->bias = k->bias && is_const(input(l->node, k->bias)) ? input(l->node, k->bias) : NULL;
    if (!k->bias_add || !is_own(s->g, l->out) || s->uses[l->out->id] != 1)
        return;
    next = s->user[l->out->id];
    bias = next ? bias_operand(next, l->out, l->weight->t.dim[l->weight->t.rank - 1]) : NULL;
    if (!bias || !next->n_out || !next->out[0])
        return;
    l->add = next;
    l->bias = bias;
    l->out = next->out[0];
}

/* Where it is noted that the value was counted; NULL: it belongs to none of the graphs. */
static bool *counted(const struct scan *s, const struct pare_value *v)
{
    for (; s; s = s->outer)
        if (is_own(s->g, v))
            return &s->counted[v->id];
    return NULL;
}

static int64_t count_once(const struct scan *s, const struct pare_value *v)
{
    bool *done = v ? counted(s, pare_value_root(v)) : NULL;

    if (!is_const(v) || v->t.dtype == PARE_NONE || !done || *done)
        return 0;
    *done = true;
    return pare_numel(&v->t);
}

static int describe(struct scan *s, const struct pare_op_weights *k, struct pare_layer_info *l,
                    int index, struct pare_err *err)
{
    const bool *done;

    l->type = l->node->type;
    l->weight = l->node->in[k->weight];
    l->torch = torch_name(s->arena, l->node, l->weight->t.rank > 1 ? l->weight : l->node->in[0]);
    l->macs = pare_node_macs(l->node);
    done = counted(s, pare_value_root(l->weight));
    l->shared = done && *done;
    find_ends(s, k, l);
    if (s->path) {
        l->body = s->path;
        l->in = l->out = NULL;
    }
    for (int i = 0; i < l->node->n_in && i < 32; i++)
        if (k->params & PARE_IN(i))
            l->params += count_once(s, l->node->in[i]);
    if (l->add)
        l->params += count_once(s, l->bias);
    if (!l->torch)
        return pare_no_memory(err, "for the layers");
    return give_name(s, l, index, err);
}

/* ---- layers without weights ------------------------------------------------------ */

static const char *plain_name(const struct scan *s, const struct pare_node *n, int index)
{
    const char *name;

    if (scope_of(s->arena, n->name, &name))
        return name;
    return *n->name ? n->name : pare_sprintf(s->arena, "%s_%d", n->type, index);
}

/* A node without weights that computes something from the input. */
static int describe_plain(struct scan *s, struct pare_layer_info *l, int index,
                          struct pare_err *err)
{
    const char *base = plain_name(s, l->node, index);

    l->type = l->node->type;
    l->torch = l->node->op->layer.params ? l->type : torch_name(s->arena, l->node, l->node->in[0]);
    l->macs = pare_node_macs(l->node);
    l->out = l->node->out[0];
    for (int i = 0; i < l->node->n_in && !l->in; i++)
        if (l->node->in[i] && !is_const(l->node->in[i]))
            l->in = l->node->in[i];
    l->name = base;
    for (int i = 2; l->name && pare_map_get(s->names, l->name); i++)
        l->name = pare_sprintf(s->arena, "%s_%d", base, i);
    if (!l->name || !l->torch)
        return pare_no_memory(err, "for the layers");
    return pare_map_set(s->names, s->arena, l->name, l->node, err);
}

static bool is_plain(const struct scan *s, const struct pare_node *n)
{
    bool moves = false;

    for (int i = 0; i < n->n_in; i++)
        moves |= n->in[i] && !is_const(n->in[i]) && n->in[i]->t.dtype == PARE_F32;
    return n->op && moves && n->n_out && is_own(s->g, n->out[0]) && !is_const(n->out[0]) &&
           n->out[0]->t.dtype == PARE_F32;
}

/* ---- the graph ---------------------------------------------------------------------------- */

static void count_uses(struct scan *s)
{
    for (int i = 0; i < s->g->n_nodes; i++) {
        struct pare_node *n = s->g->node[i];

        for (int k = 0; k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (is_own(s->g, v)) {
                s->uses[v->id]++;
                s->user[v->id] = n;
            }
        }
    }
    for (int i = 0; i < s->g->n_out; i++)
        if (is_own(s->g, s->g->out[i]))
            s->uses[s->g->out[i]->id]++;
}

/* Layers with weights get their names first, so their names do not depend on other nodes. */
static int add_plain(struct scan *s, struct pare_layer_info *list, int *n, struct pare_err *err)
{
    int weighted = *n;

    for (int i = 0; i < s->g->n_nodes; i++) {
        struct pare_node *node = s->g->node[i];
        bool known = false;

        for (int k = 0; k < weighted; k++)
            known |= list[k].node == node || list[k].add == node;
        if (known || !is_plain(s, node))
            continue;
        list[*n].node = node;
        PARE_TRY(describe_plain(s, &list[*n], i, err));
        ++*n;
    }
    return 0;
}

static int count_nodes(const struct pare_graph *g)
{
    const struct pare_graph *body;
    int n = g->n_nodes;

    for (int i = 0; i < g->n_nodes; i++)
        for (int b = 0; (body = pare_node_body(g->node[i], b, NULL)) != NULL; b++)
            n += count_nodes(body);
    return n;
}

static int find_graph(struct scan *s, bool plain, struct pare_layer_info *list, int *n,
                      struct pare_err *err);

/* Layers of the node's bodies. */
static int find_bodies(const struct scan *s, const struct pare_node *node,
                       struct pare_layer_info *list, int *n, struct pare_err *err)
{
    const struct pare_graph *body;
    const char *label;

    for (int b = 0; (body = pare_node_body(node, b, &label)) != NULL; b++) {
        struct scan in = { .arena = s->arena, .g = body, .names = s->names, .outer = s };

        in.path = pare_sprintf(s->arena, "%s%s%s/%s", s->path ? s->path : "", s->path ? "/" : "",
                               node->name, label);
        if (!in.path)
            return pare_no_memory(err, "for the layers");
        PARE_TRY(find_graph(&in, false, list, n, err));
    }
    return 0;
}

/* A weight that a body defines itself can be neither changed nor replaced. */
static bool is_reachable(const struct scan *s, const struct pare_value *weight)
{
    const struct scan *main = s;

    while (main->outer)
        main = main->outer;
    return !s->path || is_own(main->g, pare_value_root(weight));
}

static int find_graph(struct scan *s, bool plain, struct pare_layer_info *list, int *n,
                      struct pare_err *err)
{
    const struct pare_graph *g = s->g;
    size_t values = (size_t)g->n_values;

    s->uses = pare_alloc(s->arena, values, sizeof(int));
    s->user = pare_alloc(s->arena, values, sizeof(struct pare_node *));
    s->counted = pare_alloc(s->arena, values, sizeof(bool));
    if (!s->uses || !s->user || !s->counted)
        return pare_no_memory(err, "for the layers");
    count_uses(s);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_op_weights *k = weights_of(g->node[i]);

        PARE_TRY(find_bodies(s, g->node[i], list, n, err));
        if (!k || !is_layer(g->node[i], k) || !is_reachable(s, g->node[i]->in[k->weight]))
            continue;
        list[*n].node = g->node[i];
        PARE_TRY(describe(s, k, &list[*n], i, err));
        ++*n;
    }
    return plain ? add_plain(s, list, n, err) : 0;
}

static int find_all(struct pare_arena *a, const struct pare_graph *g, bool plain,
                    struct pare_layer_info **list, int *n, struct pare_err *err)
{
    struct pare_map names = { 0 };
    struct scan s = { .arena = a, .g = g, .names = &names };

    *n = 0;
    *list = pare_alloc(a, (size_t)count_nodes(g), sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for the layers");
    return find_graph(&s, plain, *list, n, err);
}

int pare_layers(struct pare_arena *a, const struct pare_graph *g, struct pare_layer_info **list,
                int *n, struct pare_err *err)
{
    return find_all(a, g, false, list, n, err);
}

int pare_layers_all(struct pare_arena *a, const struct pare_graph *g, struct pare_layer_info **list,
                    int *n, struct pare_err *err)
{
    return find_all(a, g, true, list, n, err);
}

int pare_find_layer(const struct pare_layer_info *list, int n, const char *name,
                    const struct pare_layer_info **layer, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    const char **names = a ? pare_alloc(a, (size_t)n, sizeof(*names)) : NULL, *near;
    int rc = 0;

    *layer = NULL;
    for (int i = 0; i < n && names && !*layer; i++) {
        names[i] = list[i].name;
        if (!strcmp(name, names[i]))
            *layer = &list[i];
    }
    near = names && !*layer ? pare_nearest(name, names, n) : NULL;
    if (!names)
        rc = pare_no_memory(err, "for the layers' names");
    else if (!*layer)
        rc = pare_fail(err, PARE_ECONFIG, "there is no layer '%s'%s%s%s", name,
                       near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    pare_arena_free(a);
    return rc;
}

/* Mark constants that belong to layers or are settings of operators. */
static void mark_taken(const struct pare_graph *g, const struct pare_node *n, bool *taken)
{
    const struct pare_op_weights *k = weights_of(n);
    bool layer = k && is_layer(n, k);
    unsigned settings = n->op ? n->op->settings | n->op->sizes : 0;

    for (int i = 0; i < n->n_in; i++)
        if ((layer || (i < 32 && settings & PARE_IN(i))) && is_const(n->in[i]) &&
            is_own(g, pare_value_root(n->in[i])))
            taken[pare_value_root(n->in[i])->id] = true;
}

int pare_loose_params(const struct pare_graph *g, const struct pare_layer_info *list, int n,
                      int64_t *count, struct pare_err *err)
{
    struct pare_mark m = pare_mark(g->arena);
    bool *taken = pare_alloc(g->arena, (size_t)g->n_values, sizeof(*taken));

    *count = 0;
    if (!taken)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < g->n_nodes; i++)
        mark_taken(g, g->node[i], taken);
    for (int i = 0; i < n; i++)
        if (list[i].body)
            mark_taken(g, list[i].node, taken);
    for (int i = 0; i < n; i++)
        if (list[i].bias && is_own(g, pare_value_root(list[i].bias)))
            taken[pare_value_root(list[i].bias)->id] = true;
    for (int i = 0; i < g->n_values; i++) {
        const struct pare_value *v = g->value[i];

        if (is_const(v) && !v->maker && is_float(v->t.dtype) && !taken[i] && pare_numel(&v->t) > 1)
            *count += pare_numel(&v->t);
    }
    pare_reset(g->arena, m);
    return 0;
}
