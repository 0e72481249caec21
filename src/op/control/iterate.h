/* iterate.h - repeated runs of a body: states, collected results, memory. */
#ifndef PARE_OP_CONTROL_ITERATE_H
#define PARE_OP_CONTROL_ITERATE_H

#include "../op.h"

/* At most this much is left of the limit of a node's results after an allocation has failed because
 * of it, even if that was in an arena of the iterations. */
#define PARE_ITERATE_EXHAUSTED 1

/* A body that runs several times.  Of its outputs, n_state are states, inputs of the next run, and
 * n_scan are collected. */
struct pare_iterate {
    struct pare_ctx *c; /* of the node */
    const struct pare_graph *body;
    struct pare_tensor *in, *out; /* of the next run, of the last one */
    int n_in, n_out;
    int state_in, state_out, n_state; /* index of the first state in in[] and in out[] */
    int scan_out, n_scan;             /* index of the first collected result in out[] */
    int64_t runs;                     /* number of runs so far */

    struct pare_arena *arena; /* results of runs */
    struct pare_arena *kept;  /* collected results */
    size_t most;              /* bytes of `arena` at which only the states are kept */
    size_t limit;             /* bytes that each of the two may take; 0: any number */
    struct pare_piece **first, **last;
};

/* Allocate the lists; in[] has to be filled.  pare_iterate_end() frees everything, also after an
 * error. */
int pare_iterate_start(struct pare_iterate *it, struct pare_err *err);
int pare_iterate_run(struct pare_iterate *it, struct pare_err *err);

/* Before each run: if much memory is in use, keep nothing of it->arena but the states. */
int pare_iterate_trim(struct pare_iterate *it, struct pare_err *err);
void pare_iterate_end(struct pare_iterate *it);

/* Stack the collected results k along a new axis, the last one first if `reverse`; the axis has
 * `size` elements, of which those beyond the number of runs are 0. */
struct pare_stack {
    int64_t axis, size;
    bool reverse;
};
int pare_iterate_stack(struct pare_iterate *it, int k, const struct pare_stack *s,
                       struct pare_tensor *y, struct pare_err *err);

/* Copy index i of axis `axis` of x. */
int pare_slice_copy(struct pare_arena *a, const struct pare_tensor *x, int axis, int64_t i,
                    struct pare_tensor *y, struct pare_err *err);

/* The shape of x without one axis, for body_input(); unknown if x is. */
void pare_slice_type(const struct pare_tensor *x, int64_t axis, struct pare_tensor *y);

#endif
