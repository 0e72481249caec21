/* rnn_int8.c - products of DynamicQuantizeLSTM by VNNI: 8-bit weights and rounded operands. */
#include "rnn_int8.h"

#include <string.h>

#include "../../base/simd.h"
#include "../../op/quant/dynamic_lstm.h"
#include "../int8/gemm_int8.h"

#define LANES 16

/* ---- packing --------------------------------------------------------------------------------- */

/* Rows (columns, K) of direction d in the order of the sums; false: a number is not an int8. */
static bool order_weights(const struct pare_packed_rnn *c, int i, int64_t d, int8_t *rows)
{
    const struct pare_node *n = c->s.n;
    const int at = PARE_DYNAMIC_LSTM_SCALES + (i == PARE_RNN_R ? 3 : 1);
    struct pare_tensor w = n->in[i]->t, zero = n->in[at]->t;
    const int64_t K = w.dim[1], N = w.dim[2];

    w.data = (void *)pare_const_raw(n->in[i]);
    zero.data = (void *)pare_const_raw(n->in[at]);
    for (int64_t j = 0; j < c->columns; j++) {
        int64_t lane = j % c->block, g = j / c->block % 4,
                unit = j / c->block / 4 * c->block + lane;
        int64_t column = g * c->s.H + unit, z;

        if (unit >= c->s.H) {
            memset(rows + j * K, 0, (size_t)K);
            continue;
        }
        z = pare_get_int(&zero, zero.rank == 2 ? d * N + column : d);
        for (int64_t k = 0; k < K; k++) {
            int64_t v = pare_get_int(&w, (d * K + k) * N + column) - z;

            if (v < -128 || v > 127)
                return false;
            rows[j * K + k] = (int8_t)v;
        }
    }
    return true;
}

static void order_scales(const struct pare_packed_rnn *c, const struct pare_tensor *t,
                         const float *scale, int64_t d, float *to)
{
    for (int64_t j = 0; j < c->columns; j++) {
        int64_t unit = j / c->block / 4 * c->block + j % c->block;
        int64_t column = j / c->block % 4 * c->s.H + unit;

        to[j] = unit >= c->s.H ? 0 : scale[t->rank == 2 ? d * 4 * c->s.H + column : d];
    }
}

/* One matrix of one direction; *fits: see order_weights(). */
static int pack_matrix(const struct pare_packed_rnn *c, struct pare_backend *b, int i, int64_t d,
                       struct pare_rnn_int8_matrix *m, bool *fits, struct pare_err *err)
{
    const struct pare_node *n = c->s.n;
    const int64_t K = n->in[i]->t.dim[1], N = c->columns;
    struct pare_value *scale = n->in[PARE_DYNAMIC_LSTM_SCALES + (i == PARE_RNN_R ? 2 : 0)];
    const float *scales = pare_const_f32(b, scale, err);
    struct pare_mark mark = pare_mark(b->scratch);
    int8_t *rows = pare_alloc_raw(b->scratch, (size_t)(N * K), 1);

    if (!scales)
        return err->code;
    m->w = pare_alloc_raw(b->arena, pare_gemm_int8_bytes(K, N), 1);
    m->sum = pare_alloc(b->arena, (size_t)N, sizeof(*m->sum));
    m->scale = pare_alloc(b->arena, (size_t)N, sizeof(*m->scale));
    if (!rows || !m->w || !m->sum || !m->scale)
        return pare_no_memory(err, "for the weights");
    *fits = order_weights(c, i, d, rows);
    if (*fits) {
        pare_gemm_int8_pack(rows, true, K, N, m->w);
        pare_gemm_int8_sums(m->w, K, N, -1, m->sum);
        order_scales(c, &scale->t, scales, d, m->scale);
    }
    pare_reset(b->scratch, mark);
    return 0;
}

int pare_rnn_int8_pack(struct pare_packed_rnn *c, struct pare_backend *b, struct pare_err *err)
{
    struct pare_rnn_int8 *q;
    bool fits = true;

    if (!pare_gemm_int8_can(b) || c->block != 16)
        return 0;
    q = pare_alloc(b->arena, 1, sizeof(*q));
    if (!q)
        return pare_no_memory(err, "for the weights");
    q->none = pare_alloc(b->arena, (size_t)c->columns, sizeof(float));
    if (!q->none)
        return pare_no_memory(err, "for the weights");
    for (int64_t d = 0; d < c->s.D && fits; d++) {
        PARE_TRY(pack_matrix(c, b, PARE_RNN_W, d, &q->w[d], &fits, err));
        if (fits)
            PARE_TRY(pack_matrix(c, b, PARE_RNN_R, d, &q->r[d], &fits, err));
    }
    if (fits)
        c->int8 = q;
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Widen [lo, hi] by n values. */
PARE_SIMD static void widen(const float *v, int64_t n, float *lo, float *hi)
{
    float least[LANES] = { 0 }, most[LANES] = { 0 };
    int64_t whole = n / LANES * LANES;

    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++) {
            least[k] = v[i + k] < least[k] ? v[i + k] : least[k];
            most[k] = v[i + k] > most[k] ? v[i + k] : most[k];
        }
    for (int64_t i = whole; i < n; i++) {
        least[0] = v[i] < least[0] ? v[i] : least[0];
        most[0] = v[i] > most[0] ? v[i] : most[0];
    }
    for (int k = 0; k < LANES; k++) {
        *lo = least[k] < *lo ? least[k] : *lo;
        *hi = most[k] > *hi ? most[k] : *hi;
    }
}

