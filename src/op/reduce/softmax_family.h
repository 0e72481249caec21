/* softmax_family.h - shared by Softmax, LogSoftmax and Hardmax.
 *
 * Before opset 13 the input is flattened to a matrix at `axis` and a lane is a row of it; from 13
 * on a lane runs along one axis.
 */
#ifndef PARE_OP_REDUCE_SOFTMAX_FAMILY_H
#define PARE_OP_REDUCE_SOFTMAX_FAMILY_H

#include "../matrix/matrix.h"

struct pare_softmax {
    int64_t axis;
};
extern const struct pare_opt pare_softmax_attrs[];

int pare_softmax_infer(struct pare_node *n, struct pare_err *err);

int pare_softmax_row_axis(const struct pare_node *n); /* row_axis() */

/* ties(): all axes except those of the lanes, whose sums would change. */
void pare_softmax_ties(const struct pare_node *n, struct pare_ties *t);

/* Call f for all lanes, as matrices (len, inner) whose columns are the lanes. */
void pare_softmax_each(const struct pare_node *n,
                       void (*f)(const float *x, float *y, int64_t len, int64_t inner));

/* backward(): call f for all lanes in the same way; it accumulates gx. */
int pare_softmax_backward(const struct pare_node *n,
                          void (*f)(const float *y, const float *gy, float *gx, int64_t len,
                                    int64_t inner));

enum { PARE_SOFTMAX_WIDTH = 16 }; /* columns processed in parallel */

#endif
