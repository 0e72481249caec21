/* rnn_packed.c - LSTM, GRU and RNN with constant weights by packed GEMM, with fused gates.
 *
 * One product multiplies the inputs of all steps with W; each step then multiplies the last states
 * with R, and a vector loop computes the gates.  Both matrices are packed in blocks of hidden units
 * with the gates of a block next to each other, so that a thread that owns some units computes all
 * of their gates.
 *
 * Threads.  Directions run on different threads.  The threads of a direction share its sequences
 * or, if there are only few, its units; then all wait for each other once in every step, which
 * only pays for large products.
 *
 * DynamicQuantizeLSTM rounds the operands of all products to 8 bits; VNNI computes them
 * (rnn_int8.h), or float products of the rounded numbers.
 */
#include "rnn_int8.h"

#include <string.h>

#include "../../op/quant/dynamic_lstm.h"

/* ---- matching -------------------------------------------------------------------------------- */

static const struct {
    const struct pare_op *op;
    const struct pare_rnn_cell *cell;
} cells[] = {
    { &pare_op_lstm, &pare_lstm_cell },
    { &pare_op_gru, &pare_gru_cell },
    { &pare_op_rnn, &pare_simple_rnn_cell },
    { &pare_op_dynamic_quantize_lstm, &pare_dynamic_lstm_cell },
};

static const struct pare_rnn_cell *cell_of(const struct pare_node *n)
{
    for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++)
        if (pare_node_is(n, cells[i].op))
            return cells[i].cell;
    return NULL;
}

static bool operands_fit(const struct pare_node *n, const struct pare_rnn_cell *cell)
{
    for (int i = 0; i < n->n_in; i++) {
        bool product = i == PARE_RNN_W || i == PARE_RNN_R;
        bool weight = product || i == PARE_RNN_B || i >= PARE_RNN_P;
        bool any_type = i == PARE_RNN_LENS || (cell->round && (product || i > PARE_RNN_P));

        if (n->in[i] &&
            ((!any_type && !pare_is_f32(n->in[i])) || (weight && !pare_is_const(n->in[i]))))
            return false;
    }
    return true;
}

/* Default activations, no peepholes, no tied gates. */
static bool is_standard(const struct pare_packed_rnn *c)
{
    const struct pare_rnn *a = c->s.n->attr;
    struct pare_rnn usual = { .clip = a->clip };
    struct pare_rnn_act act[PARE_RNN_ACTS];
    struct pare_err err;

    if (a->input_forget || pare_rnn_input(c->s.n, PARE_RNN_P) ||
        pare_rnn_acts(&usual, c->s.cell, (int)c->s.D, act, &err))
        return false;
    for (int i = 0; i < c->s.cell->n_act * c->s.D; i++)
        if (act[i].f != c->s.act[i].f)
            return false;
    return true;
}

static void set_phases(struct pare_packed_rnn *c)
{
    const struct pare_rnn *a = c->s.n->attr;
    const bool standard = is_standard(c);
    enum pare_rnn_cell_kind kind = c->s.G == 4   ? PARE_CELL_LSTM
                                   : c->s.G == 3 ? PARE_CELL_GRU
                                                 : PARE_CELL_RNN;

    c->phases = 1;
    c->phase[0].gates = (int)c->s.G;
    if (c->s.cell->resets && !a->linear_before_reset) {
        kind = PARE_CELL_GRU_GATES;
        c->phases = 2;
        c->phase[0].gates = 2;
        c->phase[1].gates = 1;
        c->phase[1].cell = pare_rnn_cell_find(PARE_CELL_GRU_STATE, c->block, standard);
    }
    c->phase[0].cell = pare_rnn_cell_find(kind, c->block, standard);
}

/* Values in the order of the step: X, then what is present of sequence_lens and the states; the
 * outputs that exist. */
static bool fill_step(const struct pare_match *v, struct pare_packed_rnn *c, struct pare_step *s)
{
    struct pare_node *n = (struct pare_node *)c->s.n;
    int in = 0, out = 0;

    if (!pare_step_lists(s, v, 4, 3, 0))
        return false;
    for (int i = 0; i < PARE_RNN_P; i++) {
        bool read = i == PARE_RNN_X || i == PARE_RNN_LENS || i == PARE_RNN_H0 || i == PARE_RNN_C0;

        c->in_at[i] = -1;
        if (!read || i >= n->n_in || !n->in[i])
            continue;
        c->in_at[i] = in;
        s->in[in++] = n->in[i];
    }
    for (int i = 0; i < 3; i++) {
        c->out_at[i] = i < n->n_out && n->out[i] ? out : -1;
        if (c->out_at[i] >= 0)
            s->out[out++] = n->out[i];
    }
    s->n_in = in;
    s->n_out = out;
    s->work_bytes[0] = pare_packed_rnn_work(c, NULL, NULL);
    s->state = c;
    return out > 0;
}

