/* rnn_family.h - shared by RNN, GRU and LSTM.
 *
 * The family checks shapes, multiplies all inputs with W in one product, and at every step the last
 * states with R; an operator's cell computes the next state of one sequence from those sums.  T
 * steps, B sequences, I inputs, H states, G gates, D directions.
 *
 * In training a step saves the inputs of its gates' activations and the state it started from, so
 * that backward() repeats no product; it applies the activations again.
 */
#ifndef PARE_OP_MATRIX_RNN_FAMILY_H
#define PARE_OP_MATRIX_RNN_FAMILY_H

#include <math.h>

#include "../op.h"

struct pare_rnn {
    struct pare_floats activation_alpha, activation_beta;
    struct pare_strs activations;
    const char *direction;
    double clip;
    int64_t hidden_size, layout;
    int64_t input_forget;        /* LSTM */
    int64_t linear_before_reset; /* GRU */
};

#define PARE_RNN_AT(field) offsetof(struct pare_rnn, field)
#define PARE_RNN_ATTRS                                                                        \
    PARE_FLOATS("activation_alpha", PARE_RNN_AT(activation_alpha),                            \
                "first parameters of the activations", PARE_NO_MIN, PARE_NO_MAX),             \
        PARE_FLOATS("activation_beta", PARE_RNN_AT(activation_beta),                          \
                    "second parameters of the activations", PARE_NO_MIN, PARE_NO_MAX),        \
        PARE_TEXTS("activations", PARE_RNN_AT(activations), NULL,                             \
                   "names of the activations, for each direction"),                           \
        PARE_FLOAT("clip", PARE_RNN_AT(clip),                                                 \
                   "clamp inputs of activations to [-clip, clip]; 0: no clamping", 0, 0,      \
                   PARE_NO_MAX),                                                              \
        PARE_CHOICE("direction", PARE_RNN_AT(direction), "direction of the steps", "forward", \
                    "forward|reverse|bidirectional"),                                         \
        PARE_INT("hidden_size", PARE_RNN_AT(hidden_size), "number of states", 0, 0, 1e15),    \
        PARE_INT("layout", PARE_RNN_AT(layout), "1: sequences before steps", 0, 0, 1)

struct pare_rnn_act {
    void (*f)(float *v, int64_t n, float alpha, float beta); /* v = f(v), n of them */
    void (*slope)(const float *x, const float *y, float *g, int64_t n, float alpha, float beta);
    float alpha, beta, clip; /* slope: g *= f'(x), where y = f(x) */
};

/* v = f(clip(v)); and g *= the derivative of that at x, which is 0 where x was clipped. */
void pare_rnn_activate(const struct pare_rnn_act *act, float *v, int64_t n);
void pare_rnn_slope(const struct pare_rnn_act *act, const float *x, const float *y, float *g,
                    int64_t n);

/* One sequence at one step. */
struct pare_rnn_row {
    const struct pare_rnn *attr;
    int64_t H;
    float *x, *r;             /* x W' and h R', (G H); the cell may overwrite them */
    const float *wb, *rb, *p; /* biases (G H) each, zeros when absent; peepholes (3 H) or NULL */
    const float *R;           /* (G H, H) */
    float *h, *c;             /* the state, replaced; (H) each */
    float *tmp;               /* (H) for the cell's use */
    float *pre;               /* in training: inputs of the gates' activations (G H); else NULL */
    float *extra;             /* in training: (H) more that the cell saves; else NULL */
    const struct pare_rnn_act *act;
};

/* One sequence at one step of the backward pass. */
struct pare_rnn_back {
    const struct pare_rnn *attr;
    int64_t H;
    const float *pre, *extra; /* values that the cell saved */
    const float *h;           /* the state before the step */
    const float *R, *p;
    float *gp; /* the gradient of p, accumulated; may be NULL */

    /* Gradients of the state after the step, replaced by those of the state before, without the
     * part of h R'. */
    float *dh, *dc;
    float *dx, *dr; /* set: gradients of x W' and of h R', (G H); dr is dx if they are the same */
    float *tmp;     /* ((G + 2) H) */
    const struct pare_rnn_act *act;
};

struct pare_rnn_cell {
    int gates, n_act;
    int mixes;              /* steps that mix the states in NNI's count of operations */
    const char *const *act; /* default activations */
    void (*step)(const struct pare_rnn_row *row);
    void (*back)(const struct pare_rnn_back *row);

    /* A gate multiplies the last gate's part of h.  Before R: `extra` is r h, and back() multiplies
     * its gradient with R itself.  After R (linear_before_reset): dr is not dx. */
    bool resets;

    /* Round the operand of a product with W or R, in place; NULL: products are exact. */
    void (*round)(float *v, int64_t n);
};

extern const struct pare_rnn_cell pare_lstm_cell, pare_gru_cell, pare_simple_rnn_cell;

int pare_rnn_infer(struct pare_node *n, const struct pare_rnn_cell *cell, struct pare_err *err);
int pare_rnn_forward(const struct pare_node *n, const struct pare_rnn_cell *cell,
                     struct pare_ctx *c, struct pare_err *err);
int pare_rnn_backward(const struct pare_node *n, const struct pare_rnn_cell *cell,
                      struct pare_ctx *c, struct pare_err *err);
size_t pare_rnn_save(const struct pare_node *n, const struct pare_rnn_cell *cell);
double pare_rnn_macs(const struct pare_node *n, const struct pare_rnn_cell *cell);
double pare_rnn_nni_ops(const struct pare_node *n, const struct pare_rnn_cell *cell);
void pare_rnn_ties(const struct pare_node *n, const struct pare_rnn_cell *cell,
                   struct pare_ties *t);

