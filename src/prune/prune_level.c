/* prune_level.c - level pruner: remove the weights with the smallest magnitude, in any position. */
#include <pare/plugin.h>

/* A unit of several weights is scored by the sum of their magnitudes. */
static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    (void)r;
    (void)err;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, s);
    return 0;
}

const struct pare_algorithm pare_pruner_level = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "level",
    .doc = "Remove the weights with the smallest magnitude.",
    .flags = PARE_ONE_SHOT | PARE_MAGNITUDE,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .score = score,
        },
};
