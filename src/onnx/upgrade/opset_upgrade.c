/* opset_upgrade.c - raise the opset of a model, one version at a time.
 *
 * opset_changes.def lists the operators whose form changed and the function that rewrites a node.
 * Each pass goes through the main graph, all subgraphs and all local functions, so that nodes which
 * one pass adds are rewritten by the following ones.
 */
#include <string.h>

#include "upgrade.h"
#include "upgrade_rewrites.h"

#include "../../base/arena.h"
#include "../../base/limits.h"

#define MAX_DEPTH 100 /* of nested subgraphs */

static const struct change {
    const char *type;
    int version;
    pare_rewrite_fn *rewrite;
} changes[] = {
#define CHANGE(type, version, rewrite) { #type, version, pare_raise_##rewrite },
#include "opset_changes.def"
#undef CHANGE
};

#define N_CHANGES (sizeof(changes) / sizeof(*changes))

/* ---- imports --------------------------------------------------------------------------------- */

static bool is_own(const char *domain)
{
    return !domain || !*domain || !strcmp(domain, "ai.onnx");
}

static Onnx__OperatorSetIdProto **own_set(Onnx__OperatorSetIdProto **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_own(list[i]->domain))
            return &list[i];
    return NULL;
}

int64_t pare_edit_version(const struct pare_edit *e)
{
    Onnx__OperatorSetIdProto **set = own_set(e->model.opset_import, e->model.n_opset_import);

    return set && (*set)->has_version ? (*set)->version : 1;
}

/* The list is a copy, its entries are shared. */
static int set_version(struct pare_edit *e, Onnx__OperatorSetIdProto **set, int64_t version,
                       struct pare_err *err)
{
    Onnx__OperatorSetIdProto *copy = pare_alloc(e->a, 1, sizeof(*copy));

    if (!copy)
        return pare_edit_no_memory(err);
    *copy = **set;
    copy->has_version = true;
    copy->version = version;
    *set = copy;
    return 0;
}

/* ---- one node -------------------------------------------------------------------------------- */

static const struct change *change_of(const struct pare_upgrade *u, const Onnx__NodeProto *p)
{
    for (size_t k = 0; k < N_CHANGES && is_own(p->domain) && p->op_type; k++)
        if (changes[k].version == u->version && !strcmp(changes[k].type, p->op_type))
            return &changes[k];
    return NULL;
}

static bool graph_changes(const struct pare_upgrade *u, const Onnx__GraphProto *g, int depth);

static bool node_changes(const struct pare_upgrade *u, const Onnx__NodeProto *p, int depth)
{
    if (change_of(u, p))
        return true;
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *at = p->attribute[i];

        if (at->g && graph_changes(u, at->g, depth + 1))
            return true;
        for (size_t k = 0; k < at->n_graphs; k++)
            if (graph_changes(u, at->graphs[k], depth + 1))
                return true;
    }
    return false;
}

static bool graph_changes(const struct pare_upgrade *u, const Onnx__GraphProto *g, int depth)
{
    for (size_t i = 0; i < g->n_node && depth < MAX_DEPTH; i++)
        if (node_changes(u, g->node[i], depth))
            return true;
    return false;
}

static int raise_list(struct pare_upgrade *u, const struct pare_upgrade_scope *scope,
                      Onnx__NodeProto ***node, size_t *n, struct pare_err *err);

/* A copy of a subgraph with its nodes rewritten. */
static int raise_graph(struct pare_site *s, Onnx__GraphProto **g, struct pare_err *err)
{
    struct pare_upgrade_scope in = { .g = *g,
                                     .up = s->scope,
                                     .node = (*g)->node,
                                     .n_node = (*g)->n_node };
    Onnx__GraphProto *copy = pare_alloc(s->u->e->a, 1, sizeof(*copy));

    if (!copy)
        return pare_edit_no_memory(err);
    *copy = **g;
    *g = copy;
    return raise_list(s->u, &in, &copy->node, &copy->n_node, err);
}

