/* attention_mask.h - the mask of attention: Add or Where between scores and Softmax. */
#ifndef PARE_BACKEND_ROWS_ATTENTION_MASK_H
#define PARE_BACKEND_ROWS_ATTENTION_MASK_H

#include "../../op/matrix/attention_parts.h"
#include "../fuse/view_trace.h"

/* Element (t, s) of matrix i is at place[i] + t * step + s * element_stride. */
struct pare_attention_mask {
    enum pare_mask_kind kind;
    float fill;
    int64_t *place, step, element_stride;
};

/* Set the strides of a mask that broadcasts to the scores, as the node that masks has them; false:
 * it has none. */
bool pare_attention_mask_read(const struct pare_view_trace *from, const struct pare_tensor *mask,
                              const struct pare_tensor *scores, struct pare_arena *a,
                              struct pare_attention_mask *m);

/* x = mask of (scale * x), for row t of matrix i; `data`: the mask's. */
void pare_attention_mask_row(const struct pare_attention_mask *m, const void *data, int64_t i,
                             int64_t t, float *x, int64_t n, float scale);

#endif
