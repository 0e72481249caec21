/* padded_mean.h - match Pad followed by AveragePool. */
#ifndef PARE_BACKEND_FUSE_PADDED_MEAN_H
#define PARE_BACKEND_FUSE_PADDED_MEAN_H

#include "../backend.h"

#include "../../op/nn/window.h"

/* If n is a Pad with zeros whose only consumer is an AveragePool without padding: returns the
 * AveragePool and sets the window over three axes of n's input, in which padding counts like data.
 * Else NULL. */
struct pare_node *pare_padded_mean(const struct pare_match *v, struct pare_node *n,
                                   struct pare_window *w);

#endif
