/* export_qdq.c - export a quantized model with QuantizeLinear and DequantizeLinear nodes.
 *
 * Names are kept: the output of a DequantizeLinear gets the name of the weight or value it
 * replaces, so that consumers, also in subgraphs, read the quantized value.
 */
#include "export_qdq.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../onnx/fold_norm.h"
#include "../onnx/edit.h"
#include "../op/quant/quant_family.h"
#include "../tensor/tensor.h"
#include "export_dynamic.h"
#include "export_nbits.h"
#include "conv_bn_quant.h"
#include "qscale.h"

/* Names of a scale's constants. */
struct names {
    const char *scale, *zero;
};

/* A quantized value, and the value that holds the result. */
struct pair {
    const char *from, *to;
    struct pare_qscale g;
    struct pair *next;
};

struct qdq {
    struct pare_compression *r;
    struct pare_arena *a;
    struct pare_edit *e;
    struct pair *pairs;
    struct pare_map done; /* names of biases that are int32 already */
    struct pare_map raw;  /* values quantized at their producer: the names before quantization */
    int n_nbits;          /* layers that became MatMulNBits; -1: none requested */
    bool dynamic;         /* export with dynamic activation quantization where possible */
    struct pare_dynamic dyn;
};

/* ---- scales ---------------------------------------------------------------------------------- */

/* The shape of scales: a scalar, (n) along an axis, or that of quantization groups. */
static struct pare_tensor scale_tensor(const struct pare_qscale *g, enum pare_dtype d, void *data)
{
    struct pare_tensor t = { .dtype = d, .rank = g->axis >= 0, .data = data };

    t.dim[0] = g->n;
    if (g->by.size) {
        t.rank = 2;
        t.dim[0] = g->by.dim[0];
        t.dim[1] = g->by.dim[1];
    }
    return t;
}

static int add_scale(struct qdq *x, const char *base, const struct pare_qscale *g, struct names *n,
                     struct pare_err *err)
{
    struct pare_tensor zero = scale_tensor(g, g->dtype, NULL),
                       scale = scale_tensor(g, PARE_F32, g->scale);

    PARE_TRY(pare_tensor_alloc(x->a, &zero, err));
    PARE_TRY(pare_convert(g->dtype, zero.data, PARE_I64, g->zero, g->n, err));
    n->scale = pare_edit_name(x->e, base, "_scale");
    n->zero = pare_edit_name(x->e, base, "_zero_point");
    if (!n->scale || !n->zero)
        return pare_no_memory(err, "to export a quantized model");
    PARE_TRY(pare_edit_constant(x->e, n->scale, &scale, err));
    return pare_edit_constant(x->e, n->zero, &zero, err);
}

static int add_node(struct qdq *x, const char *type, const char *in, const struct names *n,
                    const char *out, const struct pare_qscale *g, struct pare_err *err)
{
    const char *ending = pare_sprintf(x->a, "_%s", type);
    struct pare_edit_node node = { .type = type,
                                   .in = { in, n->scale, n->zero },
                                   .out = out,
                                   .axis = g->axis };

    if (g->by.size) {
        node.attr[0].name = "block_size";
        node.attr[0].v = g->by.size;
    }
    node.name = ending ? pare_edit_name(x->e, out, ending) : NULL;
    return node.name ? pare_edit_insert(x->e, &node, err)
                     : pare_no_memory(err, "to export a quantized model");
}

/* ---- quantization points --------------------------------------------------------------------- */

/* QuantizeLinear saturates to its whole type.  If qmin..qmax is smaller, clips x before to
 *     scale * (qmin - zero) ... scale * (qmax - zero) */
static int add_clip(struct qdq *x, const char **value, const struct pare_qscale *g,
                    struct pare_err *err)
{
    struct pare_edit_node n = { .type = "Clip", .in = { *value, "", NULL }, .axis = -1 };
    struct pare_tensor t = { .dtype = PARE_F32 };
    int64_t bound[2] = { g->qmin, g->qmax };
    int type[2];

