/* zoo.h - well-known networks with randomly initialized weights.
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
    int64_t least; /* minimum height and width of the input */
    bool scales;   /* its width can be scaled */

    /* Add all layers from the input to the class scores. */
    struct pare_flow (*build)(struct pare_net *n, struct pare_flow x);
};

extern const struct pare_network *const pare_networks[]; /* ends with NULL */

/* By name; the error names the closest one. */
int pare_find_network(const char *name, const struct pare_network **net, struct pare_err *err);

struct pare_network_opts {
    int64_t c, h, w; /* of the input */
    int64_t classes;
    uint64_t seed; /* of the weights */
    double width;  /* factor of the channels of hidden layers; 0: 1 */
};

/* Build a model with a dynamic batch dimension and PyTorch's weight initialization. */
int pare_network_make(const struct pare_network *net, const struct pare_network_opts *o,
                      struct pare_model **model, struct pare_err *err);

#endif
