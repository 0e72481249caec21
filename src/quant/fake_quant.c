/* fake_quant.c - fake-quant nodes for quantized inputs and outputs in the model's graph, which call
 * the quantizer in forward and backward passes. */
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/simd.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "calibration_file.h"
#include "channel_rows.h"
#include "quant_config.h"

#define PARTS 32
#define NOISE 6 /* sums of struct pare_noise */

/* The attribute of a fake-quant node. */
struct site {
    struct pare_layer *layer;
    enum pare_quant_site site;
};

/* The sums of struct pare_noise, in its order; values up to `reach` are inner ones. */
PARE_SIMD static void noise_of(const float *x, const float *y, int64_t n, double reach, double *to)
{
    double signal = 0, noise = 0, inner_signal = 0, inner_noise = 0, inner = 0, nonzero = 0;

#pragma omp simd reduction(+ : signal, noise, inner_signal, inner_noise, inner, nonzero)
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i], d = v - (double)y[i];
        double any = v != 0 ? 1 : 0, in = v <= reach && v >= -reach ? any : 0;

        signal += v * v;
        noise += d * d;
        inner_signal += in * v * v;
        inner_noise += in * d * d;
        inner += in;
        nonzero += any;
    }
    to[0] = signal, to[1] = noise;
    to[2] = inner_signal, to[3] = inner_noise;
    to[4] = inner, to[5] = nonzero;
}

/* The distance from 0 of inner values; 0: the quantizer has no single scale. */
static double inner_reach(const struct pare_layer *l, enum pare_quant_site site)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_scale", pare_quant_site_name(site));
    for (const struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, name) && b->t.dtype == PARE_F32 && pare_numel(&b->t) == 1)
            return PARE_INNER_STEPS * (double)pare_f32(&b->t)[0];
    return 0;
}

/* The number of parts does not depend on the number of threads, so neither do the sums. */
void pare_quant_noise_add(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, const struct pare_tensor *y)
{
    struct pare_noise *s = &l->quant->noise[site];
    int threads = pare_rows_threads(&l->quant->site[site], x);
    double part[PARTS][NOISE], reach = inner_reach(l, site);
    int64_t n = pare_numel(x);

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int i = 0; i < PARTS; i++) {
        int64_t from = n * i / PARTS, to = n * (i + 1) / PARTS;

        noise_of(pare_f32(x) + from, pare_f32(y) + from, to - from, reach, part[i]);
    }
    for (int i = 0; i < PARTS; i++) {
        s->signal += part[i][0];
        s->noise += part[i][1];
        s->inner_signal += part[i][2];
        s->inner_noise += part[i][3];
        s->inner += part[i][4];
        s->nonzero += part[i][5];
    }
}

static int quantize_site(const struct site *s, const struct pare_tensor *x, struct pare_tensor *y,
                         bool train, struct pare_err *err)
{
    struct pare_compression *r = s->layer->compression;
    const struct pare_quantizer *q = r->quant->quantizer;
    struct pare_call_scope turn;
    int rc;

    if (!s->layer->quant->quantized[s->site] || /* it stays float, or its twin observes */
        (r->quant->observing && pare_layer_twin(s->layer, s->site, NULL, NULL))) {
        if (y->data != x->data)
            memcpy(y->data, x->data, (size_t)pare_numel(x) * sizeof(float));
        return 0;
    }
    turn = pare_call_begin(r, 0);
    r->quant->training = train;
    rc = r->quant->calibration
             ? pare_calibrated(s->layer, s->site, x, y, err)
             : (s->site == PARE_INPUT ? q->input : q->output)(s->layer, x, y, err);
    if (!rc && r->quant->measure)
        pare_quant_noise_add(s->layer, s->site, x, y);
    pare_call_end(r, turn);
    return pare_at(err, rc, "%s of layer '%s'", pare_quant_site_name(s->site), s->layer->info.name);
}

/* gx = d loss / d x. */
static int backward_site(const struct site *s, const struct pare_tensor *x,
                         const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    struct pare_compression *r = s->layer->compression;
    struct pare_call_scope turn;
    int rc;

    if (!r->quant->quantizer->backward || !s->layer->quant->quantized[s->site]) {
        if (gx->data != gy->data)
            memcpy(gx->data, gy->data, (size_t)pare_numel(x) * sizeof(float));
        return 0;
    }
    turn = pare_call_begin(r, 0);
    rc = r->quant->quantizer->backward(s->layer, s->site, x, gy, gx, err);
    pare_call_end(r, turn);
    return pare_at(err, rc, "%s of layer '%s'", pare_quant_site_name(s->site), s->layer->info.name);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return quantize_site(n->attr, &n->in[0]->t, &n->out[0]->t, c->train, err);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor *gx = &n->in[0]->grad, own = n->in[0]->t;
    int64_t count = pare_numel(&own);

    if (!gx->data || !n->out[0]->grad.data)
        return 0;
    own.data = pare_alloc_raw(c->scratch, (size_t)count, sizeof(float));
    if (!own.data)
        return pare_no_memory(err, "for a gradient");
    PARE_TRY(backward_site(n->attr, &n->in[0]->t, &n->out[0]->grad, &own, err));
    for (int64_t i = 0; i < count; i++)
        pare_f32_mut(gx)[i] += pare_f32(&own)[i];
    return 0;
}

