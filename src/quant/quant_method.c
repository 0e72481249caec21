/* quant_method.c - quantization as a method: settings, sites, effective weights, hooks. */
#include "quant_method.h"

#include <string.h>

#include "../compress/method.h"
#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../tensor/tensor.h"
#include "../train/checkpoint.h"
#include "bias_correct.h"
#include "calibration_file.h"
#include "conv_bn_quant.h"
#include "equalize.h"
#include "export_qdq.h"
#include "quant_config.h"

#define QUANTIZER(name) extern const struct pare_algorithm pare_quantizer_##name;
#include "quantizers.def"
#undef QUANTIZER

const struct pare_algorithm *const pare_quantizers[] = {
#define QUANTIZER(name) &pare_quantizer_##name,
#include "quantizers.def"
#undef QUANTIZER
    NULL
};

#define AT(field) offsetof(struct pare_quant_settings, field)

const struct pare_opt pare_quant_options[] = {
    PARE_FLAG("equalize", AT(equalize),
              "equalize the weight ranges of consecutive layers first (cross-layer equalization)",
              0),
    PARE_FLAG("smooth", AT(smooth),
              "divide inputs of linear layers by scales per channel first, where that pays off, "
              "and multiply the weights by them (SmoothQuant)",
              0),
    PARE_FLAG("awq", AT(awq),
              "multiply weights of linear layers by scales per channel first, powers of the mean "
              "size of their inputs, so that those of large inputs are rounded better; layers or "
              "normalizations before them take the inverse, else a Mul (AWQ)",
              0),
    PARE_FLAG("bias_correction", AT(bias_correction),
              "correct biases for the mean output error of quantized weights; unless specified, "
              "only below 8 bits, with data and without training",
              1),
    PARE_INT("correction_steps", AT(correction_steps), "number of batches for bias_correction", 8,
             1, 1e6),
    PARE_OPT_END
};

/* ---- by name ------------------------------------------------------------------------------ */

int pare_find_quantizer(const struct pare_registry *g, const char *name,
                        const struct pare_algorithm **q, struct pare_err *err)
{
    return pare_find_algorithm(g, &pare_method_quant, name, q, err);
}

int pare_add_quantizer(struct pare_registry *g, const struct pare_algorithm *a,
                       struct pare_err *err)
{
    PARE_ERR(err);
    return pare_registry_add(g, &pare_method_quant, a, err);
}

static int check_quantizer(struct pare_registry *g, struct pare_algorithm *a, struct pare_err *err)
{
    const struct pare_quantizer *q = a->quantizer;

    if (q) {
        a->quantizer = q = pare_descriptor_copy(g, q, q->size, sizeof(*q), "pare_quantizer", err);
        if (!q)
            return err->code;
    }
    if (!q || (!q->weight && !q->input && !q->output))
        return pare_fail(err, PARE_ECONFIG, "quantizer '%s' has neither weight, input nor output",
                         a->name);
    return 0;
}

int pare_quantize_option_groups(struct pare_arena *a, const char *quantizer,
                                struct pare_option_group **group, int *n, struct pare_err *err)
{
    int all = 0;

    while (pare_quantizers[all])
        all++;
    *group = pare_alloc(a, (size_t)all + 1, sizeof(**group));
    if (!*group)
        return pare_no_memory(err, "for the options");
    (*group)[0] = (struct pare_option_group){ "quantization", NULL, pare_quant_options, NULL };
    *n = 1;
    for (int i = 0; i < all; i++) {
        const struct pare_algorithm *q = pare_quantizers[i];

        if (q->opts && (!quantizer || !strcmp(q->name, quantizer)))
            (*group)[(*n)++] = (struct pare_option_group){ "quantizer", q->name, q->opts, NULL };
    }
    return 0;
}

/* ---- layers ------------------------------------------------------------------------------- */

static int open_state(struct pare_compression *c, const struct pare_compression_opts *o,
                      const struct pare_given *g, int n, void **settings, struct pare_err *err)
{
    c->quant = pare_alloc(c->arena, 1, sizeof(*c->quant));
    if (!c->quant)
        return pare_no_memory(err, "for a compression");
    for (int i = 0; i < n; i++)
        c->quant->correction_given |= !strcmp(g[i].name, "bias_correction");
    *settings = &c->quant->settings;
    c->quant->keep_zeros = o->keep_zeros;
    PARE_TRY(pare_find_quantizer(o->registry, o->quantizer, &c->algorithm[0], err));
    c->quant->quantizer = c->algorithm[0]->quantizer;
    return 0;
}