static int raise_attr(struct pare_site *s, const Onnx__AttributeProto *at, struct pare_err *err)
{
    struct pare_edit *e = s->u->e;
    Onnx__AttributeProto *copy = pare_alloc(e->a, 1, sizeof(*copy));

    if (!copy)
        return pare_edit_no_memory(err);
    *copy = *at;
    if (at->g)
        PARE_TRY(raise_graph(s, &copy->g, err));
    copy->graphs = pare_edit_copy_list(e, at->graphs, at->n_graphs);
    if (!copy->graphs)
        return pare_edit_no_memory(err);
    for (size_t k = 0; k < at->n_graphs; k++)
        PARE_TRY(raise_graph(s, &copy->graphs[k], err));
    return pare_edit_set_attr(e, s->p, copy, err);
}

/* First the subgraphs, then the node. */
static int raise_node(struct pare_site *s, struct pare_err *err)
{
    const struct change *c = change_of(s->u, s->p);

    s->value = "unused";
    for (size_t i = s->p->n_output; i-- > 0;)
        if (*s->p->output[i])
            s->value = s->p->output[i];
    for (size_t i = 0; i < s->p->n_attribute; i++)
        if (s->p->attribute[i]->g || s->p->attribute[i]->n_graphs)
            PARE_TRY(raise_attr(s, s->p->attribute[i], err));
    if (c)
        PARE_TRY(c->rewrite(s, err));
    return pare_site_place(s, err);
}

/* ---- one pass -------------------------------------------------------------------------------- */

/* A new list of the nodes of a subgraph or function, rewritten. */
static int raise_list(struct pare_upgrade *u, const struct pare_upgrade_scope *scope,
                      Onnx__NodeProto ***node, size_t *n, struct pare_err *err)
{
    struct pare_nodes list = { .cap = (int)*n + 16 };

    list.node = pare_alloc(u->e->a, (size_t)list.cap, sizeof(*list.node));
    if (!list.node)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < *n; i++) {
        struct pare_edit_slot own = { .p = (*node)[i] };
        struct pare_site s = { .u = u, .scope = scope, .list = &list };

        if (node_changes(u, own.p, 0))
            PARE_TRY(pare_edit_own_slot(u->e, &own, err));
        s.p = own.p;
        PARE_TRY(own.own ? raise_node(&s, err) : pare_site_place(&s, err));
    }
    *node = list.node;
    *n = (size_t)list.n;
    return 0;
}

/* Slots may move when a node is added. */
static int raise_main(struct pare_upgrade *u, struct pare_err *err)
{
    struct pare_edit *e = u->e;
    struct pare_upgrade_scope scope = { .g = &e->graph };

    for (int i = 0, n = e->n; i < n; i++) {
        struct pare_site s = { .u = u, .scope = &scope, .slot = i };

        if (!e->slot[i].p || !node_changes(u, e->slot[i].p, 0))
            continue;
        PARE_TRY(pare_edit_own_slot(e, &e->slot[i], err));
        s.p = e->slot[i].p;
        PARE_TRY(raise_node(&s, err));
    }
    return 0;
}

static int raise_functions(struct pare_upgrade *u, int64_t from, struct pare_err *err)
{
    struct pare_edit *e = u->e;

    for (size_t i = 0; i < e->model.n_functions; i++) {
        Onnx__FunctionProto *f = e->model.functions[i];
        Onnx__OperatorSetIdProto **set = own_set(f->opset_import, f->n_opset_import);
        struct pare_upgrade_scope scope = { .node = f->node,
                                            .n_node = f->n_node,
                                            .out = f->output,
                                            .n_out = f->n_output };

        if ((set ? (*set)->version : from) >= u->version)
            continue;
        PARE_TRY(pare_at(err, raise_list(u, &scope, &f->node, &f->n_node, err), "function '%s'",
                         f->name ? f->name : ""));
        if (set)
            PARE_TRY(set_version(e, set, u->version, err));
    }
    return 0;
}

/* ---- the upgrade ----------------------------------------------------------------------------- */

/* Functions and their imports become copies that may be changed. */
static int own_functions(struct pare_edit *e, struct pare_err *err)
{
    Onnx__FunctionProto **list = pare_edit_copy_list(e, e->model.functions, e->model.n_functions);

    if (!list)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < e->model.n_functions; i++) {
        Onnx__FunctionProto *f = pare_alloc(e->a, 1, sizeof(*f));

        if (!f)
            return pare_edit_no_memory(err);
        *f = *list[i];
        f->opset_import = pare_edit_copy_list(e, f->opset_import, f->n_opset_import);
        if (!f->opset_import)
            return pare_edit_no_memory(err);
        list[i] = f;
    }
    e->model.functions = list;
    return 0;
}

