/* dynamic_quantize_lstm.c - DynamicQuantizeLSTM (com.microsoft): an LSTM with 8-bit weights.
 *
 * W is (directions, inputs, 4 states) and R is (directions, states, 4 states), with a scale and a
 * zero point for each direction or for each of its columns.  All inputs together are rounded to 8
 * bits by their own range, as DynamicQuantizeLinear does, and so are the states before each step.
 * (ONNX Runtime may round the states of parts of a batch separately, which depends on its threads.)
 */
#include "dynamic_lstm.h"

#include <math.h>

#include "../../base/simd.h"
#include "../inner_node.h"
#include "quant_family.h"

enum { INPUTS = PARE_DYNAMIC_LSTM_SCALES, W_SCALE = INPUTS, W_ZERO, R_SCALE, R_ZERO };

static const struct pare_opt attrs[] = {
    PARE_RNN_ATTRS,
    PARE_INT("input_forget", offsetof(struct pare_rnn, input_forget),
             "the forget gate is one minus the input gate", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

extern const struct pare_op pare_op_lstm;

static const struct pare_tensor *input(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

/* LSTM has (directions, 4 states, inputs). */
static struct pare_tensor turned(const struct pare_tensor *t)
{
    struct pare_tensor r = { .dtype = PARE_F32,
                             .rank = 3,
                             .dim = { t->dim[0], t->dim[2], t->dim[1] } };

    return r;
}

static int check_weight(const struct pare_node *n, int w, int scale, struct pare_err *err)
{
    const struct pare_tensor *t = &n->in[w]->t;
    char bt[PARE_SHAPE_TEXT], bs[PARE_SHAPE_TEXT];

    PARE_TRY(
        pare_quant_type(t, w == PARE_RNN_W ? "W" : "R", PARE_T(PARE_U8) | PARE_T(PARE_I8), err));
    for (int i = scale; i <= scale + 1; i++) {
        const struct pare_tensor *s = input(n, i);

        if (t->rank != 3 || !s || s->dim[0] != t->dim[0] || s->rank < 1 || s->rank > 2 ||
            (s->rank == 2 && s->dim[1] != t->dim[2]) || (i == scale + 1 && s->dtype != t->dtype))
            return pare_fail(
                err, PARE_ESHAPE,
                "input %d is %s for weights %s, expected a number per direction or per "
                "column",
                i, s ? pare_shape_text(s, bs, sizeof(bs)) : "absent",
                pare_shape_text(t, bt, sizeof(bt)));
    }
    return 0;
}

/* The node as a float LSTM with these W and R. */
static struct pare_node as_lstm(struct pare_node *n, struct pare_value *w, struct pare_value **in)
{
    struct pare_node lstm = *n;

    for (int i = 0; i < INPUTS; i++)
        in[i] = n->in[i];
    for (int k = 0; k < 2; k++) {
        w[k] = (struct pare_value){ .name = "", .t = turned(&n->in[PARE_RNN_W + k]->t) };
        in[PARE_RNN_W + k] = &w[k];
    }
    lstm.op = &pare_op_lstm;
    lstm.version = 14;
    lstm.in = in;
    lstm.n_in = INPUTS;
    return lstm;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_value w[2], *in[INPUTS];
    struct pare_node lstm;

    PARE_TRY(check_weight(n, PARE_RNN_W, W_SCALE, err));
    PARE_TRY(check_weight(n, PARE_RNN_R, R_SCALE, err));
    lstm = as_lstm(n, w, in);
    return pare_op_lstm.infer(&lstm, err);
}

void pare_dynamic_lstm_weights(const struct pare_tensor *t, const struct pare_tensor *scale,
                               const struct pare_tensor *zero, float *to)
{
    int64_t rows = t->dim[1], columns = t->dim[2];

    for (int64_t i = 0; i < pare_numel(t); i++) {
        int64_t k = i % columns, r = i / columns % rows, d = i / columns / rows;
        int64_t si = scale->rank == 2 ? d * columns + k : d;
        int64_t zi = zero->rank == 2 ? d * columns + k : d;

        to[(d * columns + k) * rows + r] = (float)(pare_get_int(t, i) - pare_get_int(zero, zi)) *
                                           pare_f32(scale)[si];
    }
}

static int dequantize(const struct pare_node *n, int w, int scale, struct pare_ctx *c,
                      struct pare_tensor *to, struct pare_err *err)
{
    PARE_TRY(pare_tensor_alloc(c->scratch, to, err));
    pare_dynamic_lstm_weights(&n->in[w]->t, input(n, scale), input(n, scale + 1), pare_f32_mut(to));
    return 0;
}

PARE_SIMD static void round_dynamically(float *v, int64_t n)
{
    float lo = 0, hi = 0, scale, zero;

    for (int64_t i = 0; i < n; i++) {
        lo = v[i] < lo ? v[i] : lo;
        hi = v[i] > hi ? v[i] : hi;
    }
    scale = hi > lo ? (hi - lo) / 255 : 1;
    zero = rintf(-lo / scale);
    for (int64_t i = 0; i < n; i++) {
        float q = rintf(v[i] / scale) + zero;

        v[i] = ((q > 0 ? (q < 255 ? q : 255) : 0) - zero) * scale;
    }
}

static const char *const acts[] = { "Sigmoid", "Tanh", "Tanh" };
const struct pare_rnn_cell pare_dynamic_lstm_cell = { .gates = 4,
                                                      .mixes = 4,
                                                      .n_act = 3,
                                                      .act = acts,
                                                      .round = round_dynamically };

struct pare_rnn_run pare_dynamic_lstm_sizes(const struct pare_node *n)
{
    struct pare_value w[2], *in[INPUTS];
    struct pare_node copy = *n, lstm = as_lstm(&copy, w, in);
    struct pare_rnn_run s = pare_rnn_sizes(&lstm, &pare_dynamic_lstm_cell);

    s.n = n;
    return s;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_value w[2], *in[INPUTS];
    struct pare_node lstm = as_lstm(n, w, in);
    struct pare_rnn_cell rounding = pare_lstm_cell;

    PARE_TRY(dequantize(n, PARE_RNN_W, W_SCALE, c, &w[0].t, err));
    PARE_TRY(dequantize(n, PARE_RNN_R, R_SCALE, c, &w[1].t, err));
    rounding.round = pare_dynamic_lstm_cell.round;
    return pare_rnn_forward(&lstm, &rounding, c, err);
}

static double macs(const struct pare_node *n)
{
    struct pare_value w[2], *in[INPUTS];
    struct pare_node copy = *n, lstm = as_lstm(&copy, w, in);

    return pare_op_lstm.macs(&lstm);
}

const struct pare_op pare_op_dynamic_quantize_lstm = {
    .type = "DynamicQuantizeLSTM",
    .doc = "LSTM with int8 or uint8 weights.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "FUUF?I?F?F?F?FUFU",
    .min_out = 0,
    .max_out = 3,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_rnn),
    .torch = "LSTM",
    .scales = { .w = W_SCALE, .r = R_SCALE, .r_weight = PARE_RNN_R, .dynamic = true },
    .layer = { .kind = PARE_LAYER_RECURRENT,
               .params = PARE_IN(PARE_RNN_W) | PARE_IN(PARE_RNN_R) | PARE_IN(3) | PARE_IN(7),
               .weight = PARE_RNN_W,
               .bias = 3,
               .scale_axis = 2 },
    .infer = infer,
    .forward = forward,
    .macs = macs,
    .settings = PARE_IN(W_SCALE) | PARE_IN(W_ZERO) | PARE_IN(R_SCALE) | PARE_IN(R_ZERO),
};
