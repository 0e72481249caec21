/* rounding_choice.h - choose how weights are rounded by the model's outputs on held-out items: the
 * nearest levels, or a method toward the float model or toward each layer's own outputs.
 */
#ifndef PARE_QUANT_ROUNDING_CHOICE_H
#define PARE_QUANT_ROUNDING_CHOICE_H

#include "../../compress/compression.h"
#include "rounding.h"

/* Round all layers with the first `items` items. */
typedef int pare_round_all_fn(void *user, const struct pare_rounding_method *method,
                              bool toward_float, int64_t items, struct pare_err *err);

struct pare_rounding_choice {
    struct pare_compression *c;      /* nothing is rounded yet */
    const struct pare_model *dense;  /* the float model */
    struct pare_layer *const *layer; /* (n) that are rounded */
    int n;
    const struct pare_rounding_method *method;
    int64_t items; /* that a fit may use, at most */
    pare_round_all_fn *round;
    void *user;
};

/* Leaves the best in the layers' buffers and biases, and says so in c->quant->rounded.  A method
 * that learns is tried toward what was better with gptq, and competes with that. */
int pare_rounding_choose(struct pare_rounding_choice *choice, struct pare_err *err);

#endif
