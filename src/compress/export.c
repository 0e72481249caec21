/* export.c - write the results of a compression: state, masks, ONNX models, calibration. */
#include <string.h>

#include "../base/arena.h"
#include "../base/sized.h"
#include "../io/file.h"
#include "../io/tensor_file.h"
#include "../onnx/model.h"
#include "../op/quant/nbits.h"
#include "../tensor/tensor.h"
#include "export.h"
#include "method.h"

/* ---- the state of a model ------------------------------------------------------------------ */

static bool is_float(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F16 || d == PARE_BF16 || d == PARE_F64;
}

/* Weights and running statistics: floating-point initializers that are an operand of an operator
 * and not one of its settings. */
static void mark_state(const struct pare_graph *g, bool *state)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in && n->op; k++) {
            const struct pare_value *v = n->in[k];
            bool setting = (n->op->settings & ~n->op->statistics) >> k & 1;

            if (v && v->flags & PARE_V_CONST && !v->maker && g->value[v->id] == v &&
                is_float(v->t.dtype) && v->t.rank >= 1 && !setting)
                state[v->id] = true;
        }
    }
}

/* A list that grows; names are copied. */
struct state {
    struct pare_arena *arena;
    struct pare_named *list;
    int n, cap;
};

static int add_tensor(struct state *s, const char *layer, const char *what,
                      const struct pare_tensor *t, struct pare_err *err)
{
    struct pare_named *list = pare_grow(s->arena, s->list, s->n, &s->cap, sizeof(*list));
    const char *name = what ? pare_sprintf(s->arena, "%s.%s", layer, what) : layer;

    if (!list || !name)
        return pare_no_memory(err, "to write the results");
    s->list = list;
    list[s->n++] = (struct pare_named){ name, *t };
    return 0;
}

static struct pare_named *find_tensor(const struct state *s, const char *layer, const char *what)
{
    size_t n = strlen(layer);

    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->list[i].name, layer, n) && s->list[i].name[n] == '.' &&
            !strcmp(s->list[i].name + n + 1, what))
            return &s->list[i];
    return NULL;
}

/* One number for each channel, without axes of 1. */
static void flatten(struct pare_tensor *t)
{
    t->dim[0] = pare_numel(t);
    t->rank = 1;
}

static double zero_at(const struct pare_model_quant *q, int64_t k)
{
    return q->zero_point.data ? pare_get(&q->zero_point, pare_numel(&q->zero_point) > 1 ? k : 0)
                              : 0;
}

/* Zero points as float32, as NNI has them. */
static int add_zeros(struct state *s, const char *layer, const char *what,
                     const struct pare_model_quant *q, struct pare_err *err)
{
    int64_t n = pare_numel(&q->scale);
    struct pare_tensor t;

    if (q->zero_point.data && pare_numel(&q->zero_point) != n && pare_numel(&q->zero_point) != 1)
        return 0;
    PARE_TRY(pare_tensor_new(s->arena, &t, PARE_F32, 1, &n, err));
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&t)[i] = (float)zero_at(q, i);
    return add_tensor(s, layer, what, &t, err);
}

/* The index of the scale of element i of a weight; -1: not known.  A recurrent layer has scales for
 * each direction, axis 0, or for each of its columns. */
static int64_t scale_at(const struct pare_tensor *w, const struct pare_model_quant *q, int64_t i)
{
    int64_t scales = pare_numel(&q->scale), each = 1, direction;

    if (scales == 1)
        return 0;
    if (q->axis < 0 || q->axis >= w->rank)
        return -1;
    for (int k = q->axis + 1; k < w->rank; k++)
        each *= w->dim[k];
    direction = i / (pare_numel(w) / w->dim[0]);
    if (w->dim[q->axis] == scales)
        return i / each % scales;
    if (scales % w->dim[0] == 0 && scales / w->dim[0] == w->dim[q->axis])
        return direction * w->dim[q->axis] + i / each % w->dim[q->axis];
    return scales == w->dim[0] ? direction : -1;
}

