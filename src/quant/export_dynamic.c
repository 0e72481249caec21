/* export_dynamic.c - export with dynamic activation quantization: MatMulInteger, ConvInteger,
 * DynamicQuantizeLSTM.
 *
 *     q, s, z = DynamicQuantizeLinear(x)                 shared by all layers that read x
 *     y = Cast(MatMulInteger(q, w, z, w_zero)) * (s * w_scale) + bias
 *
 * The form is the one of onnxruntime's quantize_dynamic(), which the runtime fuses into one
 * operator, with one weight scale per output channel.  ConvInteger has uint8 weights with zero
 * point 128: onnxruntime has no kernel for int8.
 */
#include "export_dynamic.h"

#include <string.h>

#include "../base/arena.h"
#include "../onnx/edit_internal.h"
#include "../op/matrix/matrix.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

/* Names of the outputs of a DynamicQuantizeLinear. */
struct names {
    const char *q, *scale, *zero;
};

struct job {
    struct pare_dynamic *d;
    const struct pare_layer *l;
    const struct pare_qscale *g;
    const struct pare_tensor *q;
    const struct pare_node *n; /* the layer's */
    bool conv;                 /* ConvInteger, which has the attributes of Conv */
    bool turned;               /* Gemm: the weight is (N, K) */
    struct pare_edit *at;      /* of the graph that has the node: a body's, or d->e */
    struct pare_edit_slot *s;  /* the file's node */
};

static int no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "to export a quantized model");
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool same_zeros(const struct pare_qscale *g)
{
    for (int64_t i = 1; i < g->n; i++)
        if (g->zero[i] != g->zero[0])
            return false;
    return true;
}

/* Scales of output channels, in the weight's layout. */
static bool scales_fit(const struct job *j)
{
    const struct pare_qscale *g = j->g;
    int axis = j->conv || j->turned ? 0 : 1;

    return (g->dtype == PARE_I8 || g->dtype == PARE_U8) && g->offset == 0 && !g->by.size &&
           (g->axis < 0 || g->axis == axis) && (!j->conv || same_zeros(g));
}

/* Sizes of free dimensions for which a node cannot run leave the type unknown; it is that of the
 * float32 weight then. */
static bool may_be_float(const struct pare_value *v)
{
    return v->t.dtype == PARE_F32 || v->t.dtype == PARE_NONE;
}

