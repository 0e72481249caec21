/* mse_scales.h - scales of a weight with the least squared error. */
#ifndef PARE_QUANT_MSE_SCALES_H
#define PARE_QUANT_MSE_SCALES_H

#include "channel_rows.h"

/* For each channel the best of ranges that are parts of its whole range. */
int pare_quant_point_fit_mse(const struct pare_quant_point *p, const struct pare_tensor *x,
                             struct pare_err *err);

#endif
