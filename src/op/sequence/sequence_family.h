/* sequence_family.h - positions in sequences. */
#ifndef PARE_OP_SEQUENCE_SEQUENCE_FAMILY_H
#define PARE_OP_SEQUENCE_SEQUENCE_FAMILY_H

#include "../op.h"

/* The position that input i states, in [0, count); negative ones count from the end.  If the input
 * is absent, *at is unchanged. */
int pare_sequence_position(const struct pare_node *n, int i, int64_t count, int64_t *at,
                           struct pare_err *err);

#endif