/* scale (q - zero point) of an integer initializer that an operator reads as it is. */
static int add_integers(struct state *s, const char *layer, const struct pare_value *from,
                        const struct pare_model_quant *q, struct pare_err *err)
{
    int64_t n = pare_numel(&from->t), zeros = pare_numel(&q->zero_point);
    struct pare_value w = *from;
    struct pare_tensor t;

    if ((w.t.dtype != PARE_I8 && w.t.dtype != PARE_U8) || !n || q->group ||
        scale_at(&w.t, q, 0) < 0 ||
        (q->zero_point.data && zeros != pare_numel(&q->scale) && zeros != 1))
        return 0;
    PARE_TRY(pare_value_load(s->arena, &w, err));
    if (!w.t.data)
        return 0;
    PARE_TRY(pare_tensor_new(s->arena, &t, PARE_F32, w.t.rank, w.t.dim, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t k = scale_at(&w.t, q, i);

        pare_f32_mut(&t)[i] = (float)(pare_get(&q->scale, k) * (pare_get(&w.t, i) - zero_at(q, k)));
    }
    return add_tensor(s, layer, "weight", &t, err);
}

/* The weight of MatMulNBits, (N, K). */
static int add_packed(struct state *s, const struct pare_layer_scales *l, struct pare_err *err)
{
    struct pare_nbits_attrs a = pare_nbits_get(l->node);
    const struct pare_model_quant *q = &l->q[0];
    int64_t row = a.blocks * (a.block / 8 * a.bits), dim[2] = { a.N, a.K };
    struct pare_value w = *l->weight;
    struct pare_tensor t;

    if (pare_numel(&w.t) % a.N || pare_numel(&w.t) / a.N != row || pare_numel(&q->scale) % a.N ||
        pare_numel(&q->scale) / a.N != a.blocks)
        return 0; /* the node cannot run */
    PARE_TRY(pare_value_load(s->arena, &w, err));
    if (!w.t.data)
        return 0;
    PARE_TRY(pare_tensor_new(s->arena, &t, PARE_F32, 2, dim, err));
    for (int64_t i = 0; i < a.N * a.K; i++) {
        int64_t n = i / a.K, k = i % a.K, block = n * a.blocks + k / a.block;
        double zero = q->zero_point.data ? zero_at(q, block) : 1 << (a.bits - 1);

        pare_f32_mut(&t)[i] =
            (float)(pare_get(&q->scale, block) *
                    (pare_nbits_at((const uint8_t *)w.t.data + n * row, (int)a.bits, k) - zero));
    }
    return add_tensor(s, l->name, "weight", &t, err);
}

/* The int32 bias of such an operator: its scale is that of the input times that of the weight. */
static int add_int_bias(struct state *s, const struct pare_layer_scales *l, struct pare_err *err)
{
    int64_t n = l->bias ? pare_numel(&l->bias->t) : 0, scales = pare_numel(&l->q[0].scale);
    struct pare_tensor t;

    if (!n || l->bias->maker || l->bias->t.dtype != PARE_I32 || !l->bias->t.data ||
        !l->q[1].scale.data || pare_numel(&l->q[1].scale) != 1 || (scales != 1 && scales != n))
        return 0;
    PARE_TRY(pare_tensor_new(s->arena, &t, PARE_F32, l->bias->t.rank, l->bias->t.dim, err));
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&t)[i] = (float)(pare_get(&l->bias->t, i) * pare_get(&l->q[1].scale, 0) *
                                      pare_get(&l->q[0].scale, scales > 1 ? i : 0));
    return add_tensor(s, l->name, "bias", &t, err);
}

/* The dequantized weight or bias, unless it is an initializer, which is in the list. */
static int add_dequantized(struct state *s, const char *layer, const char *what,
                           const struct pare_value *from, struct pare_err *err)
{
    struct pare_value v;

    if (!from || !from->maker || find_tensor(s, layer, what))
        return 0;
    v = *from;
    PARE_TRY(pare_value_load(s->arena, &v, err));
    return v.t.data && is_float(v.t.dtype) ? add_tensor(s, layer, what, &v.t, err) : 0;
}

/* A bias that an Add after integer products reads is in the list under its own name. */
static int rename_bias(struct state *s, const struct pare_layer_scales *l, struct pare_err *err)
{
    const char *name = pare_sprintf(s->arena, "%s.bias", l->name);

    if (!name)
        return pare_no_memory(err, "to write the results");
    for (int i = 0; l->bias && !find_tensor(s, l->name, "bias") && i < s->n; i++)
        if (!strcmp(s->list[i].name, l->bias->name)) {
            s->list[i].name = name;
            flatten(&s->list[i].t);
        }
    return 0;
}

