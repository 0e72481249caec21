/* blocked_filters.h - filters in blocks of channels, as convolutions read them.
 *
 * Row-major filters are (O, I, height, width).  In blocks they are (O / b, I / b, height, width,
 * b of I, b of O): a vector is one tap of b filters.  Only where O and I are multiples of b, so
 * that it is the same memory with its elements in another order, without padding.
 *
 * Training keeps parameters so while nobody looks at them (train/param_layout.h).
 */
#ifndef PARE_BACKEND_CONV_BLOCKED_FILTERS_H
#define PARE_BACKEND_CONV_BLOCKED_FILTERS_H

#include "../../tensor/tensor.h"

/* Can filters of this shape be in blocks? */
bool pare_filters_fit(const struct pare_tensor *w, int block);

/* From row-major to blocks or, `back`, from blocks; elements of `size` bytes, 1 or 4. */
struct pare_filters {
    const struct pare_tensor *shape;
    int block, threads;
    size_t size;
    bool back;
};
void pare_filters_convert(const struct pare_filters *f, const void *from, void *to);

#endif
