/* function.c - inline model-local functions (FunctionProto) at their calls.
 *
 * Only the graph is expanded; the file keeps its functions.  A function's body sees its inputs and
 * the outputs of its own nodes.
 */
#include "build.h"

#include <string.h>

#include "../base/limits.h"
#include "wire.h"

/* Numbers of fields that are newer than the protobuf schema of this build. */
enum { NODE_OVERLOAD = 8, FUNCTION_DEFAULTS = 11, FUNCTION_OVERLOAD = 13 };

struct pare_function {
    const Onnx__FunctionProto *proto;
    const Onnx__AttributeProto **defaults;
    size_t n_defaults;
    size_t bytes; /* of its body in the file */
};

static const char *str(const char *s)
{
    return s ? s : "";
}

static const char *domain(const char *s)
{
    return s && strcmp(s, "ai.onnx") ? s : "";
}

static int no_memory(struct pare_build *b)
{
    return pare_fail(b->err, PARE_ENOMEM, "no memory for functions");
}

/* ---- finding functions ----------------------------------------------------------------------- */

/* The contents of an unknown field, if it is length-delimited; else false. */
static bool unknown_bytes(const ProtobufCMessageUnknownField *u, const uint8_t **data, size_t *len)
{
    size_t n = 0;

    if (u->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
        return false;
    while (n < u->len && u->data[n] & 0x80)
        n++;
    n++;
    if (n > u->len)
        return false;
    *data = u->data + n;
    *len = u->len - n;
    return true;
}

/* Functions of the same name are distinguished by `overload`. */
static char *make_key(struct pare_arena *a, const char *dom, const char *name,
                      const ProtobufCMessage *m, unsigned overload_tag)
{
    const uint8_t *over = NULL;
    size_t len = 0;

    for (unsigned i = 0; i < m->n_unknown_fields; i++)
        if (m->unknown_fields[i].tag == overload_tag)
            unknown_bytes(&m->unknown_fields[i], &over, &len);
    return pare_sprintf(a, "%s\n%s\n%.*s", domain(dom), str(name), (int)(len > 4096 ? 4096 : len),
                        over ? (const char *)over : "");
}

static int read_defaults(struct pare_build *b, struct pare_function *f)
{
    const ProtobufCMessage *m = &f->proto->base;
    ProtobufCMessage *attr;
    const uint8_t *data;
    size_t len;

    f->defaults = pare_alloc(b->m->arena, m->n_unknown_fields, sizeof(*f->defaults));
    if (!f->defaults)
        return no_memory(b);
    for (unsigned i = 0; i < m->n_unknown_fields; i++) {
        if (m->unknown_fields[i].tag != FUNCTION_DEFAULTS ||
            !unknown_bytes(&m->unknown_fields[i], &data, &len))
            continue;
        PARE_TRY(pare_wire_unpack(&onnx__attribute_proto__descriptor, data, len, b->m->arena, &attr,
                                  b->err));
        f->defaults[f->n_defaults++] = (const Onnx__AttributeProto *)attr;
    }
    return 0;
}

int pare_build_functions(struct pare_build *b)
{
    const Onnx__ModelProto *m = b->m->proto;

    for (size_t i = 0; i < m->n_functions; i++) {
        const Onnx__FunctionProto *p = m->functions[i];
        struct pare_function *f = pare_alloc(b->m->arena, 1, sizeof(*f));
        char *key = make_key(b->m->arena, p->domain, p->name, &p->base, FUNCTION_OVERLOAD);

        if (!key || !f)
            return no_memory(b);
        if (p->n_opset_import > PARE_MAX_IMPORTS)
            return pare_fail(b->err, PARE_ELIMIT, "function '%s' imports too many operator sets",
                             str(p->name));
        if (pare_map_get(&b->functions, key))
            return pare_fail(b->err, PARE_EFORMAT, "function '%s' is defined twice", str(p->name));
        f->proto = p;
        f->bytes = protobuf_c_message_get_packed_size(&p->base);
        PARE_TRY(pare_at(b->err, read_defaults(b, f), "function '%s'", str(p->name)));
        PARE_TRY(pare_map_set(&b->functions, b->m->arena, key, f, b->err));
    }
    return 0;
}

const struct pare_function *pare_find_function(const struct pare_build *b, const Onnx__NodeProto *p)
{
    struct pare_mark mark = pare_mark(b->m->arena);
    const struct pare_function *f = NULL;
    const char *key;

    if (!b->functions.n)
        return NULL;
    key = make_key(b->m->arena, p->domain, p->op_type, &p->base, NODE_OVERLOAD);
    if (key)
        f = pare_map_get(&b->functions, key);
    pare_reset(b->m->arena, mark);
    return f;
}

const Onnx__FunctionProto *pare_function_proto(const struct pare_function *f)
{
    return f->proto;
}

const Onnx__AttributeProto *pare_call_attr(const struct pare_call *call, const char *name)
{
    for (size_t i = 0; i < call->site->n_attribute; i++)
        if (!strcmp(str(call->site->attribute[i]->name), name))
            return call->site->attribute[i];
    for (size_t i = 0; i < call->f->n_defaults; i++)
        if (!strcmp(str(call->f->defaults[i]->name), name))
            return call->f->defaults[i];
    return NULL;
}

/* ---- expanding a call ------------------------------------------------------------------------ */

/* Without limits, a small file could describe a huge graph by functions that call functions. */
static int check_limits(struct pare_build *b, const struct pare_call *call)
{
    b->expanded += call->f->bytes;
    if (call->depth > PARE_MAX_CALLS)
        return pare_fail(b->err, PARE_ELIMIT, "functions call each other more than %d deep",
                         PARE_MAX_CALLS);
    if (b->expanded > PARE_MAX_EXPANDED)
        return pare_fail(b->err, PARE_ELIMIT, "function calls expand to more than %u bytes",
                         PARE_MAX_EXPANDED);
    if (call->site->n_attribute > PARE_MAX_ATTRS || call->f->n_defaults > PARE_MAX_ATTRS)
        return pare_fail(b->err, PARE_ELIMIT, "a function has more than %d attributes",
                         PARE_MAX_ATTRS);
    if (call->site->n_input > call->f->proto->n_input ||
        call->site->n_output > call->f->proto->n_output)
        return pare_fail(b->err, PARE_EFORMAT,
                         "calls a function of %zu inputs and %zu outputs with %zu and %zu",
                         call->f->proto->n_input, call->f->proto->n_output, call->site->n_input,
                         call->site->n_output);
    return 0;
}

static int bind_inputs(struct pare_scope *sc, const struct pare_call *call, struct pare_map *alias)
{
    struct pare_build *b = sc->b;

    for (size_t i = 0; i < call->f->proto->n_input; i++) {
        const char *name = i < call->site->n_input ? str(call->site->input[i]) : "";
        struct pare_value *v = &b->absent;

        if (*name) {
            PARE_TRY(pare_scope_find(sc, name, &v));
            if (!v)
                return pare_fail(b->err, PARE_EFORMAT,
                                 "input '%s' is not made by a node and is not an input or "
                                 "initializer",
                                 name);
        }
        PARE_TRY(pare_map_set(alias, b->m->arena, str(call->f->proto->input[i]), v, b->err));
    }
    return 0;
}

/* Add a value to the graph for a name of the function. */
static struct pare_value *fresh_value(struct pare_scope *in, const char *name)
{
    struct pare_build *b = in->b;
    char *full = pare_sprintf(b->m->arena, "%s%s", in->prefix, name);

    while (full && pare_map_get(&in->g->names, full))
        full = pare_sprintf(b->m->arena, "%s%s_%lld", in->prefix, name, (long long)++b->renamed);
    if (!full) {
        no_memory(b);
        return NULL;
    }
    return pare_graph_value(in->g, full, b->err);
}

/* Map each output of a body node to an output of the call, or to a new value. */
static int make_values(struct pare_scope *in, struct pare_map *alias, const Onnx__FunctionProto *f,
                       struct pare_value **made)
{
    struct pare_build *b = in->b;
    struct pare_map outs = { 0 };
    struct pare_value *v;

    for (size_t i = 0; i < in->call->site->n_output; i++)
        if (in->call->out[i])
            PARE_TRY(pare_map_set(&outs, b->m->arena, str(f->output[i]), in->call->out[i], b->err));
    for (size_t i = 0; i < f->n_node; i++)
        for (size_t o = 0; o < f->node[i]->n_output; o++, made++) {
            const char *name = str(f->node[i]->output[o]);

            if (!*name)
                continue;
            if (pare_map_get(alias, name))
                return pare_fail(b->err, PARE_EFORMAT, "'%s' is defined twice", name);
            v = pare_map_get(&outs, name);
            *made = v ? v : fresh_value(in, name);
            if (!*made)
                return b->err->code;
            PARE_TRY(pare_map_set(alias, b->m->arena, name, *made, b->err));
        }
    return 0;
}

/* A function output that is also an input needs an Identity node. */
static int add_identities(struct pare_scope *in, const struct pare_map *alias,
                          const Onnx__FunctionProto *f)
{
    struct pare_build *b = in->b;

    for (size_t i = 0; i < in->call->site->n_output; i++) {
        struct pare_value *v = pare_map_get(alias, str(f->output[i])), *y = in->call->out[i];
        struct pare_node *n;

        if (!y || v == y)
            continue;
        if (!v || v == &b->absent)
            return pare_fail(b->err, PARE_EFORMAT, "output '%s' is not made by any of its nodes",
                             str(f->output[i]));
        n = pare_graph_add(in->g, 1, 1, b->err);
        if (!n)
            return b->err->code;
        n->in[0] = v;
        n->out[0] = y;
        n->name = y->name;
        n->type = "Identity";
        n->version = PARE_OPSET_NEWEST;
        n->op = pare_find_op("", "Identity");
        n->why = n->op ? NULL : "operator Identity is not known";
        if (n->op)
            n->attr = pare_alloc(b->m->arena, 1, n->op->attr_size ? n->op->attr_size : 1);
    }
    return 0;
}

static int expand(struct pare_scope *sc, struct pare_call *call)
{
    struct pare_build *b = sc->b;
    const Onnx__FunctionProto *f = call->f->proto;
    struct pare_map alias = { 0 };
    struct pare_scope in = { .b = b,
                             .g = sc->g,
                             .alias = &alias,
                             .call = call,
                             .n_imports = f->n_opset_import,
                             .imports = f->opset_import };
    struct pare_value **made;
    size_t n = 0;

    PARE_TRY(check_limits(b, call));
    if (!f->n_opset_import) {
        in.n_imports = sc->n_imports;
        in.imports = sc->imports;
    }
    in.prefix = pare_sprintf(b->m->arena, "%s%s/", sc->prefix,
                             *str(call->site->name) ? call->site->name : str(f->name));
    for (size_t i = 0; i < f->n_node; i++)
        n += f->node[i]->n_output;
    made = pare_alloc(b->m->arena, n, sizeof(*made));
    if (!made || !in.prefix)
        return no_memory(b);
    PARE_TRY(bind_inputs(sc, call, &alias));
    PARE_TRY(make_values(&in, &alias, f, made));
    for (size_t i = 0; i < f->n_node; i++) {
        PARE_TRY(pare_build_any(&in, &f->node[i], made));
        made += f->node[i]->n_output;
    }
    return add_identities(&in, &alias, f);
}

int pare_build_call(struct pare_scope *sc, const Onnx__NodeProto *p, const struct pare_function *f,
                    struct pare_value **out)
{
    struct pare_call call = { .site = p,
                              .f = f,
                              .from = sc,
                              .out = out,
                              .depth = sc->call ? sc->call->depth + 1 : 1 };

    if (sc->call)
        return expand(sc, &call); /* errors name the outermost call only */
    return pare_at(sc->b->err, expand(sc, &call), "node '%s' (function %s)", str(p->name),
                   str(p->op_type));
}