/* The weight of an integer operator. */
static int add_integer_weight(struct state *s, const struct pare_layer_scales *l,
                              struct pare_err *err)
{
    if (!l->weight || l->weight->maker || !l->q[0].scale.data)
        return 0;
    if (l->node->op && l->node->op->scales.packed)
        return add_packed(s, l, err);
    PARE_TRY(add_integers(s, l->name, l->weight, &l->q[0], err));
    return add_int_bias(s, l, err);
}

/* Of a quantized model: weights and biases, scales and zero points by NNI's names. */
static int add_scales(struct state *s, const struct pare_model *m, struct pare_err *err)
{
    static const char *const scale[] = { "weight_scale", "input_scale", "output_scale" };
    static const char *const zero[] = { "weight_zero_point", "input_zero_point",
                                        "output_zero_point" };
    struct pare_layer_scales *list;
    int n;

    PARE_TRY(pare_model_scales(m, s->arena, &list, &n, err));
    for (int i = 0; i < n; i++) {
        PARE_TRY(add_dequantized(s, list[i].name, "weight", list[i].weight, err));
        PARE_TRY(add_integer_weight(s, &list[i], err));
        PARE_TRY(add_dequantized(s, list[i].name, "bias", list[i].bias, err));
        PARE_TRY(rename_bias(s, &list[i], err));
        for (int k = 0; k < 3; k++) {
            const struct pare_model_quant *q = &list[i].q[k];
            struct pare_named *old = find_tensor(s, list[i].name, scale[k]);
            struct pare_tensor t = q->scale;

            if (q->dtype == PARE_NONE || !t.data)
                continue;
            flatten(&t);
            if (old && pare_numel(&old->t) == t.dim[0])
                flatten(&old->t);
            if (!old)
                PARE_TRY(add_tensor(s, list[i].name, scale[k], &t, err));
            if (!find_tensor(s, list[i].name, zero[k]))
                PARE_TRY(add_zeros(s, list[i].name, zero[k], q, err));
        }
    }
    return 0;
}

int pare_model_state(const struct pare_model *m, struct pare_arena *a, struct pare_named **list,
                     int *n, struct pare_err *err)
{
    const struct pare_graph *g = m->graph;
    bool *state = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*state));
    struct state s = { .arena = a };

    if (!state)
        return pare_no_memory(err, "to write the results");
    mark_state(g, state);
    for (int i = 0; i < g->n_values; i++) {
        struct pare_value v = *g->value[i];

        if (!state[i])
            continue;
        PARE_TRY(pare_value_load(a, &v, err));
        PARE_TRY(add_tensor(&s, v.name, NULL, &v.t, err));
    }
    PARE_TRY(add_scales(&s, m, err));
    *list = s.list;
    *n = s.n;
    return 0;
}

/* Is it a scale or zero point of a quantizer? */
static bool is_quantization(const char *buffer)
{
    return pare_ends_with(buffer, "_scale") || pare_ends_with(buffer, "_zero_point");
}

/* The model's state, and what the quantizer has learned or calibrated. */
static int compressed_state(const struct pare_compression *c, struct state *s, struct pare_err *err)
{
    PARE_TRY(pare_model_state(c->model, s->arena, &s->list, &s->n, err));
    s->cap = s->n;
    for (int i = 0; i < c->n_layers && c->method->save_calibration; i++)
        for (const struct pare_buffer *b = c->layer[i].buffers; b; b = b->next)
            if (is_quantization(b->name) && !find_tensor(s, c->layer[i].info.name, b->name))
                PARE_TRY(add_tensor(s, c->layer[i].info.name, b->name, &b->t, err));
    return 0;
}

