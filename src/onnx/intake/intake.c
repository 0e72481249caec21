/* intake.c - run the steps of intake on a protobuf that was just read, and build its graph. */
#include "intake.h"

#include <string.h>

#define INTAKE(x) extern const struct pare_intake_step pare_intake_step_##x;
#include "intake.def"
#undef INTAKE

static const struct pare_intake_step *const steps[] = {
#define INTAKE(x) &pare_intake_step_##x,
#include "intake.def"
#undef INTAKE
};

#define STEPS (int)(sizeof(steps) / sizeof(steps[0]))

static int no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "for the graph");
}

/* ---- changing a protobuf --------------------------------------------------------------------- */

/* A copy of a list of pointers, with room for `more`; NULL: no memory. */
static void *copy_list(struct pare_arena *a, const void *p, size_t n, size_t more)
{
    void *to = pare_alloc(a, n + more + 1, sizeof(void *));

    if (to && n)
        memcpy(to, p, n * sizeof(void *));
    return to;
}

int pare_intake_change(struct pare_intake_graph *g, struct pare_err *err)
{
    struct pare_arena *a = g->m->arena;
    Onnx__GraphProto *p;

    if (g->changed)
        return 0;
    p = pare_alloc(a, 1, sizeof(*p));
    if (!p)
        return no_memory(err);
    *p = *g->p;
    p->node = copy_list(a, p->node, p->n_node, 0);
    p->initializer = copy_list(a, p->initializer, p->n_initializer, 64);
    if (!p->node || !p->initializer)
        return no_memory(err);
    g->cap_constant = (int)p->n_initializer + 64;
    g->p = p;
    g->changed = true;
    return 0;
}

int pare_intake_own_node(struct pare_intake_graph *g, size_t i, Onnx__NodeProto **node,
                         struct pare_err *err)
{
    struct pare_arena *a = g->m->arena;
    Onnx__NodeProto *p = pare_alloc(a, 1, sizeof(*p));

    PARE_TRY(pare_intake_change(g, err));
    if (!p)
        return no_memory(err);
    *p = *g->p->node[i];
    p->input = copy_list(a, p->input, p->n_input, 0);
    p->output = copy_list(a, p->output, p->n_output, 0);
    p->attribute = copy_list(a, p->attribute, p->n_attribute, 1);
    if (!p->input || !p->output || !p->attribute)
        return no_memory(err);
    g->p->node[i] = *node = p;
    return 0;
}

int pare_intake_add_constant(struct pare_intake_graph *g, const Onnx__TensorProto *t,
                             const char *name, Onnx__TensorProto **copy, struct pare_err *err)
{
    Onnx__TensorProto *p = pare_alloc(g->m->arena, 1, sizeof(*p)), **list;

    PARE_TRY(pare_intake_change(g, err));
    list = pare_grow(g->m->arena, g->p->initializer, (int)g->p->n_initializer, &g->cap_constant,
                     sizeof(*list));
    if (!p || !list)
        return no_memory(err);
    *p = *t;
    p->name = (char *)(uintptr_t)name;
    g->p->initializer = list;
    g->p->initializer[g->p->n_initializer++] = p;
    if (copy)
        *copy = p;
    return 0;
}

void pare_intake_drop_nodes(struct pare_intake_graph *g)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->p->n_node; i++)
        if (g->p->node[i])
            g->p->node[kept++] = g->p->node[i];
    g->p->n_node = kept;
}

int pare_intake_drop_inputs(struct pare_intake_graph *g, const struct pare_map *names,
                            struct pare_err *err)
{
    Onnx__ValueInfoProto **list = copy_list(g->m->arena, g->p->input, g->p->n_input, 0);
    size_t kept = 0;

    PARE_TRY(pare_intake_change(g, err));
    if (!list)
        return no_memory(err);
    for (size_t i = 0; i < g->p->n_input; i++)
        if (!list[i]->name || !pare_map_get(names, list[i]->name))
            list[kept++] = list[i];
    g->p->input = list;
    g->p->n_input = kept;
    return 0;
}

/* Set the Constant nodes of these names to NULL. */
static void mark_dead(struct pare_intake_graph *g, const struct pare_map *dead)
{
    for (size_t i = 0; i < g->p->n_node && dead->n; i++) {
        const Onnx__NodeProto *n = g->p->node[i];

        if (n && !n->n_input && n->n_output == 1 && n->output[0] &&
            pare_map_get(dead, n->output[0]))
            g->p->node[i] = NULL;
    }
}

static int drop_marked(struct pare_intake_graph *g, const struct pare_map *dead,
                       struct pare_err *err)
{
    size_t kept = 0;

    pare_intake_drop_nodes(g);
    for (size_t i = 0; i < g->p->n_initializer && dead->n; i++) {
        Onnx__TensorProto *t = g->p->initializer[i];

        if (!pare_map_get(dead, t->name ? t->name : ""))
            g->p->initializer[kept++] = t;
    }
    if (!dead->n)
        return 0;
    g->p->n_initializer = kept;
    return pare_intake_drop_inputs(g, dead, err);
}

