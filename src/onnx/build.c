/* build.c - build a struct pare_graph from a GraphProto.
 *
 * Two passes: first all values that the graph makes, then the nodes with their inputs looked up.
 * So the nodes of a file may be in any order.
 */
#include "build.h"

#include <limits.h>
#include <string.h>

#include "../base/limits.h"

static int no_memory(struct pare_build *b)
{
    return pare_fail(b->err, PARE_ENOMEM, "no memory for the graph");
}

static const char *str(const char *s)
{
    return s ? s : "";
}

/* ---- looking up names ------------------------------------------------------------------------ */

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v->id < g->n_values && g->value[v->id] == v;
}

int pare_scope_note(struct pare_scope *sc, struct pare_value *v)
{
    struct pare_value **list;

    if (is_own(sc->g, v) || pare_map_get(&sc->captured, v->name) == v)
        return 0;
    list = pare_grow(sc->b->m->arena, sc->cap, sc->n_cap, &sc->cap_cap, sizeof(*list));
    if (!list)
        return no_memory(sc->b);
    sc->cap = list;
    sc->cap[sc->n_cap++] = v;
    return pare_map_set(&sc->captured, sc->b->m->arena, v->name, v, sc->b->err);
}

int pare_scope_find(struct pare_scope *sc, const char *name, struct pare_value **v)
{
    *v = NULL;
    for (const struct pare_scope *s = sc; s && !*v; s = s->up)
        *v = pare_map_get(s->alias ? s->alias : &s->g->names, name);
    return *v && *v != &sc->b->absent ? pare_scope_note(sc, *v) : 0;
}

/* ---- declared types -------------------------------------------------------------------------- */

/* Read a declared type; rank -1: no shape, or one with more than PARE_MAX_RANK axes. */
static void read_type(const Onnx__TypeProto *type, struct pare_io *io)
{
    const Onnx__TypeProto__Tensor *t;

    io->dtype = PARE_NONE;
    io->rank = -1;
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return;
    t = type->tensor_type;
    if (pare_dtype_size((enum pare_dtype)t->elem_type))
        io->dtype = (enum pare_dtype)t->elem_type;
    if (!t->shape || t->shape->n_dim > PARE_MAX_RANK)
        return;
    io->rank = (int)t->shape->n_dim;
    for (int i = 0; i < io->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = t->shape->dim[i];

        io->dim[i] = -1;
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
            d->dim_value >= 0)
            io->dim[i] = d->dim_value;
        else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                 *str(d->dim_param))
            io->sym[i] = d->dim_param;
    }
}

static void declare_tensor(struct pare_tensor *t, const Onnx__TypeProto *type)
{
    struct pare_io io = { 0 };

    read_type(type, &io);
    t->dtype = io.dtype;
    t->rank = io.rank;
    memcpy(t->dim, io.dim, sizeof(io.dim));
}

static void declare(struct pare_value *v, const Onnx__TypeProto *type)
{
    declare_tensor(&v->t, type);
}

