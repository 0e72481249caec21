/* quant_check.h - the checker that runs after quantization: noise of values, error of outputs. */
#ifndef PARE_QUANT_QUANT_CHECK_H
#define PARE_QUANT_QUANT_CHECK_H

#include "quant_state.h"

/* Batches of a comparison with the float model: 2, more if they have one or a few items.  From the
 * first batch on, only those that calibration saw. */
int64_t pare_check_batches(const struct pare_compression *c);

/* A comparison of the model's outputs: a forward pass of the float model keeps them, then any
 * number of passes of the quantized model are compared with them. */
struct pare_output_trial;

/* Insert probes at the float outputs and run the float model (pare_float_pass()).  *t is NULL if
 * the model has no float32 output. */
int pare_output_trial_begin(struct pare_compression *c, struct pare_output_trial **t,
                            struct pare_err *err);

/* Sums over all kept elements of all outputs, each output scaled by its own signal. */
struct pare_output_error {
    double noise;  /* sum of squared differences / sum of squares, mean over the outputs; NaN: no
                      element was compared */
    double cosine; /* mean over the outputs */
    double cost;   /* `noise`, with outputs that were not compared counted as 0: to choose by */
    int unequal;   /* runs in which an output had another number of elements, which are not
                      compared: other objects were found */
    int runs;
};
int pare_output_trial_run(struct pare_output_trial *t, struct pare_output_error *e,
                          struct pare_err *err);

/* Remove the probes; t may be NULL. */
void pare_output_trial_end(struct pare_output_trial *t);

/* Passes over the same few items, compared with the first, in which all quantization points are
 * disabled.  next() is called before each other pass, with the error of the pass before (NULL
 * before the first), to change scales and points; *more = false ends the passes, after `most` of
 * them or fewer.  The weights stay as they are.  Nothing is called if the model has no float32
 * output. */
typedef int pare_trial_fn(void *user, const struct pare_output_error *last, bool *more,
                          struct pare_err *err);
int pare_output_trials(struct pare_compression *c, int64_t items, int most, pare_trial_fn *next,
                       void *user, struct pare_err *err);

/* Measure the noise of all quantized tensors and the error of the outputs into c->quant->check.
 * With `leave`, tensors of 8 or more bits that quantization destroys become float.  Without data,
 * only weights are measured. */
int pare_quant_check(struct pare_compression *c, bool leave, struct pare_err *err);

/* 10 log10(signal / noise); infinite: no error, NaN: no signal. */
double pare_noise_db(const struct pare_noise *n);

#endif