int pare_intake_drop_dead(struct pare_intake_graph *g, const struct pare_map *dead,
                          struct pare_err *err)
{
    PARE_TRY(pare_intake_change(g, err));
    mark_dead(g, dead);
    return drop_marked(g, dead, err);
}

int pare_intake_index(const struct pare_intake_graph *g, const struct pare_node *n)
{
    const Onnx__GraphProto *p = ((const Onnx__ModelProto *)g->m->proto)->graph;
    uintptr_t first = (uintptr_t)p->node, at = (uintptr_t)n->proto;

    return at >= first && at < first + p->n_node * sizeof(*p->node)
               ? (int)((at - first) / sizeof(*p->node))
               : -1;
}

/* Whether the node's name does not depend on its position or on other nodes. */
static bool has_own_name(const struct pare_node *n)
{
    return n->name == (*(Onnx__NodeProto *const *)n->proto)->name;
}

/* Remove the value from the names of the graph; pare_intake_patch() removes it from the list. */
static int forget(struct pare_graph *graph, struct pare_value *v, struct pare_err *err)
{
    v->id = -1;
    return pare_map_set(&graph->names, graph->arena, v->name, NULL, err);
}

/* Forget what dropped nodes make, and dead constants. */
static int forget_values(struct pare_intake_graph *g, const int *to, const struct pare_map *dead,
                         struct pare_err *err)
{
    struct pare_graph *graph = g->m->graph;
    int left = 0;

    for (int i = 0; i < graph->n_nodes; i++) {
        const struct pare_node *n = graph->node[i];

        if (pare_intake_index(g, n) < 0 || to[pare_intake_index(g, n)] >= 0)
            continue;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] && n->out[k]->maker == n)
                PARE_TRY(forget(graph, n->out[k], err));
    }
    for (int i = 0; i < graph->n_values; i++) {
        struct pare_value *v = graph->value[i];

        if (dead->n && v->id >= 0 && !v->maker && pare_map_get(dead, v->name))
            PARE_TRY(forget(graph, v, err));
        if (v->id < 0)
            continue;
        v->id = left;
        graph->value[left++] = v;
    }
    graph->n_values = left;
    return 0;
}

/* The nodes that are kept, with their new protobuf. */
static void move_nodes(struct pare_intake_graph *g, const int *to)
{
    struct pare_graph *graph = g->m->graph;
    int left = 0;

    for (int i = 0; i < graph->n_nodes; i++) {
        struct pare_node *node = graph->node[i];
        int at = pare_intake_index(g, node);

        if (at >= 0 && to[at] < 0)
            continue;
        if (at >= 0)
            node->proto = &g->p->node[to[at]];
        node->id = left;
        graph->node[left++] = node;
    }
    graph->n_nodes = left;
}

int pare_intake_patch(struct pare_intake_graph *g, const struct pare_map *dead,
                      struct pare_err *err)
{
    const struct pare_graph *graph = g->m->graph;
    size_t n = g->p->n_node, kept = 0;
    int *to = pare_alloc(g->m->arena, n + 1, sizeof(*to)), at;

    if (!to)
        return no_memory(err);
    mark_dead(g, dead);
    for (size_t i = 0; i < n; i++)
        to[i] = g->p->node[i] ? (int)kept++ : -1;
    g->patched = true;
    for (int i = 0; i < graph->n_nodes && kept < n && g->patched; i++) {
        at = pare_intake_index(g, graph->node[i]);
        g->patched = at >= 0 && (to[at] < 0 || has_own_name(graph->node[i]));
    }
    if (g->patched && (kept < n || dead->n))
        PARE_TRY(forget_values(g, to, dead, err));
    if (g->patched)
        move_nodes(g, to);
    return drop_marked(g, dead, err);
}

const struct pare_op *pare_intake_op(struct pare_op_memo *m, const Onnx__NodeProto *n)
{
    const char *type = n->op_type ? n->op_type : "", *domain = n->domain ? n->domain : "";
    size_t len = strlen(type), at = (len ? (size_t)type[0] * 5 + (size_t)type[len - 1] + len : 0);

    at %= sizeof(m->type) / sizeof(m->type[0]);
    if (*domain)
        return pare_find_op(domain, type);
    if (!m->type[at] || strcmp(m->type[at], type)) {
        m->type[at] = type;
        m->op[at] = pare_find_op("", type);
    }
    return m->op[at];
}

/* ---- graphs inside nodes --------------------------------------------------------------------- */

int pare_intake_each(const Onnx__GraphProto *g,
                     int (*see)(const Onnx__GraphProto *g, void *state, struct pare_err *err),
                     void *state, struct pare_err *err)
{
    PARE_TRY(see(g, state, err));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute; k++) {
            const Onnx__AttributeProto *at = g->node[i]->attribute[k];

            if (at->g)
                PARE_TRY(pare_intake_each(at->g, see, state, err));
            for (size_t j = 0; j < at->n_graphs; j++)
                PARE_TRY(pare_intake_each(at->graphs[j], see, state, err));
        }
    return 0;
}

