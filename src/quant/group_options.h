/* group_options.h - what quantizers of weights in groups share: options, config keys, callbacks. */
#ifndef PARE_QUANT_GROUP_OPTIONS_H
#define PARE_QUANT_GROUP_OPTIONS_H

#include <stddef.h>

#include "rounding/weight_rounding.h"

/* The part of a quantizer's options that it names with PARE_GROUP_OPTIONS. */
struct pare_group_options {
    int64_t group_size;
    struct pare_rounding rounding;
};

/* clang-format off */
#define PARE_GROUP_OPTIONS(opts, field, usual)                                                  \
    PARE_INT("group_size", offsetof(struct opts, field.group_size),                             \
             "inputs of a linear layer per scale (0: all; -1: 64 up to 4 bits, else all)",      \
             -1, -1, 1e9),                                                                      \
    PARE_ROUNDING_OPTIONS(opts, field.rounding, usual)
/* clang-format on */

/* The algorithm's .keys and .conf_size. */
struct pare_group_conf {
    int64_t group_size;
};
extern const struct pare_opt pare_group_keys[];

/* Implements start(): sizes of groups, then rounding. */
int pare_group_start(struct pare_compression *c, const struct pare_group_options *o,
                     struct pare_err *err);

/* Implements weight(); mse: how ranges are chosen where the rounding decided nothing. */
int pare_group_weight(struct pare_layer *l, const struct pare_group_options *o, bool mse,
                      const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err);

#endif
