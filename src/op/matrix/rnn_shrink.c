/* rnn_shrink.c - removable states of RNN, GRU and LSTM.
 *
 * A state is 0 at every step if its candidate gate has no weights and no bias and its initial value
 * is 0: an LSTM's c = f c + i g with g = tanh(0), a GRU's h = (1 - z) n + z h with n = tanh(0).  A
 * state is needed if a consumer reads it, or if R has a weight from it to a needed state.
 */
#include "rnn_family.h"

#include <math.h>

static const float *weights(const struct pare_node *n, int i)
{
    const struct pare_tensor *t = pare_rnn_input(n, i);

    return t && n->in[i]->flags & PARE_V_CONST && t->dtype == PARE_F32 ? t->data : NULL;
}

static bool all_zero(const float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i] != 0)
            return false;
    return true;
}

/* Whether f(0) is 0 for the candidate's activation, and for an LSTM's output activation. */
static bool keeps_zero(const struct pare_node *n, const struct pare_rnn_cell *cell, int dirs)
{
    struct pare_rnn_act act[PARE_RNN_ACTS];
    struct pare_err err;

    if (pare_rnn_acts(n->attr, cell, dirs, act, &err))
        return false;
    for (int d = 0; d < dirs; d++)
        for (int i = cell->n_act > 1 ? 1 : 0; i < cell->n_act; i++) {
            float v = 0;

            pare_rnn_activate(&act[d * cell->n_act + i], &v, 1);
            if (v != 0)
                return false;
        }
    return true;
}

/* Whether the candidate's rows of W and R and its two biases are 0. */
static bool no_candidate(const struct pare_node *n, const struct pare_rnn_cell *cell, int64_t d,
                         int64_t h)
{
    const struct pare_tensor *R = &n->in[PARE_RNN_R]->t;
    const float *w = weights(n, PARE_RNN_W), *r = weights(n, PARE_RNN_R);
    const float *b = weights(n, PARE_RNN_B);
    int64_t H = R->dim[2], I = n->in[PARE_RNN_W]->t.dim[2], G = cell->gates;
    int64_t row = (d * G + G - 1) * H + h;

    if (!w || !r || (!b && pare_rnn_input(n, PARE_RNN_B)))
        return false;
    if (b &&
        (b[d * 2 * G * H + (G - 1) * H + h] != 0 || b[(d * 2 + 1) * G * H + (G - 1) * H + h] != 0))
        return false;
    return all_zero(w + row * I, I) && all_zero(r + row * H, H);
}

static bool starts_at_zero(const struct pare_node *n, const struct pare_needed *s, int64_t h)
{
    for (int i = PARE_RNN_H0; i <= PARE_RNN_C0; i++)
        if (pare_rnn_input(n, i) && pare_needed_constant(s, n->in[i], 2, h) != 0)
            return false;
    return true;
}

float pare_rnn_constant_output(const struct pare_node *n, const struct pare_rnn_cell *cell,
                               const struct pare_needed *s, int64_t h)
{
    int64_t D = n->in[PARE_RNN_R]->t.dim[0];
    bool zero = D <= 2 && keeps_zero(n, cell, (int)D) && starts_at_zero(n, s, h);

    for (int64_t d = 0; d < D && zero; d++)
        zero = no_candidate(n, cell, d, h);
    return zero ? 0 : NAN;
}

const char *pare_rnn_not_zero(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    int64_t D = n->in[PARE_RNN_R]->t.rank == 3 ? n->in[PARE_RNN_R]->t.dim[0] : 0;

    if (D < 1 || D > 2 || !keeps_zero(n, cell, (int)D))
        return "its activations do not map 0 to 0";
    for (int i = PARE_RNN_H0; i <= PARE_RNN_C0; i++) {
        const float *v = weights(n, i);

        if (pare_rnn_input(n, i) && (!v || !all_zero(v, pare_numel(pare_rnn_input(n, i)))))
            return "its initial state is not a constant 0";
    }
    return NULL;
}

/* The rows of W and R are (gate, state), their columns inputs and states. */
void pare_rnn_axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 1;
    *in = 2;
}

/* Whether any gate of a kept state has a nonzero weight in column i of `w`, whose rows are (D, G,
 * H). */
static bool is_read(const struct pare_node *n, const struct pare_rnn_cell *cell, int in,
                    const uint8_t *keep, int64_t i)
{
    const struct pare_tensor *t = &n->in[in]->t;
    const float *w = weights(n, in);
    int64_t H = n->in[PARE_RNN_R]->t.dim[2], cols = t->dim[2];

    for (int64_t row = 0; w && row < t->dim[0] * cell->gates * H; row++)
        if (keep[row % H] && w[row * cols + i] != 0)
            return true;
    return !w;
}

void pare_rnn_needed_channels(const struct pare_node *n, const struct pare_rnn_cell *cell,
                              struct pare_needed *s)
{
    const struct pare_value *x = n->in[PARE_RNN_X], *r = n->in[PARE_RNN_R];
    const uint8_t *keep = pare_needed_keep(s, r, 2), *in = pare_needed_keep(s, x, 2);
    bool more = keep && in;

    while (more) {
        more = false;
        for (int64_t h = 0; h < r->t.dim[2]; h++) {
            if (keep[h] || !is_read(n, cell, PARE_RNN_R, keep, h) ||
                pare_rnn_constant_output(n, cell, s, h) == 0)
                continue;
            pare_needed_add(s, r, 2, h);
            more = true;
        }
    }
    for (int64_t i = 0; keep && in && i < x->t.dim[2]; i++)
        if (!in[i] && pare_needed_constant(s, x, 2, i) != 0 &&
            is_read(n, cell, PARE_RNN_W, keep, i))
            pare_needed_add(s, x, 2, i);
}

void pare_rnn_shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    pare_shrunk_int(s, "hidden_size", pare_shrunk_dim(s, n->in[PARE_RNN_R], 2));
}
