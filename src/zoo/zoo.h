/* zoo.h - well-known networks, made from nothing with fresh weights.
 *
 * A network is src/zoo/<name>.c with a descriptor at the bottom and one line in networks.def.
 */
#ifndef PARE_ZOO_ZOO_H
#define PARE_ZOO_ZOO_H

#include <pare/pare.h>

struct pare_net;
struct pare_flow;

struct pare_network {
    const char *name, *doc;
    int64_t least; /* height and width that the input must have at least */
    bool scales;   /* it can be made thinner or wider */

    /* Everything between the input and the scores of the classes. */
    struct pare_flow (*build)(struct pare_net *n, struct pare_flow x);
};

extern const struct pare_network *const pare_networks[]; /* ends with NULL */

/* By name; an error that names the nearest one when there is none. */
int pare_find_network(const char *name, const struct pare_network **net, struct pare_err *err);

struct pare_network_opts {
    int64_t c, h, w; /* of the input */
    int64_t classes;
    uint64_t seed; /* of the weights */
    double width;  /* times the channels of the hidden layers; 0: 1 */
};

/* The network as a model whose batch is free, weights as PyTorch initialises them. */
int pare_network_make(const struct pare_network *net, const struct pare_network_opts *o,
                      struct pare_model **model, struct pare_err *err);

#endif
