/* stepwise.c - plugin: a pruner that raises the sparsity at every epoch. */
#include <pare/plugin.h>

struct opts {
    int64_t steps;
};
static const struct pare_opt opts[] = {
    PARE_INT("steps", offsetof(struct opts, steps), "epochs until the final sparsity is reached", 3,
             1, 1000),
    PARE_OPT_END,
};

/* The target of epoch e of n is (e + 1) / n of the configured sparsity.  Masks are computed after
 * this function returns. */
static int on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    double fraction = epoch + 1 < o->steps ? (double)(epoch + 1) / (double)o->steps : 1;

    (void)err;
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);

        pare_layer_aim(l, fraction * pare_layer_config_sparsity(l));
    }
    return 0;
}

/* Nothing is removed before the first epoch. */
static int start(struct pare_compression *r, struct pare_err *err)
{
    return on_epoch(r, -1, err);
}

static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    (void)r, (void)err;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, score);
    return 0;
}

static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    (void)steps, (void)err;
    *epochs = ((const struct opts *)pare_compression_conf(r))->steps;
    return 0;
}

static const struct pare_algorithm stepwise = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "stepwise",
    .doc = "Remove more of the smallest weights at every epoch.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_STEPS,
    .start = start,
    .on_epoch = on_epoch,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .score = score,
        },
};

int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_pruner(g, &stepwise, err);
}
