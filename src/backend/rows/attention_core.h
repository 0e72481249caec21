/* attention_core.h - pack the matrices of attention; softmax of scores. */
#ifndef PARE_BACKEND_ROWS_ATTENTION_CORE_H
#define PARE_BACKEND_ROWS_ATTENTION_CORE_H

#include <stdint.h>

#define PARE_ATTENTION_NARROW \
    8 /* block of columns that are tokens: the last block has less padding */

/* Element (t, d) is at[t * step + d * element_stride]. */
struct pare_attention_head {
    const float *at;
    int64_t step, element_stride;
    int64_t T, D; /* D: a multiple of 8 */
};

/* Pack as the right operand of a product over T: panels (T, D) with blocks of 8 or 16. */
void pare_attention_pack(const struct pare_attention_head *x, int block, float *to);

/* Pack transposed, for a product whose columns are tokens: panels (D, T), T padded to NARROW with
 * zeros. */
void pare_attention_pack_transposed(const struct pare_attention_head *x, float *to);

/* Softmax of scale * x, in place. */
void pare_attention_softmax(float *x, int64_t n, float scale);

#endif
