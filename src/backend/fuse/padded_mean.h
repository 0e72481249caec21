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

/* Is it a window of a few taps next to each other, which are combined one by one?  Others are
 * combined by axis (rows/pool_lines.c). */
static inline bool pare_small_pool(const struct pare_window *w)
{
    return w->kernel[0] == 1 && w->dilation[1] == 1 && w->dilation[2] == 1 && w->kernel[1] <= 3 &&
           w->kernel[2] <= 3;
}

#endif
