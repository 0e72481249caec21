/* bn_loops.h - loops of BatchNormalization in training mode.
 *
 * One block of channels of one image is `len` floats.  Lane k of all vectors is the same channel: a
 * block has 16 channels, or 8 with two lanes each, or one with all lanes.  Outputs may be the
 * inputs of the same elements.
 */
#ifndef PARE_BACKEND_ROWS_BN_LOOPS_H
#define PARE_BACKEND_ROWS_BN_LOOPS_H

#include "../backend.h"

#define PARE_LANES 16

/* By lane: the sums of x - about and of its square. */
void pare_bn_sums(const float *x, int64_t len, const float *about, float *sum, float *square);

struct pare_bn_apply {
    float scale[PARE_LANES], shift[PARE_LANES], low, high;
    bool act;
};

/* y = scale x + shift [+ z], then clamped to [low, high] when `act`; z may be NULL. */
void pare_bn_apply(const struct pare_bn_apply *how, const float *x, const float *z, float *y,
                   int64_t len);

struct pare_bn_back {
    float scale[PARE_LANES], shift[PARE_LANES], mean[PARE_LANES];
    float p[PARE_LANES], q[PARE_LANES], r[PARE_LANES];
    float above, high;
    bool act, gx_first, gz_first;
};

struct pare_bn_at {
    const float *x, *y, *gy; /* y NULL: it is scale x + shift */
    float *gx, *gz;          /* gz NULL: not needed */
};

/* With g = gy where above < y <= high (all of it without `act`), by lane: the sums of g and of
 * g (x - mean); gz = g, or gz += g. */
void pare_bn_back_sums(const struct pare_bn_back *how, const struct pare_bn_at *a, int64_t len,
                       float *sum, float *dot);

/* gx = p g + q x + r, or added. */
void pare_bn_back_apply(const struct pare_bn_back *how, const struct pare_bn_at *a, int64_t len);

#endif
