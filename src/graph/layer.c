/* layer.c - the layers of a graph, under the names their author gave them. */
#include "layer.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../tensor/tensor.h"

#define BIT(i) (1u << (i))

/* The operators that have weights, and which of their inputs are trained.  Running statistics of
 * a BatchNormalization are not: PyTorch calls them buffers.  A torch name that ends in a blank
 * gets the number of spatial dimensions: "Conv " is Conv2d. */
static const struct kind {
    const char *type, *torch;
    int weight, bias; /* input indices; -1: none */
    unsigned params;  /* inputs that are trained, as bits */
} kinds[] = {
    { "Conv", "Conv ", 1, 2, BIT(1) | BIT(2) },
    { "ConvTranspose", "ConvTranspose ", 1, 2, BIT(1) | BIT(2) },
    { "ConvInteger", "Conv ", 1, -1, BIT(1) },
    { "QLinearConv", "Conv ", 3, 8, BIT(3) | BIT(8) },
    { "Gemm", "Linear", 1, 2, BIT(1) | BIT(2) },
    { "MatMul", "Linear", 1, -1, BIT(1) },
    { "MatMulInteger", "Linear", 1, -1, BIT(1) },
    { "QLinearMatMul", "Linear", 3, -1, BIT(3) },
    { "BatchNormalization", "BatchNorm ", 1, 2, BIT(1) | BIT(2) },
    { "InstanceNormalization", "InstanceNorm ", 1, 2, BIT(1) | BIT(2) },
    { "LayerNormalization", "LayerNorm", 1, 2, BIT(1) | BIT(2) },
    { "GroupNormalization", "GroupNorm", 1, 2, BIT(1) | BIT(2) },
    { "PRelu", "PReLU", 1, -1, BIT(1) },
    { "Gather", "Embedding", 0, -1, BIT(0) },
    { "LSTM", "LSTM", 1, 3, BIT(1) | BIT(2) | BIT(3) | BIT(7) },
    { "GRU", "GRU", 1, 3, BIT(1) | BIT(2) | BIT(3) },
    { "RNN", "RNN", 1, 3, BIT(1) | BIT(2) | BIT(3) },
};

struct scan {
    struct pare_arena *arena;
    const struct pare_graph *g;
    int *uses;               /* per value: how many nodes and graph outputs use it */
    struct pare_node **user; /* per value: one of them */
    bool *counted;           /* per value: its elements have been counted */
    struct pare_map names;
};

static const struct kind *kind_of(const struct pare_node *n)
{
    if (n->domain && *n->domain && strcmp(n->domain, "ai.onnx") != 0)
        return NULL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(kinds[i].type, n->type))
            return &kinds[i];
    return NULL;
}

static struct pare_value *input(const struct pare_node *n, int i)
{
    return i >= 0 && i < n->n_in ? n->in[i] : NULL;
}

/* Values of a graph around this one have no place in the arrays. */
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

/* An integer attribute by name, for whoever does not know the operator's struct. */
static int64_t attr_int(const struct pare_node *n, const char *name, int64_t absent)
{
    const struct pare_opt *o = n->op ? pare_opt_find(n->op->attrs, name) : NULL;
    int64_t v = absent;

    if (o && o->type == PARE_OPT_INT && n->attr)
        memcpy(&v, (const char *)n->attr + o->offset, sizeof(v));
    return v;
}

static bool is_layer(const struct pare_node *n, const struct kind *k)
{
    const struct pare_value *w = input(n, k->weight);

    if (!is_const(w) || w->t.rank < 1 || w->t.dtype == PARE_NONE)
        return false;
    if (!strcmp(k->type, "Gather")) /* a table of vectors, not a list of indices */
        return is_float(w->t.dtype) && w->t.rank == 2 && attr_int(n, "axis", 0) == 0;
    return true;
}

/* ---- names --------------------------------------------------------------------- */

/* `name` without its ending; NULL when it ends in something else or is nothing but it. */
static const char *without(struct pare_arena *a, const char *name, const char *ending)
{
    size_t n = strlen(name), e = strlen(ending);

    if (n <= e || strcmp(name + n - e, ending) != 0)
        return NULL;
    return pare_strndup(a, name, n - e);
}

/* PyTorch names nodes after the modules they are in, and a member of a list with the list's
 * name: /layer1/layer1.0/conv1/Conv.  So a part that repeats the one before and a dot replaces
 * it.  NULL when there is no scope. */
static const char *scope_of(struct pare_arena *a, const char *name)
{
    char *out = pare_alloc(a, strlen(name) + 1, 1);
    size_t at = 0, last = 0; /* length of the result, and of its last part */

    if (!out || name[0] != '/')
        return NULL;
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
    return at ? out : NULL;
}