static bool rnn_packed_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_rnn_cell *cell = cell_of(n);
    struct pare_packed_rnn *c;
    struct pare_err err;

    if (!cell || v->backend->block < 8 || !operands_fit(n, cell))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c)
        return false;
    c->s = cell->round ? pare_dynamic_lstm_sizes(n) : pare_rnn_sizes(n, cell);
    c->block = v->backend->block;
    c->units = (c->s.H + c->block - 1) / c->block;
    c->units += c->s.D > 1 && c->units * c->s.G % 2; /* a direction begins at a panel */
    c->columns = c->units * c->s.G * c->block;
    if (c->s.T < 1 || c->s.B < 1 || c->s.I < 1 ||
        (c->s.H < c->block && c->s.T * c->s.B > PARE_RNN_MOST_PADDED / c->columns) ||
        pare_rnn_acts(n->attr, cell, (int)c->s.D, c->s.act, &err))
        return false;
    set_phases(c);
    return fill_step(v, c, s);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The order of rows in packed matrices: gates [first, first + n) of each block of units. */
struct gates {
    int first, n;
};

/* to (units, n, block, K) = w (G, H, K), with zeros beyond H. */
static void order_rows(const struct pare_packed_rnn *c, const float *w, struct gates g, int64_t K,
                       float *to)
{
    for (int64_t u = 0; u < c->units; u++)
        for (int k = 0; k < g.n; k++)
            for (int64_t i = u * c->block; i < (u + 1) * c->block; i++, to += K)
                if (i < c->s.H)
                    memcpy(to, w + ((g.first + k) * c->s.H + i) * K, (size_t)K * sizeof(float));
                else
                    memset(to, 0, (size_t)K * sizeof(float));
}

/* Pack `dirs` matrices (G H, K), one after the other, as one. */
static int pack(const struct pare_packed_rnn *c, struct pare_backend *b, const float *w,
                struct gates g, int64_t K, int64_t dirs, float **packed)
{
    int64_t N = c->units * g.n * c->block;
    struct pare_mark m = pare_mark(b->scratch);
    float *rows = pare_alloc_raw(b->scratch, (size_t)(dirs * N * K), sizeof(float));
    const struct pare_packed_gemm_weights all = { rows, K, dirs * N, true };

    *packed = pare_alloc_raw(b->arena, (size_t)(dirs * N * K), sizeof(float));
    if (!rows || !*packed)
        return PARE_ENOMEM;
    for (int64_t d = 0; d < dirs; d++)
        order_rows(c, w + d * c->s.G * c->s.H * K, g, K, rows + d * N * K);
    pare_packed_gemm_pack(b, &all, *packed);
    pare_reset(b->scratch, m);
    return 0;
}

/* The biases of both products: added to x W', except that of the product which a gate multiplies.
 */
static int pack_biases(struct pare_packed_rnn *c, struct pare_backend *b, const float *bias)
{
    const struct pare_rnn *a = c->s.n->attr;
    const bool linear = c->s.cell->resets && a->linear_before_reset;
    const int64_t G = c->s.G, H = c->s.H;

    c->bias = pare_alloc(b->arena, (size_t)(c->s.D * c->columns), sizeof(float));
    c->r_bias = pare_alloc(b->arena, (size_t)(c->s.D * c->columns), sizeof(float));
    if (!c->bias || !c->r_bias)
        return PARE_ENOMEM;
    for (int64_t d = 0; d < c->s.D && bias; d++)
        for (int64_t g = 0; g < G; g++)
            for (int64_t i = 0; i < H; i++) {
                const float wb = bias[d * 2 * G * H + g * H + i];
                const float rb = bias[(d * 2 + 1) * G * H + g * H + i];
                int64_t at = (i / c->block * G + g) * c->block + i % c->block + d * c->columns;

                c->bias[at] = linear && g == G - 1 ? wb : wb + rb;
                c->r_bias[at] = linear && g == G - 1 ? rb : 0;
            }
    if (!linear)
        c->r_bias = NULL;
    return 0;
}

static int pack_peepholes(struct pare_packed_rnn *c, struct pare_backend *b, const float *p)
{
    int64_t size = c->units * 3 * c->block;

    c->peepholes = pare_alloc(b->arena, (size_t)(c->s.D * size), sizeof(float));
    if (!c->peepholes)
        return PARE_ENOMEM;
    for (int64_t d = 0; d < c->s.D; d++)
        order_rows(c, p + d * 3 * c->s.H, (struct gates){ 0, 3 }, 1, c->peepholes + d * size);
    return 0;
}

