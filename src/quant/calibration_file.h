/* calibration_file.h - scales and ranges of a quantized model as JSON.
 *
 *     { "conv1": { "weight_bits": 8, "weight_scale": [...], "weight_zero_point": [...],
 *                  "input_bits": 8, "input_scale": 0.0078, "input_zero_point": 0,
 *                  "tracked_min_input": 0, "tracked_max_input": 2, "output_bits": ... }, ... }
 *
 * as NNI's export_model writes it, plus the scales of inputs and outputs.  A number applies to all
 * channels, a list has one number for each.  Bits that differ from the config's (--accuracy-drop):
 * "weight_bits_config" has the config's, and 32 bits mean that the site stays float.
 */
#ifndef PARE_QUANT_CALIBRATION_FILE_H
#define PARE_QUANT_CALIBRATION_FILE_H

#include "quant_state.h"

int pare_calibration_write(struct pare_compression *r, const char *path, struct pare_err *err);

/* Copy the scales of the file that pare_compression_calibrate() read into buffers of layers. */
int pare_calibration_apply(struct pare_compression *r, struct pare_err *err);

/* y = x quantized with the scales in the buffers, instead of by the quantizer. */
int pare_calibrated(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    struct pare_tensor *y, struct pare_err *err);

#endif