static const char *base_name(const struct scan *s, const struct pare_layer_info *l, int index)
{
    const char *root = pare_value_root(l->weight)->name;
    const char *name = without(s->arena, root, ".weight");

    if (!name) /* as quantized files call it */
        name = without(s->arena, root, ".weight_quantized");
    if (!name && l->bias)
        name = without(s->arena, pare_value_root(l->bias)->name, ".bias");
    if (!name)
        name = scope_of(s->arena, l->node->name);
    if (!name && *l->node->name)
        name = l->node->name;
    return name ? name : pare_sprintf(s->arena, "%s_%d", l->node->type, index);
}

static int give_name(struct scan *s, struct pare_layer_info *l, int index, struct pare_err *err)
{
    const char *base = base_name(s, l, index);

    l->name = base;
    for (int i = 2; l->name && pare_map_get(&s->names, l->name); i++)
        l->name = pare_sprintf(s->arena, "%s_%d", base, i);
    if (!l->name)
        return pare_no_memory(err, "for the layers' names");
    return pare_map_set(&s->names, s->arena, l->name, l->node, err);
}

/* ---- one layer ----------------------------------------------------------------- */

static const char *torch_name(struct pare_arena *a, const struct kind *k,
                              const struct pare_layer_info *l)
{
    size_t n = strlen(k->torch);
    const struct pare_value *x;
    int spatial;

    if (k->torch[n - 1] != ' ')
        return k->torch;
    x = strncmp(k->torch, "Conv", 4) ? l->node->in[0] : l->weight;
    spatial = x ? x->t.rank - 2 : 0;
    return pare_sprintf(a, "%.*s%dd", (int)n - 1, k->torch, spatial < 1 ? 1 : spatial);
}

/* The constant operand of an Add that is the bias of `v`: one number for each of the n elements
 * along its last axis. */
static struct pare_value *bias_operand(const struct pare_node *add, const struct pare_value *v,
                                       int64_t n)
{
    struct pare_value *b;

    if (add->n_in != 2 || strcmp(add->type, "Add") != 0)
        return NULL;
    b = add->in[0] == v ? add->in[1] : add->in[0];
    return b != v && is_const(b) && b->t.rank == 1 && b->t.dim[0] == n ? b : NULL;
}

/* What goes in and out, and the bias.  A MatMul whose result only goes into an Add with a constant
 * is one layer with it. */
static void find_ends(const struct scan *s, const struct kind *k, struct pare_layer_info *l)
{
    struct pare_node *next;
    struct pare_value *bias;

    for (int i = 0; i < l->node->n_in && !l->in; i++)
        if (l->node->in[i] && !is_const(l->node->in[i]))
            l->in = l->node->in[i];
    l->out = l->node->n_out ? l->node->out[0] : NULL;
    l->bias = is_const(input(l->node, k->bias)) ? input(l->node, k->bias) : NULL;
    if (strcmp(k->type, "MatMul") != 0 || !is_own(s->g, l->out) || s->uses[l->out->id] != 1)
        return;
    next = s->user[l->out->id];
    bias = next ? bias_operand(next, l->out, l->weight->t.dim[l->weight->t.rank - 1]) : NULL;
    if (!bias || !next->n_out || !next->out[0])
        return;
    l->add = next;
    l->bias = bias;
    l->out = next->out[0];
}

static int64_t count_once(struct scan *s, const struct pare_value *v)
{
    const struct pare_value *root = v ? pare_value_root(v) : NULL;

    if (!is_const(v) || v->t.dtype == PARE_NONE || !is_own(s->g, root) || s->counted[root->id])
        return 0;
    s->counted[root->id] = true;
    return pare_numel(&v->t);
}

static int describe(struct scan *s, const struct kind *k, struct pare_layer_info *l, int index,
                    struct pare_err *err)
{
    const struct pare_value *root;

    l->type = l->node->type;
    l->weight = l->node->in[k->weight];
    l->torch = torch_name(s->arena, k, l);
    l->macs = pare_node_macs(l->node);
    root = pare_value_root(l->weight);
    l->shared = is_own(s->g, root) && s->counted[root->id];
    find_ends(s, k, l);
    for (int i = 0; i < l->node->n_in && i < 32; i++)
        if (k->params & BIT(i))
            l->params += count_once(s, l->node->in[i]);
    if (l->add)
        l->params += count_once(s, l->bias);
    if (!l->torch)
        return pare_no_memory(err, "for the layers");
    return give_name(s, l, index, err);
}

