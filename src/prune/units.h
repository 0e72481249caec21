/* units.h - units of a weight: blocks of elements that are kept or removed as a whole.
 *
 * struct pare_units (pare/pruner.h) is the general form: a block size for each axis.  A config's
 * granularity is converted to it.
 */
#ifndef PARE_PRUNE_UNITS_H
#define PARE_PRUNE_UNITS_H

#include <pare/plugin.h>

/* A config's granularity.  gates: number of parts of the output axis that each have all output
 * channels (a recurrent layer's gates).  block: sizes along the last axes (1 along the others; -1
 * or 0: the whole axis).  heads: number of attention heads that the output channels are divided
 * into.  parts: number of such divisions in one fused layer, for example 3 for queries, keys and
 * values; a head then consists of its channels in all parts. */
struct pare_grain {
    const char *name; /* element, block, block_4x1, block_8x1, out_channel, in_channel, head */
    struct pare_ints block;
    int64_t heads, parts;  /* parts 0 means 1 */
    int64_t gates;         /* 0: the layer is not recurrent */
    int out_axis, in_axis; /* axes of the weight; -1: none */
};

/* Fails unless every block divides its axis. */
int pare_units_make(const struct pare_tensor *weight, const struct pare_grain *g,
                    struct pare_units *u, struct pare_err *err);

/* The unit of output channel i; -1: the units are not output channels or heads. */
int64_t pare_units_of_channel(const struct pare_units *u, const struct pare_tensor *weight,
                              int out_axis, int64_t i);

int64_t pare_units_size(const struct pare_units *u); /* elements per unit */
bool pare_units_single(const struct pare_units *u);  /* is every unit one element? */

/* mask[element] = keep[its unit]. */
void pare_units_expand(const struct pare_units *u, const uint8_t *keep, uint8_t *mask);

/* keep[unit] = 1 if any of its elements is 1 in the mask. */
void pare_units_shrink(const struct pare_units *u, const uint8_t *mask, uint8_t *keep);

#endif
