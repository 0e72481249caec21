/* row_sums.h - weighted sums of rows: products with a matrix that is mostly zeros.
 *
 * The columns of a sum stay in registers while its rows are added, so only nonzero elements cost
 * time; for a full matrix it is about as fast as a dense product.
 */
#ifndef PARE_BACKEND_SPARSE_ROW_SUMS_H
#define PARE_BACKEND_SPARSE_ROW_SUMS_H

#include <stdint.h>

/* by * the row at rows + at. */
struct pare_term {
    int32_t at;
    float by;
};

/* y[0 .. width) += the sum over the terms of by * row[0 .. width). */
struct pare_sum_rows {
    const struct pare_term *term;
    int64_t n;
    const float *rows;
    float *y;
    int64_t width; /* a multiple of 8 */
};

void pare_sum_rows(const struct pare_sum_rows *s);

#endif
