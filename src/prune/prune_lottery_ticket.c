/* prune_lottery_ticket.c - lottery ticket pruner: find a subnetwork that trains as well as the
 * whole network from the same initial weights.  Frankle and Carbin, "The lottery ticket
 * hypothesis", 2019.
 *
 * Repeat n times: train, remove a fraction of the remaining weights, rewind the others to their
 * initial values.
 *
 *     sparsity after round i = 1 - (1 - target)^(i / n)
 *
 * The learning rate's schedule starts again at each rewind and ends with the last round.  Ending it
 * in each round was worse in 9 of 9 runs (LeNet on digits; 80, 90 and 95 % removed; 0.3 to 23
 * points): masks of a network that was trained at lower rates are worse.
 *
 * The masks come from a base pruner, which should not need training steps of its own: the weights
 * are rewound as soon as the masks have been requested.
 */
#include <stddef.h>

#include <pare/plugin.h>

#include "sparsity_schedule.h"

struct keys {
    int64_t prune_iterations;
};

struct opts {
    int64_t prune_iterations, epochs_per_iteration;
    bool reset_weights;
};

struct state {
    int64_t first; /* first epoch + 1; 0: no epoch has begun */
    int64_t round; /* completed rounds */
};

/* clang-format off */
static const struct pare_opt keys[] = {
    PARE_INT("prune_iterations", offsetof(struct keys, prune_iterations),
             "rounds until the sparsity is reached (0: the option of the same name)", 0, 0, 1e6),
    PARE_OPT_END
};

static const struct pare_opt opts[] = {
    PARE_INT("prune_iterations", offsetof(struct opts, prune_iterations),
             "rounds until the sparsity is reached", 5, 1, 1e6),
    PARE_INT("epochs_per_iteration", offsetof(struct opts, epochs_per_iteration),
             "training epochs in each round", 1, 1, 1e6),
    PARE_FLAG("reset_weights", offsetof(struct opts, reset_weights),
              "rewind weights to their initial values after each round", 1),
    PARE_OPT_END
};
/* clang-format on */

static int64_t rounds(const struct pare_layer *l)
{
    const struct keys *k = pare_layer_conf(l);
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));

    return k->prune_iterations ? k->prune_iterations : o->prune_iterations;
}

static int64_t most_rounds(struct pare_compression *r)
{
    int64_t most = 0;

    for (int i = 0; i < pare_compression_layers(r); i++)
        if (rounds(pare_compression_layer(r, i)) > most)
            most = rounds(pare_compression_layer(r, i));
    return most;
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);

    for (int i = 0; i < pare_compression_layers(r); i++)
        pare_layer_aim(pare_compression_layer(r, i), 0);
    return o->reset_weights ? pare_compression_remember(r, err) : 0;
}

static int on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);
    int64_t since, round;

    if (!s->first)
        s->first = epoch + 1;
    since = epoch + 1 - s->first;
    round = since / o->epochs_per_iteration;
    if (since % o->epochs_per_iteration || round <= s->round || round > most_rounds(r))
        return 0;
    s->round = round;
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);

        if (round <= rounds(l))
            pare_layer_aim(l,
                           pare_sparsity_rounds(pare_layer_config_sparsity(l), round, rounds(l)));
    }
    PARE_TRY(pare_compression_update_masks(r, err));
    return o->reset_weights ? pare_compression_rewind(r, err) : 0;
}

/* One training per round, and a final one of the ticket itself. */
static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);

    (void)err;
    *epochs = (most_rounds(r) + 1) * o->epochs_per_iteration;
    *steps = 0;
    return 0;
}

const struct pare_algorithm pare_pruner_lottery_ticket = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "lottery_ticket",
    .doc = "Train, prune and rewind weights to their initial values, several times.",
    .keys = keys,
    .conf_size = sizeof(struct keys),
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .state_size = sizeof(struct state),
    .flags = PARE_USES_BASE | PARE_NEEDS_DATA | PARE_NEEDS_STEPS,
    .start = start,
    .on_epoch = on_epoch,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
        },
};
