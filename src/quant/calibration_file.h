/* calibration_file.h - scales and ranges of a quantized model as JSON.
 *
 *     { "conv1": { "weight_bits": 8, "weight_scale": [...], "weight_zero_point": [...],
 *                  "input_bits": 8, "input_scale": 0.0078, "input_zero_point": 0,
 *                  "tracked_min_input": 0, "tracked_max_input": 2, "output_bits": ... }, ... }
 *
 * as NNI's export_model has it, with scales of inputs and outputs beside.  A number stands for all
 * channels, a list has one for each.  Where the bits are not the config's (--accuracy-drop),
 * "weight_bits_config" has those, and 32 bits are a place that stays float.
 */
#ifndef PARE_QUANT_CALIBRATION_FILE_H
#define PARE_QUANT_CALIBRATION_FILE_H

#include "quant_state.h"

int pare_calibration_write(struct pare_compression *r, const char *path, struct pare_err *err);

/* Into the buffers of the run's layers: c->quant->calibration, which pare_compression_calibrate read. */
int pare_calibration_apply(struct pare_compression *r, struct pare_err *err);

/* y = x rounded with the scales of the buffers, whatever the quantizer would do. */
int pare_calibrated(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    struct pare_tensor *y, struct pare_err *err);

#endif