/* Masks the weights that are 0 already, so that they stay 0. */
static int mask_zeros(struct pare_layer *l, struct pare_err *err)
{
    PARE_TRY(pare_mask_new(l->compression, &l->w, &l->mask, err));
    for (int64_t i = 0; i < pare_numel(&l->w); i++)
        ((uint8_t *)l->mask.data)[i] = pare_f32(&l->w)[i] != 0;
    return 0;
}

static int wrap_layer(struct pare_layer *l, const void *keys, struct pare_err *err)
{
    l->quant = pare_alloc(l->compression->arena, 1, sizeof(*l->quant));
    if (!l->quant)
        return pare_no_memory(err, "for the layers of a compression");
    if (l->weight && l->compression->quant->keep_zeros)
        PARE_TRY(mask_zeros(l, err));
    return pare_quant_make(l, keys, err);
}

static int wrap(struct pare_compression *c, const struct pare_config *config, struct pare_err *err)
{
    if (c->quant->settings.equalize) {
        PARE_TRY(pare_model_equalize(c->model, &c->quant->equalized, err));
        c->graph = NULL; /* its folded constants are those of the old weights */
    }
    PARE_TRY(pare_compression_wrap(c, config, err));
    c->quant->in_graph = true;
    PARE_TRY(pare_conv_bn_find(c, err));
    return pare_fake_quant_insert(c, err);
}

static void close_graph(struct pare_compression *c)
{
    if (!c->quant || !c->quant->in_graph)
        return;
    pare_fake_quant_remove(c);
    if (c->trainer)
        c->trainer->stale = true; /* its plans have fake-quant nodes */
}

/* ---- effective weights -------------------------------------------------------------------- */

/* Quantizes, then masks.  With a folded BatchNormalization pare_conv_bn_round() does both. */
static int write_weight(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *c = l->compression;
    struct pare_tensor out = l->weight->t;
    struct pare_call_scope s;
    int rc;

    if (!l->quant->quantized[PARE_WEIGHT])
        return pare_layer_write_masked(l, err);
    s = pare_call_begin(c, 0);
    rc = l->quant->norm          ? pare_conv_bn_round(l, err)
         : c->quant->calibration ? pare_calibrated(l, PARE_WEIGHT, &l->w, &out, err)
                                 : c->quant->quantizer->weight(l, &l->w, &out, err);
    pare_call_end(c, s);
    if (!rc && !l->quant->norm)
        pare_mask_apply(pare_f32(&out), l->mask.data, pare_f32_mut(&out), pare_numel(&out));
    return pare_at(err, rc, "weight of layer '%s'", l->info.name);
}

/* Below 8 bits rounding errors are large enough for their means to matter; a training learns the
 * biases itself. */
static bool corrects(const struct pare_compression *c)
{
    int bits = 8;

    if (c->quant->correction_given || !c->quant->settings.bias_correction)
        return c->quant->settings.bias_correction;
    for (int i = 0; i < c->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++)
            if (c->layer[i].quant->quantized[k] && c->layer[i].quant->site[k].bits < bits)
                bits = c->layer[i].quant->site[k].bits;
    return bits < 8 && c->data && !c->trainer;
}

int pare_quant_correct(struct pare_compression *c, struct pare_err *err)
{
    if (pare_compression_steps(c) == 0 && corrects(c))
        return pare_bias_correct(c, c->quant->settings.correction_steps, err);
    if (pare_compression_steps(c) == 0)
        pare_bias_restore(c, true); /* bits were raised since a correction */
    return pare_compression_write_weights(c, err);
}

/* ---- start -------------------------------------------------------------------------------- */

static int start(struct pare_compression *c, struct pare_err *err)
{
    if (c->quant->calibration && !c->trainer)
        c->started = true; /* the file has everything that calibration would find */
    else
        PARE_TRY(pare_compression_start(c, err));
    if (c->quant->calibration)
        PARE_TRY(pare_calibration_apply(c, err));
    return pare_quant_correct(c, err);
}