    pare_quant_range(g->dtype, &type[0], &type[1]);
    if (bound[0] <= type[0] && bound[1] >= type[1])
        return 0;
    if (g->n > 1)
        return pare_fail(
            err, PARE_EUNSUPPORTED,
            "its integers are limited to less than the range of %s and have one scale per channel; "
            "export this with one scale per tensor",
            pare_dtype_name(g->dtype));
    for (int i = 0; i < 2; i++) {
        float *v = pare_alloc(x->a, 1, sizeof(*v));

        if ((i ? bound[1] >= type[1] : bound[0] <= type[0]))
            continue;
        t.data = v;
        n.in[1 + i] = pare_edit_name(x->e, *value, i ? "_max" : "_min");
        if (!v || !n.in[1 + i])
            return pare_no_memory(err, "to export a quantized model");
        *v = g->scale[0] * (float)(bound[i] - g->zero[0]);
        PARE_TRY(pare_edit_constant(x->e, n.in[1 + i], &t, err));
    }
    n.out = pare_edit_name(x->e, *value, "_clipped");
    n.name = n.out;
    if (!n.out)
        return pare_no_memory(err, "to export a quantized model");
    *value = n.out;
    return pare_edit_insert(x->e, &n, err);
}

static int add_pair(struct qdq *x, const char *base, const char *from, const char *to,
                    const struct pare_qscale *g, struct pare_err *err)
{
    const char *q = pare_edit_name(x->e, base, "_quantized");
    struct names n;

    if (!q)
        return pare_no_memory(err, "to export a quantized model");
    PARE_TRY(add_clip(x, &from, g, err));
    PARE_TRY(add_scale(x, base, g, &n, err));
    PARE_TRY(add_node(x, "QuantizeLinear", from, &n, q, g, err));
    return add_node(x, "DequantizeLinear", q, &n, to, g, err);
}

static int remember_pair(struct qdq *x, const char *from, const char *to,
                         const struct pare_qscale *g, struct pare_err *err)
{
    struct pair *p = pare_alloc(x->a, 1, sizeof(*p));

    if (!p)
        return pare_no_memory(err, "to export a quantized model");
    *p = (struct pair){ from, to, *g, x->pairs };
    x->pairs = p;
    return 0;
}

/* The value's name in the file: a quantization node's output has the name of its input there. */
static const char *file_name(const struct pare_value *v)
{
    enum pare_quant_site site;

    while (v->maker && pare_quant_site_of(v->maker, &site))
        v = v->maker->in[0];
    return v->name;
}

static int export_output(struct qdq *x, const struct pare_node *n, const struct pare_qscale *g,
                         struct pare_err *err)
{
    const char *name = file_name(n->in[0]), *raw = pare_edit_name(x->e, name, "_float");

    if (!raw)
        return pare_no_memory(err, "to export a quantized model");
    PARE_TRY(pare_edit_rename(x->e, name, raw, err));
    if (!pare_map_get(&x->raw, name))
        PARE_TRY(pare_map_set(&x->raw, x->a, name, pare_strdup(x->a, raw), err));
    PARE_TRY(add_pair(x, name, raw, name, g, err));
    return remember_pair(x, name, name, g,
                         err); /* a second, equal quantization of it changes nothing */
}

/* The name of an output of the node, by which the file's node is found. */
static const char *output_name(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            return n->out[k]->name;
    return "";
}

static const struct pair *find_pair(const struct qdq *x, const char *from,
                                    const struct pare_qscale *g)
{
    const struct pair *p = x->pairs;

    while (p && (strcmp(p->from, from) || !pare_qscale_same(&p->g, g)))
        p = p->next;
    return p;
}

/* Consumers that quantize the same value in the same way share the pair of nodes. */
static int export_input(struct qdq *x, const struct pare_node *n, const struct pare_qscale *g,
                        struct pare_err *err)
{
    const struct pare_graph *gr = x->r->model->graph;
    const char *name = file_name(n->in[0]), *to;
    const struct pair *p = find_pair(x, name, g);

    to = p ? p->to : pare_edit_name(x->e, name, "_rounded");
    if (!to)
        return pare_no_memory(err, "to export a quantized model");
    if (!p) {
        PARE_TRY(add_pair(x, name, name, to, g, err));
        PARE_TRY(remember_pair(x, name, to, g, err));
    }
    for (int i = 0; i < gr->n_nodes; i++) {
        const struct pare_node *u = gr->node[i];
        enum pare_quant_site site;

        for (int k = 0; k < u->n_in && !pare_quant_site_of(u, &site); k++)
            if (u->in[k] == n->out[0] && strcmp(to, name) != 0)
                PARE_TRY(pare_edit_rewire(x->e, output_name(u), k, to, err));
    }
    return 0;
}

