/* rnn_steps.h - the steps of LSTM, GRU and RNN with packed weights, on several threads. */
#ifndef PARE_BACKEND_RECURRENT_RNN_STEPS_H
#define PARE_BACKEND_RECURRENT_RNN_STEPS_H

#include "../backend.h"
#include "../gemm/gemm_packed_matrix.h"
#include "rnn_cells.h"

#define PARE_RNN_MOST_PADDED (1 << 24) /* most sums of gates where padding of few units dominates */

/* 8-bit weights of DynamicQuantizeLSTM, in the order of the float ones. */
struct pare_rnn_int8_matrix {
    int8_t *w;    /* packed for gemm_int8.h */
    int32_t *sum; /* sum of each column */
    float *scale; /* by column */
};
struct pare_rnn_int8 {
    struct pare_rnn_int8_matrix w[2], r[2]; /* by direction */
    float *none;                            /* zeros, by column */
};

/* Values rounded to (v - zero) scale. */
struct pare_rnn_bytes {
    uint8_t *v;
    float scale;
    int32_t zero;
};

/* A node with packed weights. */
struct pare_packed_rnn {
    struct pare_rnn_run s;      /* n, cell, sizes, activations */
    int block;                  /* of hidden units */
    int64_t units, columns;     /* blocks of units; units * G * block, sums of one direction */
    float *w, *bias;            /* (I, D columns) packed; (D columns) */
    float *r_bias;              /* (D, columns), only if a gate multiplies it; else NULL */
    float *peepholes;           /* (D, units, 3, block); or NULL */
    struct pare_rnn_int8 *int8; /* NULL: products of floats */

    /* A step is one product and one cell, or two of each: a GRU whose reset gate multiplies the
     * state before R needs that gate first. */
    struct {
        int gates;
        float *r[2]; /* by direction: (H, units gates block), packed */
        pare_rnn_cell_fn *cell;
    } phase[2];
    int phases;
    int in_at[PARE_RNN_P], out_at[3]; /* by input and output of the node: index in the step; -1 */
};

/* One run. */
struct pare_rnn_pass {
    const struct pare_packed_rnn *c;
    const float *x, *h0, *c0; /* h0 and c0 may be NULL */
    float *y[3];              /* Y, Y_h, Y_c; each may be NULL */

    /* Work memory; states are (D, B, units, block). */
    float *sum;            /* X W' and biases, (T B in X's order, D columns) */
    float *r;              /* (D, B, columns) */
    float *h[2], *state;   /* h before and after a step, in turns; cell state */
    float *update, *reset; /* see struct pare_rnn_units */
    float *rounded; /* if operands are rounded: X, and states (D, B, H) after it; else NULL */
    struct pare_rnn_bytes bytes; /* with int8: X */
    int64_t *len;                /* (B) */
};

/* Bytes of work memory; with p, also set its pointers into memory. */
size_t pare_packed_rnn_work(const struct pare_packed_rnn *c, void *memory, struct pare_rnn_pass *p);

/* X, rounded. */
const float *pare_packed_rnn_round(const struct pare_rnn_pass *p, const float *x);

void pare_packed_rnn_run(const struct pare_rnn_pass *p, struct pare_backend *b);

#endif
