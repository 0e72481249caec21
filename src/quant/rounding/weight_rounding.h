/* weight_rounding.h - rounding of weights by the statistics of their inputs, for quantizers.
 *
 * A quantizer calls pare_round_weights() at the end of its start(), and pare_rounded_weight() first
 * in its weight().  What was decided is kept as the difference between the levels and the nearest
 * ones, in the layer's buffer "weight_rounding": training that changes the weights later starts
 * from these levels.
 */
#ifndef PARE_QUANT_WEIGHT_ROUNDING_H
#define PARE_QUANT_WEIGHT_ROUNDING_H

#include "../quant_state.h"
#include "rounding.h"

/* The part of a quantizer's options that it names with PARE_ROUNDING_OPTIONS. */
struct pare_rounding {
    const char *how, *scales; /* names of methods */
    const char *toward;       /* auto, float, layer */
    int64_t items, passes, steps;
    double damping;
};

/* clang-format off */
#define PARE_ROUNDING_OPTIONS(opts, field, usual)                                               \
    PARE_CHOICE("rounding", offsetof(struct opts, field.how), pare_rounding_help, usual,        \
                PARE_ROUNDING_NAMES),                                                           \
    PARE_CHOICE("rounding_scales", offsetof(struct opts, field.scales),                         \
                "how gptq and adaround choose the scales of groups", "mse",                     \
                PARE_ROUNDING_SCALES),                                                          \
    PARE_CHOICE("rounding_toward", offsetof(struct opts, field.toward),                         \
                "float: toward the outputs of the float model, so that layers make up for the " \
                "errors of those before them; layer: toward what the float layer makes of the " \
                "inputs that it has; auto: what is best on items that are not used otherwise, " \
                "or the nearest levels if both are worse; methods without data: layer",         \
                "auto", "auto|float|layer"),                                                    \
    PARE_INT("rounding_items", offsetof(struct opts, field.items),                              \
             "number of items for rounding by the data", 1024, 1, 1e9),                         \
    PARE_INT("rounding_passes", offsetof(struct opts, field.passes),                            \
             "passes over these items: layers are rounded in order, in as many parts, each "    \
             "with the inputs that the rounded layers before it give", 24, 1, 1e6),             \
    PARE_INT("rounding_steps", offsetof(struct opts, field.steps),                              \
             "steps of learning per layer (0: 800 for adaround, 200 for autoround)", 0, 0,      \
             1e6),                                                                              \
    PARE_FLOAT("damping", offsetof(struct opts, field.damping),                                 \
               "part of the mean power of the inputs that is added to all (-1: 0.001 for "      \
               "convolutions, 0.01 for linear layers)", -1, -1, 1)
/* clang-format on */

/* Does the method need data? */
bool pare_rounding_needs_data(const struct pare_rounding *o);

/* Round the weights of all layers whose inputs have a Gram matrix; without data where the method
 * allows that.  Rounding nearest is left to the quantizer.  Sizes of groups are those that
 * pare_groups_keep() has stored. */
int pare_round_weights(struct pare_compression *c, const struct pare_rounding *o,
                       struct pare_err *err);

/* y = x rounded to the levels that were decided; *done false: none were for this layer. */
int pare_rounded_weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                        bool *done, struct pare_err *err);

/* Were levels decided for the layer?  Their distance from the weights is intended. */
bool pare_is_rounded(const struct pare_layer *l);

/* Forget what was decided for the layer. */
void pare_rounding_forget(struct pare_layer *l);

/* The buffers of what was decided; one of them, or NULL. */
#define PARE_ROUNDING_BUFFERS 4
extern const char *const pare_rounding_buffers[PARE_ROUNDING_BUFFERS];
struct pare_buffer *pare_rounding_find(const struct pare_layer *l, const char *name);

#endif