/* The node's tensor with other data, whose values may be in any order. */
static struct pare_tensor view_of(const struct pare_node *n, const float *data)
{
    struct pare_tensor t = n->in[0]->t;

    t.data = (void *)(uintptr_t)data;
    return t;
}

static int map_tensor(const struct pare_node *n, const float *x, float *y, bool train,
                      struct pare_err *err)
{
    struct pare_tensor in = view_of(n, x), out = view_of(n, y);

    return quantize_site(n->attr, &in, &out, train, err);
}

static int dmap_tensor(const struct pare_node *n, const float *x, const float *gy, float *gx,
                       struct pare_err *err)
{
    struct pare_tensor in = view_of(n, x), from = view_of(n, gy), to = view_of(n, gx);

    return backward_site(n->attr, &in, &from, &to, err);
}

/* ---- layers that another framework computes ------------------------------------------------- */

static int check_outside(const struct pare_layer *l, enum pare_quant_site site,
                         const struct pare_tensor *x, const struct pare_tensor *y,
                         struct pare_err *err)
{
    if (!l->quant || (int)site < 0 || site >= PARE_QUANT_SITES)
        return pare_fail(err, PARE_ECONFIG, "layer '%s' has no quantizer, or the site is unknown",
                         l->info.name);
    if (x->dtype != PARE_F32 || y->dtype != PARE_F32 || !pare_same_shape(x, y))
        return pare_fail(err, PARE_ESHAPE,
                         "%s of layer '%s': both tensors must be float32 and have the same shape",
                         pare_quant_site_name(site), l->info.name);
    if (site == PARE_WEIGHT && !pare_same_shape(x, &l->w))
        return pare_fail(err, PARE_ESHAPE, "weight of layer '%s': the tensor has another shape",
                         l->info.name);
    return 0;
}

int pare_layer_quantize(struct pare_layer *l, enum pare_quant_site site, bool training,
                        const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err)
{
    PARE_ERR(err);
    const struct site s = { l, site };
    struct pare_compression *c = l->compression;
    struct pare_call_scope turn;
    int rc;

    PARE_TRY(check_outside(l, site, x, y, err));
    if (site != PARE_WEIGHT || !l->quant->quantized[site] || c->quant->calibration)
        return quantize_site(&s, x, y, training, err);
    turn = pare_call_begin(c, 0);
    c->quant->training = training;
    rc = c->quant->quantizer->weight(l, x, y, err);
    pare_call_end(c, turn);
    return pare_at(err, rc, "weight of layer '%s'", l->info.name);
}

int pare_layer_quantize_back(struct pare_layer *l, enum pare_quant_site site,
                             const struct pare_tensor *x, const struct pare_tensor *gy,
                             struct pare_tensor *gx, struct pare_err *err)
{
    PARE_ERR(err);
    const struct site s = { l, site };

    PARE_TRY(check_outside(l, site, x, gx, err));
    return backward_site(&s, x, gy, gx, err);
}

/* Not in ops.def: they never occur in a file. */
#define SITE(more, ...)                                                                     \
    {                                                                                       \
        .type = "Quantizer", .domain = "ai.pare",                                           \
        .doc = "Fake-quantize a value while a model is compressed.", .since = 1, .in = "T", \
        .types = PARE_T_FLOAT, .min_out = 1, .max_out = 1,                                  \
        .flags = PARE_OP_RANDOM | (more), /* results may differ from run to run */          \
            .infer = pare_infer_same, .forward = forward, .backward = backward, __VA_ARGS__ \
    }

/* [1]: quantizers that learn; [2], [3]: any order of values; [4], [5]: any order, observing. */
static const struct pare_op site_op[] = {
    SITE(0, .map_tensor = NULL),
    SITE(PARE_OP_LEARNS, .map_tensor = NULL),
    SITE(PARE_OP_ANY_LAYOUT, .map_tensor = map_tensor, .dmap_tensor = dmap_tensor),
    SITE(PARE_OP_LEARNS | PARE_OP_ANY_LAYOUT, .map_tensor = map_tensor, .dmap_tensor = dmap_tensor),
    SITE(PARE_OP_OBSERVES | PARE_OP_ANY_LAYOUT, .map_tensor = map_tensor),
    SITE(PARE_OP_LEARNS | PARE_OP_OBSERVES | PARE_OP_ANY_LAYOUT, .map_tensor = map_tensor),
};

