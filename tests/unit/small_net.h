/* small_net.h - networks of a few nodes with random weights, one function each.
 *
 *     NETWORK(half)
 *     {
 *         return NODE("Gemm", NAMES(n->x, random_weight(n, INTS(8, 4))), NOTHING);
 *     }
 */
#ifndef PARE_TEST_SMALL_NET_H
#define PARE_TEST_SMALL_NET_H

#include "random_graph.h"

struct net {
    struct build b;
    struct pare_rng r;
    float scale;       /* of weights */
    const char *x, *t; /* inputs; NULL if the test has none */
};

static inline void net_begin(struct net *n, uint64_t seed, float scale)
{
    memset(n, 0, sizeof(*n));
    n->b.opset = 17;
    n->scale = scale;
    pare_rng_init(&n->r, seed);
}

static inline const char *random_weight(struct net *n, int rank, const int64_t *dim)
{
    struct pare_tensor w = build_tensor(PARE_F32, rank, dim);

    rg_fill(&n->r, &w, n->scale);
    return build_floats(&n->b, rank, dim, w.data);
}

/* NETWORK(name) defines such a function; NODE and LIST are used in its body. */
#define NODE(type, names, attrs) build_node(&n->b, type, names, attrs)
#define LIST(...) build_ints(&n->b, INTS(__VA_ARGS__))
#define NETWORK(name) static const char *name(struct net *n)

#endif
