/* quant_config.c - how sites of layers are quantized: from config keys to integer ranges. */
#include "quant_config.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../compress/wrap.h"
#include "../tensor/tensor.h"

#define AT(field) offsetof(struct pare_quant_conf, field)
#define BITS(name, field, help) PARE_INT(name, AT(field), help, 0, 1, 32)
#define DTYPE(name, field, def, help) PARE_CHOICE(name, AT(field), help, def, "int|uint")
#define SCHEME(name, field, def, help)      \
    PARE_CHOICE(name, AT(field), help, def, \
                "per_tensor_affine|per_tensor_symmetric|per_channel_affine|per_channel_symmetric")

const struct pare_opt pare_quant_keys[] = {
    PARE_TEXTS("quant_types", AT(types), NULL, "quantization points: weight, input, output"),
    BITS("quant_bits", bits, "number of bits, or an object with bits per quantization point"),
    BITS("quant_bits.weight", bits_of[PARE_WEIGHT], "bits of the weight"),
    BITS("quant_bits.input", bits_of[PARE_INPUT], "bits of the input"),
    BITS("quant_bits.output", bits_of[PARE_OUTPUT], "bits of the output"),
    DTYPE("quant_dtype", dtype, NULL, "signed (int) or unsigned (uint) integers"),
    DTYPE("quant_dtype.weight", dtype_of[PARE_WEIGHT], NULL, "integer type of the weight"),
    DTYPE("quant_dtype.input", dtype_of[PARE_INPUT], NULL, "integer type of the input"),
    DTYPE("quant_dtype.output", dtype_of[PARE_OUTPUT], NULL, "integer type of the output"),
    SCHEME("quant_scheme", scheme, NULL,
           "one scale or one per channel; symmetric around 0 or with a zero point (affine)"),
    SCHEME("quant_scheme.weight", scheme_of[PARE_WEIGHT], NULL, "scheme of the weight"),
    SCHEME("quant_scheme.input", scheme_of[PARE_INPUT], NULL, "scheme of the input"),
    SCHEME("quant_scheme.output", scheme_of[PARE_OUTPUT], NULL, "scheme of the output"),
    PARE_INT("quant_start_step", AT(start_step), "first training step with quantized values", 0, 0,
             1e15),
    PARE_OPT_END
};

static const char *const site_names[PARE_QUANT_SITES] = { "weight", "input", "output" };

const char *pare_quant_site_name(enum pare_quant_site site)
{
    return site_names[site];
}

/* ---- from keys to ranges ------------------------------------------------------------------- */

/* The integers of N bits.  Like NNI, the signed range leaves out the smallest, so that it is
 * symmetric. */
static void set_range(struct pare_quant *q)
{
    int64_t half = (int64_t)1 << (q->bits - 1);

    q->qmin = q->has_sign ? -half + 1 : 0;
    q->qmax = q->has_sign ? half - 1 : 2 * half - 1;
    if (q->has_sign && q->bits == 1)
        q->qmin = -1, q->qmax = 1;
}

void pare_quant_set_bits(struct pare_quant *q, int bits)
{
    q->bits = bits;
    set_range(q);
}

static int find_site(const char *name, enum pare_quant_site *site, struct pare_err *err)
{
    for (int i = 0; i < PARE_QUANT_SITES; i++)
        if (!strcmp(name, site_names[i])) {
            *site = (enum pare_quant_site)i;
            return 0;
        }
    return pare_fail(err, PARE_ECONFIG,
                     "quant_types contains '%.64s', expected weight, input or output", name);
}

static int check_site(const struct pare_layer *l, enum pare_quant_site site, struct pare_err *err)
{
    const struct pare_quantizer *z = l->compression->quant->quantizer;
    pare_quantize_fn *const fn[PARE_QUANT_SITES] = { z->weight, z->input, z->output };

    if (!fn[site])
        return pare_fail(err, PARE_ECONFIG, "quantizer %s does not quantize the %s of a layer",
                         l->compression->algorithm[0]->name, site_names[site]);
    if (site == PARE_WEIGHT && !l->weight)
        return pare_fail(err, PARE_ECONFIG, "it is %s, which has no weight to quantize",
                         l->info.torch);
    if (site == PARE_INPUT && !l->info.in)
        return pare_fail(err, PARE_ECONFIG, "it has no float input to quantize");
    return 0;
}