static bool is_supported(struct job *j)
{
    const struct pare_layer *l = j->l;
    const struct pare_node *n = j->n;
    const struct pare_graph *all = l->compression->model->graph;

    if (!n->op || !n->op->integer_type || n->n_in < 2 || !n->in[0] || !n->in[1] ||
        n->in[0]->flags & PARE_V_CONST || !may_be_float(n->in[0]) ||
        strcmp(n->in[1]->name, l->weight->name) != 0 || l->quant->quantized[PARE_INPUT] ||
        l->quant->quantized[PARE_OUTPUT] || l->quant->norm)
        return false;
    j->conv = pare_find_op("", n->op->integer_type)->attrs != NULL;
    if (j->conv && n->n_in > 2 && n->in[2] && (!l->bias || l->info.bias->maker))
        return false;
    return (j->conv ? n->in[1]->t.rank > 2 : n->in[1]->t.rank == 2) &&
           (j->conv || pare_is_plain_product(n, &j->turned)) && scales_fit(j) &&
           pare_graph_count_uses(all, pare_graph_find(all, l->weight->name)) == 1;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* The integers as the operator reads them: (K, N), or (M, C, ...) of uint8. */
static int make_weight(const struct job *j, struct pare_tensor *w, struct pare_err *err)
{
    const uint8_t *from = j->q->data;
    uint8_t *to;

    *w = *j->q;
    if (j->conv)
        w->dtype = PARE_U8;
    if (j->turned) {
        w->dim[0] = j->q->dim[1];
        w->dim[1] = j->q->dim[0];
    }
    PARE_TRY(pare_tensor_alloc(j->d->a, w, err));
    to = w->data;
    if (j->turned) {
        for (int64_t n = 0; n < w->dim[1]; n++)
            for (int64_t k = 0; k < w->dim[0]; k++)
                to[k * w->dim[1] + n] = from[n * w->dim[0] + k];
        return 0;
    }
    for (int64_t i = 0; i < pare_numel(w); i++)
        to[i] = j->conv && j->q->dtype == PARE_I8 ? (uint8_t)(from[i] ^ 0x80) : from[i];
    return 0;
}

/* One zero point if all are equal, else one per column. */
static int make_zero(const struct job *j, struct pare_tensor *t, struct pare_err *err)
{
    const struct pare_qscale *g = j->g;
    int64_t shift = j->conv && j->q->dtype == PARE_I8 ? 128 : 0;

    *t = (struct pare_tensor){ .dtype = j->conv ? PARE_U8 : g->dtype, .rank = !same_zeros(g) };
    t->dim[0] = g->n;
    PARE_TRY(pare_tensor_alloc(j->d->a, t, err));
    for (int64_t i = 0; i < pare_numel(t); i++)
        ((uint8_t *)t->data)[i] = (uint8_t)(g->zero[i] + shift);
    return 0;
}

/* Values per output channel: (N) for a product, (1, M, 1, ..) for a convolution. */
static int per_channel(const struct job *j, const float *v, int64_t n, struct pare_tensor *t,
                       struct pare_err *err)
{
    *t = (struct pare_tensor){ .dtype = PARE_F32, .rank = n > 1 || j->g->axis >= 0 };
    t->dim[0] = n;
    if (j->conv && t->rank) {
        t->rank = j->q->rank;
        for (int i = 0; i < t->rank; i++)
            t->dim[i] = i == 1 ? n : 1;
    }
    PARE_TRY(pare_tensor_alloc(j->d->a, t, err));
    memcpy(t->data, v, (size_t)n * sizeof(float));
    return 0;
}

static int add_constant(const struct job *j, const char *base, const char *ending,
                        const struct pare_tensor *t, const char **name, struct pare_err *err)
{
    *name = pare_edit_name(j->d->e, base, ending);
    return *name ? pare_edit_constant(j->d->e, *name, t, err) : no_memory(err);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int insert(const struct job *j, struct pare_edit_node *n, struct pare_err *err)
{
    const char *ending = pare_sprintf(j->d->a, "_%s", n->type);

    n->name = ending && n->out ? pare_edit_name(j->d->e, n->out, ending) : NULL;
    return n->name ? pare_edit_insert(j->at, n, err) : no_memory(err);
}

/* type(a, b) with a new name for its result. */
static int insert_new(const struct job *j, const char *type, const char *a, const char *b,
                      const char *ending, const char **out, struct pare_err *err)
{
    struct pare_edit_node n = { .type = type, .in = { a, b }, .axis = -1 };

    n.out = *out = pare_edit_name(j->d->e, j->n->out[0]->name, ending);
    return insert(j, &n, err);
}

/* What is quantized in the graph of the layer. */
static struct pare_dynamic_inputs *inputs_of(const struct job *j)
{
    struct pare_dynamic_inputs *i = j->d->inputs;

    while (i && i->at != j->at)
        i = i->next;
    if (i)
        return i;
    i = pare_alloc(j->d->a, 1, sizeof(*i));
    if (i) {
        i->at = j->at;
        i->next = j->d->inputs;
        j->d->inputs = i;
    }
    return i;
}

static int quantize_input(const struct job *j, const char *x, const struct names **names,
                          struct pare_err *err)
{
    struct pare_dynamic *d = j->d;
    struct pare_dynamic_inputs *done = inputs_of(j);
    struct pare_edit_node n = { .type = "DynamicQuantizeLinear", .in = { x }, .axis = -1 };
    struct names *v;

    *names = NULL;
    if (!done)
        return no_memory(err);
    *names = pare_map_get(&done->quantized, x);
    if (*names)
        return 0;
    *names = v = pare_alloc(d->a, 1, sizeof(*v));
    if (!v)
        return no_memory(err);
    v->q = n.out = pare_edit_name(d->e, x, "_quantized");
    v->scale = n.more[0] = pare_edit_name(d->e, x, "_scale");
    v->zero = n.more[1] = pare_edit_name(d->e, x, "_zero_point");
    if (!v->q || !v->scale || !v->zero)
        return no_memory(err);
    PARE_TRY(insert(j, &n, err));
    return pare_map_set(&done->quantized, d->a, x, v, err);
}

/* Turns the float node into the integer one, which makes a new value `sum`. */
static int change_node(const struct job *j, const struct names *x, const char *sum,
                       struct pare_err *err)
{
    const char *base = j->l->weight->name, *w, *zero;
    Onnx__NodeProto *p = j->s->p;
    struct pare_tensor t;

    PARE_TRY(make_weight(j, &t, err));
    PARE_TRY(add_constant(j, base, "_quantized", &t, &w, err));
    PARE_TRY(make_zero(j, &t, err));
    PARE_TRY(add_constant(j, base, "_zero_point", &t, &zero, err));
    p->op_type = pare_edit_text(j->n->op->integer_type);
    p->n_attribute = j->conv ? p->n_attribute : 0;
    p->n_input = 0;
    p->input = pare_alloc(j->d->a, 4, sizeof(*p->input));
    if (!p->input)
        return no_memory(err);
    p->input[p->n_input++] = pare_edit_text(x->q);
    p->input[p->n_input++] = pare_edit_text(w);
    p->input[p->n_input++] = pare_edit_text(x->zero);
    p->input[p->n_input++] = pare_edit_text(zero);
    return pare_edit_rename(j->at, p->output[0], sum, err);
}

/* The name of the bias as the Add reads it; NULL: none. */
static int find_bias(const struct job *j, const char **bias, struct pare_err *err)
{
    const Onnx__NodeProto *p = j->s->p;
    const struct pare_value *b = j->l->bias;
    struct pare_tensor t;

    *bias = p->n_input > 2 && *p->input[2] ? p->input[2] : NULL;
    if (!*bias || !j->conv)
        return 0;
    PARE_TRY(per_channel(j, pare_f32(&b->t), pare_numel(&b->t), &t, err));
    PARE_TRY(add_constant(j, b->name, "_channels", &t, bias, err));
    return pare_graph_count_uses(j->l->compression->model->graph, b) == 1
               ? pare_edit_drop_constant(j->d->e, b->name, err)
               : 0;
}

static int replace(const struct job *j, struct pare_err *err)
{
    struct pare_edit_node last = { .axis = -1, .out = j->n->out[0]->name };
    struct pare_edit_node cast = { .type = "Cast", .axis = -1, .attr = { { "to", 1 } } };
    const char *out = last.out, *bias, *scale, *both, *sum, *product;
    const struct names *x;
    struct pare_tensor t;

    PARE_TRY(quantize_input(j, j->s->p->input[0], &x, err));
    PARE_TRY(find_bias(j, &bias, err));
    PARE_TRY(per_channel(j, j->g->scale, j->g->n, &t, err));
    PARE_TRY(add_constant(j, j->l->weight->name, "_scale", &t, &scale, err));
    PARE_TRY(pare_edit_drop_constant(j->d->e, j->l->weight->name, err));
    sum = pare_edit_name(j->d->e, out, "_sum");
    cast.in[0] = sum;
    cast.out = pare_edit_name(j->d->e, out, "_float");
    if (!sum || !cast.out)
        return no_memory(err);
    PARE_TRY(change_node(j, x, sum, err));
    PARE_TRY(insert(j, &cast, err));
    PARE_TRY(insert_new(j, "Mul", x->scale, scale, "_scales", &both, err));
    last.type = bias ? "Add" : "Mul";
    last.in[0] = cast.out;
    last.in[1] = bias ? bias : both;
    if (bias) {
        PARE_TRY(insert_new(j, "Mul", cast.out, both, "_product", &product, err));
        last.in[0] = product;
    }
    return insert(j, &last, err);
}

int pare_dynamic_export(struct pare_dynamic *d, const struct pare_layer *l,
                        const struct pare_qscale *g, const struct pare_tensor *q, bool *done,
                        struct pare_err *err)
{
    struct job j = { .d = d, .l = l, .g = g, .q = q, .n = l->info.node };

    *done = false;
    if (!is_supported(&j))
        return 0;
    PARE_TRY(pare_edit_opset(d->e, 11, err));
    PARE_TRY(pare_edit_of_node(d->e, l->compression->graph, j.n, &j.at, err));
    j.s = j.at ? pare_edit_maker(j.at, j.n->out[0]->name) : NULL;
    if (!j.s || strcmp(j.s->p->op_type, j.n->type) != 0)
        return 0;
    PARE_TRY(pare_edit_own(j.at, j.n->out[0]->name, &j.s, err));
    *done = true;
    d->n++;
    return replace(&j, err);
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

enum { FIRST_SCALE = 8 }; /* of pare_op.dynamic_type */

/* A name by which the file's node is found: the first output may be absent. */
static const char *made_by(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            return n->out[k]->name;
    return "";
}

/* One weight: an initializer that the node reads directly, with scales per gate and state. */
static bool fits_recurrent(const struct pare_layer *l, int input)
{
    const struct pare_node *n = l->info.node;
    const struct pare_graph *all = l->compression->model->graph;

    return input < n->n_in && n->in[input] && l->info.weight == n->in[input] &&
           !strcmp(n->in[input]->name, l->weight->name) && n->in[input]->t.rank == 3 &&
           l->quant->quantized[PARE_WEIGHT] && !l->quant->quantized[PARE_INPUT] &&
           !l->quant->quantized[PARE_OUTPUT] &&
           pare_graph_count_uses(all, pare_graph_find(all, l->weight->name)) == 1;
}

/* (directions, gates, inputs) to (directions, inputs, gates). */
static int turn_weight(const struct job *j, struct pare_tensor *w, struct pare_err *err)
{
    const struct pare_tensor *q = j->q;
    const uint8_t *from = q->data;
    int64_t rows = q->dim[1], columns = q->dim[2];

    *w = *q;
    w->dim[1] = columns;
    w->dim[2] = rows;
    PARE_TRY(pare_tensor_alloc(j->d->a, w, err));
    for (int64_t i = 0; i < pare_numel(q); i++)
        ((uint8_t *)w->data)[(i / rows / columns * columns + i % columns) * rows +
                             i / columns % rows] = from[i];
    return 0;
}

/* Scales and zero points (directions, gates); (directions) if the weight has one scale. */
static int recurrent_scales(const struct job *j, struct pare_tensor *scale,
                            struct pare_tensor *zero, struct pare_err *err)
{
    const struct pare_qscale *g = j->g;

    *scale = (struct pare_tensor){ .dtype = PARE_F32, .rank = g->axis < 0 ? 1 : 2 };
    scale->dim[0] = j->q->dim[0];
    scale->dim[1] = g->n;
    *zero = *scale;
    zero->dtype = g->dtype;
    PARE_TRY(pare_tensor_alloc(j->d->a, scale, err));
    PARE_TRY(pare_tensor_alloc(j->d->a, zero, err));
    for (int64_t i = 0; i < pare_numel(scale); i++) {
        pare_f32_mut(scale)[i] = g->scale[i % g->n];
        ((uint8_t *)zero->data)[i] = (uint8_t)g->zero[i % g->n];
    }
    return 0;
}

/* Replaces one weight: input `at`, its scale and its zero point. */
static int put_recurrent(struct job *j, const struct pare_layer *l, int at, int scales,
                         struct pare_err *err)
{
    const char *base = l->weight->name, *name[3];
    struct pare_tensor t[3];

    PARE_TRY(turn_weight(j, &t[0], err));
    PARE_TRY(recurrent_scales(j, &t[1], &t[2], err));
    PARE_TRY(add_constant(j, base, "_quantized", &t[0], &name[0], err));
    PARE_TRY(add_constant(j, base, "_scale", &t[1], &name[1], err));
    PARE_TRY(add_constant(j, base, "_zero_point", &t[2], &name[2], err));
    PARE_TRY(pare_edit_drop_constant(j->d->e, base, err));
    PARE_TRY(pare_edit_put_input(j->at, j->s->p, at, name[0], err));
    PARE_TRY(pare_edit_put_input(j->at, j->s->p, scales, name[1], err));
    return pare_edit_put_input(j->at, j->s->p, scales + 1, name[2], err);
}

static bool recurrent_scales_fit(const struct pare_qscale *g)
{
    return (g->dtype == PARE_I8 || g->dtype == PARE_U8) && g->offset == 0 && !g->by.size &&
           (g->axis < 0 || g->axis == 1);
}

int pare_dynamic_export_recurrent(struct pare_dynamic *d, const struct pare_layer *l,
                                  const struct pare_layer *r, bool *done, struct pare_err *err)
{
    const struct pare_node *n = l->info.node;
    const struct pare_layer *of[2] = { l, r };
    struct job j = { .d = d, .n = n };
    struct pare_qscale g[2];
    struct pare_tensor q[2];

    *done = false;
    if (!n->op || !n->op->dynamic_type || r->info.node != n || pare_attr(n, "layout") == 1 ||
        !fits_recurrent(l, n->op->layer.weight) || !fits_recurrent(r, n->op->layer.second))
        return 0;
    for (int i = 0; i < 2; i++) {
        PARE_TRY(pare_qweight(of[i], d->a, &g[i], &q[i], err));
        if (!recurrent_scales_fit(&g[i]))
            return 0;
    }
    PARE_TRY(pare_edit_of_node(d->e, l->compression->graph, n, &j.at, err));
    j.s = j.at ? pare_edit_maker(j.at, made_by(n)) : NULL;
    if (!j.s || strcmp(j.s->p->op_type, n->type) != 0)
        return 0;
    PARE_TRY(pare_edit_own(j.at, made_by(n), &j.s, err));
    PARE_TRY(pare_edit_import(d->e, "com.microsoft", 1, err));
    j.s->p->op_type = pare_edit_text(n->op->dynamic_type);
    j.s->p->domain = pare_edit_text("com.microsoft");
    PARE_TRY(pare_edit_drop_attr(j.at, j.s->p, "layout", err));
    for (int i = 0; i < 2; i++) {
        j.g = &g[i];
        j.q = &q[i];
        PARE_TRY(put_recurrent(&j, of[i], i ? n->op->layer.second : n->op->layer.weight,
                               FIRST_SCALE + 2 * i, err));
    }
    *done = true;
    d->n++;
    return 0;
}
