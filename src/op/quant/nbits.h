/* nbits.h - packed weights of MatMulNBits, for its plain and fast kernels. */
#ifndef PARE_OP_QUANT_NBITS_H
#define PARE_OP_QUANT_NBITS_H

#include "../op.h"

/* W[n][k] = scale[n][k / block] * (q[n][k] - zero[n][k / block]), q (N, blocks * block) unsigned,
 * of 8 bits or fewer. */
struct pare_nbits_attrs {
    int64_t K, N, bits, block, blocks;
};
struct pare_nbits_attrs pare_nbits_get(const struct pare_node *n);

/* Number i of a packed row; 4 bits: the first in the low half; 2 bits: in the low quarter. */
static inline int pare_nbits_at(const uint8_t *row, int bits, int64_t i)
{
    return bits == 8 ? row[i] : row[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
}

#endif
