/* quantize_group.c - group quantizer: weight-only quantization to few bits, without data.
 *
 * Linear layers get one scale per `group_size` inputs of each output, all other layers one per
 * channel. With range mse the range of each group is clipped to the least squared error.
 */
#include <stddef.h>
#include <string.h>

#include "group_scales.h"
#include "mse_scales.h"
#include "channel_rows.h"

#define USUAL 64 /* default group size up to 4 bits */

struct opts {
    int64_t group_size;
    const char *range;
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
    int64_t size = c && c->group_size >= 0 ? c->group_size : o->group_size;

    if (pare_layer_weight(l)->rank != 2 || pare_layer_in_axis(l) < 0)
        return 0;
    return size < 0 ? (q->bits <= 4 ? USUAL : 0) : size;
}

static int quantize_groups(struct pare_layer *l, int64_t size, const struct pare_tensor *x,
                           struct pare_tensor *y, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);
    struct pare_group_fit f = { .mse = strcmp(o->range, "auto") ? !strcmp(o->range, "mse")
                                                                : q->bits <= 4 };
    struct pare_tensor *scale, *zero;
    struct pare_groups g;

    PARE_TRY(pare_groups(l, size, &g, err));
    pare_group_range(q, &f);
    scale = pare_layer_scale(l, PARE_WEIGHT, g.n, err);
    zero = scale ? pare_layer_zero_point(l, PARE_WEIGHT, g.n, err) : NULL;
    if (!zero)
        return err->code;
    pare_groups_round(&g, &f, x, pare_f32_mut(scale), pare_f32_mut(zero), y, true);
    return 0;
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    struct pare_quant_point p;
    int64_t size;
    bool mse;

    if (!pare_layer_quant(l, PARE_WEIGHT))
        return pare_fail(err, PARE_ECONFIG, "it has no quantization settings");
    size = group_size(l, pare_layer_quant(l, PARE_WEIGHT));
    PARE_TRY(pare_groups_keep(l, size, err));
    if (size > 0)
        return quantize_groups(l, size, x, y, err);
    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, x, &p, err));
    mse = strcmp(o->range, "auto") ? !strcmp(o->range, "mse") : p.q->bits <= 4;
    PARE_TRY(mse ? pare_quant_point_fit_mse(&p, x, err) : pare_quant_point_fit(&p, x, err));
    pare_quant_apply(p.q, x, p.scale, p.zero, y);
    return 0;
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
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .min_bits = 2,
            .max_bits = 8,
        },
};
