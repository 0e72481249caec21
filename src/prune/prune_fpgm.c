/* prune_fpgm.c - FPGM pruner: remove the channels nearest to the geometric median of all channels,
 * which the others can replace.  He et al., "Filter pruning via geometric median", 2019.
 *
 *     score of channel i = sum over channels j of |W_i - W_j|
 */
#include <pare/plugin.h>

#include "pairwise_distance.h"
#include "unit_walk.h"

/* Limit of the number of units: all pairs are compared, more would take hours. */
#define MOST 65536

static int check(const struct pare_layer *l, int64_t size, struct pare_err *err)
{
    const struct pare_units *u = pare_layer_units(l);

    if (size < 2 && pare_layer_weight(l)->rank > 1)
        return pare_fail(err, PARE_ECONFIG,
                         "layer '%s': fpgm compares channels or blocks, not single weights",
                         pare_layer_name(l));
    if (u->n > MOST)
        return pare_fail(
            err, PARE_ELIMIT,
            "layer '%s': fpgm compares all pairs of units, and %lld units exceed the limit of %d",
            pare_layer_name(l), (long long)u->n, MOST);
    return 0;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    const struct pare_tensor *w = pare_layer_weight(l);
    const struct pare_units *u = pare_layer_units(l);
    struct pare_arena *a = pare_compression_scratch(r);
    int64_t size = u->n ? pare_numel(w) / u->n : 0;
    double *sum;
    float *x;

    PARE_TRY(check(l, size, err));
    sum = pare_alloc_raw(a, (size_t)u->n, sizeof(*sum));
    x = pare_alloc_raw(a, (size_t)pare_numel(w), sizeof(*x));
    if (!sum || !x)
        return pare_no_memory(err, "for the channels of layer '%s'", pare_layer_name(l));
    PARE_TRY(pare_units_gather(u, pare_f32(w), x, a, err));
    PARE_TRY(pare_pairwise_distances(x, u->n, size, sum, a, err));
    for (int64_t i = 0; i < u->n; i++)
        s[i] = (float)sum[i];
    return 0;
}

const struct pare_algorithm pare_pruner_fpgm = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "fpgm",
    .doc = "Remove the channels nearest to the geometric median of all channels.",
    .flags = PARE_ONE_SHOT,
    .types = "Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d|Linear|"
             "recurrent",
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .score = score,
        },
};