/* 16-bit, 4-bit and blocked quantization need recent opsets. */
static int64_t needed_version(const struct pare_qscale *g)
{
    int lo, hi;

    pare_quant_range(g->dtype, &lo, &hi);
    if (g->dtype == PARE_I16 || g->dtype == PARE_U16 || pare_is_4bit(g->dtype) || g->by.size)
        return 21;
    return g->axis >= 0 ? 13 : g->qmin > lo || g->qmax < hi ? 11 : 10;
}

static int export_site(struct qdq *x, const struct pare_node *n, struct pare_layer *l,
                       enum pare_quant_site site, struct pare_err *err)
{
    struct pare_qscale g;
    int rc = pare_qscale_of(l, site, x->a, &g, err);

    if (!rc)
        rc = pare_qscale_probe(l, site, &g, err);
    if (!rc)
        rc = pare_edit_opset(x->e, needed_version(&g), err);
    if (!rc)
        rc = site == PARE_INPUT ? export_input(x, n, &g, err) : export_output(x, n, &g, err);
    return pare_at(err, rc, "%s of layer '%s'", pare_quant_site_name(site), l->info.name);
}

/* ---- weights ------------------------------------------------------------------------------- */

/* A DequantizeLinear followed by an Add. */
static int add_shifted(struct qdq *x, const char *stored, const struct names *n, const char *name,
                       const struct pare_qscale *g, struct pare_err *err)
{
    const char *part = pare_edit_name(x->e, name, "_shifted");
    const char *offset = pare_edit_name(x->e, name, "_offset");
    struct pare_tensor t = { .dtype = PARE_F32, .data = pare_alloc(x->a, 1, sizeof(float)) };
    struct pare_edit_node add = { .type = "Add", .in = { part, offset }, .out = name, .axis = -1 };

    add.name = pare_edit_name(x->e, name, "_Add");
    if (!part || !offset || !t.data || !add.name)
        return pare_no_memory(err, "to export a quantized model");
    *pare_f32_mut(&t) = g->offset;
    PARE_TRY(pare_edit_constant(x->e, offset, &t, err));
    PARE_TRY(add_node(x, "DequantizeLinear", stored, n, part, g, err));
    return pare_edit_insert(x->e, &add, err);
}

/* Replaces an initializer by integers and a DequantizeLinear whose output has the old name. */
static int replace_weight(struct qdq *x, const char *name, const struct pare_tensor *q,
                          const struct pare_qscale *g, struct pare_err *err)
{
    const char *stored = pare_edit_name(x->e, name, "_quantized");
    struct names n;

    if (!stored)
        return pare_no_memory(err, "to export a quantized model");
    PARE_TRY(pare_edit_opset(x->e, needed_version(g), err));
    PARE_TRY(pare_edit_drop_constant(x->e, name, err));
    PARE_TRY(pare_edit_constant(x->e, stored, q, err));
    PARE_TRY(add_scale(x, name, g, &n, err));
    if (g->offset != 0)
        return add_shifted(x, stored, &n, name, g, err);
    return add_node(x, "DequantizeLinear", stored, &n, name, g, err);
}

static bool is_one(const struct pare_node *n, const char *attr)
{
    const struct pare_opt *o = n->op ? pare_opt_find(n->op->attrs, attr) : NULL;

    return !o || *(const double *)(const void *)((const char *)n->attr + o->offset) == 1;
}

/* The scale of the layer's input if it is quantized with one scale; else *scale is NULL. */
static int input_scale(struct qdq *x, const struct pare_layer *l, const struct pare_qscale **scale,
                       struct pare_err *err)
{
    const struct pare_value *out = pare_graph_find(x->r->model->graph, output_name(l->info.node));
    const struct pare_value *in = out && out->maker && out->maker->n_in ? out->maker->in[0] : NULL;
    const struct pare_layer *of;
    const struct pair *p = NULL;
    enum pare_quant_site site;
    struct pare_qscale g;
    int rc = 0;

    of = in && in->maker ? pare_quant_site_of(in->maker, &site) : NULL;
    while (of && !of->quant->quantized[site]) { /* a disabled point: look before it */
        in = in->maker->in[0];
        of = in->maker ? pare_quant_site_of(in->maker, &site) : NULL;
    }
    if (of)
        rc = pare_qscale_of(of, site, x->a, &g, err);
    if (of && !rc)
        p = find_pair(x, file_name(in), &g);
    *scale = p && p->g.axis < 0 ? &p->g : NULL;
    return rc == PARE_ENOMEM ? rc : 0; /* other errors mean that the point has no scale */
}

