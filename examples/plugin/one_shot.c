/* one_shot.c - plugin: a pruner that removes the weights with the smallest magnitude once. */
#include <math.h>

#include <pare/plugin.h>

/* State of one layer: zeroed at the start, saved in checkpoints. */
struct state {
    bool is_masked;
};

/* Masks the k smallest weights, the first ones of those that are equal. */
static int mask_small(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    const struct pare_tensor *w = pare_layer_weight(l);
    int64_t n = pare_numel(w), k = (int64_t)((double)n * pare_layer_sparsity(l));
    float *size = pare_alloc(pare_compression_scratch(r), (size_t)n, sizeof(*size));

    if (!size)
        return pare_fail(err, PARE_ENOMEM, "no memory to rank %lld weights", (long long)n);
    for (int64_t i = 0; i < n; i++)
        size[i] = fabsf(pare_f32(w)[i]);
    return pare_keep_largest(r, size, n, k, pare_layer_mask(l)->data, err);
}

/* Called after every optimizer step. */
static int calc_mask(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct state *s = pare_layer_state(l);

    if (s->is_masked)
        return PARE_NOT_YET; /* keep the mask */
    s->is_masked = true;
    return mask_small(r, l, err);
}

static const struct pare_algorithm one_shot = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "one_shot",
    .doc = "Remove the weights with the smallest magnitude, once.",
    .layer_size = sizeof(struct state),
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .calc_mask = calc_mask,
        },
};

int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_pruner(g, &one_shot, err);
}