/* Before IR version 4 every initializer is listed as an input; from then on such an input can be
 * fed, so runtimes do not treat it as a constant. */
static void drop_initializer_inputs(struct pare_edit *e)
{
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0;

    for (size_t i = 0; i < g->n_input; i++)
        if (!g->input[i]->name || !pare_map_get(&e->constants, g->input[i]->name))
            g->input[kept++] = g->input[i];
    g->n_input = kept;
}

/* The IR version that ONNX released with an opset, at least 7. */
static void raise_ir(struct pare_edit *e, int64_t opset)
{
    int64_t ir = opset >= 25   ? 13
                 : opset == 24 ? 12
                 : opset == 23 ? 11
                 : opset >= 21 ? 10
                 : opset >= 19 ? 9
                 : opset >= 15 ? 8
                               : 7;

    if (e->model.ir_version < 4)
        drop_initializer_inputs(e);
    if (e->model.ir_version < ir)
        e->model.ir_version = ir;
    e->model.has_ir_version = true;
}

static int raise_all(struct pare_upgrade *u, int64_t from, struct pare_err *err)
{
    PARE_TRY(own_functions(u->e, err));
    for (u->version = PARE_OPSET_OLDEST; u->version <= u->to; u->version++) {
        if (u->version > from)
            PARE_TRY(raise_main(u, err));
        PARE_TRY(raise_functions(u, from, err));
    }
    return 0;
}

int pare_edit_opset(struct pare_edit *e, int64_t version, struct pare_err *err)
{
    Onnx__OperatorSetIdProto **set = own_set(e->model.opset_import, e->model.n_opset_import);
    struct pare_upgrade u = { .e = e, .to = version };
    int64_t from = pare_edit_version(e);
    int rc;

    raise_ir(e, version);
    if (from >= version)
        return 0;
    PARE_TRY(pare_edit_close_bodies(e, err));
    if (!set || version > PARE_OPSET_NEWEST || from < PARE_OPSET_OLDEST)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the model has opset %lld and cannot be raised to %lld; opsets %d to %d "
                         "are handled",
                         (long long)from, (long long)version, PARE_OPSET_OLDEST, PARE_OPSET_NEWEST);
    rc = raise_all(&u, from, err);
    pare_arena_free(u.shapes_arena);
    PARE_TRY(pare_at(err, rc, "raising the opset from %lld to %lld", (long long)from,
                     (long long)version));
    return set_version(e, set, version, err);
}

int pare_model_raise_opset(const struct pare_model *m, int64_t version, struct pare_model **raised,
                           struct pare_err *err)
{
    struct pare_edit *e;

    *raised = NULL;
    PARE_TRY(pare_edit_new(m, &e, err));
    if (pare_edit_version(e) > version)
        pare_fail(err, PARE_EUNSUPPORTED,
                  "the model has opset %lld, which cannot be lowered to %lld",
                  (long long)pare_edit_version(e), (long long)version);
    else if (!pare_edit_opset(e, version, err))
        return pare_edit_model(e, raised, err);
    pare_edit_free(e);
    return err->code;
}

int pare_edit_import(struct pare_edit *e, const char *domain, int64_t version, struct pare_err *err)
{
    Onnx__OperatorSetIdProto *set, **list;

    for (size_t i = 0; i < e->model.n_opset_import; i++)
        if (e->model.opset_import[i]->domain && !strcmp(e->model.opset_import[i]->domain, domain))
            return 0;
    set = pare_alloc(e->a, 1, sizeof(*set));
    list = pare_alloc(e->a, e->model.n_opset_import + 1, sizeof(*list));
    if (!set || !list)
        return pare_edit_no_memory(err);
    onnx__operator_set_id_proto__init(set);
    set->domain = pare_edit_text(domain);
    set->has_version = true;
    set->version = version;
    for (size_t i = 0; i < e->model.n_opset_import; i++)
        list[i] = e->model.opset_import[i];
    list[e->model.n_opset_import] = set;
    e->model.opset_import = list;
    e->model.n_opset_import++;
    return 0;
}
