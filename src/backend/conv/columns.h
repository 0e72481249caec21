/* columns.h - im2col and col2im of strips of pixels, for any window.
 *
 * The columns of a strip are (K, strip) floats, K = channels of a group * taps: row k holds what
 * tap k reads for each pixel of the strip, 0 in the padding.
 */
#ifndef PARE_BACKEND_CONV_COLUMNS_H
#define PARE_BACKEND_CONV_COLUMNS_H

#include "../../op/nn/window.h"

struct pare_columns {
    struct pare_window w;  /* over three axes */
    int64_t N, C, O;       /* images, channels of X and of Y */
    int64_t I, Q, K;       /* channels of a group of X and of Y; rows of the columns */
    int64_t pixels, plane; /* of Y, of X */
    int64_t strip, strips; /* pixels of a strip, strips of an image */
    bool direct;           /* 1x1 without stride or padding: X is its own columns */
};

/* Describe a Conv; false: its shapes are not supported. */
bool pare_columns_init(const struct pare_node *n, struct pare_columns *c);

/* Pixels of strip i. */
static inline int64_t pare_strip_pixels(const struct pare_columns *c, int64_t i)
{
    int64_t left = c->pixels - i * c->strip;

    return left < c->strip ? left : c->strip;
}

/* The columns of strip i of a group of an image x, with row stride *row: in `room`, or x itself. */
const float *pare_columns_make(const struct pare_columns *c, const float *x, int64_t i, float *room,
                               int64_t *row);

/* Add the columns of strip i to the image, each to the pixel that it was read from. */
void pare_columns_add(const struct pare_columns *c, const float *columns, int64_t i, float *x);

#endif
