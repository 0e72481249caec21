/* rnn_int8.h - products of DynamicQuantizeLSTM by VNNI: 8-bit weights and rounded operands. */
#ifndef PARE_BACKEND_RECURRENT_RNN_INT8_H
#define PARE_BACKEND_RECURRENT_RNN_INT8_H

#include "rnn_steps.h"

/* Pack the weights and set c->int8; it stays NULL without VNNI and if a weight minus its zero point
 * is not an int8. */
int pare_rnn_int8_pack(struct pare_packed_rnn *c, struct pare_backend *b, struct pare_err *err);

/* Quantize X. */
void pare_rnn_int8_start(struct pare_rnn_pass *p);

/* x W' and biases of direction d; h R' for the states h of all its sequences. */
void pare_rnn_int8_inputs(const struct pare_rnn_pass *p, int64_t d);
void pare_rnn_int8_states(const struct pare_rnn_pass *p, int64_t d, const float *h);

#endif
