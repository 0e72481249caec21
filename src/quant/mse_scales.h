/* mse_scales.h - weight scales with the least squared error, by trying candidate ranges. */
#ifndef PARE_QUANT_MSE_SCALES_H
#define PARE_QUANT_MSE_SCALES_H

#include "channel_rows.h"

/* Sets each channel's scale to the best of several fractions of its min-max range. */
int pare_quant_point_fit_mse(const struct pare_quant_point *p, const struct pare_tensor *x,
                             struct pare_err *err);

#endif
