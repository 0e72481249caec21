/* prune_random.c - random pruner: the baseline for all other pruners. */
#include <pare/plugin.h>

static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    (void)err;
    for (int64_t i = 0; i < pare_layer_units(l)->n; i++)
        s[i] = (float)pare_rng_uniform(pare_compression_rng(r));
    return 0;
}

const struct pare_algorithm pare_pruner_random = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "random",
    .doc = "Remove units at random, as a baseline.",
    .flags = PARE_ONE_SHOT,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .score = score,
        },
};
