/* round.c - Round: round to the nearest integer, halves to even. */
#include "elementwise.h"

PARE_MAP(rintf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, rint(x)))

const struct pare_op pare_op_round = {
    PARE_STEP_OP("Round", 11, "Round half to even."),
    .types = PARE_T_FLOATS,
};
