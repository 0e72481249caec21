/* quant_method.h - quantization as a compression method: built-in quantizers and their options. */
#ifndef PARE_QUANT_QUANT_METHOD_H
#define PARE_QUANT_QUANT_METHOD_H

#include "../base/option_groups.h"
#include "../compress/registry.h"

extern const struct pare_algorithm *const pare_quantizers[]; /* built-in quantizers; ends with
                                                              * NULL */
extern const struct pare_opt pare_quant_options[];           /* options of struct
                                                              * pare_quant_settings */

extern const struct pare_opt pare_quant_keys[]; /* config keys of struct
                                                              * pare_quant_conf */

/* Finds a quantizer by name; the error for an unknown name contains the nearest one.  g may be
 * NULL. */
int pare_find_quantizer(const struct pare_registry *g, const char *name,
                        const struct pare_algorithm **q, struct pare_err *err);

/* The option groups of a quantizer: those of all quantizers and its own.  NULL: of every built-in
 * quantizer. */
int pare_quantize_option_groups(struct pare_arena *a, const char *quantizer,
                                struct pare_option_group **group, int *n, struct pare_err *err);

const char *pare_quant_site_name(enum pare_quant_site site); /* "weight", "input", "output" */

/* Calls start() again, on the model with float weights, after the bits of quantization points
 * changed. The caller writes the weights afterward. */
int pare_quant_restart(struct pare_compression *c, struct pare_err *err);

/* Writes the quantized weights, with corrected biases if the settings ask for them and the model is
 * not trained. */
int pare_quant_correct(struct pare_compression *c, struct pare_err *err);

/* Forward passes add to the noise of quantization points, or no longer do. */
void pare_quant_measure_noise(struct pare_compression *c, bool on);

/* Sums the noise of all quantization points over all processes. */
int pare_quant_merge_noise(struct pare_compression *c, struct pare_err *err);

#endif