/* Can the bias be int32 with scale input * weight?  Runtimes add it to the int32 accumulator, so
 * the layer must be a plain sum of products, and the bias unshared and along the weight's
 * channels. */
static bool bias_is_exportable(struct qdq *x, const struct pare_layer *l,
                               const struct pare_qscale *w)
{
    const struct pare_node *n = l->info.node;

    if (!n->op || !n->op->linear || !n->op->layer.bias || !l->bias || l->info.bias->maker ||
        !is_one(n, "alpha") || !is_one(n, "beta") || l->bias->t.rank != 1 ||
        (w->n > 1 && l->bias->t.dim[0] != w->n) || pare_map_get(&x->done, l->bias->name))
        return false;
    for (int i = 0; i < x->r->n_layers; i++)
        if (&x->r->layer[i] != l && x->r->layer[i].bias == l->bias)
            return false;
    return true;
}

/* Are all weights of the channel 0?  The axis is in the middle of (a, channels, b). */
static bool all_zero(const struct pare_tensor *w, int axis, int64_t c)
{
    int64_t a = 1, b = 1;

    for (int i = 0; i < w->rank; i++) {
        a *= i < axis ? w->dim[i] : 1;
        b *= i > axis ? w->dim[i] : 1;
    }
    for (int64_t o = 0; o < a; o++)
        for (int64_t i = 0; i < b; i++)
            if (pare_f32(w)[(o * w->dim[axis] + c) * b + i] != 0)
                return false;
    return true;
}

/* q = round(bias / (input scale * weight scale)).  A channel without weights may have any scale: it
 * gets one that represents its bias.  false: a bias is out of range. */
static bool quantize_bias(const struct pare_layer *l, const struct pare_qscale *in,
                          struct pare_qscale *w, struct pare_qscale *g, struct pare_tensor *q)
{
    const struct pare_tensor *b = &l->bias->t;
    const double most = 1073741824; /* half of int32: the accumulator needs room, too */

    for (int64_t c = 0; c < pare_numel(b); c++) {
        int64_t i = w->n > 1 ? c : 0;
        double v = (double)pare_f32(b)[c], s = (double)(in->scale[0] * w->scale[i]);

        if (fabs(v) > most * s && w->n > 1 && all_zero(&l->weight->t, w->axis, c)) {
            w->scale[i] = (float)(fabs(v) / most * 2 / (double)in->scale[0]);
            s = (double)(in->scale[0] * w->scale[i]);
        }
        if (!(s > 0) || !(fabs(v) <= most * s))
            return false;
        g->scale[i] = in->scale[0] * w->scale[i];
        ((int32_t *)q->data)[c] = (int32_t)rint(v / s);
    }
    return true;
}

static int export_bias(struct qdq *x, struct pare_layer *l, struct pare_qscale *w,
                       struct pare_err *err)
{
    const struct pare_qscale *in;
    struct pare_qscale g = { .dtype = PARE_I32, .n = w->n, .axis = w->axis >= 0 ? 0 : -1 };
    struct pare_tensor q;

    PARE_TRY(input_scale(x, l, &in, err));
    if (!in || w->offset != 0 || !bias_is_exportable(x, l, w))
        return 0;
    q = l->bias->t;
    q.dtype = PARE_I32;
    PARE_TRY(pare_tensor_alloc(x->a, &q, err));
    g.scale = pare_alloc(x->a, (size_t)g.n, sizeof(*g.scale));
    g.zero = pare_alloc(x->a, (size_t)g.n, sizeof(*g.zero));
    if (!g.scale || !g.zero)
        return pare_no_memory(err, "to export a quantized model");
    if (!quantize_bias(l, in, w, &g, &q))
        return 0;
    PARE_TRY(pare_map_set(&x->done, x->a, l->bias->name, l, err));
    return replace_weight(x, l->bias->name, &q, &g, err);
}

/* Removes the normalization that was quantized together with the layer from the file. */
static int fold_norm(struct qdq *x, const struct pare_layer *l, struct pare_layer *view,
                     struct pare_err *err)
{
    const char *raw = pare_map_get(&x->raw, l->quant->norm->out[0]->name);
    struct pare_norm_fold f = { .g = x->r->model->graph,
                                .norm = l->quant->norm,
                                .made = raw ? raw : l->quant->norm->out[0]->name,
                                .w = view->weight->t,
                                .b = view->bias->t };

    PARE_TRY(pare_edit_fold_norm(x->e, &f, err));
    view->bias->name = f.bias;
    return 0;
}

