/* padded_mean.h - an average over a padded input, as exporters write it. */
#ifndef PARE_BACKEND_FUSE_PADDED_MEAN_H
#define PARE_BACKEND_FUSE_PADDED_MEAN_H

#include "../backend.h"

#include "../../op/nn/window.h"

/* n is a Pad with zeros and behind it, and nothing else, is an AveragePool without padding: that
 * node, and the window over three axes of n's input, in which padding counts like data.  Else
 * NULL. */
struct pare_node *pare_padded_mean(const struct pare_match *v, struct pare_node *n,
                                   struct pare_window *w);

#endif
