/* quantize_group.c - group quantizer: weight-only quantization to few bits, without data.
 *
 * Linear layers get one scale per `group_size` inputs of each output, all other layers one per
 * channel. With range mse the range of each group is clipped to the least squared error.
 */
#include <stddef.h>
#include <string.h>

#include "group_scales.h"
#include "weight_rounding.h"

struct opts {
    int64_t group_size;
    const char *range;
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
    PARE_CHOICE("range", offsetof(struct opts, range),
                "minmax: the whole range; mse: the range with the least squared error; "
                "auto: mse up to 4 bits", "auto", "auto|minmax|mse"),
    PARE_ROUNDING_OPTIONS(opts, rounding, "nearest"),
    PARE_OPT_END
};

static const struct pare_opt keys[] = {
    PARE_INT("group_size", offsetof(struct conf, group_size),
             "inputs of a linear layer per scale (0: all; -1: the option of the same name)",
             -1, -1, 1e9),
    PARE_OPT_END
};
/* clang-format on */

static int64_t group_size(const struct pare_layer *l, const struct pare_quant *q)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    const struct conf *c = pare_layer_conf(l);

    return pare_group_size(l, q, c && c->group_size >= 0 ? c->group_size : o->group_size);
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);
    bool done;

    if (!q)
        return pare_fail(err, PARE_ECONFIG, "it has no quantization settings");
    PARE_TRY(pare_groups_keep(l, group_size(l, q), err));
    PARE_TRY(pare_rounded_weight(l, x, y, &done, err));
    if (done)
        return 0;
    return pare_weight_by_groups(l,
                                 strcmp(o->range, "auto") ? !strcmp(o->range, "mse") : q->bits <= 4,
                                 x, y, err);
}

static int start(struct pare_compression *c, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(c);

    for (int i = 0; i < pare_compression_layers(c); i++) {
        struct pare_layer *l = pare_compression_layer(c, i);
        const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);

        if (q)
            PARE_TRY(pare_groups_keep(l, group_size(l, q), err));
    }
    return pare_round_weights(c, &o->rounding, err);
}

const struct pare_algorithm pare_quantizer_group = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "group",
    .doc = "Quantize weights only, without data: 2 to 8 bits, one scale per group of inputs.",
    .keys = keys,
    .conf_size = sizeof(struct conf),
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
