/* row_sums.h - sums of rows, each times a number: products with a matrix that is mostly zeros.
 *
 * A sum's columns stay in registers while its rows come by, so only what is not zero costs time;
 * for a full matrix it is about as fast as a dense product.
 */
#ifndef PARE_BACKEND_SPARSE_ROW_SUMS_H
#define PARE_BACKEND_SPARSE_ROW_SUMS_H

#include <stdint.h>

/* A row begins at rows + at. */
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
