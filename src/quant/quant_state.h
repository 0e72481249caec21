/* quant_state.h - state of a quantization: settings, sites, calibration, learned scales. */
#ifndef PARE_QUANT_QUANT_STATE_H
#define PARE_QUANT_QUANT_STATE_H

#include "../compress/compression.h"

/* The options of all quantizers. */
struct pare_quant_settings {
    bool equalize, bias_correction;
    int64_t correction_steps;
};

/* A learned buffer, see pare_layer_learn(). */
struct pare_learned_buffer {
    struct pare_tensor value, grad;
    const char *name; /* LAYER.BUFFER */
    struct pare_learned_buffer *next;
};

/* compression->quant */
struct pare_quant_state {
    struct pare_quant_settings settings;
    const struct pare_quantizer *quantizer; /* of compression->algorithm[0] */
    int equalized;                          /* number of equalized layer pairs */
    bool keep_zeros;                        /* weights that were 0 are masked */
    bool in_graph;                          /* fake-quant nodes are in the model's graph */
    bool training;                          /* the current forward pass is training */
    bool observing;                         /* fake-quant nodes observe values and do not change
                                             * them */
    bool measure;                           /* forward passes add to pare_layer_quant.noise */
    int *twin; /* (layers, PARE_QUANT_SITES), see pare_layer_twin(); NULL: not computed */
    const struct pare_json *calibration; /* scales of a calibration file; NULL: none */
    const char *calibration_path;
    struct pare_learned_buffer *learned;
    struct pare_optim *optim; /* optimizer of `learned`; NULL before the first step */
};

/* layer->quant */
struct pare_layer_quant {
    struct pare_quant site[PARE_QUANT_SITES];
    bool quantized[PARE_QUANT_SITES]; /* false: site[] is unused, or the point stays float */
    int asked_bits[PARE_QUANT_SITES]; /* bits of the config; site[].bits may have been raised; 0:
                                       * none */
    int64_t start_step;               /* quant_start_step */
    struct pare_node *norm; /* BatchNormalization folded into the weight (conv_bn_quant.h); NULL:
                             * none */
    double *factor;         /* the norm's factors at the last quantization, then its deviations */
    struct pare_tensor b_before; /* the bias before its correction; data NULL: not corrected */
    struct pare_noise {
        double signal, noise; /* sums of x^2 and (x - quantized x)^2 */
    } noise[PARE_QUANT_SITES];
};

#endif
