/* attention_core.h - pieces of attention: matrices (tokens, elements of a head) as columns of products, and
 * the softmax of scores.
 */
#ifndef PARE_BACKEND_ROWS_ATTENTION_CORE_H
#define PARE_BACKEND_ROWS_ATTENTION_CORE_H

#include <stdint.h>

#define PARE_ATTENTION_NARROW \
    8 /* the block for columns that are tokens: less of the last one is empty */

/* Element (t, d) is at[t * step + d * apart]. */
struct pare_attention_head {
    const float *at;
    int64_t step, apart;
    int64_t T, D; /* D: a multiple of 8 */
};

/* As the columns of a product over T: panels (T, D) with blocks of 8 or 16. */
void pare_attention_pack(const struct pare_attention_head *x, int block, float *to);

/* As the rows of a product whose columns are tokens: panels (D, T), T padded to NARROW by zeros. */
void pare_attention_pack_turned(const struct pare_attention_head *x, float *to);

/* Softmax of scale times a row, in place. */
void pare_attention_softmax(float *x, int64_t n, float scale);

#endif
