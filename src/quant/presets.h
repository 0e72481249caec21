/* presets.h - quantization presets: a quantizer and its rules by name. */
#ifndef PARE_QUANT_PRESETS_H
#define PARE_QUANT_PRESETS_H

#include "../onnx/model.h"
#include "../compress/config.h"

#define PARE_PRESETS "int8|int8-weights|w4"

/* The quantizer and the config_list of a preset, for this model's convolutions and linear
 * layers. */
int pare_preset(const char *name, const struct pare_model *m, struct pare_arena *a,
                const char **quantizer, struct pare_rules *rules, struct pare_err *err);

#endif
