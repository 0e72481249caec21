/* linear_fuse.h - Gemm and MatMul with constant weights, and the bias behind them.
 *
 *     Y (M, N) = X (M, K) W + b, all axes of X but the last taken together as M.
 */
#ifndef PARE_BACKEND_FUSE_LINEAR_FUSE_H
#define PARE_BACKEND_FUSE_LINEAR_FUSE_H

#include "../backend.h"

struct pare_linear_fuse {
    int64_t M, N, K;
    bool tb; /* W is (N, K) */
    struct pare_value *w, *b;
    struct pare_node *add; /* an Add that is the bias, or NULL */
    struct pare_value *out;
};

/* Is n such a product of float32? */
bool pare_linear_fuse_read(const struct pare_match *v, struct pare_node *n,
                           struct pare_linear_fuse *l);

#endif
