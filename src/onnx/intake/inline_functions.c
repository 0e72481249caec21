/* inline_functions.c - intake: calls of model functions become the function's nodes.
 *
 * Loading inlines functions in the graph in any case; here they are inlined in the protobuf, so
 * that layers in functions can be pruned, quantized and shrunk as others.  A function with other
 * versions of operator sets than the model stays as it is.  Names get the path of the call:
 * "block1/conv".
 */
#include <string.h>

#include "../../base/limits.h"
#include "intake.h"

#define MOST (PARE_MAX_INLINED / 8) /* nodes made of calls in the main graph */

/* All of the model. */
struct inlining {
    struct pare_build b;   /* its functions */
    struct pare_map taken; /* names of values of all graphs */
    struct pare_map named; /* names of nodes of all graphs, and paths of calls */
    struct pare_arena *a;
    int64_t nodes; /* made so far */
    size_t bytes;  /* of functions, counted once for every call */
    bool left;     /* calls of functions remain */
};

/* The expansion of one call. */
struct expansion {
    struct inlining *all;
    struct pare_call call;
    struct pare_map *names; /* names in the function, or a body in it, to names in the graph */
    const struct expansion *outer; /* of a body: the names around it */
    const char *prefix;
};

/* The nodes of a graph under change. */
struct node_list {
    Onnx__NodeProto **node;
    int n, cap;
};

static const char *str(const char *s)
{
    return s ? s : "";
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static int no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "for functions");
}

static void *copy_of(struct pare_arena *a, const void *p, size_t size)
{
    void *to = pare_alloc(a, 1, size);

    return to ? memcpy(to, p, size) : NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int take_name(struct inlining *s, const char *name, struct pare_err *err)
{
    return *str(name) ? pare_map_set(&s->taken, s->a, name, s, err) : 0;
}

static int see_names(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct inlining *s = state;

    for (size_t i = 0; i < g->n_initializer; i++)
        PARE_TRY(take_name(state, g->initializer[i]->name, err));
    for (size_t i = 0; i < g->n_input; i++)
        PARE_TRY(take_name(state, g->input[i]->name, err));
    for (size_t i = 0; i < g->n_node; i++) {
        if (*str(g->node[i]->name))
            PARE_TRY(pare_map_set(&s->named, s->a, g->node[i]->name, s, err));
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            PARE_TRY(take_name(state, g->node[i]->output[k], err));
    }
    return 0;
}

/* A name of a node, or with `ending` the path of a call, that is not in use. */
static int new_name(struct inlining *s, const char *base, const char *ending, char **name,
                    struct pare_err *err)
{
    *name = pare_sprintf(s->a, "%s%s", base, ending);
    for (int i = 2; *name && pare_map_get(&s->named, *name); i++)
        *name = pare_sprintf(s->a, "%s_%d%s", base, i, ending);
    return *name ? pare_map_set(&s->named, s->a, *name, s, err) : no_memory(err);
}

/* What a name of the function is called in the graph; NULL: the function does not define it. */
static const char *known_as(const struct expansion *x, const char *name)
{
    const char *to = NULL;

    for (; x && !to; x = x->outer)
        to = pare_map_get(x->names, name);
    return to;
}

/* Give a name of the function, or of a body in it, a new one. */
static int rename_value(struct expansion *x, const char *name, struct pare_err *err)
{
    struct inlining *s = x->all;
    char *to = pare_sprintf(s->a, "%s%s", x->prefix, name);

    if (!*name || pare_map_get(x->names, name))
        return 0;
    for (int i = 2; to && pare_map_get(&s->taken, to); i++)
        to = pare_sprintf(s->a, "%s%s_%d", x->prefix, name, i);
    if (!to)
        return no_memory(err);
    PARE_TRY(take_name(s, to, err));
    return pare_map_set(x->names, s->a, name, to, err);
}

static int rename_outputs(struct expansion *x, Onnx__NodeProto *const *node, size_t n,
                          struct pare_err *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < node[i]->n_output; k++)
            PARE_TRY(rename_value(x, str(node[i]->output[k]), err));
    return 0;
}

/* Make *list a copy with the names in the graph.  A function does not see names around its call. */
static int rename_list(const struct expansion *x, char ***list, size_t n, struct pare_err *err)
{
    char **to = pare_alloc(x->all->a, n + 1, sizeof(*to));

    if (!to)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *name = str((*list)[i]), *known = known_as(x, name);

        if (*name && !known)
            return pare_fail(err, PARE_EFORMAT, "'%s' is not defined in the function", name);
        to[i] = text(known ? known : "");
    }
    *list = to;
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copy_node(struct expansion *x, const Onnx__NodeProto *from, size_t i,
                     Onnx__NodeProto **node, struct pare_err *err);

