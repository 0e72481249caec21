/* quant_state.h - state of a quantization: settings, sites, calibration, learned scales. */
#ifndef PARE_QUANT_QUANT_STATE_H
#define PARE_QUANT_QUANT_STATE_H

#include "../compress/compression.h"

/* The options of all quantizers. */
struct pare_quant_settings {
    bool equalize, bias_correction, smooth, awq;
    int64_t correction_steps;
};

/* A learned buffer, see pare_layer_learn(). */
struct pare_learned_buffer {
    struct pare_tensor value, grad;
    const char *name; /* LAYER.BUFFER */
    struct pare_learned_buffer *next;
};

#define PARE_INNER_STEPS 16
#define PARE_WORST 3

/* What the checker found (quant_check.h). */
struct pare_check {
    bool done;
    int left;                 /* tensors that became float because quantization destroys them */
    double output_db, cosine; /* of the outputs against the float model's; NaN: not measured */
    int unequal, runs;        /* runs whose outputs had another number of elements; all runs */
    double new_db;            /* of the outputs on items that calibration has not seen; NaN: none */
    int64_t all_seen;         /* items of the data, if calibration has seen all of them; else 0 */
    struct pare_check_worst {
        const struct pare_layer *layer;
        enum pare_quant_site site;
        double db;
    } worst[PARE_WORST]; /* the least first */
    int n_worst;
};

/* What pare_round_weights() did. */
struct pare_rounded {
    const char *how;       /* NULL: nothing */
    bool by_data;          /* errors are those of outputs; else of weights */
    int layers, failed;    /* matrices whose statistics are singular got the nearest levels */
    double error, nearest; /* sums over all layers, see struct pare_gram_round */
    const char *choice;    /* what was measured, and kept; NULL: there was no choice */
};

/* compression->quant */
struct pare_quant_state {
    struct pare_quant_settings settings;
    const struct pare_quantizer *quantizer; /* of compression->algorithm[0] */
    int equalized;                          /* number of equalized layer pairs */
    bool correction_given; /* bias_correction was specified, not left to its default */
    bool keep_zeros;       /* weights that were 0 are masked */
    bool in_graph;         /* fake-quant nodes are in the model's graph */
    bool training;         /* the current forward pass is training */
    bool observing;        /* fake-quant nodes observe values and do not change
                                             * them */
    bool measure;          /* forward passes add to pare_layer_quant.noise */
    int *twin; /* (layers, PARE_QUANT_SITES), see pare_layer_twin(); NULL: not computed */
    const struct pare_json *calibration; /* scales of a calibration file; NULL: none */
    const char *calibration_path;
    struct pare_check check;
    const char *observer; /* that calibration used or chose; NULL: none */
    int64_t observed;     /* batches that calibration saw, or all if the data has fewer */
    struct pare_rounded rounded;
    struct pare_learned_buffer *learned;
    struct pare_optim *optim; /* optimizer of `learned`; NULL before the first step */
};

/* layer->quant */
struct pare_layer_quant {
    struct pare_quant site[PARE_QUANT_SITES];
    bool destroyed[PARE_QUANT_SITES];      /* the checker made it float */
    double destroyed_db[PARE_QUANT_SITES]; /* at this signal-to-noise ratio */
    bool quantized[PARE_QUANT_SITES];      /* false: site[] is unused, or the point stays float */
    int asked_bits[PARE_QUANT_SITES]; /* bits of the config; site[].bits may have been raised; 0:
                                       * none */
    int64_t start_step;               /* quant_start_step */
    struct pare_node *norm; /* BatchNormalization folded into the weight (conv_bn_quant.h); NULL:
                             * none */
    double *factor;         /* the norm's factors at the last quantization, then its deviations */
    struct pare_tensor b_before;  /* the bias before its correction; data NULL: not corrected */
    struct pare_tensor b_rounded; /* the bias that belongs to rounded weights, see rounded_bias */
    bool rounded_bias;            /* weight_rounding.h has changed the bias */
    double round_error[2];        /* of rounded weights, and of the nearest; see gram_round.h */
    struct pare_noise {
        double signal, noise;             /* sums of x^2 and (x - quantized x)^2 */
        double inner_signal, inner_noise; /* of values within PARE_INNER_STEPS of 0, without 0 */
        double inner, nonzero;            /* numbers of these values, and of all but 0 */
    } noise[PARE_QUANT_SITES];
};

#endif
