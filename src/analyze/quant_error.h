/* quant_error.h - quantization error of each layer alone, at its output and at the model's output.
 *
 * One layer at a time gets quantized weights (symmetric, one scale per channel) and inputs (affine,
 * one scale) with min-max ranges; the rest of the model stays float32.  For a reference tensor x
 * and a quantized tensor y:
 *     SNR in dB = 10 log10(sum x^2 / sum (x - y)^2)
 *     cosine = sum x y / sqrt(sum x^2 * sum y^2)
 * The analysis works on a copy of the model.  Work items are numbered 0 .. n_layers * n_bits - 1,
 * layer by layer, and are independent.
 */
#ifndef PARE_ANALYZE_QUANT_ERROR_H
#define PARE_ANALYZE_QUANT_ERROR_H

#include <pare/analyze.h>
#include <pare/plugin.h>

struct pare_qerror_opts {
    struct pare_ints bits;        /* bit widths to measure; n 0: 8 and 4 */
    struct pare_strs layers;      /* layer names, or "re:" and a pattern; n 0: all layers */
    bool weights;                 /* quantize the weights only */
    const struct pare_tensor *in; /* the model's inputs, in its order */
    struct pare_dist *dist;       /* processes that share the items; NULL: this one only */
    int threads;
    pare_progress_fn *progress; /* called before each item; NULL: none */
    void *user;
};

struct pare_qerror {
    struct pare_qerror_opts o;
    struct pare_arena *arena;
    struct pare_model *copy;
    struct pare_registry *registry;
    int n_layers, n_bits;
    const char **name, **type, **value; /* per layer; value: the name of its output */
    int64_t *bits;
    struct pare_tensor *out; /* per layer: its output in the float model; the last one is the
                              * model's */
    struct pare_quant_error *item;
    double start; /* of pare_qerror_run() */
};

int pare_qerror_new(const struct pare_model *m, const struct pare_qerror_opts *o,
                    struct pare_qerror **error, struct pare_err *err);
void pare_qerror_free(struct pare_qerror *q); /* NULL is allowed */

int pare_qerror_item(struct pare_qerror *q, int item, struct pare_err *err);
int pare_qerror_run(struct pare_qerror *q, struct pare_err *err);

#endif
