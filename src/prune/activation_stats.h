/* activation_stats.h - activation statistics per output channel, for the pruners apoz and
 * mean_rank.
 *
 * The statistics are taken of activation(output), because the activation that follows the layer in
 * the network is a separate node.
 */
#ifndef PARE_PRUNE_ACTIVATION_STATS_H
#define PARE_PRUNE_ACTIVATION_STATS_H

#include <pare/plugin.h>

typedef float pare_activation(float x);

/* Returns relu, relu6 or gelu; NULL: unknown name. */
pare_activation *pare_activation_find(const char *name);

/* sum[c] += act(x), and zeros[c] += 1 where act(x) is 0, for every x of channel c.  `axis` of x
 * holds the channels; sum and zeros have one element per channel. */
void pare_activation_stats_add(const struct pare_tensor *x, int axis, pare_activation *act,
                               double *sum, double *zeros);

/* ---- fields and callbacks of both pruners ---------------------------------------------------- */

struct pare_activation_stats_opts {
    int64_t training_steps, statistics_batch_num;
    const char *activation;
};
extern const struct pare_opt pare_activation_stats_opts[];

/* Per layer: observed batches, and channels of its output. */
struct pare_activation_stats_layer {
    int64_t batches, channels;
};

/* Per compression: `collecting`: a collector is attached; `seen`: it ran in the last forward pass;
 * `answered`: the step + 1 at which scores were last returned, 0: never. */
struct pare_activation_stats_run {
    int collector;
    bool collecting, seen;
    int64_t answered;
};

int pare_activation_stats_start(struct pare_compression *r, struct pare_err *err);
int pare_activation_stats_before_step(struct pare_compression *r, struct pare_err *err);
void pare_activation_stats_stop(struct pare_compression *r);

/* score[u] = mean over the channels c of unit u of value(sum[c], zeros[c], count); PARE_NOT_YET
 * until enough batches were observed. */
typedef double pare_activation_stats_value(double sum, double zeros, double count);
int pare_activation_stats_score(struct pare_compression *r, struct pare_layer *l,
                                pare_activation_stats_value *value, float *score,
                                struct pare_err *err);

#endif