PARE_SIMD static void to_bytes(const float *v, int64_t n, float scale, float zero, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        float q = rintf(v[i] / scale) + zero;

        to[i] = (uint8_t)(q > 0 ? (q < 255 ? q : 255) : 0);
    }
}

/* Rows of n numbers with this stride, by the range of all: (rows, 4 ceil(n / 4)) bytes. */
static void quantize(const float *v, int64_t rows, int64_t n, int64_t stride,
                     struct pare_rnn_bytes *q)
{
    const int64_t row = 4 * pare_gemm_int8_fours(n);
    float lo = 0, hi = 0, zero;

    for (int64_t r = 0; r < rows; r++)
        widen(v + r * stride, n, &lo, &hi);
    q->scale = hi > lo ? (hi - lo) / 255 : 1;
    zero = rintf(-lo / q->scale);
    q->zero = (int32_t)zero;
    for (int64_t r = 0; r < rows; r++) {
        to_bytes(v + r * stride, n, q->scale, zero, q->v + r * row);
        memset(q->v + r * row + n, 0, (size_t)(row - n));
    }
}

void pare_rnn_int8_start(struct pare_rnn_pass *p)
{
    const struct pare_rnn_run *s = &p->c->s;

    p->bytes.v = (uint8_t *)p->rounded;
    quantize(p->x, s->T * s->B, s->I, s->I, &p->bytes);
}

/* y (rows, columns) = x w */
static void multiply(const struct pare_rnn_pass *p, int64_t d, const struct pare_rnn_bytes *x,
                     const struct pare_rnn_int8_matrix *m, struct pare_gemm_int8 *g)
{
    static const struct pare_value result = { .t = { .dtype = PARE_F32 } };
    const struct pare_packed_rnn *c = p->c;
    float *f = p->rounded + c->s.B * (c->s.T * c->s.I + c->s.D * c->s.H) + 2 * d * c->columns;
    int32_t *sum = (int32_t *)(f + c->columns);

    for (int64_t i = 0; i < c->columns; i++) {
        f[i] = m->scale[i] * x->scale;
        sum[i] = -x->zero * m->sum[i];
    }
    g->x = x->v;
    g->x_row = 4 * pare_gemm_int8_fours(g->K);
    g->w = m->w;
    g->sum = sum;
    g->out = (struct pare_int8_out){ .out = &result,
                                     .f = f,
                                     .b = c->int8->none,
                                     .lo = -INFINITY,
                                     .hi = INFINITY };
    g->N = g->to = c->columns;
    pare_gemm_int8_run(g);
}

void pare_rnn_int8_inputs(const struct pare_rnn_pass *p, int64_t d)
{
    const struct pare_packed_rnn *c = p->c;
    const float *bias = c->bias + d * c->columns;
    struct pare_gemm_int8 g = { .rows = c->s.T * c->s.B,
                                .K = c->s.I,
                                .y = p->sum + d * c->columns,
                                .y_row = c->s.D * c->columns };

    multiply(p, d, &p->bytes, &c->int8->w[d], &g);
    for (int64_t r = 0; r < g.rows; r++)
        for (int64_t i = 0; i < c->columns; i++)
            p->sum[r * g.y_row + d * c->columns + i] += bias[i];
}

void pare_rnn_int8_states(const struct pare_rnn_pass *p, int64_t d, const float *h)
{
    const struct pare_packed_rnn *c = p->c;
    const struct pare_rnn_run *s = &c->s;
    const int64_t row = c->units * c->block;
    struct pare_rnn_bytes q = {
        .v = (uint8_t *)(p->rounded + s->B * (s->T * s->I + d * s->H)),
    };
    struct pare_gemm_int8 g = { .rows = s->B,
                                .K = s->H,
                                .y = p->r + d * s->B * c->columns,
                                .y_row = c->columns };

    quantize(h + d * s->B * row, s->B, s->H, row, &q);
    multiply(p, d, &q, &c->int8->r[d], &g);
}
