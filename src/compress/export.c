/* export.c - write the results of a compression: state, masks, ONNX models, calibration. */
#include <string.h>

#include "../base/arena.h"
#include "../base/sized.h"
#include "../io/file.h"
#include "../io/tensor_file.h"
#include "../onnx/model.h"
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

int pare_model_state(const struct pare_model *m, struct pare_arena *a, struct pare_named **list,
                     int *n, struct pare_err *err)
{
    const struct pare_graph *g = m->graph;
    bool *state = pare_alloc(a, (size_t)g->n_values, sizeof(*state));

    *n = 0;
    *list = pare_alloc(a, (size_t)g->n_values, sizeof(**list));
    if (!state || !*list)
        return pare_no_memory(err, "to write the results");
    mark_state(g, state);
    for (int i = 0; i < g->n_values; i++) {
        struct pare_value v = *g->value[i];

        if (!state[i])
            continue;
        PARE_TRY(pare_value_load(a, &v, err));
        (*list)[(*n)++] = (struct pare_named){ v.name, v.t };
    }
    return 0;
}

static int write_state(const struct pare_model *m, const char *path, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_named *list;
    int n, rc;

    rc = a ? pare_model_state(m, a, &list, &n, err) : pare_no_memory(err, "to write the results");
    if (!rc)
        rc = pare_tensor_file_write(path, list, n, err);
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
        PARE_TRY(onnx ? write_onnx(c, e->model, e, err) : write_state(c->model, e->model, err));
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
