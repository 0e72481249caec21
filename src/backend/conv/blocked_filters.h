/* blocked_filters.h - convert filters between row-major and channel-blocked layout.
 *
 * Row-major filters are (O, I, height, width).  Blocked filters are (O / b, I / b, height, width, b
 * of I, b of O), oneDNN's OIhw8i8o or OIhw16i16o: a vector is one tap of b filters.  O and I must
 * be multiples of b, so that blocks are full: the same memory with its elements in another
 * order.
 *
 * Training keeps parameters blocked between steps (train/param_layout.h).
 */
#ifndef PARE_BACKEND_CONV_BLOCKED_FILTERS_H
#define PARE_BACKEND_CONV_BLOCKED_FILTERS_H

#include "../../tensor/tensor.h"

/* Can filters of this shape be blocked? */
bool pare_filters_fit(const struct pare_tensor *w, int block);

/* Row-major to blocked or, with `to_row_major`, the inverse; elements of `size` bytes, 1 or 4. */
struct pare_filters {
    const struct pare_tensor *shape;
    int block, threads;
    size_t size;
    bool to_row_major;
};
void pare_filters_convert(const struct pare_filters *f, const void *from, void *to);

#endif
