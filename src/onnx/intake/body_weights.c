/* body_weights.c - intake: initializers of bodies become initializers of the main graph.
 *
 * Bodies of If, Loop and Scan may have weights of their own.  In the main graph they are captured
 * values of the body, which pruners, quantizers and exports find by name as those of other layers.
 * Cast, Transpose, Reshape and such nodes of weights go with them, so that later steps fold them.
 * A name that occurs once in the model is kept; else the path of the body precedes it:
 * "If_0/then/conv1.weight".
 */
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "intake.h"

/* Number of values of a name, as pointers of a map; names of all graphs of the model. */
struct names {
    struct pare_arena *a;
    struct pare_map count;
};

static const char *str(const char *s)
{
    return s ? s : "";
}

static int add_name(struct names *s, const char *name, struct pare_err *err)
{
    uintptr_t n = (uintptr_t)pare_map_get(&s->count, str(name));

    return *str(name) ? pare_map_set(&s->count, s->a, name, (void *)(n + 1), err) : 0;
}

static int see_names(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        PARE_TRY(add_name(state, g->initializer[i]->name, err));
    for (size_t i = 0; i < g->n_input; i++)
        PARE_TRY(add_name(state, g->input[i]->name, err));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            PARE_TRY(add_name(state, g->node[i]->output[k], err));
    return 0;
}

static bool is_float(const Onnx__TensorProto *t)
{
    return t->n_dims && (t->data_type == PARE_F32 || t->data_type == PARE_F16 ||
                         t->data_type == PARE_BF16 || t->data_type == PARE_F64);
}

/* Inputs with a default and outputs of the body stay where they are. */
static bool is_end(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_input; i++)
        if (!strcmp(str(g->input[i]->name), name))
            return true;
    for (size_t i = 0; i < g->n_output; i++)
        if (!strcmp(str(g->output[i]->name), name))
            return true;
    return false;
}

struct lift {
    struct pare_intake_graph *main;
    struct names *names;
    struct pare_map *up; /* names of weights of the main graph, and of what is computed of them */
    Onnx__NodeProto **node; /* of bodies, moved to the main graph */
    int n, cap;
};

/* Replace names among the inputs of all nodes of the graph and of the bodies inside of it. */
static int rename_uses(struct pare_intake_graph *g, const struct pare_map *to, struct pare_err *err)
{
    for (size_t i = 0; i < g->p->n_node; i++) {
        Onnx__NodeProto *n = g->p->node[i];
        bool own = false;

        for (size_t k = 0; k < n->n_input; k++) {
            const char *name = pare_map_get(to, str(n->input[k]));

            if (name && !own)
                PARE_TRY(pare_intake_own_node(g, i, &n, err));
            own |= name != NULL;
            if (name)
                n->input[k] = (char *)(uintptr_t)name;
        }
        for (size_t k = 0; k < n->n_attribute; k++) {
            struct pare_intake_graph body = *g;
            Onnx__AttributeProto *at;

            if (!n->attribute[k]->g)
                continue;
            body.p = n->attribute[k]->g;
            body.changed = false;
            PARE_TRY(rename_uses(&body, to, err));
            if (!body.changed)
                continue;
            at = pare_alloc(g->m->arena, 1, sizeof(*at));
            if (!at)
                return pare_no_memory(err, "for the graph");
            if (!own)
                PARE_TRY(pare_intake_own_node(g, i, &n, err));
            own = true;
            *at = *n->attribute[k];
            at->g = body.p;
            n->attribute[k] = at;
        }
    }
    return 0;
}

/* A name for the main graph that no value of the model has. */
static const char *new_name(struct lift *l, const char *path, const char *name)
{
    struct pare_arena *a = l->main->m->arena;
    char *full = pare_sprintf(a, "%s/%s", path, name);

    for (int i = 2; full && pare_map_get(&l->names->count, full); i++)
        full = pare_sprintf(a, "%s/%s_%d", path, name, i);
    return full;
}

/* The name in the main graph of what a body calls `name`; its uses there are renamed by `to`. */
static int lift_name(struct lift *l, const char *name, const char *path, struct pare_map *to,
                     const char **up, struct pare_err *err)
{
    struct pare_arena *a = l->main->m->arena;

    *up = name;
    if ((uintptr_t)pare_map_get(&l->names->count, name) != 1) {
        *up = new_name(l, path, name);
        if (!*up)
            return pare_no_memory(err, "for the graph");
        PARE_TRY(pare_map_set(to, a, name, (void *)(uintptr_t)*up, err));
        PARE_TRY(add_name(l->names, *up, err));
    }
    return pare_map_set(l->up, a, *up, l, err);
}

static int lift_one(struct lift *l, const Onnx__TensorProto *t, const char *path,
                    struct pare_map *to, struct pare_err *err)
{
    const char *name;

    PARE_TRY(lift_name(l, t->name, path, to, &name, err));
    ++*l->main->count;
    return pare_intake_add_constant(l->main, t, name, NULL, err);
}

/* ---- nodes of weights ------------------------------------------------------------------------ */