/* W or R of DynamicQuantizeLSTM as floats in scratch memory; NULL: see err. */
static const float *dequantize(const struct pare_packed_rnn *c, struct pare_backend *b, int i,
                               struct pare_err *err)
{
    const struct pare_node *n = c->s.n;
    const int at = PARE_DYNAMIC_LSTM_SCALES + (i == PARE_RNN_R ? 2 : 0);
    struct pare_tensor t[3] = { n->in[i]->t, n->in[at]->t, n->in[at + 1]->t };
    float *to = pare_alloc_raw(b->scratch, (size_t)pare_numel(&t[0]), sizeof(float));

    t[0].data = (void *)pare_const_raw(n->in[i]);
    t[1].data = (void *)pare_const_f32(b, n->in[at], err);
    t[2].data = (void *)pare_const_raw(n->in[at + 1]);
    if (!to)
        pare_no_memory(err, "for the weights");
    if (!to || !t[1].data)
        return NULL;
    pare_dynamic_lstm_weights(&t[0], &t[1], &t[2], to);
    return to;
}

static int pack_all(struct pare_packed_rnn *c, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_node *n = c->s.n;
    const float *in[PARE_RNN_P + 1] = { NULL };
    int rc;

    for (int i = PARE_RNN_W; i < n->n_in && i <= PARE_RNN_P; i++)
        if (n->in[i] && (i <= PARE_RNN_B || i == PARE_RNN_P)) {
            bool quantized = c->s.cell->round && (i == PARE_RNN_W || i == PARE_RNN_R);

            if (quantized && c->int8)
                continue;
            in[i] = quantized ? dequantize(c, b, i, err) : pare_const_f32(b, n->in[i], err);
            if (!in[i])
                return err->code;
        }
    rc = c->int8
             ? 0
             : pack(c, b, in[PARE_RNN_W], (struct gates){ 0, (int)c->s.G }, c->s.I, c->s.D, &c->w);
    for (int64_t d = 0; d < c->s.D && !rc && !c->int8; d++) {
        const float *r = in[PARE_RNN_R] + d * c->s.G * c->s.H * c->s.H;

        for (int k = 0, first = 0; k < c->phases && !rc; first += c->phase[k++].gates)
            rc = pack(c, b, r, (struct gates){ first, c->phase[k].gates }, c->s.H, 1,
                      &c->phase[k].r[d]);
    }
    rc = rc ? rc : pack_biases(c, b, in[PARE_RNN_B]);
    if (!rc && in[PARE_RNN_P])
        rc = pack_peepholes(c, b, in[PARE_RNN_P]);
    return rc ? pare_no_memory(err, "for the weights") : 0;
}

static int rnn_packed_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct pare_packed_rnn *c = s->state;
    const struct pare_packed_rnn *from;

    if (!s->share_from) {
        if (c->s.cell->round)
            PARE_TRY(pare_rnn_int8_pack(c, b, err));
        return pack_all(c, b, err);
    }
    from = s->share_from->state;
    c->int8 = from->int8;
    c->w = from->w;
    c->bias = from->bias;
    c->r_bias = from->r_bias;
    c->peepholes = from->peepholes;
    for (int k = 0; k < c->phases; k++)
        memcpy(c->phase[k].r, from->phase[k].r, sizeof(from->phase[k].r));
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static const struct pare_tensor *input(const struct pare_step *s, const struct pare_packed_rnn *c,
                                       int i)
{
    return c->in_at[i] < 0 ? NULL : &s->in_buf[c->in_at[i]]->t;
}

static int rnn_packed_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_packed_rnn *c = s->state;
    const struct pare_tensor *h0 = input(s, c, PARE_RNN_H0), *c0 = input(s, c, PARE_RNN_C0);
    struct pare_rnn_pass p = {
        .c = c,
        .x = pare_f32(input(s, c, PARE_RNN_X)),
        .h0 = h0 ? pare_f32(h0) : NULL,
        .c0 = c0 ? pare_f32(c0) : NULL,
    };

    for (int i = 0; i < 3; i++)
        p.y[i] = c->out_at[i] < 0 ? NULL : pare_f32_mut(&s->out_buf[c->out_at[i]]->t);
    pare_packed_rnn_work(c, s->work[0]->t.data, &p);
    if (c->int8)
        pare_rnn_int8_start(&p);
    else if (p.rounded)
        p.x = pare_packed_rnn_round(&p, p.x);
    PARE_TRY(pare_rnn_lengths(input(s, c, PARE_RNN_LENS), c->s.T, c->s.B, p.len, err));
    pare_packed_rnn_run(&p, b);
    return 0;
}

const struct pare_kernel pare_kernel_rnn_packed = {
    .name = "rnn_packed",
    .openmp = true,
    .doc = "LSTM, GRU and RNN with constant weights by packed GEMM, with fused gates.",
    .match = rnn_packed_match,
    .init = rnn_packed_init,
    .run = rnn_packed_run,
};