static int write_state(const struct pare_compression *c, const char *path, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct state s = { .arena = a };
    int rc = a ? compressed_state(c, &s, err) : pare_no_memory(err, "to write the results");

    if (!rc)
        rc = pare_tensor_file_write(path, s.list, s.n, err);
    pare_arena_free(a);
    return rc;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* NNI's masks in .pth files are floats, 0.0 and 1.0; other formats get a byte per element. */
static int as_floats(struct pare_arena *a, struct pare_tensor *t, struct pare_err *err)
{
    struct pare_tensor f;

    PARE_TRY(pare_tensor_new(a, &f, PARE_F32, t->rank, t->dim, err));
    for (int64_t i = 0, n = pare_numel(t); i < n; i++)
        pare_f32_mut(&f)[i] = ((const uint8_t *)t->data)[i];
    *t = f;
    return 0;
}

static int add_mask(struct pare_arena *a, const struct pare_layer *l, const char *what,
                    const struct pare_tensor *mask, struct pare_named *to, struct pare_err *err)
{
    to->name = pare_sprintf(a, "%s.%s", l->info.name, what);
    to->t = *mask;
    return to->name ? 0 : pare_no_memory(err, "to write the results");
}

static int list_masks(struct pare_compression *c, struct pare_arena *a, bool floats,
                      struct pare_named **list, int *n, struct pare_err *err)
{
    struct pare_named *v = pare_alloc(a, 2 * (size_t)c->n_layers, sizeof(*v));

    *list = v;
    *n = 0;
    if (!v)
        return pare_no_memory(err, "to write the results");
    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (!l->weight)
            continue;
        PARE_TRY(pare_mask_new(c, &l->w, &l->mask, err));
        if (l->bias)
            PARE_TRY(pare_mask_new(c, &l->b, &l->bias_mask, err));
        PARE_TRY(add_mask(a, l, "weight", &l->mask, &v[(*n)++], err));
        if (l->bias)
            PARE_TRY(add_mask(a, l, "bias", &l->bias_mask, &v[(*n)++], err));
    }
    for (int i = 0; i < *n && floats; i++)
        PARE_TRY(as_floats(a, &v[i].t, err));
    return 0;
}

static int write_masks(struct pare_compression *c, const char *path, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    bool floats = !pare_ends_with(path, ".safetensors") && !pare_ends_with(path, ".npz");
    struct pare_named *list;
    int n, rc;

    rc = a ? list_masks(c, a, floats, &list, &n, err) : pare_no_memory(err, "to write the results");
    if (!rc)
        rc = pare_masks_write(path, list, n, err);
    pare_arena_free(a);
    return rc;
}

/* ---- all files ------------------------------------------------------------------------------- */

int pare_export_check(const struct pare_export *e, struct pare_err *err)
{
    if (e->model && !pare_ends_with(e->model, ".onnx"))
        PARE_TRY(pare_tensor_file_check(e->model, err));
    if (e->onnx && !pare_ends_with(e->onnx, ".onnx"))
        return pare_fail(err, PARE_ECONFIG, "%s: the name of an ONNX file ends in .onnx", e->onnx);
    return e->masks ? pare_tensor_file_check(e->masks, err) : 0;
}

static int write_onnx(struct pare_compression *c, const char *path, const struct pare_export *e,
                      struct pare_err *err)
{
    return c->method->save_onnx ? c->method->save_onnx(c, path, e, err)
                                : pare_model_save(c->model, path, NULL, err);
}

static int write_files(struct pare_compression *c, const struct pare_export *e,
                       struct pare_err *err)
{
    bool onnx = e->model && pare_ends_with(e->model, ".onnx");

    if (e->masks)
        PARE_TRY(write_masks(c, e->masks, err));
    if (e->calibration && !c->method->save_calibration)
        return pare_fail(err, PARE_ECONFIG, "only quantizers have a calibration");
    if (e->calibration)
        PARE_TRY(c->method->save_calibration(c, e->calibration, err));
    if (e->model)
        PARE_TRY(onnx ? write_onnx(c, e->model, e, err) : write_state(c, e->model, err));
    return e->onnx ? write_onnx(c, e->onnx, e, err) : 0;
}

/* The files declare the shape; the model in memory keeps its own, so that training can continue
 * with other batch sizes. */
static int write_with_shape(struct pare_compression *c, const struct pare_export *e,
                            struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_declared_shapes *before = NULL;
    int rc = a ? pare_model_fix_input(c->model, e->input_shape, e->input_rank, a, &before, err)
               : pare_no_memory(err, "for shapes");

    if (!rc)
        rc = write_files(c, e, err);
    if (before)
        pare_model_restore_shapes(c->model, before);
    pare_arena_free(a);
    return rc;
}

int pare_compression_export(struct pare_compression *c, const struct pare_export *e,
                            struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_export o;

    PARE_TRY(pare_sized_copy(&o, sizeof(o), e, err));
    PARE_TRY(pare_export_check(&o, err));
    if (!o.model && !o.onnx && !o.masks && !o.calibration)
        return pare_fail(err, PARE_ECONFIG, "an export without a file to write");
    if (c->method->check_export)
        PARE_TRY(c->method->check_export(c, err));
    return o.input_rank ? write_with_shape(c, &o, err) : write_files(c, &o, err);
}