/* A body, what it defines, and what of it was moved. */
struct body {
    struct pare_intake_graph *g;
    struct names inside;
    struct pare_map to, gone; /* new names; names that are not defined any more */
    const char *path;
};

/* What a name in the body is called in the main graph if it is a weight there; else NULL. */
static const char *weight_name(const struct lift *l, const struct body *b, const char *name)
{
    const char *up = pare_map_get(&b->to, name);

    if (!up && pare_map_get(&b->inside.count, name) && !pare_map_get(&b->gone, name))
        return NULL; /* a value of the body */
    up = up ? up : name;
    return pare_map_get(l->up, up) ? up : NULL;
}

/* The initializer or Constant node of the body that makes the value; *t and *n are NULL if none. */
static void find_constant(const struct body *b, const char *name, const Onnx__TensorProto **t,
                          Onnx__NodeProto **n)
{
    const Onnx__GraphProto *p = b->g->p;

    *t = NULL;
    *n = NULL;
    for (size_t i = 0; i < p->n_initializer; i++)
        if (!strcmp(str(p->initializer[i]->name), name))
            *t = p->initializer[i];
    for (size_t i = 0; i < p->n_node; i++)
        if (p->node[i] && p->node[i]->n_output == 1 && pare_intake_is(p->node[i], "Constant") &&
            !strcmp(str(p->node[i]->output[0]), name))
            *n = p->node[i];
}

/* Whether the node only changes the form of a weight, with constants of the body. */
static bool is_form(const struct lift *l, const struct body *b, const Onnx__NodeProto *n)
{
    const struct pare_op *op = pare_find_op(str(n->domain), str(n->op_type));
    const Onnx__TensorProto *t;
    Onnx__NodeProto *made;

    if (!op || !(op->flags & (PARE_OP_VIEW | PARE_OP_STORAGE)) || n->n_output != 1 || !n->n_input ||
        !*str(n->output[0]) || is_end(b->g->p, n->output[0]) ||
        (uintptr_t)pare_map_get(&b->inside.count, n->output[0]) != 1 ||
        !weight_name(l, b, str(n->input[0])))
        return false;
    for (size_t k = 1; k < n->n_input; k++) {
        find_constant(b, str(n->input[k]), &t, &made);
        if (*str(n->input[k]) && !t && !made)
            return false;
    }
    return true;
}

static int add_node(struct lift *l, const Onnx__NodeProto *from, Onnx__NodeProto **n,
                    struct pare_err *err)
{
    struct pare_arena *a = l->main->m->arena;
    Onnx__NodeProto **list = pare_grow(a, l->node, l->n, &l->cap, sizeof(*list));

    *n = pare_alloc(a, 1, sizeof(**n));
    if (!list || !*n)
        return pare_no_memory(err, "for the graph");
    **n = *from;
    (*n)->input = pare_alloc(a, from->n_input + 1, sizeof(char *));
    (*n)->output = pare_alloc(a, 1, sizeof(char *));
    if (!(*n)->input || !(*n)->output)
        return pare_no_memory(err, "for the graph");
    l->node = list;
    l->node[l->n++] = *n;
    return 0;
}

/* A copy in the main graph of the constant `name` of the body. */
static int copy_constant(struct lift *l, const struct body *b, const char *name, char **to,
                         struct pare_err *err)
{
    const char *up = new_name(l, b->path, name);
    const Onnx__TensorProto *t;
    Onnx__NodeProto *made, *n;

    if (!up)
        return pare_no_memory(err, "for the graph");
    *to = (char *)(uintptr_t)up;
    PARE_TRY(add_name(l->names, up, err));
    find_constant(b, name, &t, &made);
    if (t)
        return pare_intake_add_constant(l->main, t, up, NULL, err);
    PARE_TRY(add_node(l, made, &n, err));
    n->name = *to;
    n->output[0] = *to;
    return 0;
}

/* Move the node to the main graph. */
static int lift_node(struct lift *l, struct body *b, size_t i, struct pare_err *err)
{
    const Onnx__NodeProto *from = b->g->p->node[i];
    const char *weight = weight_name(l, b, str(from->input[0])), *out;
    char *input[8] = { NULL };
    Onnx__NodeProto *n;

    if (from->n_input > 8)
        return 0;
    for (size_t k = 1; k < from->n_input; k++)
        if (*str(from->input[k]))
            PARE_TRY(copy_constant(l, b, from->input[k], &input[k], err));
    PARE_TRY(lift_name(l, from->output[0], b->path, &b->to, &out, err));
    PARE_TRY(add_node(l, from, &n, err));
    n->input[0] = (char *)(uintptr_t)weight;
    for (size_t k = 1; k < from->n_input; k++)
        n->input[k] = input[k] ? input[k] : from->input[k];
    n->output[0] = (char *)(uintptr_t)out;
    PARE_TRY(pare_map_set(&b->gone, l->main->m->arena, from->output[0], b, err));
    PARE_TRY(pare_intake_change(b->g, err));
    b->g->p->node[i] = NULL;
    ++*l->main->count;
    return 0;
}