static const struct pare_op *op_of(const struct pare_layer *l, enum pare_quant_site site)
{
    unsigned flags = l->compression->algorithm[0]->flags;
    bool any = flags & PARE_ANY_ORDER && l->quant->site[site].axis < 0;

    return &site_op[(flags & PARE_LEARNS ? 1 : 0) + (!any                               ? 0
                                                     : l->compression->quant->observing ? 4
                                                                                        : 2)];
}

static bool is_site(const struct pare_node *n)
{
    return n->op >= site_op && n->op < site_op + sizeof(site_op) / sizeof(*site_op);
}

struct pare_layer *pare_quant_site_of(const struct pare_node *n, enum pare_quant_site *site)
{
    const struct site *s = n->attr;

    if (!is_site(n))
        return NULL;
    *site = s->site;
    return s->layer;
}

/* ---- insert and remove ----------------------------------------------------------------- */

/* layer.info refers to a clone of the graph: the same value in the model's graph. */
static struct pare_value *model_value(const struct pare_compression *r, const struct pare_value *v)
{
    return v ? pare_graph_find(r->model->graph, v->name) : NULL;
}

static struct pare_value *add_node(struct pare_compression *r, struct pare_layer *l,
                                   enum pare_quant_site site, struct pare_value *from,
                                   struct pare_err *err)
{
    struct pare_graph *g = r->model->graph;
    struct site *s = pare_alloc(r->arena, 1, sizeof(*s));
    const char *name = pare_sprintf(g->arena, "%s:%s:%s", l->info.name, pare_quant_site_name(site),
                                    from->name);
    struct pare_value *to = name ? pare_graph_value(g, name, err) : NULL;
    struct pare_node *n = to ? pare_graph_add(g, 1, 1, err) : NULL;

    if (!s || !n) {
        pare_no_memory(err, "for quantized layers");
        return NULL;
    }
    *s = (struct site){ l, site };
    n->op = op_of(l, site);
    n->name = name;
    n->type = n->op->type;
    n->domain = n->op->domain;
    n->version = 1;
    n->attr = s;
    n->in[0] = from;
    n->out[0] = to;
    to->maker = n;
    return to;
}

/* Several inputs of a node, for example of an Add, share the layer's scale. */
static int insert_input(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct pare_value *out = model_value(r, l->info.node->out[0]);
    struct pare_node *n = out ? out->maker : NULL;

    while (n && is_site(n)) /* skip the fake-quant nodes of its output */
        n = n->in[0]->maker;
    for (int k = 0; n && k < n->n_in; k++) {
        struct pare_value *to;

        if (!n->in[k] || n->in[k]->flags & PARE_V_CONST || n->in[k]->t.dtype > PARE_F32)
            continue;
        to = add_node(r, l, PARE_INPUT, n->in[k], err);
        if (!to)
            return err->code;
        n->in[k] = to;
    }
    return 0;
}

static int insert_output(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct pare_value *from = l->quant->norm ? l->quant->norm->out[0] : model_value(r, l->info.out),
                      *to;

    if (!from)
        return pare_fail(err, PARE_EUNSUPPORTED, "layer '%s' has no output to quantize",
                         l->info.name);
    to = add_node(r, l, PARE_OUTPUT, from, err);
    if (!to)
        return err->code;
    pare_graph_redirect(r->model->graph, from, to);
    return 0;
}

int pare_fake_quant_insert(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].quant->quantized[PARE_INPUT])
            PARE_TRY(insert_input(r, &r->layer[i], err));
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].quant->quantized[PARE_OUTPUT])
            PARE_TRY(insert_output(r, &r->layer[i], err));
    return pare_graph_order(r->model->graph, err);
}

void pare_fake_quant_observe(struct pare_compression *r, bool on)
{
    struct pare_graph *g = r->model->graph;

    r->quant->observing = on;
    for (int i = 0; i < g->n_nodes; i++)
        if (is_site(g->node[i])) {
            const struct site *s = g->node[i]->attr;

            g->node[i]->op = op_of(s->layer, s->site);
        }
}

void pare_fake_quant_remove(struct pare_compression *r)
{
    struct pare_graph *g = r->model->graph;
    int kept = 0;

    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (is_site(g->node[i]))
            pare_graph_redirect(g, g->node[i]->out[0], g->node[i]->in[0]);
    for (int i = 0; i < g->n_nodes; i++)
        if (!is_site(g->node[i])) {
            g->node[kept] = g->node[i];
            g->node[kept]->id = kept;
            kept++;
        }
    g->n_nodes = kept;
}
