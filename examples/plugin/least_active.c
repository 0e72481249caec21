/* least_active.c - plugin: a pruner that removes the least active output channels. */
#include <pare/plugin.h>

#define BATCHES 10 /* whose activations are summed */

struct state {
    int64_t seen; /* batches */
};

/* Called at every forward pass of every layer: sums the positive outputs; out is (N, C, H, W). */
static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *err)
{
    int64_t c = out->dim[1], area = out->dim[2] * out->dim[3];
    struct pare_tensor *sum = pare_layer_statistic(l, "activation", PARE_MERGE_SUM, PARE_F32, c,
                                                   err);

    (void)in, (void)user;
    if (!sum)
        return err->code;
    for (int64_t i = 0; i < pare_numel(out); i++)
        if (pare_f32(out)[i] > 0)
            pare_f32_mut(sum)[i / area % c] += pare_f32(out)[i];
    ((struct state *)pare_layer_state(l))->seen++;
    return 0;
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    return pare_add_collector(r, collect, NULL, pare_compression_state(r), err);
}

/* One score per output channel; the library removes the channels with the lowest scores. */
static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    int64_t n = pare_layer_units(l)->n;
    struct pare_tensor *sum = pare_layer_statistic(l, "activation", PARE_MERGE_SUM, PARE_F32, n,
                                                   err);

    (void)r;
    if (sum && ((struct state *)pare_layer_state(l))->seen < BATCHES)
        return PARE_NOT_YET; /* called again after the next step */
    for (int64_t i = 0; sum && i < n; i++)
        score[i] = pare_f32(sum)[i];
    return sum ? 0 : err->code;
}

static int on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    (void)step;
    return pare_compression_steps(r) == BATCHES
               ? pare_remove_collector(r, *(int *)pare_compression_state(r), err)
               : 0;
}

static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    (void)r, (void)epochs, (void)err;
    *steps = BATCHES;
    return 0;
}

static const struct pare_algorithm least_active = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "least_active",
    .doc = "Remove the output channels with the least mean activation.",
    .layer_size = sizeof(struct state),
    .state_size = sizeof(int), /* the collector id */
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA | PARE_NEEDS_STEPS,
    .types = "Conv2d",
    .start = start,
    .on_step = on_step,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .score = score,
        },
};

int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_pruner(g, &least_active, err);
}
