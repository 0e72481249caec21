/* floor.c - Floor: round down to an integer. */
#include "elementwise.h"

PARE_MAP(floorf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, floor(x)))

const struct pare_op pare_op_floor = {
    PARE_STEP_OP("Floor", 6, "Round down."),
    .types = PARE_T_FLOATS,
};
