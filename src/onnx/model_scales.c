/* model_scales.c - bits, scales and zero points of the layers of a quantized model.
 *
 * DequantizeLinear and QuantizeLinear around a layer have them as inputs, and so have integer
 * operators (struct pare_op_scales).  MatMulInteger and ConvInteger have zero points only: the
 * product of both scales is a factor of their result.
 */
#include "model.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../graph/layer.h"
#include "../op/op.h"
#include "../op/quant/nbits.h"
#include "integer_product.h"

/* The node's attribute, an integer of an operator's struct; `otherwise` if it has none. */
static int64_t int_attr(const struct pare_node *n, const char *name, int64_t otherwise)
{
    const struct pare_opt *o = n->op ? pare_opt_find(n->op->attrs, name) : NULL;

    return o && o->type == PARE_OPT_INT
               ? *(const int64_t *)(const void *)((const char *)n->attr + o->offset)
               : otherwise;
}

static const struct pare_value *input(const struct pare_node *n, int k)
{
    return k < n->n_in ? n->in[k] : NULL;
}

/* A constant of the main graph, which is loaded once, or of a body. */
static int constant(const struct pare_model *m, const struct pare_node *n,
                    const struct pare_value *v, struct pare_tensor *t, struct pare_err *err)
{
    const struct pare_value *root = v ? pare_value_root(v) : NULL, *own;
    struct pare_value copy;

    *t = (struct pare_tensor){ .dtype = PARE_NONE };
    if (!v)
        return 0;
    own = pare_graph_find(m->graph, root->name);
    if (!own && root->flags & PARE_V_CONST) {
        copy = *root;
        PARE_TRY(pare_value_load(m->arena, &copy, err));
        *t = copy.t;
        return 0;
    }
    return pare_at(err, pare_model_tensor(m, root->name, t, err), "node '%s'", n->name);
}

/* The graph or body of a body that has the node. */
static const struct pare_graph *graph_of(const struct pare_graph *g, const struct pare_node *n)
{
    const struct pare_graph *body, *found = NULL;

    for (int i = 0; i < g->n_nodes && !found; i++) {
        if (g->node[i] == n)
            return g;
        for (int k = 0; !found && (body = pare_node_body(g->node[i], k, NULL)); k++)
            found = graph_of(body, n);
    }
    return found;
}

static int read_quant(const struct pare_model *m, const struct pare_node *n, int scale, int zero,
                      struct pare_model_quant *q, struct pare_err *err)
{
    PARE_TRY(constant(m, n, input(n, scale), &q->scale, err));
    PARE_TRY(constant(m, n, input(n, zero), &q->zero_point, err));
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

static bool dequantizes(const struct pare_node *n)
{
    return n && n->op && n->op->flags & PARE_OP_LAZY;
}

/* ---- weights of integer operators --------------------------------------------------------- */

/* The axis of a weight's scales, which the operator implies. */
static void set_weight_axis(const struct pare_node *n, struct pare_model_quant *q)
{
    int out = n->op->layer.scale_axis, in = -1;

    if (n->op->axes)
        n->op->axes(n, &out, &in);
    if (pare_numel(&q->scale) > 1)
        q->axis = out;
}

/* Weights of MatMulNBits.  Zero points of several in a byte get one byte each; without zero points
 * 2^(bits - 1) is subtracted, so that the integers are signed. */
static int set_packed(const struct pare_model *m, const struct pare_node *n,
                      struct pare_model_quant *q, struct pare_err *err)
{
    struct pare_nbits_attrs a = pare_nbits_get(n);
    int64_t count = pare_numel(&q->scale), row = (a.blocks * a.bits + 7) / 8;
    const uint8_t *packed = q->zero_point.data;
    bool zeros = packed != NULL;

