/* rnn_cells.h - cells of LSTM, GRU and RNN: from the sums of the gates to the next state.
 *
 * Hidden units are in blocks of the machine's vectors, and the gates of a block are next to each
 * other: (blocks, gates, block).  Lanes beyond the last unit hold anything.
 */
#ifndef PARE_BACKEND_RECURRENT_RNN_CELLS_H
#define PARE_BACKEND_RECURRENT_RNN_CELLS_H

#include "../../op/matrix/rnn_family.h"

/* Some blocks of units of one sequence at one step. */
struct pare_rnn_units {
    const float *x;        /* x W' and all biases except those in r, (blocks, gates, block) */
    const float *r;        /* h R', or (z h) R' of the last gate, (blocks, gates of R, block) */
    const float *h;        /* the state before the step, (blocks, block) */
    float *next;           /* set: the state after it; not h */
    float *c;              /* LSTM: the cell state, replaced */
    float *update, *reset; /* GRU whose reset comes before R: the update gate, and reset h */
    const float *p;        /* LSTM: peepholes, (blocks, 3, block); or NULL */
    int64_t blocks;
    int block;
    float clip; /* of the inputs of activations; infinite: none */
    bool tied;  /* LSTM: the forget gate is one minus the input gate */
    const struct pare_rnn_act *act;
};

typedef void pare_rnn_cell_fn(const struct pare_rnn_units *u);

/* GRU_GATES computes update and reset from the first two gates, GRU_STATE the state from them. */
enum pare_rnn_cell_kind {
    PARE_CELL_RNN,
    PARE_CELL_LSTM,
    PARE_CELL_GRU, /* linear before reset */
    PARE_CELL_GRU_GATES,
    PARE_CELL_GRU_STATE,
    PARE_CELL_KINDS
};

/* The function of a cell for blocks of 8 or 16.  With standard, activations are the default ones
 * and there are no peepholes and no tied gates; the function is then a vector loop. */
pare_rnn_cell_fn *pare_rnn_cell_find(enum pare_rnn_cell_kind kind, int block, bool standard);

#endif
