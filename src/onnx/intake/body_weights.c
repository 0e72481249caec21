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
#include "name_set.h"

/* Number of values of a name in all graphs of the model, as pointers of maps.  Counting all names
 * takes as long as a third of building the graph, so names that may be moved are counted first. */
struct names {
    struct pare_arena *a;
    const Onnx__GraphProto *main; /* as it was before the step */
    struct pare_name_set up;      /* weights of the main graph, and what is computed of them */
    struct pare_name_set few;     /* count + 1 of weights of bodies and of nodes of weights */
    struct pare_map count;        /* of all names, once another one is asked for */
    struct pare_op_memo ops;
};

static const char *str(const char *s)
{
    return s ? s : "";
}

static int see_names(const Onnx__GraphProto *g, void *state,
                     int (*add)(void *state, const char *name, struct pare_err *err),
                     struct pare_err *err)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        PARE_TRY(add(state, str(g->initializer[i]->name), err));
    for (size_t i = 0; i < g->n_input; i++)
        PARE_TRY(add(state, str(g->input[i]->name), err));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            PARE_TRY(add(state, str(g->node[i]->output[k]), err));
    return 0;
}

/* A map of names and the memory that it grows in. */
struct counts {
    struct pare_map *count;
    struct pare_arena *a;
};

static int add_name(void *state, const char *name, struct pare_err *err)
{
    const struct counts *s = state;
    uintptr_t n = (uintptr_t)pare_map_get(s->count, name);

    return *name ? pare_map_set(s->count, s->a, name, (void *)(n + 1), err) : 0;
}

static int see_all(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    return see_names(g, state, add_name, err);
}

static int add_few(void *state, const char *name, struct pare_err *err)
{
    struct names *s = state;
    uintptr_t n = (uintptr_t)pare_name_get(&s->few, name);

    return n ? pare_map_set(&s->few.map, s->a, name, (void *)(n + 1), err) : 0;
}

static int see_few(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    return see_names(g, state, add_few, err);
}

static int count_all(struct names *s, struct pare_err *err)
{
    struct counts c = { &s->count, s->a };

    return s->count.n ? 0 : pare_intake_each(s->main, see_all, &c, err);
}

