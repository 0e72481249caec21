/* constant_factor.h - match a product with a constant scalar, or a division by one. */
#ifndef PARE_OP_MATH_CONSTANT_FACTOR_H
#define PARE_OP_MATH_CONSTANT_FACTOR_H

#include "../operator.h"

/* The operand x of c x, x c or x / c with a constant float32 scalar c whose rank is at most x's;
 * *by is multiplied by c or 1 / c.  NULL: n is something else, or NULL. */
struct pare_value *pare_constant_factor(const struct pare_node *n, double *by);

#endif