static int set_bits(const struct pare_layer *l, const struct pare_quant_conf *c,
                    enum pare_quant_site site, struct pare_quant *q, struct pare_err *err)
{
    const struct pare_quantizer *z = l->compression->quant->quantizer;
    int64_t bits = c->bits_of[site] ? c->bits_of[site] : c->bits;
    int64_t min = z->min_bits ? z->min_bits : 1, max = z->max_bits ? z->max_bits : 16;

    if (!bits)
        return pare_fail(err, PARE_ECONFIG,
                         "quant_bits is missing for %s, which quant_types contains",
                         site_names[site]);
    if (bits < min || bits > max)
        return pare_fail(err, PARE_ECONFIG,
                         "quant_bits of %s is %lld, quantizer %s supports %lld to %lld",
                         site_names[site], (long long)bits, l->compression->algorithm[0]->name,
                         (long long)min, (long long)max);
    q->bits = (int)bits;
    return 0;
}

/* Without dtype and scheme: unsigned, per_tensor_affine, like NNI. */
static int set_scheme(const struct pare_layer *l, const struct pare_quant_conf *c,
                      enum pare_quant_site site, struct pare_quant *q, struct pare_err *err)
{
    const char *dtype = c->dtype_of[site] ? c->dtype_of[site] : c->dtype;
    const char *scheme = c->scheme_of[site] ? c->scheme_of[site] : c->scheme;

    q->has_sign = dtype && !strcmp(dtype, "int");
    q->symmetric = scheme && strstr(scheme, "symmetric");
    q->per_channel = scheme && !strncmp(scheme, "per_channel", 11);
    q->axis = -1;
    if (!q->per_channel)
        return 0;
    q->axis = site == PARE_WEIGHT ? l->out_axis : 1;
    if (site == PARE_WEIGHT && q->axis < 0 && l->info.node->op &&
        l->info.node->op->layer.scale_axis)
        q->axis = pare_scale_axis(l->info.weight, l->info.node->op->layer.scale_axis);
    if (q->axis < 0)
        return pare_fail(err, PARE_ECONFIG,
                         "its %s has no channels, so per_channel is not possible",
                         site_names[site]);
    return 0;
}

int pare_quant_make(struct pare_layer *l, const struct pare_quant_conf *c, struct pare_err *err)
{
    if (!c->types.n)
        return pare_fail(err, PARE_ECONFIG,
                         "quant_types is missing, expected a list of weight, input and output");
    l->quant->start_step = c->start_step;
    for (int i = 0; i < c->types.n; i++) {
        struct pare_quant *q;
        enum pare_quant_site site = PARE_WEIGHT;

        PARE_TRY(find_site(c->types.v[i], &site, err));
        if (l->info.body && site != PARE_WEIGHT) /* values of bodies are not observed */
            return pare_fail(err, PARE_ECONFIG,
                             "quant_types contains %s, but activations of layers inside bodies "
                             "stay float; use quant_types [\"weight\"] for layers in '%.64s'",
                             site_names[site], l->info.body);
        PARE_TRY(check_site(l, site, err));
        q = &l->quant->site[site];
        PARE_TRY(set_bits(l, c, site, q, err));
        PARE_TRY(set_scheme(l, c, site, q, err));
        set_range(q);
        q->threads = l->compression->threads > 0 ? l->compression->threads : omp_get_max_threads();
        l->quant->quantized[site] = true;
        l->quant->asked_bits[site] = q->bits;
    }
    return 0;
}

/* ---- <pare/quantizer.h> --------------------------------------------------------------- */

const struct pare_quant *pare_layer_quant(const struct pare_layer *l, enum pare_quant_site site)
{
    return l->quant->quantized[site] ? &l->quant->site[site] : NULL;
}

int64_t pare_layer_start_step(const struct pare_layer *l)
{
    return l->quant->start_step;
}

bool pare_compression_is_training(const struct pare_compression *r)
{
    return r->quant->training;
}

static struct pare_tensor *site_buffer(struct pare_layer *l, enum pare_quant_site site,
                                       const char *what, int64_t n, struct pare_err *err)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", site_names[site], what);
    return pare_layer_buffer(l, name, PARE_F32, 1, &n, err);
}

struct pare_tensor *pare_layer_scale(struct pare_layer *l, enum pare_quant_site site, int64_t n,
                                     struct pare_err *err)
{
    PARE_ERR(err);
    return site_buffer(l, site, "scale", n, err);
}

struct pare_tensor *pare_layer_zero_point(struct pare_layer *l, enum pare_quant_site site,
                                          int64_t n, struct pare_err *err)
{
    PARE_ERR(err);
    return site_buffer(l, site, "zero_point", n, err);
}
