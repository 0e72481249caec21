/* model_info.c - layers, tensors, scales and zero points of a loaded model, by name. */
#include "model.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../graph/layer.h"
#include "../op/op.h"
#include "wire.h"

/* ---- layers ------------------------------------------------------------------------------- */

static int find_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                       struct pare_layer_info **list, int *n, struct pare_err *err)
{
    *g = pare_graph_clone(a, m->graph, err);
    if (!*g)
        return err->code;
    pare_graph_bind(*g, 1);
    PARE_TRY(pare_graph_infer(*g, true, err));
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
    PARE_TRY(find_layers(m, a, &g, &list, n, err));
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

/* ---- scales and zero points --------------------------------------------------------------- */

/* The node's attribute, an integer of an operator's struct; `otherwise` if it has none. */
static int64_t int_attr(const struct pare_node *n, const char *name, int64_t otherwise)
{
    const struct pare_opt *o = n->op ? pare_opt_find(n->op->attrs, name) : NULL;

    return o && o->type == PARE_OPT_INT
               ? *(const int64_t *)(const void *)((const char *)n->attr + o->offset)
               : otherwise;
}

static int constant(const struct pare_model *m, const struct pare_node *n, int k,
                    struct pare_tensor *t, struct pare_err *err)
{
    const struct pare_value *v = k < n->n_in ? n->in[k] : NULL;

    *t = (struct pare_tensor){ .dtype = PARE_NONE };
    return v ? pare_at(err, pare_model_tensor(m, pare_value_root(v)->name, t, err), "node '%s'",
                       n->name)
             : 0;
}

/* Inputs k and k + 1 of a node are scale and zero point. */
static int read_quant(const struct pare_model *m, const struct pare_node *n, int k,
                      struct pare_model_quant *q, struct pare_err *err)
{
    PARE_TRY(constant(m, n, k, &q->scale, err));
    PARE_TRY(constant(m, n, k + 1, &q->zero_point, err));
    q->axis = pare_numel(&q->scale) > 1 ? (int)int_attr(n, "axis", 0) : -1;
    q->group = int_attr(n, "block_size", 0);
    q->dtype = q->zero_point.dtype != PARE_NONE ? q->zero_point.dtype : PARE_U8;
    return 0;
}

/* The QuantizeLinear of the layer's output, or of the activation that is fused into the layer. */
static const struct pare_node *quantizer_of(const struct pare_graph *g, const struct pare_value *v)
{
    const struct pare_node *reader;

    do {
        reader = NULL;
        for (int i = 0; v && i < g->n_nodes && !reader; i++)
            for (int k = 0; k < g->node[i]->n_in; k++)
                if (g->node[i]->in[k] == v)
                    reader = g->node[i];
        v = reader && reader->n_out ? reader->out[0] : NULL;
    } while (reader && reader->op && reader->op->flags & PARE_OP_FUSED_ACT);
    return pare_node_is(reader, &pare_op_quantize_linear) ? reader : NULL;
}

/* The axis of a weight's scales, which the operator implies; and the type of packed ones. */
static void set_weight_axis(const struct pare_node *n, struct pare_model_quant *q)
{
    int64_t bits = int_attr(n, "bits", 0);
    int out = n->op->layer.scale_axis, in = -1;

    if (n->op->axes)
        n->op->axes(n, &out, &in);
    if (pare_numel(&q->scale) > 1)
        q->axis = out;
    if (bits) { /* without zero points, 2^(bits - 1) is subtracted: the integers are signed */
        bool has_zero = q->zero_point.data != NULL;

        q->dtype = bits == 4 ? (has_zero ? PARE_U4 : PARE_I4) : (has_zero ? PARE_U8 : PARE_I8);
        q->axis = 1;
    }
}

static bool is_table(const struct pare_layer_info *l)
{
    return l->node->op && l->node->op->layer.kind == PARE_LAYER_EMBEDDING;
}

static int find_quant(const struct pare_model *m, const struct pare_graph *g,
                      const struct pare_layer_info *l, char which, struct pare_model_quant *q,
                      struct pare_err *err)
{
    const struct pare_value *v = which == 'w' ? l->weight : l->in;
    const struct pare_node *n = which == 'y' ? quantizer_of(g, l->out) : v ? v->maker : NULL;
    const struct pare_op *op = l->node->op; /* NULL: the node cannot run */
    const struct pare_op_scales at = op ? op->scales : (struct pare_op_scales){ 0 };
    bool found = which == 'y' ? n != NULL : pare_node_is(n, &pare_op_dequantize_linear);
    bool own = which == 'w' ? at.w != 0 : at.x != 0, table = is_table(l) && which == 'w' && !found;
    int k = which == 'w' ? at.w : which == 'x' ? at.x : at.y;

    *q = (struct pare_model_quant){ .dtype = PARE_NONE, .axis = -1 };
    if (table && l->out) /* rows are selected, then dequantized */
        n = pare_graph_only_consumer(g, l->out);
    found = found || (table && pare_node_is(n, &pare_op_dequantize_linear));
    if (found)
        PARE_TRY(read_quant(m, n, 1, q, err));
    else if (own)
        PARE_TRY(read_quant(m, l->node, k, q, err));
    if (!found && own && which == 'w')
        set_weight_axis(l->node, q);
    if (found && which != 'y' && n->in[0])
        q->dtype = n->in[0]->t.dtype;
    return 0;
}

int pare_model_layer_quant(const struct pare_model *m, const char *layer, char which,
                           struct pare_model_quant *q, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_arena *a = pare_arena_new(1 << 16);
    const struct pare_layer_info *l;
    struct pare_layer_info *list;
    struct pare_graph *g = NULL;
    int n, rc = a ? 0 : pare_no_memory(err, "for the layers");

    if (!rc && !strchr("wxy", which))
        rc = pare_fail(err, PARE_ECONFIG, "'%c' is neither 'w', 'x' nor 'y'", which);
    if (!rc)
        rc = find_layers(m, a, &g, &list, &n, err);
    if (!rc)
        rc = pare_find_layer(list, n, layer, &l, err);
    if (!rc)
        rc = find_quant(m, g, l, which, q, err);
    pare_arena_free(a);
    return rc;
}

/* Has the graph a node with constant scales? */
static bool has_scales(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_op *op = g->node[i]->op;

        if (op && (op->flags & PARE_OP_LAZY || op->scales.w || op->scales.x || op->scales.y))
            return true;
    }
    return false;
}

int pare_model_scales(const struct pare_model *m, struct pare_arena *a,
                      struct pare_layer_scales **list, int *n, struct pare_err *err)
{
    struct pare_layer_info *layer;
    struct pare_graph *g;
    int n_layers;

    *n = 0;
    *list = NULL;
    if (!has_scales(m->graph))
        return 0;
    PARE_TRY(find_layers(m, a, &g, &layer, &n_layers, err));
    *list = pare_alloc(a, (size_t)n_layers + 1, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < n_layers; i++) {
        struct pare_layer_scales *s = &(*list)[*n];
        bool any = false;

        *s = (struct pare_layer_scales){ layer[i].name, layer[i].weight, layer[i].bias, { { 0 } } };
        for (int k = 0; k < 3; k++) {
            /* Scales that the model computes at run time are not constants. */
            if (find_quant(m, g, &layer[i], "wxy"[k], &s -> q[k], err)) {
                if (err->code == PARE_ENOMEM)
                    return err->code;
                s->q[k] = (struct pare_model_quant){ .dtype = PARE_NONE, .axis = -1 };
            }
            any |= s->q[k].dtype != PARE_NONE && s->q[k].scale.data;
        }
        *n += any;
    }
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