int pare_quant_restart(struct pare_compression *c, struct pare_err *err)
{
    bool *was = pare_alloc(c->arena, (size_t)c->n_layers, sizeof(*was));
    int rc;

    if (!was)
        return pare_no_memory(err, "for a compression");
    for (int i = 0; i < c->n_layers; i++) {
        was[i] = c->layer[i].quant->quantized[PARE_WEIGHT];
        c->layer[i].quant->quantized[PARE_WEIGHT] = false;
    }
    c->quant->twin = NULL;
    pare_bias_restore(c, false);
    rc = pare_compression_write_weights(c, err);
    for (int i = 0; i < c->n_layers; i++)
        c->layer[i].quant->quantized[PARE_WEIGHT] = was[i];
    return rc ? rc : pare_compression_on_start(c, err);
}

void pare_quant_measure_noise(struct pare_compression *c, bool on)
{
    c->quant->measure = on;
}

int pare_quant_merge_noise(struct pare_compression *c, struct pare_err *err)
{
    for (int i = 0; i < c->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++) {
            struct pare_noise *s = &c->layer[i].quant->noise[k];
            double v[] = { s->signal,      s->noise, s->inner_signal,
                           s->inner_noise, s->inner, s->nonzero };

            if (k == PARE_WEIGHT) /* the same in all processes */
                continue;
            PARE_TRY(pare_dist_merge(c->dist, PARE_MERGE_SUM, PARE_F64, v, 6, err));
            *s = (struct pare_noise){ v[0], v[1], v[2], v[3], v[4], v[5] };
        }
    return 0;
}

/* ---- training ----------------------------------------------------------------------------- */

static int after_backward(struct pare_compression *c, struct pare_err *err)
{
    PARE_TRY(pare_quant_merge_learned(c, err));
    PARE_TRY(pare_quant_weight_grads(c, err));
    return pare_compression_before_step(c, err);
}

/* The optimizer has updated the float weights; writes the quantized ones. */
static int after_step(struct pare_compression *c, int64_t step, struct pare_err *err)
{
    PARE_TRY(pare_quant_learn_step(c, err));
    PARE_TRY(pare_compression_on_step(c, step, err));
    for (int i = 0; i < c->n_layers; i++)
        if (c->layer[i].weight && c->layer[i].quant->quantized[PARE_WEIGHT])
            PARE_TRY(write_weight(&c->layer[i], err));
    return 0;
}

static bool reads_weights(const struct pare_compression *c)
{
    (void)c;
    return true;
}

/* learned/NAME: state of the optimizer of learned buffers, once there has been a step. */
static int checkpoint(struct pare_compression *c, const struct pare_checkpoint_pass *p,
                      struct pare_err *err)
{
    struct pare_tensor step = { .dtype = PARE_I64, .rank = 1, .dim = { 1 } };
    struct pare_quant_state *q = c->quant;
    struct pare_named *slot;
    int n;

    if (p->load && pare_checkpoint_find(p->load, "learned", "step") && q->learned && !q->optim)
        PARE_TRY(pare_quant_optim(c, err));
    if (!q->optim)
        return 0;
    step.data = &q->optim->step;
    PARE_TRY(pare_checkpoint_pass(p, "learned", "step", &step, err));
    PARE_TRY(pare_optim_state(q->optim, p->arena, &slot, &n, err));
    for (int i = 0; i < n; i++)
        PARE_TRY(pare_checkpoint_pass(p, "learned", slot[i].name, &slot[i].t, err));
    return 0;
}

const struct pare_method pare_method_quant = {
    .name = "quantizer",
    .group = "quantization",
    .settings = pare_quant_options,
    .keys = pare_quant_keys,
    .keys_size = sizeof(struct pare_quant_conf),
    .builtin = pare_quantizers,
    .all_layers = true,
    .paged = true,
    .check = check_quantizer,
    .open = open_state,
    .wrap = wrap,
    .wrap_layer = wrap_layer,
    .start = start,
    .write_weight = write_weight,
    .at_epoch = pare_compression_on_epoch,
    .after_backward = after_backward,
    .after_step = after_step,
    .reads_weights = reads_weights,
    .keep = pare_quant_keep,
    .checkpoint = checkpoint,
    .save_onnx = pare_qdq_save,
    .save_calibration = pare_calibration_write,
    .close = close_graph,
};
