/* upgrade_scan.c - rewrite of Scan for opset 9: the batch axis of opset 8 becomes an outer Scan.
 *
 *     Scan-8(lengths, state, x)    for every item of the batch, along axis 1 of x
 *  =  Scan-9(state, x) over axis 0, whose body is Scan-9(state, x) over axis 0 with the old body
 */
#include <string.h>

#include "upgrade.h"
#include "upgrade_rewrites.h"

/* A declaration with the element type of `like`; of its shape, too, if `shaped`. */
static int declare(struct pare_site *s, const Onnx__ValueInfoProto *like, bool shaped,
                   Onnx__ValueInfoProto **to, struct pare_err *err)
{
    struct pare_edit *e = s->u->e;
    Onnx__ValueInfoProto *v = pare_alloc(e->a, 1, sizeof(*v));
    Onnx__TypeProto *type = pare_alloc(e->a, 1, sizeof(*type));
    Onnx__TypeProto__Tensor *tensor = pare_alloc(e->a, 1, sizeof(*tensor));

    if (!v || !type || !tensor)
        return pare_edit_no_memory(err);
    onnx__value_info_proto__init(v);
    v->name = pare_edit_text(pare_site_name(s, "_item"));
    if (!v->name)
        return pare_edit_no_memory(err);
    if (like->type && like->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
        *type = *like->type;
        *tensor = *like->type->tensor_type;
        if (!shaped)
            tensor->shape = NULL;
        type->tensor_type = tensor;
        v->type = type;
    }
    *to = v;
    return 0;
}

/* The list of declarations for `like`; the first n_state ones are states. */
static int declare_all(struct pare_site *s, Onnx__ValueInfoProto *const *like, size_t n,
                       size_t n_state, Onnx__ValueInfoProto ***list, struct pare_err *err)
{
    *list = pare_alloc(s->u->e->a, n + 1, sizeof(**list));
    if (!*list)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < n; i++)
        PARE_TRY(declare(s, like[i], i < n_state, &(*list)[i], err));
    return 0;
}

static char **names_of(struct pare_site *s, Onnx__ValueInfoProto *const *list, size_t n)
{
    char **name = pare_alloc(s->u->e->a, n + 1, sizeof(*name));

    for (size_t i = 0; name && i < n; i++)
        name[i] = list[i]->name;
    return name;
}

/* The Scan over the sequence, inside the one over the batch. */
static Onnx__NodeProto *inner_scan(struct pare_site *s, const Onnx__GraphProto *g)
{
    Onnx__NodeProto *p = pare_alloc(s->u->e->a, 1, sizeof(*p)), **list;

    list = pare_alloc(s->u->e->a, 2, sizeof(*list));
    if (!p || !list)
        return NULL;
    *p = *s->p;
    p->input = names_of(s, g->input, g->n_input);
    p->n_input = g->n_input;
    p->output = names_of(s, g->output, g->n_output);
    p->n_output = g->n_output;
    p->name = pare_edit_text(pare_site_name(s, "_sequence"));
    return p->input && p->output && p->name ? p : NULL;
}

/* scan_input_directions is directions under another name. */
static int rename_directions(struct pare_site *s, Onnx__NodeProto *p, struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, "directions");
    Onnx__AttributeProto *copy = pare_alloc(s->u->e->a, 1, sizeof(*copy));

    if (!copy)
        return pare_edit_no_memory(err);
    if (!at)
        return 0;
    *copy = *at;
    copy->name = pare_edit_text("scan_input_directions");
    PARE_TRY(pare_edit_drop_attr(s->u->e, p, "directions", err));
    return pare_edit_set_attr(s->u->e, p, copy, err);
}

static int outer_body(struct pare_site *s, const Onnx__GraphProto *body, size_t n_state,
                      Onnx__GraphProto *g, struct pare_err *err)
{
    Onnx__NodeProto **list = pare_alloc(s->u->e->a, 2, sizeof(*list));

    onnx__graph_proto__init(g);
    g->name = pare_edit_text("item_of_batch");
    g->n_input = body->n_input;
    g->n_output = body->n_output;
    PARE_TRY(declare_all(s, body->input, body->n_input, n_state, &g->input, err));
    PARE_TRY(declare_all(s, body->output, body->n_output, n_state, &g->output, err));
    if (!list)
        return pare_edit_no_memory(err);
    list[0] = inner_scan(s, g);
    if (!list[0])
        return pare_edit_no_memory(err);
    g->node = list;
    g->n_node = 1;
    return rename_directions(s, list[0], err);
}

int pare_raise_scan(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, "body");
    int64_t n_scan = pare_site_int(s, "num_scan_inputs", 0);
    Onnx__AttributeProto *body;
    Onnx__GraphProto *g;
    size_t n;

    if (s->p->n_input && *s->p->input[0])
        return pare_site_refuse(s, "has sequence lengths, which later opsets lack", err);
    n = s->p->n_input ? s->p->n_input - 1 : 0;
    if (!at || !at->g || n_scan < 1 || (size_t)n_scan > n || at->g->n_input != n ||
        at->g->n_output < n - (size_t)n_scan)
        return pare_site_refuse(s, "does not fit its body", err);
    body = pare_alloc(s->u->e->a, 1, sizeof(*body));
    g = pare_alloc(s->u->e->a, 1, sizeof(*g));
    if (!body || !g)
        return pare_edit_no_memory(err);
    PARE_TRY(outer_body(s, at->g, n - (size_t)n_scan, g, err));
    *body = *at;
    body->g = g;
    PARE_TRY(pare_edit_set_attr(s->u->e, s->p, body, err));
    PARE_TRY(pare_site_drop_attr(s, "directions", err));
    PARE_TRY(pare_site_set_int(s, "num_scan_inputs", (int64_t)n, err));
    memmove(s->p->input, s->p->input + 1, n * sizeof(*s->p->input));
    s->p->n_input = n;
    return 0;
}
