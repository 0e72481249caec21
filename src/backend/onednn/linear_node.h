/* linear_node.h - Gemm and MatMul with constant weights: Y (M, N) = X (M, K) W + b.
 *
 * All axes of X but the last are taken together as M.
 */
#ifndef PARE_BACKEND_ONEDNN_LINEAR_NODE_H
#define PARE_BACKEND_ONEDNN_LINEAR_NODE_H

#include "../backend.h"

struct pare_linear_node {
    int64_t M, N, K;
    bool tb;                  /* W is (N, K) */
    struct pare_value *w, *b; /* b may be NULL */
    struct pare_node *add;    /* the Add behind it that brings b, or NULL */
    struct pare_value *out;
};

/* False when it is something else. */
bool pare_linear_node(const struct pare_view *v, const struct pare_node *n,
                      struct pare_linear_node *l);

#endif