/* For constant_output(), needed_channels() and shrink(). */
float pare_rnn_constant_output(const struct pare_node *n, const struct pare_rnn_cell *cell,
                               const struct pare_needed *s, int64_t h);
void pare_rnn_needed_channels(const struct pare_node *n, const struct pare_rnn_cell *cell,
                              struct pare_needed *s);
void pare_rnn_shrink(const struct pare_node *n, struct pare_shrunk *s);
void pare_rnn_axes(const struct pare_node *n, int *out, int *in);

/* Why a state without weights and bias is not 0 at every step; NULL: it is. */
const char *pare_rnn_not_zero(const struct pare_node *n, const struct pare_rnn_cell *cell);

/* Functions of a descriptor that pass its cell on. */
#define PARE_RNN_BY(cell)                                                                        \
    static int infer(struct pare_node *n, struct pare_err *err)                                  \
    {                                                                                            \
        return pare_rnn_infer(n, &(cell), err);                                                  \
    }                                                                                            \
                                                                                                 \
    static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)            \
    {                                                                                            \
        return pare_rnn_forward(n, &(cell), c, err);                                             \
    }                                                                                            \
                                                                                                 \
    static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)           \
    {                                                                                            \
        return pare_rnn_backward(n, &(cell), c, err);                                            \
    }                                                                                            \
                                                                                                 \
    static size_t save(const struct pare_node *n)                                                \
    {                                                                                            \
        return pare_rnn_save(n, &(cell));                                                        \
    }                                                                                            \
                                                                                                 \
    static double macs(const struct pare_node *n)                                                \
    {                                                                                            \
        return pare_rnn_macs(n, &(cell));                                                        \
    }                                                                                            \
                                                                                                 \
    static double nni_ops(const struct pare_node *n)                                             \
    {                                                                                            \
        return pare_rnn_nni_ops(n, &(cell));                                                     \
    }                                                                                            \
                                                                                                 \
    static void ties(const struct pare_node *n, struct pare_ties *t)                             \
    {                                                                                            \
        pare_rnn_ties(n, &(cell), t);                                                            \
    }                                                                                            \
                                                                                                 \
    static float constant_output(const struct pare_node *n, const struct pare_needed *s, int k,  \
                                 int axis, int64_t i)                                            \
    {                                                                                            \
        return axis == n->out[k]->t.rank - 1 ? pare_rnn_constant_output(n, &(cell), s, i) : NAN; \
    }                                                                                            \
                                                                                                 \
    static void needed_channels(const struct pare_node *n, struct pare_needed *s)                \
    {                                                                                            \
        pare_rnn_needed_channels(n, &(cell), s);                                                 \
    }                                                                                            \
                                                                                                 \
    static const char *not_zero(const struct pare_node *n)                                       \
    {                                                                                            \
        return pare_rnn_not_zero(n, &(cell));                                                    \
    }

/* ---- private to the family ---------------------------------------------------------------- */

enum {
    PARE_RNN_X,
    PARE_RNN_W,
    PARE_RNN_R,
    PARE_RNN_B,
    PARE_RNN_LENS,
    PARE_RNN_H0,
    PARE_RNN_C0,
    PARE_RNN_P
};                          /* inputs */
enum { PARE_RNN_ACTS = 6 }; /* three of an LSTM, in two directions */

/* The activations of all directions, with their parameters. */
int pare_rnn_acts(const struct pare_rnn *a, const struct pare_rnn_cell *cell, int dirs,
                  struct pare_rnn_act *out, struct pare_err *err);

/* The lengths of n sequences of at most `steps` steps, each checked; t: sequence_lens, or NULL. */
int pare_rnn_lengths(const struct pare_tensor *t, int64_t steps, int64_t n, int64_t *len,
                     struct pare_err *err);

/* A run in either direction.  Tensors with sequences and steps have them in X's order. */
struct pare_rnn_run {
    const struct pare_node *n;
    const struct pare_rnn_cell *cell;
    int64_t T, B, I, H, G, D;
    int64_t *len; /* (B) */
    float *save;  /* (D, T B, (G + 2) H): pre, h before the step, extra; or NULL */
    struct pare_rnn_act act[PARE_RNN_ACTS];
};

bool pare_rnn_gives_nothing(const struct pare_node *n); /* all outputs are empty */
struct pare_rnn_run pare_rnn_sizes(const struct pare_node *n, const struct pare_rnn_cell *cell);
int pare_rnn_start(struct pare_rnn_run *run, const struct pare_node *n,
                   const struct pare_rnn_cell *cell, struct pare_ctx *c, struct pare_err *err);

const struct pare_tensor *pare_rnn_input(const struct pare_node *n, int i); /* or NULL */
bool pare_rnn_reversed(const struct pare_node *n, int64_t d); /* whether direction d is reversed */

/* Offsets: row (t, b) in X's order; the states of direction d and sequence b in (D, B, H) or (B, D,
 * H); the step in the output of all steps. */
int64_t pare_rnn_row_at(const struct pare_rnn_run *run, int64_t t, int64_t b);
int64_t pare_rnn_state_at(const struct pare_rnn_run *run, int64_t d, int64_t b);
int64_t pare_rnn_step_at(const struct pare_rnn_run *run, int64_t d, int64_t t, int64_t b);

#endif