/* Names that a graph inside of this one defines again cannot be renamed. */
static int lift_graph(struct lift *l, struct pare_intake_graph *g, const char *path,
                      struct pare_err *err)
{
    struct body b = { .g = g, .inside = { .a = g->m->arena }, .path = path };
    const Onnx__GraphProto *p = g->p;

    PARE_TRY(pare_intake_each(p, see_names, &b.inside, err));
    for (size_t i = 0; i < p->n_initializer; i++) {
        const Onnx__TensorProto *t = p->initializer[i];

        if (!*str(t->name) || !is_float(t) || is_end(p, t->name) ||
            (uintptr_t)pare_map_get(&b.inside.count, t->name) != 1)
            continue;
        PARE_TRY(lift_one(l, t, path, &b.to, err));
        PARE_TRY(pare_map_set(&b.gone, g->m->arena, t->name, g, err));
    }
    for (size_t i = 0; i < g->p->n_node; i++)
        if (is_form(l, &b, g->p->node[i]))
            PARE_TRY(lift_node(l, &b, i, err));
    if (b.gone.n)
        PARE_TRY(pare_intake_drop_dead(g, &b.gone, err));
    return b.to.n ? rename_uses(g, &b.to, err) : 0;
}

static const char *label_of(const char *attr)
{
    return !strcmp(attr, "then_branch") ? "then" : !strcmp(attr, "else_branch") ? "else" : attr;
}

static int lift_bodies(struct lift *l, struct pare_intake_graph *g, const char *path,
                       struct pare_err *err)
{
    struct pare_arena *a = g->m->arena;

    for (size_t i = 0; i < g->p->n_node; i++)
        for (size_t k = 0; k < g->p->node[i]->n_attribute; k++) {
            Onnx__NodeProto *n = g->p->node[i];
            struct pare_intake_graph body = *g;
            Onnx__AttributeProto *at;
            const char *inner;

            if (!n->attribute[k]->g)
                continue;
            body.p = n->attribute[k]->g;
            body.changed = body.main = false;
            inner = *str(n->name) ? pare_sprintf(a, "%s%s/%s", path, n->name,
                                                 label_of(str(n->attribute[k]->name)))
                                  : pare_sprintf(a, "%s%s_%zu/%s", path, str(n->op_type), i,
                                                 label_of(str(n->attribute[k]->name)));
            at = pare_alloc(a, 1, sizeof(*at));
            if (!inner || !at)
                return pare_no_memory(err, "for the graph");
            PARE_TRY(lift_graph(l, &body, inner, err));
            inner = pare_sprintf(a, "%s/", inner);
            if (!inner)
                return pare_no_memory(err, "for the graph");
            PARE_TRY(lift_bodies(l, &body, inner, err));
            if (!body.changed)
                continue;
            PARE_TRY(pare_intake_own_node(g, i, &n, err));
            *at = *n->attribute[k];
            at->g = body.p;
            n->attribute[k] = at;
        }
    return 0;
}

/* Nodes of weights read initializers and each other only: they come first. */
static int prepend(const struct lift *l, struct pare_err *err)
{
    struct pare_intake_graph *g = l->main;
    Onnx__NodeProto **list;
    size_t n = (size_t)l->n;

    if (!n)
        return 0;
    PARE_TRY(pare_intake_change(g, err));
    list = pare_alloc(g->m->arena, n + g->p->n_node + 1, sizeof(*list));
    if (!list)
        return pare_no_memory(err, "for the graph");
    memcpy(list, l->node, n * sizeof(*list));
    memcpy(list + n, g->p->node, g->p->n_node * sizeof(*list));
    g->p->node = list;
    g->p->n_node += n;
    return 0;
}

static int lift_all(struct pare_intake_graph *g, void *state, struct pare_err *err)
{
    struct names names = { .a = g->m->arena };
    struct pare_map up = { 0 };
    struct lift l = { .main = g, .names = &names, .up = &up };

    (void)state;
    if (!g->main)
        return 0;
    PARE_TRY(pare_intake_each(g->p, see_names, &names, err));
    for (size_t i = 0; i < g->p->n_initializer; i++)
        if (is_float(g->p->initializer[i]) && *str(g->p->initializer[i]->name))
            PARE_TRY(pare_map_set(&up, g->m->arena, g->p->initializer[i]->name, g, err));
    PARE_TRY(lift_bodies(&l, g, "", err));
    return prepend(&l, err);
}

/* Whether any graph is inside of the main graph. */
static int count_graphs(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    (void)g, (void)err;
    ++*(int *)state;
    return 0;
}

static int wanted(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err)
{
    int graphs = 0;

    (void)opts, (void)state;
    PARE_TRY(
        pare_intake_each(((const Onnx__ModelProto *)m->proto)->graph, count_graphs, &graphs, err));
    *yes = graphs > 1;
    return 0;
}

const struct pare_intake_step pare_intake_step_body_weights = {
    .name = "body_weights",
    .what = "weights of bodies moved to the main graph",
    .wanted = wanted,
    .graph = lift_all,
};