static int count_of(struct names *s, const char *name, int64_t *n, struct pare_err *err)
{
    uintptr_t few = (uintptr_t)pare_name_get(&s->few, name);

    if (!few)
        PARE_TRY(count_all(s, err));
    *n = few ? (int64_t)few - 1 : (int64_t)(uintptr_t)pare_map_get(&s->count, name);
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

/* Whether the node only changes the form of its first input. */
static bool changes_form(struct names *s, const Onnx__NodeProto *n)
{
    const struct pare_op *op = pare_intake_op(&s->ops, n);

    return op && op->flags & (PARE_OP_VIEW | PARE_OP_STORAGE) && n->n_output == 1 && n->n_input &&
           *str(n->output[0]);
}

/* Weights of bodies, and results of nodes that change the form of a weight. */
static int see_weights(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct names *s = state;
    struct pare_name_set *to = g == s->main ? &s->up : &s->few;

    for (size_t i = 0; i < g->n_initializer; i++)
        if (is_float(g->initializer[i]) && *str(g->initializer[i]->name))
            PARE_TRY(pare_name_set(to, s->a, g->initializer[i]->name, (void *)1, err));
    for (size_t i = 0; i < g->n_node && g != s->main; i++) {
        const Onnx__NodeProto *n = g->node[i];
        const char *from = n->n_input ? str(n->input[0]) : "";

        if ((pare_name_get(&s->up, from) || pare_name_get(&s->few, from)) && changes_form(s, n))
            PARE_TRY(pare_name_set(&s->few, s->a, n->output[0], (void *)1, err));
    }
    return 0;
}

/* Where a body is: "If_0/then" is written when a name needs it. */
struct path {
    const struct path *outer; /* of the graph that has the node; NULL: the main graph */
    const Onnx__NodeProto *n;
    size_t i, attribute; /* of the node; of the body */
};

struct lift {
    struct pare_intake_graph *main;
    struct names *names;
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

static const char *label_of(const char *attr)
{
    return !strcmp(attr, "then_branch") ? "then" : !strcmp(attr, "else_branch") ? "else" : attr;
}

/* The path as text; NULL: no memory. */
static const char *path_text(struct pare_arena *a, const struct path *p)
{
    const char *label = label_of(str(p->n->attribute[p->attribute]->name));
    const char *outer = p->outer ? path_text(a, p->outer) : "", *slash = p->outer ? "/" : "";

    if (!outer)
        return NULL;
    return *str(p->n->name)
               ? pare_sprintf(a, "%s%s%s/%s", outer, slash, p->n->name, label)
               : pare_sprintf(a, "%s%s%s_%zu/%s", outer, slash, str(p->n->op_type), p->i, label);
}

/* A name for the main graph that no value of the model has. */
static int new_name(struct lift *l, const struct path *in, const char *name, const char **up,
                    struct pare_err *err)
{
    struct counts all = { &l->names->count, l->names->a };
    const char *path = path_text(all.a, in);
    char *full = path ? pare_sprintf(all.a, "%s/%s", path, name) : NULL;

    PARE_TRY(count_all(l->names, err));
    for (int i = 2; full && pare_map_get(all.count, full); i++)
        full = pare_sprintf(all.a, "%s/%s_%d", path, name, i);
    *up = full;
    return full ? add_name(&all, full, err) : pare_no_memory(err, "for the graph");
}

/* The name in the main graph of what a body calls `name`; its uses there are renamed by `to`. */
static int lift_name(struct lift *l, const char *name, const struct path *path, struct pare_map *to,
                     const char **up, struct pare_err *err)
{
    struct pare_arena *a = l->main->m->arena;
    int64_t n;

    *up = name;
    PARE_TRY(count_of(l->names, name, &n, err));
    if (n != 1) {
        PARE_TRY(new_name(l, path, name, up, err));
        PARE_TRY(pare_map_set(to, a, name, (void *)(uintptr_t)*up, err));
    }
    return pare_name_set(&l->names->up, a, *up, l, err);
}

static int lift_one(struct lift *l, const Onnx__TensorProto *t, const struct path *path,
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
    const Onnx__GraphProto *p; /* as it was before the step */
    struct pare_map inside;    /* counts of names in it and in its bodies, once one is asked for */
    struct pare_map to, gone;  /* new names; names that are not defined any more */
    const struct path *path;
};

/* How many values of this name the body and the bodies in it define.  The only one of the model is
 * theirs if `own`, else the weight of the main graph that is looked for. */
static int count_inside(struct lift *l, struct body *b, const char *name, bool own, int64_t *n,
                        struct pare_err *err)
{
    struct counts c = { &b->inside, l->names->a };

    PARE_TRY(count_of(l->names, name, n, err));
    if (*n == 1) {
        *n = own;
        return 0;
    }
    if (!b->inside.n)
        PARE_TRY(pare_intake_each(b->p, see_all, &c, err));
    *n = (int64_t)(uintptr_t)pare_map_get(&b->inside, name);
    return 0;
}

/* What a name in the body is called in the main graph if it is a weight there; else NULL. */
static int weight_name(struct lift *l, struct body *b, const char *name, const char **weight,
                       struct pare_err *err)
{
    const char *up = pare_map_get(&b->to, name);
    int64_t n = 0;

    *weight = NULL;
    if (!pare_name_get(&l->names->up, up ? up : name))
        return 0;
    if (!up && !pare_map_get(&b->gone, name))
        PARE_TRY(count_inside(l, b, name, false, &n, err));
    *weight = n ? NULL : up ? up : name; /* else a value of the body */
    return 0;
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
static int is_form(struct lift *l, struct body *b, const Onnx__NodeProto *n, bool *yes,
                   struct pare_err *err)
{
    const Onnx__TensorProto *t;
    const char *weight = NULL;
    Onnx__NodeProto *made;
    int64_t count;

    *yes = false;
    if (n->n_input)
        PARE_TRY(weight_name(l, b, str(n->input[0]), &weight, err));
    if (!weight || !changes_form(l->names, n) || is_end(b->g->p, n->output[0]))
        return 0;
    PARE_TRY(count_inside(l, b, n->output[0], true, &count, err));
    if (count != 1)
        return 0;
    for (size_t k = 1; k < n->n_input; k++) {
        find_constant(b, str(n->input[k]), &t, &made);
        if (*str(n->input[k]) && !t && !made)
            return 0;
    }
    *yes = true;
    return 0;
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
    const Onnx__TensorProto *t;
    Onnx__NodeProto *made, *n;
    const char *up;

    PARE_TRY(new_name(l, b->path, name, &up, err));
    *to = (char *)(uintptr_t)up;
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
    char *input[8] = { NULL };
    const char *weight, *out;
    Onnx__NodeProto *n;

    if (from->n_input > 8)
        return 0;
    PARE_TRY(weight_name(l, b, str(from->input[0]), &weight, err));
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
static int lift_graph(struct lift *l, struct pare_intake_graph *g, const struct path *path,
                      struct pare_err *err)
{
    struct body b = { .g = g, .p = g->p, .path = path };
    const Onnx__GraphProto *p = g->p;
    int64_t n;
    bool yes;

    for (size_t i = 0; i < p->n_initializer; i++) {
        const Onnx__TensorProto *t = p->initializer[i];

        if (!*str(t->name) || !is_float(t) || is_end(p, t->name))
            continue;
        PARE_TRY(count_inside(l, &b, t->name, true, &n, err));
        if (n != 1)
            continue;
        PARE_TRY(lift_one(l, t, path, &b.to, err));
        PARE_TRY(pare_map_set(&b.gone, g->m->arena, t->name, g, err));
    }
    for (size_t i = 0; i < g->p->n_node; i++) {
        PARE_TRY(is_form(l, &b, g->p->node[i], &yes, err));
        if (yes)
            PARE_TRY(lift_node(l, &b, i, err));
    }
    if (b.gone.n)
        PARE_TRY(pare_intake_drop_dead(g, &b.gone, err));
    return b.to.n ? rename_uses(g, &b.to, err) : 0;
}

static int lift_bodies(struct lift *l, struct pare_intake_graph *g, const struct path *outer,
                       struct pare_err *err)
{
    for (size_t i = 0; i < g->p->n_node; i++)
        for (size_t k = 0; k < g->p->node[i]->n_attribute; k++) {
            Onnx__NodeProto *n = g->p->node[i];
            struct path path = { outer, n, i, k };
            struct pare_intake_graph body = *g;
            Onnx__AttributeProto *at;

            if (!n->attribute[k]->g)
                continue;
            body.p = n->attribute[k]->g;
            body.changed = body.main = false;
            PARE_TRY(lift_graph(l, &body, &path, err));
            PARE_TRY(lift_bodies(l, &body, &path, err));
            if (!body.changed)
                continue;
            at = pare_alloc(g->m->arena, 1, sizeof(*at));
            if (!at)
                return pare_no_memory(err, "for the graph");
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
    struct lift l = { .main = g, .names = state };

    if (!g->main)
        return 0;
    PARE_TRY(pare_intake_each(g->p, see_few, l.names, err));
    PARE_TRY(lift_bodies(&l, g, NULL, err));
    return prepend(&l, err);
}

static bool has_bodies(const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute; k++)
            if (g->node[i]->attribute[k]->g || g->node[i]->attribute[k]->n_graphs)
                return true;
    return false;
}

static int wanted(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;
    struct names *s;

    (void)opts;
    *yes = false;
    if (!has_bodies(g))
        return 0;
    s = *state = pare_alloc(m->arena, 1, sizeof(*s));
    if (!s)
        return pare_no_memory(err, "for the graph");
    s->a = m->arena;
    s->main = g;
    PARE_TRY(pare_intake_each(g, see_weights, s, err));
    *yes = s->few.map.n > 0;
    return 0;
}

const struct pare_intake_step pare_intake_step_body_weights = {
    .name = "body_weights",
    .what = "weights of bodies moved to the main graph",
    .wanted = wanted,
    .graph = lift_all,
};
