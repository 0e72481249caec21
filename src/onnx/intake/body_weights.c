/* body_weights.c - intake: initializers of bodies become initializers of the main graph.
 *
 * Bodies of If, Loop and Scan may have weights of their own.  In the main graph they are captured
 * values of the body, which pruners, quantizers and exports find by name as those of other layers.
 * A name that occurs once in the model is kept; else the path of the body precedes it:
 * "If_0/then/conv1.weight".
 */
#include <string.h>

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
static const char *new_name(const struct lift *l, const char *path, const char *name)
{
    struct pare_arena *a = l->main->m->arena;
    char *full = pare_sprintf(a, "%s/%s", path, name);

    for (int i = 2; full && pare_map_get(&l->names->count, full); i++)
        full = pare_sprintf(a, "%s/%s_%d", path, name, i);
    return full;
}

static int lift_one(const struct lift *l, const Onnx__TensorProto *t, const char *path,
                    struct pare_map *to, struct pare_err *err)
{
    bool once = (uintptr_t)pare_map_get(&l->names->count, t->name) == 1;
    const char *name = once ? t->name : new_name(l, path, t->name);

    if (!name)
        return pare_no_memory(err, "for the graph");
    if (!once) {
        PARE_TRY(pare_map_set(to, l->main->m->arena, t->name, (void *)(uintptr_t)name, err));
        PARE_TRY(add_name(l->names, name, err));
    }
    ++*l->main->count;
    return pare_intake_add_constant(l->main, t, name, NULL, err);
}

/* Names that a graph inside of this one defines again cannot be renamed. */
static int lift_graph(const struct lift *l, struct pare_intake_graph *g, const char *path,
                      struct pare_err *err)
{
    struct names inside = { .a = g->m->arena };
    struct pare_map to = { 0 }, gone = { 0 };
    const Onnx__GraphProto *p = g->p;

    PARE_TRY(pare_intake_each(p, see_names, &inside, err));
    for (size_t i = 0; i < p->n_initializer; i++) {
        const Onnx__TensorProto *t = p->initializer[i];

        if (!*str(t->name) || !is_float(t) || is_end(p, t->name) ||
            (uintptr_t)pare_map_get(&inside.count, t->name) != 1)
            continue;
        PARE_TRY(lift_one(l, t, path, &to, err));
        PARE_TRY(pare_map_set(&gone, g->m->arena, t->name, g, err));
    }
    if (gone.n)
        PARE_TRY(pare_intake_drop_dead(g, &gone, err));
    return to.n ? rename_uses(g, &to, err) : 0;
}

static const char *label_of(const char *attr)
{
    return !strcmp(attr, "then_branch") ? "then" : !strcmp(attr, "else_branch") ? "else" : attr;
}

static int lift_bodies(const struct lift *l, struct pare_intake_graph *g, const char *path,
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

static int lift_all(struct pare_intake_graph *g, void *state, struct pare_err *err)
{
    struct names names = { .a = g->m->arena };

    (void)state;
    if (!g->main)
        return 0;
    PARE_TRY(pare_intake_each(g->p, see_names, &names, err));
    return lift_bodies(&(struct lift){ g, &names }, g, "", err);
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
