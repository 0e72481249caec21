/* half_precision.c - convert a model to float16 or bfloat16: weights, nodes, Cast at the borders.
 *
 * A value that both kinds of nodes read exists twice: under its own name in float32, and as
 * "<name>_half".  So graph inputs, outputs and subgraphs, which keep the names, stay float32.
 * Weights that only float32 nodes read are stored in half precision and a Cast makes them float32;
 * runtimes fold it when they load the file.
 */
#include "half_precision.h"

#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../onnx/edit.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "half_choose.h"

#define SMALL 64 /* weights with fewer elements that only float32 nodes read are not converted */

struct work {
    struct pare_half_scan s;
    struct pare_edit *e;
    const char **name; /* per value: the half-precision one; NULL: none */
    int *half_use, *float_use;
    bool *param;   /* per value: a trained input of a layer */
    bool *setting; /* per value: a setting of an operator, such as a bound of Clip */
};

static int no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "to convert a model");
}

static bool is_own(const struct work *w, const struct pare_value *v)
{
    return v && v->id < w->s.g->n_values && w->s.g->value[v->id] == v;
}

/* ---- uses ---------------------------------------------------------------------------------- */

static bool reads_half(const struct work *w, const struct pare_node *n, int k)
{
    return w->s.half[n->id] && pare_half_input(n, k);
}

/* Operators that read only the shape take either value. */
static bool reads_shape(const struct pare_node *n)
{
    return n->op && n->op->flags & PARE_OP_SHAPES;
}

static void count_node(struct work *w, const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];

        if (!is_own(w, v) || reads_shape(n))
            continue;
        w->half_use[v->id] += reads_half(w, n, k);
        w->float_use[v->id] += !reads_half(w, n, k);
        if (n->op && k < 32) {
            w->param[v->id] |= n->op->layer.params >> k & 1;
            w->setting[v->id] |= n->op->settings >> k & 1;
        }
    }
    for (int k = 0; k < n->n_cap; k++)
        if (is_own(w, n->cap[k])) {
            w->float_use[n->cap[k]->id]++;
            w->param[n->cap[k]->id] = true;
        }
}

static int count_uses(struct work *w, struct pare_err *err)
{
    size_t n = (size_t)w->s.g->n_values + 1;

    w->name = pare_alloc(w->s.a, n, sizeof(*w->name));
    w->half_use = pare_alloc(w->s.a, n, sizeof(*w->half_use));
    w->float_use = pare_alloc(w->s.a, n, sizeof(*w->float_use));
    w->param = pare_alloc(w->s.a, n, sizeof(*w->param));
    w->setting = pare_alloc(w->s.a, n, sizeof(*w->setting));
    if (!w->name || !w->half_use || !w->float_use || !w->param || !w->setting)
        return no_memory(err);
    for (int i = 0; i < w->s.g->n_nodes; i++)
        count_node(w, w->s.g->node[i]);
    for (int i = 0; i < w->s.g->n_out; i++)
        w->float_use[w->s.g->out[i]->id]++;
    return 0;
}

/* ---- values -------------------------------------------------------------------------------- */

static int insert_cast(struct work *w, const char *from, const char *to, enum pare_dtype type,
                       struct pare_err *err)
{
    struct pare_edit_node n = { .type = "Cast",
                                .in = { from },
                                .out = to,
                                .axis = -1,
                                .attr = { { "to", (int64_t)type } } };

    n.name = pare_edit_name(w->e, to, "_Cast");
    return n.name ? pare_edit_insert(w->e, &n, err) : no_memory(err);
}

static int new_name(struct work *w, const struct pare_value *v, struct pare_err *err)
{
    w->name[v->id] = pare_edit_name(w->e, v->name, "_half");
    return w->name[v->id] ? 0 : no_memory(err);
}

/* The limit of finite elements: half of the range where sums may follow, as with the -3.4e38 of
 * attention masks. */
static float limit(const struct work *w, const struct pare_value *v)
{
    if (w->s.h->type == PARE_BF16)
        return 3.3895314e38f;
    return w->setting[v->id] ? 65504 : 32752;
}

static int add_weight(struct work *w, const struct pare_value *v, bool over, struct pare_err *err)
{
    struct pare_arena *keep = pare_edit_arena(w->e);
    struct pare_value copy = *v;
    struct pare_mark mark = pare_mark(w->s.a);
    int64_t n = pare_numel(&v->t);
    struct pare_tensor t = v->t;
    float most = limit(w, v);

    PARE_TRY(pare_value_load(w->s.a, &copy, err));
    t.dtype = w->s.h->type;
    PARE_TRY(pare_tensor_alloc(keep, &t, err));
    for (int64_t i = 0; i < n; i++) {
        float x = pare_f32(&copy.t)[i];

        if (over && isfinite(x))
            x = x > most ? most : x < -most ? -most : x;
        ((uint16_t *)t.data)[i] = t.dtype == PARE_F16 ? pare_f32_to_f16(x) : pare_f32_to_bf16(x);
    }
    pare_rewind(w->s.a, mark);
    w->s.h->clamped += over;
    w->s.h->weights++;
    w->s.h->elements += n;
    return pare_edit_constant(w->e, w->name[v->id], &t, err);
}

