/* add.c - Add: y = a + b, broadcast. */
#include "elementwise.h"

/* In uint64: overflow wraps around, whatever the width. */
#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, (uint64_t)a + (uint64_t)b)

PARE_MAP2(a + b)
PARE_DMAP2(g, g)
PARE_BINARY(PARE_LOOP2(PARE_F64, double, double, a + b) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_add = {
    .type = "Add",
    .doc = "Elementwise sum.",
    .since = 6,
    .in = "TT",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_LINEAR | PARE_OP_INT8_JOIN,
    .qlinear_type = "QLinearAdd",
    .attrs = pare_old_broadcast_attrs,
    .attr_size = sizeof(struct pare_old_broadcast),
    .infer = pare_infer_arithmetic,
    .forward = forward,
    .backward = pare_backward_sum,
    .ties = pare_ties_elementwise,
    .map2 = map2,
    .dmap2 = dmap2,
};
