/* quant_mse.h - scales of a weight with the least squared error. */
#ifndef PARE_COMPRESS_QUANT_MSE_H
#define PARE_COMPRESS_QUANT_MSE_H

#include "quant_rows.h"

/* For each channel the best of ranges that are parts of its whole range. */
int pare_place_fit_mse(const struct pare_place *p, const struct pare_tensor *x,
                       struct pare_err *err);

#endif
