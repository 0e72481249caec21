/* quant_error.c - quantization error of each layer alone, at its output and at the model's
 * output. */
#include "quant_error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../data/data.h"
#include "../dist/dist.h"
#include "../onnx/model.h"
#include "../plan/plan.h"
#include "../tensor/tensor.h"
#include "layer_filter.h"
#include "../quant/channel_rows.h"
#include "../compress/method.h"
#include "../compress/wrap.h"

/* ---- a quantizer with min-max ranges --------------------------------------------------------- */

static int quantize_minmax(struct pare_layer *l, enum pare_quant_site site,
                           const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err)
{
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    PARE_TRY(pare_quant_point_fit(&p, x, err));
    pare_quant_apply(p.q, x, p.scale, p.zero, y);
    return 0;
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    return quantize_minmax(l, PARE_WEIGHT, x, y, err);
}

static int input(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                 struct pare_err *err)
{
    return quantize_minmax(l, PARE_INPUT, x, y, err);
}

static const struct pare_algorithm probing = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "analysis",
    .doc = "Quantize with the min-max range of each tensor.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .input = input,
        },
};

/* ---- comparing ------------------------------------------------------------------------------- */

/* x is the reference, y the quantized tensor; of another shape (other objects were found): nothing
 * can be compared. */
static void compare(const struct pare_tensor *x, const struct pare_tensor *y, double *db,
                    double *cosine)
{
    const float *a = pare_f32(x), *b = pare_f32(y);
    double aa = 0, bb = 0, ab = 0, noise = 0;

    *db = *cosine = NAN;
    if (!pare_same_shape(x, y) || !pare_numel(x))
        return;
    for (int64_t i = 0, n = pare_numel(x); i < n; i++) {
        double u = (double)a[i], v = (double)b[i];

        aa += u * u;
        bb += v * v;
        ab += u * v;
        noise += (u - v) * (u - v);
    }
    *db = noise > 0 ? 10 * log10(aa / noise) : INFINITY;
    *cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb ? 1 : 0;
}

/* ---- setup ----------------------------------------------------------------------------------- */

static bool is_quantizable(const struct pare_layer_info *l)
{
    const struct pare_value *root = l->weight ? pare_value_root(l->weight) : NULL;

    return root && l->in && l->out && !l->shared && root->t.dtype == PARE_F32 && !root->maker &&
           pare_layer_is_product(l);
}

static int list_layers(struct pare_qerror *q, struct pare_err *err)
{
    struct pare_layer_info *list;
    struct pare_graph *g;
    int n, found = 0;

    PARE_TRY(pare_model_layers(q->copy, q->arena, &g, &list, &n, err));
    q->name = pare_alloc(q->arena, (size_t)n + 1, sizeof(*q->name));
    q->type = pare_alloc(q->arena, (size_t)n + 1, sizeof(*q->type));
    q->value = pare_alloc(q->arena, (size_t)n + 1, sizeof(*q->value));
    if (!q->name || !q->type || !q->value)
        return pare_no_memory(err, "for a quantization analysis");
    for (int i = 0; i < n; i++)
        if (is_quantizable(&list[i]))
            q->name[found++] = list[i].name;
    PARE_TRY(pare_layer_filter_check(&q->o.layers, q->name, found,
                                     "is a convolution or linear with float32 weights", err));
    for (int i = 0; i < n; i++)
        if (is_quantizable(&list[i]) && pare_layer_filter(&q->o.layers, list[i].name)) {
            q->name[q->n_layers] = list[i].name;
            q->type[q->n_layers] = list[i].torch;
            q->value[q->n_layers++] = list[i].out->name;
        }
    if (!q->n_layers)
        return pare_fail(err, PARE_ECONFIG,
                         "the model has no convolution or linear layer with float32 weights");
    return 0;
}

static int set_bits(struct pare_qerror *q, struct pare_err *err)
{
    static const int64_t usual[] = { 8, 4 };
    int n = q->o.bits.n ? q->o.bits.n : 2;

    q->bits = pare_alloc(q->arena, (size_t)n, sizeof(*q->bits));
    if (!q->bits)
        return pare_no_memory(err, "for a quantization analysis");
    memcpy(q->bits, q->o.bits.n ? q->o.bits.v : usual, (size_t)n * sizeof(*q->bits));
    q->n_bits = n;
    for (int i = 0; i < n; i++)
        if (q->bits[i] < 2 || q->bits[i] > 16)
            return pare_fail(err, PARE_ECONFIG, "the number of bits is %lld, expected 2 to 16",
                             (long long)q->bits[i]);
    return 0;
}

/* Runs the model once and keeps `n` values; the caller frees the plan. */
static int run_once(struct pare_qerror *q, const char *const *keep, int n, struct pare_plan **plan,
                    struct pare_tensor *out, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = q->o.threads, .in = q->o.in };
    struct pare_plan_build build = { .opts = &o, .observe = { keep, n } };
    struct pare_tensor all[PARE_DATA_OUTPUTS];

    if (q->copy->n_out > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_ELIMIT,
                         "the model has more than %d outputs, which an analysis does not support",
                         PARE_DATA_OUTPUTS);
    PARE_TRY(pare_plan_build(q->copy, &build, plan, err));
    PARE_TRY(pare_plan_execute(*plan, q->o.in, all, err));
    *out = all[0];
    if (out->dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "the model's first output is %s, expected float32",
                         pare_dtype_name(out->dtype));
    return 0;
}

static int copy_of(struct pare_qerror *q, const struct pare_tensor *from, struct pare_tensor *to,
                   struct pare_err *err)
{
    PARE_TRY(pare_tensor_new(q->arena, to, PARE_F32, from->rank, from->dim, err));
    memcpy(to->data, from->data, (size_t)pare_numel(from) * sizeof(float));
    return 0;
}