/* Copies of inputs, outputs or declared values of a body under their new names. */
static int copy_values(const struct expansion *x, Onnx__ValueInfoProto ***list, size_t n,
                       struct pare_err *err)
{
    Onnx__ValueInfoProto **to = pare_alloc(x->all->a, n + 1, sizeof(*to));

    if (!to)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *name = known_as(x, str((*list)[i]->name));

        to[i] = copy_of(x->all->a, (*list)[i], sizeof(**to));
        if (!to[i])
            return no_memory(err);
        to[i]->name = name ? text(name) : to[i]->name;
    }
    *list = to;
    return 0;
}

static int copy_constants(struct expansion *x, Onnx__GraphProto *g, struct pare_err *err)
{
    Onnx__TensorProto **to = pare_alloc(x->all->a, g->n_initializer + 1, sizeof(*to));

    if (!to)
        return no_memory(err);
    for (size_t i = 0; i < g->n_initializer; i++) {
        to[i] = copy_of(x->all->a, g->initializer[i], sizeof(**to));
        if (!to[i])
            return no_memory(err);
        to[i]->name = text(known_as(x, str(to[i]->name)));
    }
    g->initializer = to;
    return 0;
}

/* A body inside of a function: its own names are renamed, too, as each copy needs its own. */
static int copy_body(const struct expansion *around, const Onnx__GraphProto *from,
                     Onnx__GraphProto **body, struct pare_err *err)
{
    struct pare_map names = { 0 };
    struct expansion x = *around;
    Onnx__GraphProto *g = copy_of(x.all->a, from, sizeof(*g));

    x.outer = around;
    x.names = &names;
    if (!g)
        return no_memory(err);
    for (size_t i = 0; i < g->n_input; i++)
        PARE_TRY(rename_value(&x, str(g->input[i]->name), err));
    for (size_t i = 0; i < g->n_initializer; i++)
        PARE_TRY(rename_value(&x, str(g->initializer[i]->name), err));
    PARE_TRY(rename_outputs(&x, g->node, g->n_node, err));
    PARE_TRY(copy_values(&x, &g->input, g->n_input, err));
    PARE_TRY(copy_values(&x, &g->output, g->n_output, err));
    PARE_TRY(copy_values(&x, &g->value_info, g->n_value_info, err));
    PARE_TRY(copy_constants(&x, g, err));
    g->node = pare_alloc(x.all->a, from->n_node + 1, sizeof(*g->node));
    if (!g->node)
        return no_memory(err);
    for (size_t i = 0; i < from->n_node; i++)
        PARE_TRY(copy_node(&x, from->node[i], i, &g->node[i], err));
    *body = g;
    return 0;
}

/* A copy of an attribute, or of the call's that it refers to; *to NULL: the call omits it. */
static int copy_attr(const struct expansion *x, const Onnx__AttributeProto *from,
                     Onnx__AttributeProto **to, struct pare_err *err)
{
    const Onnx__AttributeProto *at = from;

    if (*str(from->ref_attr_name))
        at = pare_call_attr(&x->call, from->ref_attr_name);
    *to = NULL;
    if (!at)
        return 0;
    *to = copy_of(x->all->a, at, sizeof(**to));
    if (!*to)
        return no_memory(err);
    (*to)->name = from->name;
    return at == from && at->g ? copy_body(x, at->g, &(*to)->g, err) : 0;
}

