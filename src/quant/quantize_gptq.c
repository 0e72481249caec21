/* quantize_gptq.c - GPTQ quantizer: weight-only quantization to few bits, rounded so that the
 * outputs of each layer change least on the data (Frantar et al. 2022).
 *
 * Linear layers may have one scale per `group_size` inputs of each output; all else has one per
 * channel, or one.  Layers without a Gram matrix (grams.h) get the nearest levels.
 */
#include <stddef.h>

#include "group_scales.h"
#include "weight_rounding.h"

struct opts {
    int64_t group_size;
    struct pare_rounding rounding;
};

struct conf {
    int64_t group_size;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("group_size", offsetof(struct opts, group_size),
             "inputs of a linear layer per scale (0: all; -1: 64 up to 4 bits, else all)",
             -1, -1, 1e9),
    PARE_ROUNDING_OPTIONS(opts, rounding, "gptq"),
    PARE_OPT_END
};

static const struct pare_opt keys[] = {
    PARE_INT("group_size", offsetof(struct conf, group_size),
             "inputs of a linear layer per scale (0: all; -1: the option of the same name)",
             -1, -1, 1e9),
    PARE_OPT_END
};
/* clang-format on */

static int keep_group(struct pare_layer *l, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    const struct conf *c = pare_layer_conf(l);
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);

    return pare_groups_keep(
        l, pare_group_size(l, q, c && c->group_size >= 0 ? c->group_size : o->group_size), err);
}

static int start(struct pare_compression *c, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(c);

    for (int i = 0; i < pare_compression_layers(c); i++)
        if (pare_layer_quant(pare_compression_layer(c, i), PARE_WEIGHT))
            PARE_TRY(keep_group(pare_compression_layer(c, i), err));
    return pare_round_weights(c, &o->rounding, err);
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    bool done;

    if (!pare_layer_quant(l, PARE_WEIGHT))
        return pare_fail(err, PARE_ECONFIG, "it has no quantization settings");
    PARE_TRY(keep_group(l, err));
    PARE_TRY(pare_rounded_weight(l, x, y, &done, err));
    return done ? 0 : pare_weight_by_groups(l, true, x, y, err);
}

const struct pare_algorithm pare_quantizer_gptq = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "gptq",
    .doc = "Quantize weights to 2 to 8 bits so that the outputs of each layer change least on the "
           "data.",
    .keys = keys,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .flags = PARE_NEEDS_DATA,
    .start = start,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .min_bits = 2,
            .max_bits = 8,
        },
};
