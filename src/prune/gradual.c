/* gradual.c - gradual pruning: raise the target sparsity while a base pruner computes the masks,
 * see gradual.h. */
#include "gradual.h"

#include <stddef.h>

#define KEY(field) offsetof(struct pare_gradual_keys, field)
#define OPT(field) offsetof(struct pare_gradual_opts, field)

/* clang-format off */
const struct pare_opt pare_gradual_keys[] = {
    PARE_FLOAT("initial_sparsity", KEY(initial_sparsity),
               "sparsity at start_epoch", 0, 0, 0.999999999),
    PARE_FLOAT("final_sparsity", KEY(final_sparsity),
               "sparsity before end_epoch (-1: the entry's sparsity)", -1, -1, 0.999999999),
    PARE_INT("start_epoch", KEY(start_epoch), "first epoch with masks", 0, 0, 1e9),
    PARE_INT("end_epoch", KEY(end_epoch),
             "epoch before which the final sparsity is reached (-1: start_epoch + total_iteration "
             "if final_sparsity is set, else unused)", -1, -1, 1e9),
    PARE_INT("frequency", KEY(frequency), "epochs between masks", 1, 1, 1e9),
    PARE_OPT_END
};

const struct pare_opt pare_gradual_opts[] = {
    PARE_INT("total_iteration", OPT(total_iteration),
             "iterations until the sparsity is reached", 10, 1, 1e6),
    PARE_INT("epochs_per_iteration", OPT(epochs_per_iteration),
             "training epochs in each iteration", 1, 1, 1e6),
    PARE_INT("interval_steps", OPT(interval_steps),
             "instead of iterations: training steps between masks (0: off)", 0, 0, 1e9),
    PARE_INT("total_times", OPT(total_times),
             "number of masks until the sparsity is reached, with interval_steps", 10, 1, 1e9),
    PARE_OPT_END
};
/* clang-format on */

static double goal(const struct pare_layer *l)
{
    const struct pare_gradual_keys *k = pare_layer_conf(l);

    return k->final_sparsity >= 0 ? k->final_sparsity : pare_layer_config_sparsity(l);
}

/* Returns true if the entry specifies epochs. */
static bool by_epochs(const struct pare_layer *l, struct pare_epochs *e)
{
    const struct pare_gradual_keys *k = pare_layer_conf(l);
    const struct pare_gradual_opts *o = pare_compression_conf(pare_layer_compression(l));
    int64_t end = k->end_epoch >= 0 ? k->end_epoch : k->start_epoch + o->total_iteration;

    *e = (struct pare_epochs){ k->initial_sparsity, goal(l), k->start_epoch, end, k->frequency };
    return k->final_sparsity >= 0 || k->end_epoch >= 0;
}

static int check(const struct pare_layer *l, struct pare_err *err)
{
    struct pare_epochs e;

    if (!by_epochs(l, &e))
        return 0;
    if (e.from > e.to)
        return pare_fail(err, PARE_ECONFIG,
                         "layer '%s': initial_sparsity %g is more than final_sparsity %g",
                         pare_layer_name(l), e.from, e.to);
    if (pare_sparsity_span(&e) <= 0)
        return pare_fail(
            err, PARE_ECONFIG,
            "layer '%s': start_epoch %lld, end_epoch %lld and frequency %lld allow only one mask; "
            "end_epoch must be at least %lld",
            pare_layer_name(l), (long long)e.start, (long long)e.end, (long long)e.every,
            (long long)e.start + e.every + 1);
    return 0;
}

int pare_gradual_start(struct pare_compression *r, struct pare_err *err)
{
    struct pare_gradual_run *s = pare_compression_state(r);

    s->first_step = pare_compression_steps(r);
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);

        PARE_TRY(check(l, err));
        pare_layer_aim(l, 0);
    }
    return 0;
}

int pare_gradual_on_epoch(struct pare_compression *r, int64_t epoch, pare_curve *curve,
                          struct pare_err *err)
{
    const struct pare_gradual_opts *o = pare_compression_conf(r);
    struct pare_gradual_run *s = pare_compression_state(r);
    int64_t since;
    bool any = false;

    if (!s->first_epoch)
        s->first_epoch = epoch + 1;
    since = epoch + 1 - s->first_epoch;
    for (int i = 0; i < pare_compression_layers(r) && !o->interval_steps; i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        int64_t iteration = since / o->epochs_per_iteration;
        struct pare_epochs e;

        if (by_epochs(l, &e)) {
            if (!pare_sparsity_due(&e, epoch) || epoch > e.start + pare_sparsity_span(&e))
                continue;
            pare_layer_aim(l, pare_sparsity_epochs(&e, curve, epoch));
        } else {
            if (since % o->epochs_per_iteration || iteration > o->total_iteration)
                continue;
            pare_layer_aim(l, pare_sparsity_times(curve, goal(l), iteration, o->total_iteration));
        }
        any = true;
    }
    return any ? pare_compression_update_masks(r, err) : 0;
}

int pare_gradual_on_step(struct pare_compression *r, pare_curve *curve, struct pare_err *err)
{
    const struct pare_gradual_opts *o = pare_compression_conf(r);
    const struct pare_gradual_run *s = pare_compression_state(r);
    int64_t since = pare_compression_steps(r) - s->first_step;

    (void)err;
    if (!o->interval_steps || since % o->interval_steps ||
        since / o->interval_steps > o->total_times)
        return 0;
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);

        pare_layer_aim(l, pare_sparsity_times(curve, goal(l), since / o->interval_steps,
                                              o->total_times));
    }
    return 0;
}

int pare_gradual_length(struct pare_compression *r, int64_t *epochs, int64_t *steps,
                        struct pare_err *err)
{
    const struct pare_gradual_opts *o = pare_compression_conf(r);

    (void)err;
    *epochs = *steps = 0;
    if (o->interval_steps) {
        *steps = o->interval_steps * o->total_times;
        return 0;
    }
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_epochs e;
        int64_t n = by_epochs(pare_compression_layer(r, i), &e)
                        ? e.end
                        : (o->total_iteration + 1) * o->epochs_per_iteration;

        *epochs = n > *epochs ? n : *epochs;
    }
    return 0;
}