/* The batch of an input or output of the model, if it is declared as 1 but any is accepted. */
static bool is_freed(const struct pare_model *m, int rank, const int64_t *dim)
{
    return m->any_batch && rank > 0 && dim[0] == 1;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Add a value; it is an error if the graph has one of this name. */
static int make_value(struct pare_scope *sc, const char *name, const char *what,
                      struct pare_value **v)
{
    *v = NULL;
    if (pare_map_get(&sc->g->names, name))
        return pare_fail(sc->b->err, PARE_EFORMAT, "%s '%s' is defined twice", what, name);
    *v = pare_graph_value(sc->g, name, sc->b->err);
    return *v ? 0 : sc->b->err->code;
}

int pare_build_const(struct pare_build *b, struct pare_value *v, const Onnx__TensorProto *p)
{
    struct pare_const c;

    PARE_TRY(pare_const_read(b->m, p, &c, b->err));
    v->t = c.t;
    v->raw = c.raw;
    if (c.why)
        return pare_map_set(&b->odd, b->m->arena, v->name, (void *)(uintptr_t)c.why, b->err);
    v->flags |= PARE_V_CONST;
    return 0;
}

static int add_initializers(struct pare_scope *sc, const Onnx__GraphProto *p)
{
    struct pare_err *err = sc->b->err;
    struct pare_value *v = NULL;

    for (size_t i = 0; i < p->n_initializer; i++) {
        const char *name = str(p->initializer[i]->name);

        if (!*name)
            return pare_fail(err, PARE_EFORMAT, "initializer %zu has no name", i);
        PARE_TRY(make_value(sc, name, "initializer", &v));
        PARE_TRY(
            pare_at(err, pare_build_const(sc->b, v, p->initializer[i]), "initializer '%s'", name));
    }
    for (size_t i = 0; i < p->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *s = p->sparse_initializer[i];
        const char *name = s->values ? str(s->values->name) : "";

        if (!*name)
            return pare_fail(err, PARE_EFORMAT, "sparse initializer %zu has no name", i);
        PARE_TRY(make_value(sc, name, "sparse initializer", &v));
        PARE_TRY(pare_at(err, pare_build_sparse(sc->b, v, s), "sparse initializer '%s'", name));
    }
    return 0;
}

/* Before IR version 4 every initializer was listed as an input, too: skip those. */
static int add_inputs(struct pare_scope *sc, const Onnx__GraphProto *p)
{
    struct pare_graph *g = sc->g;
    struct pare_value *v;

    struct pare_tensor *type = pare_alloc(g->arena, p->n_input, sizeof(*type));

    g->in = pare_alloc(g->arena, p->n_input, sizeof(*g->in));
    if (!g->in || !type)
        return no_memory(sc->b);
    g->in_type = type;
    for (size_t i = 0; i < p->n_input; i++) {
        const char *name = str(p->input[i]->name);

        if (!*name)
            return pare_fail(sc->b->err, PARE_EFORMAT, "input %zu has no name", i);
        v = pare_map_get(&g->names, name);
        if (v && !(v->flags & PARE_V_INPUT))
            continue;
        PARE_TRY(make_value(sc, name, "input", &v));
        v->flags |= PARE_V_INPUT;
        declare(v, p->input[i]->type);
        if (!sc->up && is_freed(sc->b->m, v->t.rank, v->t.dim))
            v->t.dim[0] = -1;
        type[g->n_in] = v->t;
        g->in[g->n_in++] = v;
    }
    return 0;
}

static int add_outputs(struct pare_scope *sc, const Onnx__GraphProto *p)
{
    struct pare_graph *g = sc->g;

    struct pare_tensor *type = pare_alloc(g->arena, p->n_output, sizeof(*type));

    g->out = pare_alloc(g->arena, p->n_output, sizeof(*g->out));
    if (!g->out || !type)
        return no_memory(sc->b);
    g->out_type = type;
    for (size_t i = 0; i < p->n_output; i++) {
        const char *name = str(p->output[i]->name);
        struct pare_value *v;

        PARE_TRY(pare_scope_find(sc, name, &v));
        if (!v || v == &sc->b->absent)
            return pare_fail(sc->b->err, PARE_EFORMAT,
                             "output '%s' is not made by a node and is not an input or initializer",
                             name);
        if (is_own(g, v))
            v->flags |= PARE_V_OUTPUT;
        if (v->t.rank < 0 && !(v->flags & (PARE_V_CONST | PARE_V_INPUT)))
            declare(v, p->output[i]->type);
        declare_tensor(&type[g->n_out], p->output[i]->type);
        g->out[g->n_out++] = v;
    }
    return 0;
}

static void add_value_info(struct pare_scope *sc, const Onnx__GraphProto *p)
{
    for (size_t i = 0; i < p->n_value_info; i++) {
        struct pare_value *v = pare_map_get(&sc->g->names, str(p->value_info[i]->name));

        if (v && !(v->flags & (PARE_V_CONST | PARE_V_INPUT)) && v->t.rank < 0)
            declare(v, p->value_info[i]->type);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The display name: the node's own, or Type_index; a number makes duplicates unique. */
static int name_node(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n)
{
    struct pare_build *b = sc->b;
    const char *base = str(p->name);

    if (!*base)
        base = pare_sprintf(b->m->arena, "%s%s_%d", sc->prefix, str(p->op_type),
                            sc->g->n_nodes - 1);
    else if (*sc->prefix)
        base = pare_sprintf(b->m->arena, "%s%s", sc->prefix, base);
    for (n->name = base; n->name && pare_map_get(&b->nodes, n->name);)
        n->name = pare_sprintf(b->m->arena, "%s_%lld", base, (long long)++b->renamed);
    return n->name ? pare_map_set(&b->nodes, b->m->arena, n->name, n, b->err) : no_memory(b);
}

static bool is_standard(const char *domain)
{
    return !*domain || !strcmp(domain, "ai.onnx");
}

static int find_version(struct pare_scope *sc, struct pare_node *n)
{
    bool standard = is_standard(n->domain);

    for (size_t i = 0; i < sc->n_imports; i++) {
        const char *d = str(sc->imports[i]->domain);
        int64_t v = sc->imports[i]->version;

        if (standard ? !is_standard(d) : strcmp(d, n->domain))
            continue;
        n->version = v < 0 ? 0 : v > INT_MAX ? INT_MAX : (int)v;
        return 0;
    }
    if (standard)
        return pare_fail(sc->b->err, PARE_EFORMAT,
                         "the file does not state the version of the standard operators "
                         "(opset_import)");
    return 0;
}

static void find_op(struct pare_scope *sc, struct pare_node *n)
{
    struct pare_arena *a = sc->b->m->arena;
    const struct pare_op *op = pare_find_op(n->domain, n->type);
    const char *refused = op ? NULL : pare_op_refused(n->domain, n->type);

    if (refused)
        n->why = pare_sprintf(a, "operator %s is not supported: %s", n->type, refused);
    else if (!op)
        n->why = *n->domain ? pare_sprintf(a, "operator %s (domain '%s', version %d) is not known",
                                           n->type, n->domain, n->version)
                            : pare_sprintf(a, "operator %s (version %d) is not known", n->type,
                                           n->version);
    else if (is_standard(n->domain) && n->version > PARE_OPSET_NEWEST)
        n->why = pare_sprintf(a, "opset %d is newer than %d, the newest that is handled",
                              n->version, PARE_OPSET_NEWEST);
    else if (n->version < op->since)
        n->why = pare_sprintf(a, "opset %d is older than %d, the oldest that is handled for %s",
                              n->version, op->since, n->type);
    else
        n->op = op;
    if (!n->op && !n->why)
        n->why = "its operator cannot run";
}

/* An input of a kind that cannot be read makes the node unusable, not the file. */
static int find_inputs(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n)
{
    struct pare_build *b = sc->b;

    for (int i = 0; i < n->n_in; i++) {
        const char *name = str(p->input[i]), *odd;

        if (!*name)
            continue;
        PARE_TRY(pare_scope_find(sc, name, &n->in[i]));
        if (!n->in[i])
            return pare_fail(b->err, PARE_EFORMAT,
                             "input '%s' is not made by a node and is not an input or initializer",
                             name);
        if (n->in[i] == &b->absent) {
            n->in[i] = NULL;
            continue;
        }
        odd = pare_map_get(&b->odd, n->in[i]->name);
        if (!odd || (n->in[i]->flags & (PARE_V_CONST | PARE_V_INPUT)) || n->why)
            continue;
        n->op = NULL;
        n->why = pare_sprintf(b->m->arena, "constant '%s' cannot be used: %s", n->in[i]->name, odd);
        if (!n->why)
            return no_memory(b);
    }
    return 0;
}

/* The number of inputs that op->in allows: letters, each perhaps followed by ?, * or +. */
static void count_inputs(const char *in, int *min, int *max)
{
    *min = *max = 0;
    for (; *in; in++) {
        bool optional = in[1] == '?' || in[1] == '*';

        *max = in[1] == '*' || in[1] == '+' ? INT_MAX : *max + 1;
        *min += !optional;
        in += optional || in[1] == '+';
    }
}

/* The first required input that is absent; -1: none. */
static int missing_input(const char *in, const struct pare_node *n)
{
    int i = 0;

    for (; *in; in++, i++) {
        bool optional = in[1] == '?' || in[1] == '*', list = in[1] == '+';

        if (!optional && (i >= n->n_in || !n->in[i]))
            return i;
        while (list && ++i < n->n_in)
            if (!n->in[i])
                return i;
        in += optional || list;
    }
    return -1;
}

static int missing_output(const struct pare_node *n)
{
    for (int i = 0; i < n->op->min_out; i++)
        if (!n->out[i])
            return i;
    return -1;
}

/* Nodes with an operator have all inputs and outputs that it requires; others get n->why. */
static int check_arity(struct pare_scope *sc, struct pare_node *n)
{
    const struct pare_op *op = n->op;
    int min, max, in = n->n_in, out = n->n_out;

    while (in && !n->in[in - 1])
        in--;
    while (out && !n->out[out - 1])
        out--;
    if (!op)
        return 0;
    count_inputs(op->in ? op->in : "", &min, &max);
    if (in < min || in > max)
        n->why = pare_sprintf(sc->b->m->arena, "it has %d inputs, %s takes %s%d", in, n->type,
                              in < min ? "at least " : "at most ", in < min ? min : max);
    else if (out < op->min_out || (op->max_out >= 0 && out > op->max_out))
        n->why = pare_sprintf(sc->b->m->arena, "it has %d outputs, %s makes %s%d", out, n->type,
                              out < op->min_out ? "at least " : "at most ",
                              out < op->min_out ? op->min_out : op->max_out);
    else if (missing_input(op->in ? op->in : "", n) >= 0)
        n->why = pare_sprintf(sc->b->m->arena, "%s needs its input %d", n->type,
                              missing_input(op->in, n));
    else if (missing_output(n) >= 0)
        n->why = pare_sprintf(sc->b->m->arena, "%s needs its output %d", n->type,
                              missing_output(n));
    else
        return 0;
    n->op = NULL;
    return n->why ? 0 : no_memory(sc->b);
}

static int fill_node(struct pare_scope *sc, Onnx__NodeProto *const *at, struct pare_node *n)
{
    const Onnx__NodeProto *p = *at;

    n->type = str(p->op_type);
    n->domain = str(p->domain);
    n->proto = at;
    PARE_TRY(name_node(sc, p, n));
    PARE_TRY(find_version(sc, n));
    find_op(sc, n);
    PARE_TRY(find_inputs(sc, p, n));
    PARE_TRY(check_arity(sc, n));
    if (is_standard(n->domain) && !strcmp(n->type, "Constant") && n->n_out == 1 && n->out[0])
        return pare_build_constant(sc, p, n);
    return pare_build_attrs(sc, p, n);
}

static int build_node(struct pare_scope *sc, Onnx__NodeProto *const *at, struct pare_value **out)
{
    const Onnx__NodeProto *p = *at;
    struct pare_err *err = sc->b->err;
    struct pare_node *n;
    int rc;

    if (sc->call && ++sc->b->inlined > PARE_MAX_INLINED)
        return pare_fail(err, PARE_ELIMIT, "function calls expand to more than %d nodes",
                         PARE_MAX_INLINED);
    if (p->n_input > INT_MAX / 2 || p->n_output > INT_MAX / 2)
        return pare_fail(err, PARE_ELIMIT, "a node has too many inputs or outputs");
    n = pare_graph_add(sc->g, (int)p->n_input, (int)p->n_output, err);
    if (!n)
        return err->code;
    for (int i = 0; i < n->n_out; i++)
        n->out[i] = out[i];
    rc = fill_node(sc, at, n);
    return pare_at(err, rc, "node '%s' (%s)", *str(p->name) || !n->name ? str(p->name) : n->name,
                   str(p->op_type));
}

int pare_build_any(struct pare_scope *sc, Onnx__NodeProto *const *at, struct pare_value **out)
{
    const struct pare_function *f = pare_find_function(sc->b, *at);

    return f ? pare_build_call(sc, *at, f, out) : build_node(sc, at, out);
}

/* Add the outputs of all nodes; *made lists them, node after node. */
static int make_outputs(struct pare_scope *sc, const Onnx__GraphProto *p, struct pare_value ***made)
{
    size_t n = 0, k = 0;

    for (size_t i = 0; i < p->n_node; i++)
        n += p->node[i]->n_output;
    *made = pare_alloc(sc->b->m->arena, n, sizeof(**made));
    if (!*made)
        return no_memory(sc->b);
    for (size_t i = 0; i < p->n_node; i++) {
        const Onnx__NodeProto *node = p->node[i];

        for (size_t o = 0; o < node->n_output; o++, k++)
            if (*str(node->output[o]))
                PARE_TRY(pare_at(sc->b->err, make_value(sc, node->output[o], "output", &(*made)[k]),
                                 "node '%s' (%s)", str(node->name), str(node->op_type)));
    }
    return 0;
}

int pare_build_graph(struct pare_scope *sc, const Onnx__GraphProto *p)
{
    struct pare_build *b = sc->b;
    struct pare_value **made;
    size_t k = 0;

    if (p->n_node > INT_MAX / 2 || p->n_input > INT_MAX / 2 || p->n_output > INT_MAX / 2)
        return pare_fail(b->err, PARE_ELIMIT, "the graph has too many nodes, inputs or outputs");
    sc->g = pare_graph_new(b->m->arena, sc->up ? sc->up->g : NULL, b->err);
    if (!sc->g)
        return b->err->code;
    sc->g->name = str(p->name);
    PARE_TRY(add_initializers(sc, p));
    PARE_TRY(add_inputs(sc, p));
    PARE_TRY(make_outputs(sc, p, &made));
    add_value_info(sc, p);
    for (size_t i = 0; i < p->n_node; i++) {
        PARE_TRY(pare_build_any(sc, &p->node[i], made + k));
        k += p->node[i]->n_output;
    }
    PARE_TRY(add_outputs(sc, p));
    return pare_graph_order(sc->g, b->err);
}

/* ---- the model ------------------------------------------------------------------------------- */

static int list_io(struct pare_build *b, Onnx__ValueInfoProto **info, size_t n,
                   const struct pare_graph *g, struct pare_io **io)
{
    int count = 0;

    *io = pare_alloc(b->m->arena, n, sizeof(**io));
    if (!*io) {
        no_memory(b);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const struct pare_value *v = pare_map_get(&g->names, str(info[i]->name));

        if (io == &b->m->in && (!v || !(v->flags & PARE_V_INPUT)))
            continue;
        (*io)[count].name = str(info[i]->name);
        read_type(info[i]->type, &(*io)[count]);
        if (is_freed(b->m, (*io)[count].rank, (*io)[count].dim)) {
            (*io)[count].dim[0] = -1;
            (*io)[count].sym[0] = "N";
        }
        if (io == &b->m->in)
            (*io)[count].layout = pare_graph_layout(g, v);
        count++;
    }
    return count;
}

int pare_model_build(struct pare_model *m, struct pare_err *err)
{
    const Onnx__ModelProto *p = m->proto;
    struct pare_build b = { .m = m, .err = err };
    struct pare_scope sc = { .b = &b,
                             .n_imports = p->n_opset_import,
                             .imports = p->opset_import,
                             .prefix = "" };

    if (p->ir_version > PARE_IR_NEWEST)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "IR version %lld is newer than %d, the newest that is known; export the "
                         "model with an older one",
                         (long long)p->ir_version, PARE_IR_NEWEST);
    if (p->n_opset_import > PARE_MAX_IMPORTS)
        return pare_fail(err, PARE_ELIMIT, "imports %zu operator sets, at most %d are handled",
                         p->n_opset_import, PARE_MAX_IMPORTS);
    PARE_TRY(pare_build_functions(&b));
    PARE_TRY(pare_build_graph(&sc, p->graph));
    m->graph = sc.g;
    m->builds++;
    m->n_in = list_io(&b, p->graph->input, p->graph->n_input, sc.g, &m->in);
    m->n_out = list_io(&b, p->graph->output, p->graph->n_output, sc.g, &m->out);
    return m->n_in < 0 || m->n_out < 0 ? err->code : 0;
}
