/* quantize_group.c - group quantizer: weight-only quantization to few bits, without data.
 *
 * Linear layers get one scale per `group_size` inputs of each output, all other layers one per
 * channel.  Scales and levels are chosen by a method of rounding/, by default the nearest levels of
 * ranges with the least squared error.
 */
#include <string.h>

#include "group_options.h"

struct opts {
    struct pare_group_options group;
    const char *range;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_GROUP_OPTIONS(opts, group, "nearest"),
    PARE_CHOICE("range", offsetof(struct opts, range),
                "for rounding nearest: minmax: the whole range; mse: the range with the least "
                "squared error; auto: mse up to 4 bits", "auto", "auto|minmax|mse"),
    PARE_OPT_END
};
/* clang-format on */

static int start(struct pare_compression *c, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(c);

    return pare_group_start(c, &o->group, err);
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);
    bool mse = strcmp(o->range, "auto") ? !strcmp(o->range, "mse") : q && q->bits <= 4;

    return pare_group_weight(l, &o->group, mse, x, y, err);
}

const struct pare_algorithm pare_quantizer_group = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "group",
    .doc = "Quantize weights only, without data: 2 to 8 bits, one scale per group of inputs.",
    .keys = pare_group_keys,
    .conf_size = sizeof(struct pare_group_conf),
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .start = start,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .min_bits = 2,
            .max_bits = 8,
        },
};
