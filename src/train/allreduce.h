/* allreduce.h - one step of training in several processes: gradients are summed while they are made.
 *
 * Each process has its part of the batch.  Its loss, and so all gradients, are weighted by that
 * part, so that sums over the processes are means over the batch.  All gradients lie in one block,
 * in the order in which the way back makes them, cut into buckets; as soon as a bucket is whole
 * its sum is started, and goes on while the gradients of earlier layers are computed.
 */
#ifndef PARE_TRAIN_ALLREDUCE_H
#define PARE_TRAIN_ALLREDUCE_H

#include "../dist/dist.h"
#include "../plan/plan.h"
#include "optim.h"

struct pare_score;

struct pare_bucket {
    float *data;
    int64_t n;
    int params, left; /* parameters in it, and those without their gradient yet */
};

struct pare_allreduce {
    struct pare_dist *dist;
    const struct pare_plan *plan; /* of the batch at work */
    struct pare_bucket *bucket;
    int n_buckets, next; /* next: the first that was not started */
    int *of;             /* by parameter: its bucket */
    const struct pare_named *state;
    int n_state;
    float *mean;       /* running statistics, weighted; NULL: they are the same already */
    int64_t n_mean;    /* numbers in it */
    double numbers[5]; /* loss, items, right, right among five, who wants to stop */
    struct pare_err err;
};

/* The memory of all gradients: grad[i] gets param[i]'s shape.  Without processes (dist NULL) this
 * is all there is to do. */
struct pare_allreduce_opts {
    struct pare_dist *dist;
    bool synced; /* running statistics are the same in all processes */
    const struct pare_optim_param *param;
    struct pare_tensor *grad;
    int n_params;
    const struct pare_named *state;
    int n_state;
};
int pare_allreduce_init(struct pare_allreduce *g, const struct pare_allreduce_opts *o,
                        struct pare_arena *a, struct pare_err *err);

/* After the forward: sum the score and the running statistics.  `stop` is a vote. */
int pare_allreduce_begin(struct pare_allreduce *g, const struct pare_plan *p,
                         const struct pare_score *s, bool stop, struct pare_err *err);

/* The plan's on_back. */
void pare_allreduce_on_back(void *together, int step);

/* After the way back: all gradients, statistics and the score are those of the whole batch; *stop:
 * somebody voted for it. */
int pare_allreduce_end(struct pare_allreduce *g, struct pare_score *s, bool *stop,
                       struct pare_err *err);

#endif
