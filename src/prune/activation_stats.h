/* activation_stats.h - how active the channels of a layer's output are; for apoz and mean_rank.
 *
 * Outputs are looked at through an activation: what follows the layer in the network, as the
 * setting says.
 */
#ifndef PARE_PRUNE_ACTIVATION_STATS_H
#define PARE_PRUNE_ACTIVATION_STATS_H

#include <pare/plugin.h>

typedef float pare_activation(float x);

/* relu, relu6 or gelu; NULL: none of them. */
pare_activation *pare_activation_find(const char *name);

/* sum[c] += act(x), and zeros[c] += 1 where act(x) is 0, for every x of channel c.  Channels are
 * an axis of x; sum and zeros have as many elements. */
void pare_activation_stats_add(const struct pare_tensor *x, int axis, pare_activation *act,
                               double *sum, double *zeros);

/* ---- what both pruners consist of ----------------------------------------------------------- */

struct pare_activation_stats_opts {
    int64_t training_steps, statistics_batch_num;
    const char *activation;
};
extern const struct pare_opt pare_activation_stats_opts[];

/* Of a layer: batches seen, and their channels. */
struct pare_activation_stats_layer {
    int64_t batches, channels;
};

/* Of the run: the collector while there is one, and whether it saw the last forward; when the last
 * answer was given, in steps and one more. */
struct pare_activation_stats_run {
    int collector;
    bool collecting, seen;
    int64_t answered;
};

int pare_activation_stats_start(struct pare_compression *r, struct pare_err *err);
int pare_activation_stats_before_step(struct pare_compression *r, struct pare_err *err);
void pare_activation_stats_stop(struct pare_compression *r);

/* score[u] = mean over the channels c of unit u of value(sum[c], zeros[c], count); PARE_NOT_YET
 * until enough was seen. */
typedef double pare_activation_stats_value(double sum, double zeros, double count);
int pare_activation_stats_score(struct pare_compression *r, struct pare_layer *l,
                                pare_activation_stats_value *value, float *score,
                                struct pare_err *err);

#endif
