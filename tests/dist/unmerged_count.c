/* unmerged_count.c - faulty pruner whose processes disagree: it sums outputs in a buffer instead
 * of a pare_layer_statistic(), which would be merged. */
#include <pare/plugin.h>

static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *err)
{
    int64_t n = pare_layer_units(l)->n;
    struct pare_tensor *sum = pare_layer_buffer(l, "own", PARE_F32, 1, &n, err);

    (void)in, (void)user;
    for (int64_t i = 0; sum && i < pare_numel(out); i++)
        pare_f32_mut(sum)[i % n] += pare_f32(out)[i];
    return sum ? 0 : err->code;
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    int id;

    PARE_TRY(pare_add_collector(r, collect, NULL, &id, err));
    return pare_compression_forward(r, 2, err);
}

static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    int64_t n = pare_layer_units(l)->n;
    struct pare_tensor *sum = pare_layer_buffer(l, "own", PARE_F32, 1, &n, err);

    (void)r;
    for (int64_t i = 0; sum && i < n; i++)
        score[i] = pare_f32(sum)[i];
    return sum ? 0 : err->code;
}

static const struct pare_algorithm unmerged_count = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "unmerged_count",
    .doc = "Counts data without merging the counts of all processes.",
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA,
    .types = "Linear",
    .start = start,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .score = score,
        },
};

int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_pruner(g, &unmerged_count, err);
}
