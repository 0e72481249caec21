/* scale_print.h - scales and zero points of a quantized model, as a table and as JSON. */
#ifndef PARE_CLI_PRINT_SCALE_PRINT_H
#define PARE_CLI_PRINT_SCALE_PRINT_H

#include "../cli.h"
#include "../../onnx/model.h"

/* Bits, scale, zero point and range of each quantized tensor; nothing if there is none. */
void pare_scales_print(struct pare_arena *a, const struct pare_layer_scales *list, int n);

/* {"weight": {"bits": 8, "scale": [...], ...}, ...} of a layer; NULL: it is not quantized. */
struct json_t *pare_scales_json(const struct pare_layer_scales *list, int n, const char *layer);

/* Prints ", weights of 3 layers float16", or nothing. */
struct pare_layer_info;
void pare_half_weights_print(const struct pare_model *m, const struct pare_layer_info *layer,
                             int n);

#endif
