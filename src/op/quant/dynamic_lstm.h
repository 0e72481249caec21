/* dynamic_lstm.h - DynamicQuantizeLSTM as an LSTM with dequantized weights and rounded operands. */
#ifndef PARE_OP_QUANT_DYNAMIC_LSTM_H
#define PARE_OP_QUANT_DYNAMIC_LSTM_H

#include "../matrix/rnn_family.h"

/* The first input after those of LSTM: scale and zero point of W, then of R. */
enum { PARE_DYNAMIC_LSTM_SCALES = PARE_RNN_P + 1 };

/* The cell of LSTM, with round(). */
extern const struct pare_rnn_cell pare_dynamic_lstm_cell;

struct pare_rnn_run pare_dynamic_lstm_sizes(const struct pare_node *n);

/* W or R (D, K, 4 H) with its scales and zero points as float (D, 4 H, K), the layout of LSTM. */
void pare_dynamic_lstm_weights(const struct pare_tensor *t, const struct pare_tensor *scale,
                               const struct pare_tensor *zero, float *to);

#endif
