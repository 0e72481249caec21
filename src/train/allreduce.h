/* allreduce.h - sum the gradients of several processes during the backward pass.
 *
 * Each process has a part of the batch.  Its loss, and so its gradients, are weighted by the size
 * of the part, so that sums over the processes are means over the batch.  All gradients are in one
 * block of memory, in the order in which the backward pass completes them, divided into buckets.
 * The all-reduce of a bucket starts when its gradients are complete and overlaps with the rest of
 * the backward pass.
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
    int params, left; /* parameters, and those whose gradient is incomplete */
};

struct pare_allreduce {
    struct pare_dist *dist;
    const struct pare_plan *plan; /* of the current batch */
    struct pare_bucket *bucket;
    int n_buckets, next; /* next: the first bucket that has not been started */
    int *of;             /* by parameter: its bucket */
    const struct pare_named *state;
    int n_state;
    float *mean;       /* weighted running statistics; NULL: equal in all processes */
    int64_t n_mean;    /* elements of `mean` */
    double numbers[5]; /* loss, items, top-1 hits, top-5 hits, votes to stop */
    struct pare_err err;
};

/* Allocate all gradients: grad[i] gets param[i]'s shape.  dist NULL: do nothing else. */
struct pare_allreduce_opts {
    struct pare_dist *dist;
    bool synced; /* running statistics are equal in all processes */
    const struct pare_optim_param *param;
    struct pare_tensor *grad;
    int n_params;
    const struct pare_named *state;
    int n_state;
};
int pare_allreduce_init(struct pare_allreduce *g, const struct pare_allreduce_opts *o,
                        struct pare_arena *a, struct pare_err *err);

/* After the forward pass: start the sums of the score and of running statistics.  `stop` is a vote.
 */
int pare_allreduce_begin(struct pare_allreduce *g, const struct pare_plan *p,
                         const struct pare_score *s, bool stop, struct pare_err *err);

/* The plan's on_back. */
void pare_allreduce_on_back(void *allreduce, int step);

/* After the backward pass: wait until gradients, statistics and score are those of the whole batch;
 * *stop: some process voted for it. */
int pare_allreduce_end(struct pare_allreduce *g, struct pare_score *s, bool *stop,
                       struct pare_err *err);

#endif
