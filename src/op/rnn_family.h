/* rnn_family.h - what RNN, GRU and LSTM share.
 *
 * The family reads the shapes, multiplies all inputs with W in one go, and at every step the last
 * states with R; an operator's cell turns those sums into the next state of one sequence.
 * T steps, B sequences, I inputs, H states, G gates, D directions.
 */
#ifndef PARE_OP_RNN_FAMILY_H
#define PARE_OP_RNN_FAMILY_H

#include "op.h"

struct pare_rnn {
    struct pare_floats activation_alpha, activation_beta;
    struct pare_strs activations;
    const char *direction;
    double clip;
    int64_t hidden_size, layout;
    int64_t input_forget;           /* LSTM */
    int64_t linear_before_reset;    /* GRU */
};

#define PARE_RNN_ATTRS                                                                         \
    { "activation_alpha", "first parameters of the activations", PARE_OPT_FLOATS,              \
      offsetof(struct pare_rnn, activation_alpha), 0, PARE_ANY, NULL, NULL, false },           \
    { "activation_beta", "second parameters of the activations", PARE_OPT_FLOATS,              \
      offsetof(struct pare_rnn, activation_beta), 0, PARE_ANY, NULL, NULL, false },            \
    { "activations", "names of the activations, for each direction", PARE_OPT_STRS,            \
      offsetof(struct pare_rnn, activations), 0, PARE_ANY, NULL, NULL, false },                \
    { "clip", "what goes into an activation is held within -clip to clip; 0: it is not",       \
      PARE_OPT_FLOAT, offsetof(struct pare_rnn, clip), 0, 0, 1e300, NULL, NULL, false },       \
    { "direction", "which way to go through the sequences", PARE_OPT_STR,                      \
      offsetof(struct pare_rnn, direction), 0, PARE_ANY, "forward",                            \
      "forward|reverse|bidirectional", false },                                                \
    { "hidden_size", "number of states", PARE_OPT_INT,                                         \
      offsetof(struct pare_rnn, hidden_size), 0, 0, 1e15, NULL, NULL, false },                 \
    { "layout", "1: sequences before steps", PARE_OPT_INT, offsetof(struct pare_rnn, layout),  \
      0, 0, 1, NULL, NULL, false }

struct pare_rnn_act {
    void (*f)(float *v, int64_t n, float alpha, float beta);    /* v = f(v), n of them */
    float alpha, beta;
};

/* One sequence at one step. */
struct pare_rnn_row {
    const struct pare_rnn *attr;
    int64_t H;
    float *x, *r;               /* x W' and h R', (G H); the cell may write to them */
    const float *wb, *rb, *p;   /* biases (G H) each, zeros when absent; peepholes (3 H) or NULL */
    const float *R;             /* (G H, H) */
    float *h, *c;               /* the state, replaced; (H) each */
    float *tmp;                 /* (H) for the cell's use */
    const struct pare_rnn_act *act;
};

struct pare_rnn_cell {
    int gates, n_act;
    const char *const *act;     /* the default activations */
    void (*step)(const struct pare_rnn_row *row);
};

int pare_rnn_infer(struct pare_node *n, const struct pare_rnn_cell *cell, struct pare_err *err);
int pare_rnn_forward(const struct pare_node *n, const struct pare_rnn_cell *cell,
                     struct pare_ctx *c, struct pare_err *err);
double pare_rnn_macs(const struct pare_node *n, const struct pare_rnn_cell *cell);

/* v = act(clip(v)), n of them. */
void pare_rnn_activate(const struct pare_rnn_row *row, int act, float *v, int64_t n);

#endif
