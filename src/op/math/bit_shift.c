/* bit_shift.c - BitShift: y = a << b or a >> b, broadcast. */
#include "elementwise.h"

struct bit_shift {
    const char *direction;
};

static const struct pare_opt bit_shift_attrs[] = {
    { "direction", "LEFT: toward larger values, RIGHT: toward smaller ones", PARE_OPT_STR,
      offsetof(struct bit_shift, direction), 0, 0, 0, NULL, "LEFT|RIGHT", true, NULL },
    PARE_OPT_END
};

static bool left(const struct pare_node *n)
{
    return ((const struct bit_shift *)n->attr)->direction[0] == 'L';
}

/* A shift by 64 or more gives 0; C leaves it undefined. */
static uint64_t shifted(bool to_left, uint64_t a, uint64_t b)
{
    return b > 63 ? 0 : to_left ? a << b : a >> b;
}

#define LOOP(dtype, type) PARE_LOOP2(dtype, type, type, shifted(left(n), a, b))

PARE_BINARY(LOOP(PARE_U8, uint8_t) LOOP(PARE_U16, uint16_t) LOOP(PARE_U32, uint32_t)
                LOOP(PARE_U64, uint64_t))

const struct pare_op pare_op_bit_shift = {
    .type = "BitShift",
    .doc = "Shift bits left or right.",
    .since = 11,
    .in = "TT",
    .types = PARE_T(PARE_U8) | PARE_T(PARE_U16) | PARE_T(PARE_U32) | PARE_T(PARE_U64),
    .min_out = 1,
    .max_out = 1,
    .attrs = bit_shift_attrs,
    .attr_size = sizeof(struct bit_shift),
    .infer = pare_infer_broadcast,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