static int copy_node(struct expansion *x, const Onnx__NodeProto *from, size_t i,
                     Onnx__NodeProto **node, struct pare_err *err)
{
    struct inlining *s = x->all;
    Onnx__NodeProto *n = copy_of(s->a, from, sizeof(*n));
    const char *base;

    if (++s->nodes > PARE_MAX_INLINED)
        return pare_fail(err, PARE_ELIMIT, "function calls expand to more than %d nodes",
                         PARE_MAX_INLINED);
    if (!n)
        return no_memory(err);
    base = *str(from->name) ? pare_sprintf(s->a, "%s%s", x->prefix, from->name)
                            : pare_sprintf(s->a, "%s%s_%zu", x->prefix, str(from->op_type), i);
    if (!base)
        return no_memory(err);
    PARE_TRY(new_name(s, base, "", &n->name, err));
    PARE_TRY(rename_list(x, &n->input, n->n_input, err));
    PARE_TRY(rename_list(x, &n->output, n->n_output, err));
    n->attribute = pare_alloc(s->a, from->n_attribute + 1, sizeof(*n->attribute));
    if (!n->attribute)
        return no_memory(err);
    n->n_attribute = 0;
    for (size_t k = 0; k < from->n_attribute; k++) {
        Onnx__AttributeProto *at;

        PARE_TRY(copy_attr(x, from->attribute[k], &at, err));
        if (at)
            n->attribute[n->n_attribute++] = at;
    }
    *node = n;
    return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Whether the function computes with the model's versions of operator sets. */
static bool same_versions(const struct inlining *s, const Onnx__FunctionProto *f)
{
    const Onnx__ModelProto *m = s->b.m->proto;

    for (size_t i = 0; i < f->n_opset_import; i++) {
        const char *domain = str(f->opset_import[i]->domain);
        bool found = false;

        domain = strcmp(domain, "ai.onnx") ? domain : "";
        for (size_t k = 0; k < m->n_opset_import; k++) {
            const char *d = str(m->opset_import[k]->domain);

            found |= !strcmp(strcmp(d, "ai.onnx") ? d : "", domain) &&
                     m->opset_import[k]->version == f->opset_import[i]->version;
        }
        if (!found)
            return false;
    }
    return true;
}

static int add_node(struct inlining *s, struct node_list *l, Onnx__NodeProto *n,
                    struct pare_err *err)
{
    Onnx__NodeProto **list = pare_grow(s->a, l->node, l->n, &l->cap, sizeof(*list));

    if (!list)
        return no_memory(err);
    l->node = list;
    l->node[l->n++] = n;
    return 0;
}

/* Is every output of the function an input or an output of one of its nodes? */
static int check_outputs(struct inlining *s, const Onnx__FunctionProto *f, struct pare_err *err)
{
    struct pare_map made = { 0 };

    for (size_t i = 0; i < f->n_input; i++)
        PARE_TRY(pare_map_set(&made, s->a, str(f->input[i]), s, err));
    for (size_t i = 0; i < f->n_node; i++)
        for (size_t k = 0; k < f->node[i]->n_output; k++)
            PARE_TRY(pare_map_set(&made, s->a, str(f->node[i]->output[k]), s, err));
    for (size_t i = 0; i < f->n_output; i++)
        if (!pare_map_get(&made, str(f->output[i])))
            return pare_fail(err, PARE_EFORMAT, "output '%s' is not made by any of its nodes",
                             str(f->output[i]));
    return 0;
}

/* Names of the function's inputs and of those of its outputs that the call uses. */
static int bind(struct expansion *x, const Onnx__FunctionProto *f, struct pare_err *err)
{
    const Onnx__NodeProto *site = x->call.site;
    struct pare_arena *a = x->all->a;

    if (site->n_input > f->n_input || site->n_output > f->n_output)
        return pare_fail(err, PARE_EFORMAT, "a call has too many inputs or outputs");
    PARE_TRY(check_outputs(x->all, f, err));
    for (size_t i = 0; i < f->n_input; i++)
        PARE_TRY(pare_map_set(x->names, a, str(f->input[i]),
                              text(i < site->n_input ? str(site->input[i]) : ""), err));
    for (size_t i = 0; i < site->n_output; i++)
        if (*str(site->output[i]) && !pare_map_get(x->names, str(f->output[i])))
            PARE_TRY(pare_map_set(x->names, a, str(f->output[i]), site->output[i], err));
    return rename_outputs(x, f->node, f->n_node, err);
}

/* An output of the call that is an input of the function, or another of its outputs. */
static int add_identities(struct expansion *x, const Onnx__FunctionProto *f, struct node_list *l,
                          struct pare_err *err)
{
    const Onnx__NodeProto *site = x->call.site;

    for (size_t i = 0; i < site->n_output; i++) {
        const char *from = pare_map_get(x->names, str(f->output[i]));
        Onnx__NodeProto *n;

        if (!*str(site->output[i]) || (from && !strcmp(from, site->output[i])))
            continue;
        n = pare_alloc(x->all->a, 1, sizeof(*n));
        if (!n)
            return no_memory(err);
        onnx__node_proto__init(n);
        n->input = &f->output[i];
        n->output = &site->output[i];
        n->n_input = n->n_output = 1;
        n->op_type = text("Identity");
        n->name = pare_sprintf(x->all->a, "%sIdentity_%zu", x->prefix, i);
        PARE_TRY(rename_list(x, &n->input, 1, err));
        if (!n->name)
            return no_memory(err);
        PARE_TRY(add_node(x->all, l, n, err));
    }
    return 0;
}

static int add_or_expand(struct inlining *s, Onnx__NodeProto *n, int depth, struct node_list *l,
                         bool *any, struct pare_err *err);

static int expand(struct inlining *s, Onnx__NodeProto *site, const struct pare_function *f,
                  int depth, struct node_list *l, struct pare_err *err)
{
    const Onnx__FunctionProto *p = pare_function_proto(f);
    struct pare_map names = { 0 };
    struct expansion x = { .all = s,
                           .call = { .site = site, .f = f, .depth = depth },
                           .names = &names };
    char *prefix;
    bool any;

    s->bytes += protobuf_c_message_get_packed_size(&p->base);
    if (depth > PARE_MAX_CALLS || s->bytes > PARE_MAX_EXPANDED ||
        site->n_attribute > PARE_MAX_ATTRS)
        return pare_fail(err, PARE_ELIMIT, "functions expand too far");
    PARE_TRY(new_name(s, *str(site->name) ? site->name : str(p->name), "/", &prefix, err));
    x.prefix = prefix;
    PARE_TRY(bind(&x, p, err));
    for (size_t i = 0; i < p->n_node; i++) {
        Onnx__NodeProto *n;

        PARE_TRY(copy_node(&x, p->node[i], i, &n, err));
        PARE_TRY(add_or_expand(s, n, depth + 1, l, &any, err));
    }
    return add_identities(&x, p, l, err);
}

static int add_or_expand(struct inlining *s, Onnx__NodeProto *n, int depth, struct node_list *l,
                         bool *any, struct pare_err *err)
{
    const struct pare_function *f = pare_find_function(&s->b, n);

    if (f && same_versions(s, pare_function_proto(f))) {
        *any = true;
        return expand(s, n, f, depth, l, err);
    }
    s->left |= f != NULL;
    return add_node(s, l, n, err);
}

/* ---- the step -------------------------------------------------------------------------------- */

static int inline_graph(struct pare_intake_graph *g, void *state, struct pare_err *err)
{
    struct inlining *s = state;
    struct node_list l = { 0 };
    int64_t count = 0;
    bool any = false;

    for (size_t i = 0; i < g->p->n_node; i++) {
        bool call = false;
        int rc = add_or_expand(s, g->p->node[i], 1, &l, &call, err);

        s->left |= rc != 0;
        if (rc)
            return rc == PARE_ENOMEM ? rc : 0; /* building the graph says what is wrong */
        any |= call;
        count += call;
    }
    if (!any)
        return 0;
    *g->count += count;
    PARE_TRY(pare_intake_change(g, err));
    g->p->node = l.node;
    g->p->n_node = (size_t)l.n;
    return 0;
}

/* Functions that no node calls any more are not written. */
static void drop_functions(Onnx__ModelProto *m, void *state)
{
    if (!((const struct inlining *)state)->left)
        m->n_functions = 0;
}

/* Count the nodes that calls expand to; false: more than *left, or calls are nested too deeply.
 * Such a model is left to the builder of the graph, which refuses it. */
static bool fits(const struct inlining *s, Onnx__NodeProto *const *node, size_t n, int depth,
                 int64_t *left)
{
    for (size_t i = 0; i < n; i++) {
        const struct pare_function *f = pare_find_function(&s->b, node[i]);
        const Onnx__FunctionProto *p = f ? pare_function_proto(f) : NULL;

        *left -= depth > 0;
        if (*left < 0 || depth > PARE_MAX_CALLS ||
            (p && !fits(s, p->node, p->n_node, depth + 1, left)))
            return false;
    }
    return true;
}

static int wanted(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err)
{
    const Onnx__ModelProto *p = m->proto;
    int64_t left = MOST;
    struct inlining *s;

    (void)opts;
    *yes = p->n_functions > 0;
    if (!*yes)
        return 0;
    s = pare_alloc(m->arena, 1, sizeof(*s));
    if (!s)
        return no_memory(err);
    s->a = m->arena;
    s->b.m = (struct pare_model *)(uintptr_t)m;
    s->b.err = err;
    *state = s;
    *yes = !pare_build_functions(&s->b);
    if (!*yes)
        return err->code == PARE_ENOMEM ? PARE_ENOMEM : 0;
    *yes = fits(s, p->graph->node, p->graph->n_node, 0, &left);
    return pare_intake_each(p->graph, see_names, s, err);
}

const struct pare_intake_step pare_intake_step_inline_functions = {
    .name = "inline_functions",
    .what = "calls of model functions replaced by their nodes",
    .wanted = wanted,
    .graph = inline_graph,
    .model = drop_functions,
};
