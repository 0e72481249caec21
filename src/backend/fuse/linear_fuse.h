/* linear_fuse.h - match Gemm and MatMul with constant weights and bias.
 *
 *     Y (M, N) = X (M, K) W + b, where M is the product of all axes of X but the last.
 */
#ifndef PARE_BACKEND_FUSE_LINEAR_FUSE_H
#define PARE_BACKEND_FUSE_LINEAR_FUSE_H

#include "../backend.h"

struct pare_linear_fuse {
    int64_t M, N, K;
    bool tb; /* W is (N, K) */
    struct pare_value *w, *b;
    struct pare_node *add; /* the Add of the bias, or NULL */
    struct pare_value *out;
};

/* Is n a float32 product with constant weights? */
bool pare_linear_fuse_read(const struct pare_match *v, struct pare_node *n,
                           struct pare_linear_fuse *l);

#endif
