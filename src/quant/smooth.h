/* smooth.h - inputs of linear layers divided by a scale per channel, and the weights multiplied by
 * it, so that outliers of inputs cost fewer levels (SmoothQuant, Xiao et al. 2022), or that weights
 * of large inputs are rounded with smaller errors (AWQ, Lin et al. 2023). */
#ifndef PARE_QUANT_SMOOTH_H
#define PARE_QUANT_SMOOTH_H

#include "../data/data.h"
#include "../dist/dist.h"
#include "../onnx/model.h"

struct pare_smooth {
    struct pare_data *data; /* for the ranges of inputs */
    int64_t items;          /* at most */
    int bits[2];            /* of weights and inputs; inputs 0: they are not quantized, and the
                             * scales are powers of mean |x| (AWQ) */
    int64_t group;          /* weights of an output that share a scale; 0: all */
    struct pare_dist *dist;
    int threads;
    pare_progress_fn *progress;
    void *user;

    int values, layers; /* out: inputs that were scaled, and the layers that read them */
    int folded;         /* out: of the values, those without a Mul */
};

/* The same function with scaled inputs where that reduces the expected error of quantization with
 * one range per input; *out NULL: nowhere.  A Mul is inserted before the layers, unless only these
 * layers read the value and a constant before it can take the scales (scale_taker.h). */
int pare_model_smooth(const struct pare_model *m, struct pare_smooth *s, struct pare_model **out,
                      struct pare_err *err);

#endif