static int change_graph(struct pare_intake_graph *g, const struct pare_intake_step *s, void *state,
                        struct pare_err *err);

/* Change the graph *body of attribute k of node i: the node and the attribute become copies. */
static int change_body(struct pare_intake_graph *g, size_t i, size_t k,
                       const struct pare_intake_step *s, void *state, struct pare_err *err)
{
    struct pare_intake_graph body = *g;
    Onnx__AttributeProto *at;
    Onnx__NodeProto *node;

    body.p = g->p->node[i]->attribute[k]->g;
    body.changed = body.main = false;
    PARE_TRY(change_graph(&body, s, state, err));
    if (!body.changed)
        return 0;
    at = pare_alloc(g->m->arena, 1, sizeof(*at));
    if (!at)
        return no_memory(err);
    PARE_TRY(pare_intake_own_node(g, i, &node, err));
    *at = *node->attribute[k];
    at->g = body.p;
    node->attribute[k] = at;
    return 0;
}

static int change_graph(struct pare_intake_graph *g, const struct pare_intake_step *s, void *state,
                        struct pare_err *err)
{
    PARE_TRY(s->graph(g, state, err));
    for (size_t i = 0; i < g->p->n_node; i++)
        for (size_t k = 0; k < g->p->node[i]->n_attribute; k++)
            if (g->p->node[i]->attribute[k]->g)
                PARE_TRY(change_body(g, i, k, s, state, err));
    return 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

int64_t pare_intake_version(const Onnx__ModelProto *p)
{
    for (size_t i = 0; i < p->n_opset_import; i++) {
        const char *d = p->opset_import[i]->domain;

        if (!d || !*d || !strcmp(d, "ai.onnx"))
            return p->opset_import[i]->version;
    }
    return 0;
}

/* Make the changed graph that of the model; initializers that are not inputs need IR version 4. */
static int take_graph(struct pare_intake_graph *g, struct pare_err *err)
{
    Onnx__ModelProto *copy;

    if (!g->changed)
        return 0;
    copy = pare_alloc(g->m->arena, 1, sizeof(*copy));
    if (!copy)
        return no_memory(err);
    *copy = *(const Onnx__ModelProto *)g->m->proto;
    copy->graph = g->p;
    if (copy->ir_version < 4)
        copy->ir_version = 4;
    if (!g->m->file)
        g->m->file = g->m->proto;
    g->m->proto = copy;
    return 0;
}

static int run_step(struct pare_model *m, const struct pare_intake_step *s,
                    const struct pare_load_opts *opts, int64_t *count, struct pare_err *err)
{
    struct pare_intake_graph g = { .m = m,
                                   .opts = opts,
                                   .p = ((Onnx__ModelProto *)m->proto)->graph,
                                   .main = true,
                                   .count = count };
    void *state = NULL;
    bool yes = true;

    if (m->graph)
        PARE_TRY(s->built(&g, err));
    else if (s->wanted)
        PARE_TRY(s->wanted(m, opts, &yes, &state, err));
    if (!m->graph && yes)
        PARE_TRY(change_graph(&g, s, state, err));
    PARE_TRY(take_graph(&g, err));
    if (g.changed && s->model)
        s->model(m->proto, state);
    return m->graph && g.changed && !g.patched ? pare_model_build(m, err) : 0;
}

/* Whether one step, which keeps all names, is the only one that changed something. */
static void note_narrow(struct pare_model *m)
{
    int changed = 0;

    for (int i = 0; i < STEPS; i++)
        changed += m->intake[i].count ? steps[i]->keeps_names ? 1 : 2 : 0;
    if (changed == 1) {
        m->narrow = m->file;
        m->wide = m->proto;
    }
}

int pare_intake(struct pare_model *m, const struct pare_load_opts *opts, struct pare_err *err)
{
    m->how = opts ? *opts : (struct pare_load_opts){ 0 };
    m->intake = pare_alloc(m->arena, STEPS, sizeof(*m->intake));
    if (!m->intake)
        return no_memory(err);
    m->n_intake = STEPS;
    for (int i = 0; i < STEPS; i++) {
        m->intake[i] = (struct pare_intake_count){ steps[i]->name, steps[i]->what, steps[i]->note,
                                                   0 };
        if (steps[i]->graph && !m->how.as_is)
            PARE_TRY(run_step(m, steps[i], &m->how, &m->intake[i].count, err));
    }
    PARE_TRY(pare_model_build(m, err));
    for (int i = 0; i < STEPS; i++)
        if (steps[i]->built && !m->how.as_is)
            PARE_TRY(run_step(m, steps[i], &m->how, &m->intake[i].count, err));
    note_narrow(m);
    return 0;
}

int pare_model_intake(const struct pare_model *m, const struct pare_intake_count **list)
{
    *list = m->intake;
    return m->n_intake;
}
