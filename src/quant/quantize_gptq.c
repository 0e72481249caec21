/* quantize_gptq.c - GPTQ quantizer: weight-only quantization to few bits, rounded so that the
 * outputs of each layer change least on the data (Frantar et al. 2022).
 *
 * Linear layers may have one scale per `group_size` inputs of each output; all else has one per
 * channel, or one.  Layers without a Gram matrix (grams.h) get the nearest levels.
 */
#include "group_options.h"

struct opts {
    struct pare_group_options group;
};

static const struct pare_opt opts[] = { PARE_GROUP_OPTIONS(opts, group, "gptq"), PARE_OPT_END };

static int start(struct pare_compression *c, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(c);

    return pare_group_start(c, &o->group, err);
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));

    return pare_group_weight(l, &o->group, true, x, y, err);
}

const struct pare_algorithm pare_quantizer_gptq = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "gptq",
    .doc = "Quantize weights to 2 to 8 bits so that the outputs of each layer change least on the "
           "data.",
    .keys = pare_group_keys,
    .conf_size = sizeof(struct pare_group_conf),
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