/* Records the reference outputs of the float model. */
static int run_reference(struct pare_qerror *q, struct pare_err *err)
{
    struct pare_plan *plan = NULL;
    struct pare_tensor end;
    int rc;

    q->out = pare_alloc(q->arena, (size_t)q->n_layers + 1, sizeof(*q->out));
    q->item = pare_alloc(q->arena, (size_t)q->n_layers * (size_t)q->n_bits, sizeof(*q->item));
    if (!q->out || !q->item)
        return pare_no_memory(err, "for a quantization analysis");
    rc = run_once(q, q->value, q->n_layers, &plan, &end, err);
    for (int i = 0; i < q->n_layers && !rc; i++)
        rc = copy_of(q, pare_plan_value(plan, i), &q->out[i], err);
    if (!rc)
        rc = copy_of(q, &end, &q->out[q->n_layers], err);
    pare_plan_free(plan);
    return rc;
}

static int init_qerror(struct pare_qerror *q, const struct pare_model *m, struct pare_err *err)
{
    void *bytes;
    size_t len;

    PARE_TRY(set_bits(q, err));
    q->registry = pare_registry_new(err);
    if (!q->registry)
        return err->code;
    PARE_TRY(pare_add_quantizer(q->registry, &probing, err));
    PARE_TRY(pare_model_pack(m, q->arena, &bytes, &len, err));
    PARE_TRY(pare_model_parse(bytes, len, NULL, &q->copy, err));
    PARE_TRY(list_layers(q, err));
    return run_reference(q, err);
}

int pare_qerror_new(const struct pare_model *m, const struct pare_qerror_opts *o,
                    struct pare_qerror **error, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_qerror *q = a ? pare_alloc(a, 1, sizeof(*q)) : NULL;
    int rc;

    *error = NULL;
    if (!q) {
        pare_arena_free(a);
        return pare_no_memory(err, "for a quantization analysis");
    }
    q->arena = a;
    q->o = *o;
    rc = init_qerror(q, m, err);
    if (rc)
        pare_qerror_free(q);
    else
        *error = q;
    return rc;
}

void pare_qerror_free(struct pare_qerror *q)
{
    if (!q)
        return;
    pare_registry_free(q->registry);
    pare_model_free(q->copy);
    pare_arena_free(q->arena);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int measure_item(struct pare_qerror *q, struct pare_compression *r, int item,
                        struct pare_err *err)
{
    int layer = item / q->n_bits, rc;
    struct pare_quant_error *to = &q->item[item];
    struct pare_plan *plan = NULL;
    struct pare_tensor end;
    double cosine;

    PARE_TRY(pare_compression_compress(r, err));
    compare(&r->layer[0].w, &r->layer[0].weight->t, &to->weight_db, &cosine);
    rc = run_once(q, &q->value[layer], 1, &plan, &end, err);
    if (!rc) {
        compare(&q->out[layer], pare_plan_value(plan, 0), &to->out_db, &to->out_cos);
        compare(&q->out[q->n_layers], &end, &to->end_db, &to->end_cos);
    }
    pare_plan_free(plan);
    return rc;
}

int pare_qerror_item(struct pare_qerror *q, int item, struct pare_err *err)
{
    const char *names[] = { q->name[item / q->n_bits], NULL };
    char keys[256];
    struct pare_rule rule = { .op_names = names, .keys = keys };
    struct pare_compression_opts ro = { .quantizer = probing.name,
                                        .registry = q->registry,
                                        .rule = &rule,
                                        .n_rules = 1,
                                        .threads = q->o.threads };
    struct pare_compression *r;
    int rc;

    snprintf(keys, sizeof(keys),
             "quant_bits=%lld quant_dtype.weight=int quant_scheme.weight=per_channel_symmetric "
             "quant_types=weight%s",
             (long long)q->bits[item % q->n_bits],
             q->o.weights ? ""
                          : ",input quant_dtype.input=uint quant_scheme.input=per_tensor_affine");
    PARE_TRY(pare_compression_open(&pare_method_quant, q->copy, &ro, NULL, &r, err));
    rc = measure_item(q, r, item, err);
    pare_compression_restore(r);
    pare_compression_free(r);
    return pare_at(err, rc, "layer '%s' with %lld bits", names[0],
                   (long long)q->bits[item % q->n_bits]);
}

static int measure_work_item(void *user, int64_t i, void *result, struct pare_err *err)
{
    struct pare_qerror *q = user;
    struct pare_progress p = { "analyze", i, (int64_t)q->n_layers * q->n_bits,
                               pare_now() - q->start };

    if (q->o.progress && !q->o.progress(q->o.user, &p))
        return pare_fail(err, PARE_ECANCEL, "the analysis was canceled");
    PARE_TRY(pare_qerror_item(q, (int)i, err));
    memcpy(result, &q->item[i], sizeof(*q->item));
    return 0;
}

int pare_qerror_run(struct pare_qerror *q, struct pare_err *err)
{
    struct pare_work w = { .n = (int64_t)q->n_layers * q->n_bits,
                           .size = sizeof(*q->item),
                           .fn = measure_work_item,
                           .user = q };

    q->start = pare_now();
    w.results = pare_alloc(q->arena, (size_t)w.n, w.size);
    if (!w.results)
        return pare_no_memory(err, "for a quantization analysis");
    PARE_TRY(pare_dist_work(q->o.dist, &w, err));
    memcpy(q->item, w.results, (size_t)w.n * w.size);
    return 0;
}
