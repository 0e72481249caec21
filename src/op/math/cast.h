/* cast.h - conversion of a tensor to another element type, text included. */
#ifndef PARE_OP_MATH_CAST_H
#define PARE_OP_MATH_CAST_H

#include "../op.h"

/* y's elements from x's, which has the same shape.  Text is taken from c->results. */
int pare_cast(const struct pare_tensor *y, const struct pare_tensor *x, struct pare_ctx *c,
              struct pare_err *err);

#endif