    q->dtype = a.bits == 2   ? (zeros ? PARE_U2 : PARE_I2)
               : a.bits == 4 ? (zeros ? PARE_U4 : PARE_I4)
                             : (zeros ? PARE_U8 : PARE_I8);
    q->axis = 1;
    if (q->zero_point.dtype != PARE_U8 || a.bits == 8)
        return 0;
    if ((a.bits != 2 && a.bits != 4) || count / a.N != a.blocks || count % a.N ||
        pare_numel(&q->zero_point) / a.N != row || pare_numel(&q->zero_point) % a.N)
        return pare_fail(err, PARE_ESHAPE, "node '%s': zero points and scales differ in number",
                         n->name);
    PARE_TRY(pare_tensor_new(m->arena, &q->zero_point, PARE_U8, 1, &count, err));
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)q->zero_point.data)[i] = (uint8_t)pare_nbits_at(packed + i / a.blocks * row,
                                                                    (int)a.bits, i % a.blocks);
    return 0;
}

/* Of MatMulInteger and ConvInteger. */
static int read_factor(const struct pare_model *m, const struct pare_graph *g,
                       const struct pare_node *n, struct pare_model_quant *q, struct pare_err *err)
{
    const struct pare_value *w = n->in[n->op->layer.weight], *v = pare_product_scale(g, n);
    int out = n->op->layer.kind == PARE_LAYER_CONV ? 0 : w->t.rank - 1;

    q->dtype = w->t.dtype;
    PARE_TRY(constant(m, n, input(n, n->op->scales.w_zero), &q->zero_point, err));
    PARE_TRY(constant(m, n, v, &q->scale, err));
    if (!q->scale.data || q->scale.dtype != PARE_F32 ||
        (pare_numel(&q->scale) != 1 && (out < 0 || pare_numel(&q->scale) != w->t.dim[out])))
        q->scale = (struct pare_tensor){ .dtype = PARE_NONE }; /* something else */
    else if (pare_numel(&q->scale) > 1)
        q->axis = out;
    return 0;
}

/* ---- layers ------------------------------------------------------------------------------- */

static bool is_table(const struct pare_layer_info *l)
{
    return l->node->op && l->node->op->layer.kind == PARE_LAYER_EMBEDDING;
}

/* Of the layer's integer operator. */
static int read_own(const struct pare_model *m, const struct pare_graph *g,
                    const struct pare_node *n, char which, struct pare_model_quant *q,
                    struct pare_err *err)
{
    const struct pare_op_scales at = n->op->scales;
    int k = which == 'w' ? at.w : which == 'x' ? at.x : which == 'r' ? at.r : at.x ? at.y : 0;

    if (which == 'x' && at.dynamic) {
        q->dtype = PARE_U8;
        q->dynamic = true;
    }
    if (!k)
        return which == 'w' && at.w_zero ? read_factor(m, g, n, q, err) : 0;
    PARE_TRY(read_quant(m, n, k, which == 'w' && at.w_zero ? at.w_zero : k + 1, q, err));
    if (at.packed)
        return set_packed(m, n, q, err);
    if (which == 'w' || which == 'r')
        set_weight_axis(n, q);
    return 0;
}

static int second_weight(const struct pare_node *n)
{
    return n->op ? n->op->scales.r ? n->op->scales.r_weight : n->op->layer.second : 0;
}

/* Values of bodies are not observed, so that the layer does not name them. */
static const struct pare_value *input_of(const struct pare_layer_info *l)
{
    return l->body ? input(l->node, 0) : l->in;
}

static const struct pare_value *output_of(const struct pare_layer_info *l)
{
    return l->body && l->node->n_out ? l->node->out[0] : l->out;
}

static int find_quant(const struct pare_model *m, const struct pare_graph *main,
                      const struct pare_layer_info *l, char which, struct pare_model_quant *q,
                      struct pare_err *err)
{
    const struct pare_graph *g = l->body ? graph_of(main, l->node) : main;
    const struct pare_value *y = output_of(l), *v = input_of(l);
    const struct pare_node *n;
    bool found;