static int convert_weight(struct work *w, struct pare_value *v, struct pare_err *err)
{
    bool half = w->half_use[v->id], wide = w->float_use[v->id];
    struct pare_half_loss loss = { 0 };

    if (!half && (!w->param[v->id] || pare_numel(&v->t) < SMALL))
        return 0;
    PARE_TRY(pare_half_loss(&w->s, v, &loss, err));
    if (!half && loss.over)
        return 0;
    PARE_TRY(new_name(w, v, err));
    PARE_TRY(add_weight(w, v, loss.over > 0, err));
    if (wide && half && (loss.over || pare_numel(&v->t) < SMALL))
        return 0; /* float32 nodes read the original */
    PARE_TRY(pare_edit_drop_constant(w->e, v->name, err));
    return wide ? insert_cast(w, w->name[v->id], v->name, PARE_F32, err) : 0;
}

/* The output of a half-precision node. */
static int convert_result(struct work *w, const struct pare_value *v, struct pare_err *err)
{
    PARE_TRY(new_name(w, v, err));
    PARE_TRY(pare_edit_rename(w->e, v->name, w->name[v->id], err));
    if (w->float_use[v->id])
        return insert_cast(w, w->name[v->id], v->name, PARE_F32, err);
    return pare_edit_forget_shape(w->e, v->name, err);
}

/* type(from, bound), for finite values beyond the range. */
static int insert_bound(struct work *w, const char *type, const char **from, float bound,
                        struct pare_err *err)
{
    struct pare_edit_node n = { .type = type, .in = { *from }, .axis = -1 };
    struct pare_tensor t = { .dtype = PARE_F32 };

    PARE_TRY(pare_tensor_alloc(pare_edit_arena(w->e), &t, err));
    *pare_f32_mut(&t) = bound;
    n.in[1] = pare_edit_name(w->e, *from, "_bound");
    n.out = *from = pare_edit_name(w->e, *from, "_bounded");
    if (!n.in[1] || !n.out)
        return no_memory(err);
    n.name = n.out;
    PARE_TRY(pare_edit_constant(w->e, n.in[1], &t, err));
    return pare_edit_insert(w->e, &n, err);
}

/* A float32 value that half-precision nodes read. */
static int convert_border(struct work *w, const struct pare_value *v, struct pare_err *err)
{
    const char *from = v->name;

    if (v->maker && w->s.big[v->maker->id]) {
        PARE_TRY(insert_bound(w, "Max", &from, -limit(w, v), err));
        PARE_TRY(insert_bound(w, "Min", &from, limit(w, v), err));
    }
    PARE_TRY(new_name(w, v, err));
    return insert_cast(w, from, w->name[v->id], w->s.h->type, err);
}

static int convert_values(struct work *w, struct pare_err *err)
{
    for (int i = 0; i < w->s.g->n_values; i++) {
        struct pare_value *v = w->s.g->value[i];

        if (!pare_half_is_float(v))
            continue;
        if (pare_half_is_weight(&w->s, v) && !(v->flags & PARE_V_INPUT)) {
            PARE_TRY(pare_at(err, convert_weight(w, v, err), "weight '%s'", v->name));
        } else if (v->maker && w->s.half[v->maker->id]) {
            PARE_TRY(convert_result(w, v, err));
        } else if (w->half_use[i]) {
            PARE_TRY(convert_border(w, v, err));
        }
    }
    return 0;
}

static int rewire(struct work *w, struct pare_err *err)
{
    for (int i = 0; i < w->s.g->n_nodes; i++) {
        const struct pare_node *n = w->s.g->node[i];

        for (int k = 0; k < n->n_in; k++) {
            const struct pare_value *v = n->in[k];
            const char *name = is_own(w, v) ? w->name[v->id] : NULL;
            bool shape = name && reads_shape(n) && !w->float_use[v->id] && v->maker;

            if (name && (reads_half(w, n, k) || shape))
                PARE_TRY(pare_edit_set_input(w->e, n, k, name, err));
        }
    }
    return 0;
}

/* ---- the model ----------------------------------------------------------------------------- */

static int convert(struct work *w, struct pare_err *err)
{
    PARE_TRY(pare_half_choose(&w->s, err));
    PARE_TRY(count_uses(w, err));
    PARE_TRY(pare_edit_new(w->s.m, &w->e, err));
    if (w->s.h->type == PARE_BF16)
        PARE_TRY(pare_edit_opset(w->e, 13, err));
    PARE_TRY(convert_values(w, err));
    PARE_TRY(rewire(w, err));
    if (!w->s.h->weights)
        return pare_fail(err, PARE_ECONFIG,
                         "the model has no float32 weight that %s can represent, so nothing would "
                         "change",
                         pare_dtype_name(w->s.h->type));
    return 0;
}

int pare_model_to_half(const struct pare_model *m, struct pare_half *h, struct pare_arena *a,
                       struct pare_model **out, struct pare_err *err)
{
    struct work w = { .s = { .m = m, .h = h, .a = a } };
    int rc = convert(&w, err);

    *out = NULL;
    if (rc)
        pare_edit_free(w.e);
    else
        rc = pare_edit_model(w.e, out, err);
    return rc;
}
