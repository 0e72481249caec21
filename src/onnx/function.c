/* function.c - functions that the model brings along, put in the place of their calls.
 *
 * Only the graph is expanded; the file keeps its functions.  A function sees its inputs, what its
 * own nodes make, and nothing else.
 */
#include "build.h"

#include <string.h>

#include "limits.h"

static const char *str(const char *s)
{
    return s ? s : "";
}

static const char *domain(const char *s)
{
    return s && strcmp(s, "ai.onnx") ? s : "";
}

int pare_build_functions(struct pare_build *b)
{
    const Onnx__ModelProto *m = b->m->proto;

    for (size_t i = 0; i < m->n_functions; i++) {
        Onnx__FunctionProto *f = m->functions[i];
        char *key = pare_sprintf(b->m->arena, "%s\n%s", domain(f->domain), str(f->name));

        if (!key)
            return pare_fail(b->err, PARE_ENOMEM, "no memory for functions");
        if (pare_map_get(&b->functions, key))
            return pare_fail(b->err, PARE_EFORMAT, "function '%s' is defined twice", str(f->name));
        PARE_TRY(pare_map_set(&b->functions, b->m->arena, key, f, b->err));
    }
    return 0;
}

const Onnx__FunctionProto *pare_find_function(const struct pare_build *b,
                                              const Onnx__NodeProto *p)
{
    struct pare_mark mark = pare_mark(b->m->arena);
    const Onnx__FunctionProto *f = NULL;
    const char *key;

    if (!b->functions.n)
        return NULL;
    key = pare_sprintf(b->m->arena, "%s\n%s", domain(p->domain), str(p->op_type));
    if (key)
        f = pare_map_get(&b->functions, key);
    pare_reset(b->m->arena, mark);
    return f;
}

const Onnx__AttributeProto *pare_call_attr(const struct pare_call *call, const char *name)
{
    for (size_t i = 0; i < call->site->n_attribute; i++)
        if (!strcmp(str(call->site->attribute[i]->name), name))
            return call->site->attribute[i];
    return NULL;
}

int pare_build_call(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_value **out)
{
    return pare_build_node(sc, p, out);
}