    *q = (struct pare_model_quant){ .dtype = PARE_NONE, .axis = -1 };
    if (which == 'w' || which == 'r')
        v = which == 'w' ? l->weight : input(l->node, second_weight(l->node));
    n = which == 'y' ? quantizer_of(g, y) : v ? v->maker : NULL;
    found = which == 'y' ? n != NULL : dequantizes(n);
    if (is_table(l) && which == 'w' && !found && y) { /* rows are selected, then dequantized */
        n = pare_graph_only_consumer(g, y);
        found = dequantizes(n);
    }
    if (found) {
        PARE_TRY(read_quant(m, n, 1, 2, q, err));
        if (which != 'y' && n->in[0])
            q->dtype = n->in[0]->t.dtype;
        return 0;
    }
    if (which == 'x' && n && pare_quantizes_dynamically(n)) {
        q->dtype = PARE_U8;
        q->dynamic = true;
        return 0;
    }
    return l->node->op ? read_own(m, g, l->node, which, q, err) : 0;
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

    if (!rc && (!which || !strchr("wxyr", which)))
        rc = pare_fail(err, PARE_ECONFIG, "'%c' is neither 'w', 'x', 'y' nor 'r'", which);
    if (!rc)
        rc = pare_model_find_layers(m, a, &g, &list, &n, err);
    if (!rc)
        rc = pare_find_layer(list, n, layer, &l, err);
    if (!rc)
        rc = find_quant(m, g, l, which, q, err);
    pare_arena_free(a);
    return rc;
}

/* Has the graph or a body a node with scales or integer weights? */
static bool has_scales(const struct pare_graph *g)
{
    const struct pare_graph *body;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_op *op = g->node[i]->op;

        if (op && (op->flags & PARE_OP_LAZY || op->scales.w || op->scales.w_zero || op->scales.x ||
                   op->scales.y))
            return true;
        for (int k = 0; (body = pare_node_body(g->node[i], k, NULL)); k++)
            if (has_scales(body))
                return true;
    }
    return false;
}

/* The tensors `sites` of a layer; *any: one is quantized. */
static int find_sites(const struct pare_model *m, const struct pare_graph *g,
                      const struct pare_layer_info *l, const char *sites,
                      struct pare_layer_scales *s, bool *any, struct pare_err *err)
{
    *any = false;
    for (int k = 0; sites[k]; k++) {
        /* Scales that the model computes at run time are not constants. */
        if (find_quant(m, g, l, sites[k], &s->q[k], err)) {
            if (err->code == PARE_ENOMEM)
                return err->code;
            s->q[k] = (struct pare_model_quant){ .dtype = PARE_NONE, .axis = -1 };
        }
        *any |= s->q[k].dtype != PARE_NONE;
    }
    return 0;
}

int pare_model_scales(const struct pare_model *m, struct pare_arena *a,
                      struct pare_layer_scales **list, int *n, struct pare_err *err)
{
    struct pare_layer_info *layer;
    struct pare_graph *g;
    int n_layers;
    bool any;

    *n = 0;
    *list = NULL;
    if (!has_scales(m->graph))
        return 0;
    PARE_TRY(pare_model_find_layers(m, a, &g, &layer, &n_layers, err));
    *list = pare_alloc(a, (size_t)n_layers * 2 + 1, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < n_layers; i++) {
        const struct pare_layer_info *l = &layer[i];
        struct pare_layer_scales *s = &(*list)[*n];
        int r = second_weight(l->node);

        *s = (struct pare_layer_scales){ l->name, l->node, l->weight, l->bias, { { 0 } } };
        if (!s->bias && l->node->op && l->node->op->scales.w_zero && !l->node->op->scales.w)
            s->bias = pare_product_bias(l->body ? graph_of(g, l->node) : g, l->node);
        PARE_TRY(find_sites(m, g, l, "wxy", s, &any, err));
        *n += any;
        if (!r)
            continue;
        s = &(*list)[*n];
        *s = (struct pare_layer_scales){ .name = pare_sprintf(a, "%s.R", l->name),
                                         .node = l->node,
                                         .weight = input(l->node, r) };
        if (!s->name)
            return pare_no_memory(err, "for the layers");
        PARE_TRY(find_sites(m, g, l, "r", s, &any, err));
        *n += any;
    }
    return 0;
}
