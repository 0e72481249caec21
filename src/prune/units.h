/* units.h - weights cut into units that are kept or removed as a whole.
 *
 * struct pare_units (pare/pruner.h) is the general form: a block size for each axis.  What a config
 * calls granularity becomes one of these.
 */
#ifndef PARE_PRUNE_UNITS_H
#define PARE_PRUNE_UNITS_H

#include <pare/plugin.h>

/* How a config names units.  block: sizes along the last axes (those before count 1; -1 or 0: the
 * whole axis); heads: how many heads the output channels are divided into; parts: so many lists of
 * heads side by side, such as those of queries, keys and values: a head is what has its number in
 * all of them. */
struct pare_grain {
    const char *name; /* element, block, block_4x1, block_8x1, out_channel, in_channel, head */
    struct pare_ints block;
    int64_t heads, parts;  /* parts 0: 1 */
    int out_axis, in_axis; /* of the weight; -1: none */
};

/* Every block must divide its axis. */
int pare_units_make(const struct pare_tensor *weight, const struct pare_grain *g,
                    struct pare_units *u, struct pare_err *err);

int64_t pare_units_size(const struct pare_units *u); /* elements of a unit */
bool pare_units_single(const struct pare_units *u);  /* every unit is one element */

/* mask[element] = keep[its unit]. */
void pare_units_expand(const struct pare_units *u, const uint8_t *keep, uint8_t *mask);

/* keep[unit] = 1 when any of its elements is 1 in the mask. */
void pare_units_shrink(const struct pare_units *u, const uint8_t *mask, uint8_t *keep);

#endif