static int export_weight(struct qdq *x, struct pare_layer *l, struct pare_err *err)
{
    struct pare_layer folded;
    struct pare_qscale g;
    struct pare_tensor q;
    bool done = false;

    if (l->quant->norm) {
        PARE_TRY(pare_conv_bn_view(l, x->a, &folded, err));
        PARE_TRY(fold_norm(x, l, &folded, err));
        l = &folded;
    }
    PARE_TRY(pare_qweight(l, x->a, &g, &q, err));
    if (x->n_nbits >= 0)
        PARE_TRY(pare_nbits_export(x->e, x->a, l, &g, &q, &done, err));
    x->n_nbits += done;
    if (x->dynamic)
        PARE_TRY(pare_dynamic_export(&x->dyn, l, &g, &q, &done, err));
    if (done)
        return 0;
    PARE_TRY(export_bias(x, l, &g, err)); /* this may change the scales of channels without
                                           * weights */
    return replace_weight(x, l->weight->name, &q, &g, err);
}

/* ---- all layers ------------------------------------------------------------------------------ */

static int export_weights(struct qdq *x, struct pare_err *err)
{
    struct pare_compression *r = x->r;

    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];
        bool done = false;
        int rc = 0;

        if (x->dynamic && i + 1 < r->n_layers)
            rc = pare_dynamic_export_recurrent(&x->dyn, l, l + 1, &done, err);
        i += done;
        if (!rc && !done && l->quant->quantized[PARE_WEIGHT])
            rc = export_weight(x, l, err);
        PARE_TRY(pare_at(err, rc, "layer '%s'", l->info.name));
        pare_layer_release(l);
        if (done)
            pare_layer_release(l + 1);
    }
    return 0;
}

static int export_all(struct qdq *x, const struct pare_export *form, struct pare_err *err)
{
    struct pare_compression *r = x->r;
    const struct pare_graph *g = r->model->graph;
    int n;

    PARE_TRY(pare_edit_new(r->model, &x->e, err));
    x->dynamic = form->dynamic;
    x->dyn.e = x->e;
    x->dyn.a = x->a;
    for (int i = 0; i < g->n_nodes; i++) {
        enum pare_quant_site site;
        struct pare_layer *l = pare_quant_site_of(g->node[i], &site);

        if (l && l->quant->quantized[site])
            PARE_TRY(export_site(x, g->node[i], l, site, err));
    }
    PARE_TRY(export_weights(x, err));
    if (!x->n_nbits)
        return pare_fail(
            err, PARE_ECONFIG,
            "no layer can be exported as MatMulNBits: that needs a Gemm or MatMul with float input "
            "and weights in quantization groups of 16, 32, 64 or another power of 2");
    if (x->dynamic && !x->dyn.n)
        return pare_fail(
            err, PARE_ECONFIG,
            "no layer can be exported as MatMulInteger, ConvInteger or DynamicQuantizeLSTM: that "
            "needs a convolution, linear or LSTM layer with float input and 8-bit weights that no "
            "other node reads; the presets int8 and int8-weights need less");
    if (form->qoperator)
        PARE_TRY(pare_edit_qoperator(x->e, &n, err));
    return 0;
}

int pare_qdq_save(struct pare_compression *r, const char *path, const struct pare_export *form,
                  struct pare_err *err)
{
    struct qdq x = { .r = r, .a = pare_arena_new(1 << 20), .n_nbits = form->nbits ? 0 : -1 };
    int rc = x.a ? export_all(&x, form, err) : pare_no_memory(err, "to export a quantized model");

    if (!rc)
        rc = pare_edit_save(x.e, path, err);
    pare_edit_free(x.e);
    pare_arena_free(x.a);
    return rc;
}

int pare_qdq_model(struct pare_compression *c, const struct pare_export *form,
                   struct pare_model **model, struct pare_err *err)
{
    struct qdq x = { .r = c, .a = pare_arena_new(1 << 20), .n_nbits = form->nbits ? 0 : -1 };
    int rc = x.a ? export_all(&x, form, err) : pare_no_memory(err, "to export a quantized model");
    struct pare_model *shared = NULL; /* refers to x.a and to the weights of c->model */

    *model = NULL;
    if (rc)
        pare_edit_free(x.e);
    else
        rc = pare_edit_model(x.e, &shared, err);
    if (!rc)
        rc = pare_model_duplicate(shared, model, err);
    pare_model_free(shared);
    pare_arena_free(x.a);
    return rc;
}
