/* quant_error.h - what rounding each layer alone does to its output and to the model's.
 *
 * One layer at a time gets weights (a scale for each channel, symmetric) and inputs (one scale,
 * affine) of so many bits, with ranges as they are; all else stays float32.  Of two tensors, x
 * before and y after:
 *     signal to noise in dB = 10 log10(sum x^2 / sum (x - y)^2)
 *     cosine = sum x y / sqrt(sum x^2 * sum y^2)
 * All of it is done to a copy.  Items of work are numbers 0 .. n_layers * n_bits - 1, layer by
 * layer, and do not depend on one another.
 */
#ifndef PARE_ANALYZE_QUANT_ERROR_H
#define PARE_ANALYZE_QUANT_ERROR_H

#include <pare/compress.h>
#include <pare/plugin.h>

struct pare_qerror_opts {
    struct pare_ints bits;        /* n 0: 8 and 4 */
    struct pare_strs layers;      /* names, or "re:" and a pattern; n 0: all */
    bool weights;                 /* inputs stay as they are */
    const struct pare_tensor *in; /* what the model is run with, in its order */
    struct pare_dist *dist;       /* processes that share the items, or NULL */
    int threads;
};

struct pare_qerror_item {
    double weight_db, out_db, out_cos; /* of the layer; infinite: nothing was lost */
    double end_db, end_cos;            /* of the model's first output */
};

struct pare_qerror {
    struct pare_qerror_opts o;
    struct pare_arena *arena;
    struct pare_model *copy;
    struct pare_registry *registry;
    int n_layers, n_bits;
    const char **name, **type, **value; /* by layer; value: the name of its output */
    int64_t *bits;
    struct pare_tensor *out; /* by layer: its output when nothing is rounded; then the model's */
    struct pare_qerror_item *item;
};

int pare_qerror_new(const struct pare_model *m, const struct pare_qerror_opts *o,
                    struct pare_qerror **error, struct pare_err *err);
void pare_qerror_free(struct pare_qerror *q); /* NULL is fine */

int pare_qerror_item(struct pare_qerror *q, int item, struct pare_err *err);
int pare_qerror_run(struct pare_qerror *q, struct pare_err *err);

#endif