/* ---- layers without weights ------------------------------------------------------ */

/* PyTorch's names of nodes that are modules there; the rest answer to ONNX's alone. */
static const char *plain_torch(struct pare_arena *a, const struct pare_node *n)
{
    static const char *const names[][2] = {
        { "Relu", "ReLU" },
        { "LeakyRelu", "LeakyReLU" },
        { "Elu", "ELU" },
        { "Selu", "SELU" },
        { "Celu", "CELU" },
        { "Gelu", "GELU" },
        { "HardSwish", "Hardswish" },
        { "HardSigmoid", "Hardsigmoid" },
        { "Clip", "ReLU6" },
        { "MaxPool", "MaxPool " },
        { "AveragePool", "AvgPool " },
        { "GlobalAveragePool", "AdaptiveAvgPool " },
    };
    size_t len;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(n->type, names[i][0]) != 0)
            continue;
        len = strlen(names[i][1]);
        if (names[i][1][len - 1] != ' ' || !n->in[0])
            return names[i][1];
        return pare_sprintf(a, "%.*s%dd", (int)len - 1, names[i][1], n->in[0]->t.rank - 2);
    }
    return n->type;
}

static const char *plain_name(const struct scan *s, const struct pare_node *n, int index)
{
    const char *name = scope_of(s->arena, n->name);

    if (!name && *n->name)
        name = n->name;
    return name ? name : pare_sprintf(s->arena, "%s_%d", n->type, index);
}

/* A node that computes something of the input and has no weights. */
static int describe_plain(struct scan *s, struct pare_layer_info *l, int index,
                          struct pare_err *err)
{
    const char *base = plain_name(s, l->node, index);

    l->type = l->node->type;
    l->torch = plain_torch(s->arena, l->node);
    l->macs = pare_node_macs(l->node);
    l->out = l->node->out[0];
    for (int i = 0; i < l->node->n_in && !l->in; i++)
        if (l->node->in[i] && !is_const(l->node->in[i]))
            l->in = l->node->in[i];
    l->name = base;
    for (int i = 2; l->name && pare_map_get(&s->names, l->name); i++)
        l->name = pare_sprintf(s->arena, "%s_%d", base, i);
    if (!l->name || !l->torch)
        return pare_no_memory(err, "for the layers");
    return pare_map_set(&s->names, s->arena, l->name, l->node, err);
}

static bool is_plain(const struct scan *s, const struct pare_node *n)
{
    bool moves = false;

    for (int i = 0; i < n->n_in; i++)
        moves |= n->in[i] && !is_const(n->in[i]) && n->in[i]->t.dtype == PARE_F32;
    return n->op && moves && n->n_out && is_own(s->g, n->out[0]) && !is_const(n->out[0]) &&
           n->out[0]->t.dtype == PARE_F32;
}

/* ---- the graph ------------------------------------------------------------------ */

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

/* Those with weights get their names first, so that the others change none of them. */
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

static int find_all(struct pare_arena *a, const struct pare_graph *g, bool plain,
                    struct pare_layer_info **list, int *n, struct pare_err *err)
{
    size_t values = (size_t)g->n_values;
    struct scan s = {
        .arena = a,
        .g = g,
        .uses = pare_alloc(a, values, sizeof(int)),
        .user = pare_alloc(a, values, sizeof(struct pare_node *)),
        .counted = pare_alloc(a, values, sizeof(bool)),
    };

    *n = 0;
    *list = pare_alloc(a, (size_t)g->n_nodes, sizeof(**list));
    if (!s.uses || !s.user || !s.counted || !*list)
        return pare_no_memory(err, "for the layers");
    count_uses(&s);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct kind *k = kind_of(g->node[i]);

        if (!k || !is_layer(g->node[i], k))
            continue;
        (*list)[*n].node = g->node[i];
        PARE_TRY(describe(&s, k, &(*list)[*n], i, err));
        ++*n;
    }
    return plain ? add_plain(&s, *list, n, err) : 0;
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

/* Everything that a layer's node or an operator's settings take is not loose. */
static void mark_taken(const struct pare_graph *g, const struct pare_node *n, bool *taken)
{
    static const char *const settings[] = { "Resize", "Upsample", "QuantizeLinear",
                                            "DequantizeLinear", "Constant" };
    const struct kind *k = kind_of(n);
    bool all = k && is_layer(n, k);

    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        all |= !strcmp(n->type, settings[i]);
    for (int i = 0; i < n->n_in && all; i++)
        if (is_const(n->in[i]) && is_own(g, pare_value_root(n->in[i])))
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
