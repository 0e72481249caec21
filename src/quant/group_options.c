/* group_options.c - what quantizers of weights in groups share: config keys, start(), weight(). */
#include "group_options.h"

#include "group_scales.h"

/* clang-format off */
const struct pare_opt pare_group_keys[] = {
    PARE_INT("group_size", offsetof(struct pare_group_conf, group_size),
             "inputs of a linear layer per scale (0: all; -1: the option of the same name)",
             -1, -1, 1e9),
    PARE_OPT_END
};
/* clang-format on */

static int keep_size(struct pare_layer *l, const struct pare_group_options *o, struct pare_err *err)
{
    const struct pare_group_conf *c = pare_layer_conf(l);
    int64_t size = c && c->group_size >= 0 ? c->group_size : o->group_size;

    return pare_groups_keep(l, pare_group_size(l, pare_layer_quant(l, PARE_WEIGHT), size), err);
}

int pare_group_start(struct pare_compression *c, const struct pare_group_options *o,
                     struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(c); i++)
        if (pare_layer_quant(pare_compression_layer(c, i), PARE_WEIGHT))
            PARE_TRY(keep_size(pare_compression_layer(c, i), o, err));
    return pare_round_weights(c, &o->rounding, err);
}

int pare_group_weight(struct pare_layer *l, const struct pare_group_options *o, bool mse,
                      const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err)
{
    bool done;

    if (!pare_layer_quant(l, PARE_WEIGHT))
        return pare_fail(err, PARE_ECONFIG, "it has no quantization settings");
    PARE_TRY(keep_size(l, o, err));
    PARE_TRY(pare_rounded_weight(l, x, y, &done, err));
    return done ? 0 : pare_weight_by_groups(l, mse, x, y, err);
}
