/* model_info.c - layers, tensors and file sizes of a loaded model. */
#include "model.h"

#include <string.h>

#include "../base/arena.h"
#include "../graph/free_dims.h"
#include "../graph/layer.h"
#include "../op/op.h"
#include "wire.h"

/* ---- layers ------------------------------------------------------------------------------- */

int pare_model_find_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                           struct pare_layer_info **list, int *n, struct pare_err *err)
{
    PARE_TRY(pare_graph_infer_ones(a, m->graph, m->in, g, err));
    return pare_layers(a, *g, list, n, err);
}

/* The initializer of a weight, through the DequantizeLinear of a quantized one. */
static const char *initializer(const struct pare_value *v)
{
    return v ? pare_value_root(v)->name : NULL;
}

int pare_model_list_layers(const struct pare_model *m, struct pare_arena *a,
                           const struct pare_model_layer **layer, int *n, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_layer_info *list;
    struct pare_model_layer *to;
    struct pare_graph *g;

    *layer = NULL;
    PARE_TRY(pare_model_find_layers(m, a, &g, &list, n, err));
    to = pare_alloc(a, (size_t)*n + 1, sizeof(*to));
    if (!to)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < *n; i++)
        to[i] = (struct pare_model_layer){ .name = list[i].name,
                                           .type = list[i].torch,
                                           .op = list[i].type,
                                           .weight = initializer(list[i].weight),
                                           .bias = initializer(list[i].bias),
                                           .params = list[i].params,
                                           .macs = list[i].macs };
    *layer = to;
    return 0;
}

/* ---- tensors ------------------------------------------------------------------------------ */

int pare_model_tensor(const struct pare_model *m, const char *name, struct pare_tensor *t,
                      struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_value *v = pare_graph_find(m->graph, name);

    if (!v || !(v->flags & PARE_V_CONST))
        return pare_fail(err, PARE_ECONFIG, "'%s' is not an initializer of the main graph", name);
    PARE_TRY(pare_value_load(m->arena, v, err));
    *t = v->t;
    return 0;
}

int pare_model_set_tensor(struct pare_model *m, const char *name, const struct pare_tensor *t,
                          struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_value *v = pare_graph_find(m->graph, name);
    struct pare_tensor old;
    size_t bytes;

    PARE_TRY(pare_model_tensor(m, name, &old, err));
    if (t->dtype != old.dtype || !pare_same_shape(t, &old))
        return pare_fail(
            err, PARE_ESHAPE,
            "'%s' is %s with %d dimensions and %lld elements; the new value is %s with "
            "%d and %lld",
            name, pare_dtype_name(old.dtype), old.rank, (long long)pare_numel(&old),
            pare_dtype_name(t->dtype), t->rank, (long long)pare_numel(t));
    PARE_TRY(pare_model_own(m, v, err));
    PARE_TRY(pare_tensor_size(&v->t, NULL, &bytes, err));
    if (bytes)
        memcpy(v->t.data, t->data, bytes);
    return 0;
}

int pare_model_list_tensors(const struct pare_model *m, struct pare_arena *a,
                            const char *const **name, int *n, struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_graph *g = m->graph;
    const char **list = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*list));

    *n = 0;
    if (!list)
        return pare_no_memory(err, "for the names");
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->flags & PARE_V_CONST && !g->value[i]->maker)
            list[(*n)++] = g->value[i]->name;
    *name = list;
    return 0;
}

/* ---- files -------------------------------------------------------------------------------- */

double pare_model_file_bytes(const struct pare_model *m)
{
    double n = 0;

    for (const struct pare_pages *p = m->pages; p; p = p->next)
        n += p->scratch ? 0 : (double)p->len;
    return n;
}

double pare_model_message_bytes(const struct pare_model *m)
{
    const ProtobufCMessage *p = m->file ? m->file : m->proto;

    return (double)protobuf_c_message_get_packed_size(p);
}
