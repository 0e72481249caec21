/* linear_int8.c - int8 Gemm and MatMul with constant weights and requantization.
 *
 *     y (M, N) = round(f ((x - x_zero) w + b)) + y_zero,   x (M, K), w (K, N) or (N, K),
 *
 * for Gemm and MatMul between DequantizeLinear and QuantizeLinear, QLinearMatMul, QGemm and
 * MatMulInteger.  Activations before the QuantizeLinear (Gelu) are applied to float results that
 * stay in the cache.  Few rows are bound by reading w: a plain loop reads it once, with int16
 * products.  More rows use gemm_int8.h if the CPU has VNNI, else oneDNN or, where its int8 products
 * are not exact, int8_dot.h.
 */
#include <math.h>

#include "../../base/simd.h"
#include "../../op/matrix/matrix.h"
#include "gemm_int8.h"
#include "int8_dot.h"
#include "../../base/team.h"

#define FEW 4       /* rows for which the plain loop is as fast */
#define MOST_MAPS 3 /* activations */
#define STRIP 32
#define ACROSS 128    /* columns of float results at a time, a multiple of panels */
#define SOME_ROWS 192 /* a multiple of the rows that registers hold */

struct linear_int8 {
    int64_t M, N, K;
    bool tb;    /* w is (N, K) */
    bool gemm;  /* by oneDNN */
    bool wide;  /* many rows, by int8_dot.h */
    bool panel; /* many rows, by gemm_int8.h */
    bool copy;  /* panel: x is copied into rows that are multiples of 4 */
    struct pare_int8 x;
    struct pare_int8_weight w;
    struct pare_value *bias;          /* a float row, or int32 in units of the sum; or NULL */
    struct pare_node *add;            /* the Add of the bias, or NULL */
    struct pare_node *map[MOST_MAPS]; /* activations between product and end */
    int maps;
    struct pare_value *product; /* the float value before them */
    struct pare_int8_end end;
    struct pare_value *out;
    const int8_t *weights; /* minus their zero points; for the plain loop as (N, K) */
    int16_t *wider;        /* the same in panels of int8_dot.h */
    int32_t *sum;          /* see gemm_int8.h */
    struct pare_int8_out finish;
};

/* The value that the sums are converted to. */
static const struct pare_value *result_of(const struct linear_int8 *l)
{
    return l->maps ? l->product : l->out;
}

static bool quantized(const struct linear_int8 *l)
{
    enum pare_dtype type = result_of(l)->t.dtype;

    return type == PARE_U8 || type == PARE_I8;
}

/* ---- match --------------------------------------------------------------------------- */

/* A float32 constant of N elements along the last axis. */
static bool is_row(const struct pare_value *v, int64_t N)
{
    const struct pare_tensor *t = &v->t;

    return pare_is_const(v) && pare_is_f32(v) && t->data && t->rank >= 1 &&
           t->dim[t->rank - 1] == N && pare_numel(t) == N;
}

/* The bias of a MatMul is an Add after it. */
static struct pare_value *follow_bias(const struct pare_match *v, struct linear_int8 *l,
                                      struct pare_value *y, int64_t N)
{
    struct pare_node *add = l->bias ? NULL : pare_only_consumer(v, y);
    struct pare_value *other;

    if (!pare_node_is(add, &pare_op_add) || add->in[0] == add->in[1])
        return y;
    other = add->in[add->in[0] == y];
    if (!is_row(other, N) || !pare_same_shape(&add->out[0]->t, &y->t))
        return y;
    l->bias = other;
    l->add = add;
    return add->out[0];
}

/* Activations after the float value y, if a QuantizeLinear follows them. */
static bool follow_maps(const struct pare_match *v, struct linear_int8 *l, struct pare_value *y)
{
    l->product = y;
    for (l->maps = 0; l->maps < MOST_MAPS;) {
        struct pare_node *n = pare_only_consumer(v, y);

        if (!n || !n->op->map || n->op->map2 || n->n_in != 1 || n->n_out != 1 || v->lazy[n->id] ||
            !pare_is_f32(n->out[0]) || !pare_same_shape(&n->out[0]->t, &y->t))
            break;
        l->map[l->maps++] = n;
        y = n->out[0];
        if (pare_int8_end(v, y, &l->end))
            return true;
    }
    l->maps = 0;
    return false;
}

static bool read_qdq(const struct pare_match *v, struct pare_node *n, struct linear_int8 *l)
{
    struct pare_value *y = n->out[0];

    if (!pare_is_plain_product(n, &l->tb))
        return false;
    l->bias = n->n_in > 2 ? n->in[2] : NULL;
    if (l->bias && !is_row(l->bias, n->out[0]->t.dim[1]))
        return false;
    if (!pare_int8_source(v, n->in[0], &l->x) || n->in[1]->t.rank != 2 ||
        !pare_int8_weight(n->in[1], l->tb ? 0 : 1, &l->w))
        return false;
    y = follow_bias(v, l, y, l->w.channels);
    if (!pare_int8_end(v, y, &l->end) && !follow_maps(v, l, y))
        l->end = (struct pare_int8_end){ .lo = -INFINITY, .hi = INFINITY, .q = { .v = y } };
    l->out = l->end.q.v;
    l->bias = pare_int8_bias(l->bias, &l->x, &l->w);
    return true;
}

static bool read_qlinear(struct pare_node *n, struct linear_int8 *l)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };

    l->end = (struct pare_int8_end){ .lo = -INFINITY, .hi = INFINITY };
    l->out = n->out[0];
    return pare_node_is(n, &pare_op_qlinear_mat_mul) && n->in[B]->t.rank == 2 &&
           pare_int8_read(&l->x, n->in[A], n->in[A_SCALE], n->in[A_ZERO]) &&
           pare_int8_read(&l->end.q, n->out[0], n->in[Y_SCALE], n->in[Y_ZERO]) &&
           pare_int8_weight_read(&l->w, n->in[B], n->in[B_SCALE], n->in[B_ZERO], 1);
}

static bool read_qgemm(struct pare_node *n, struct linear_int8 *l)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE };
    struct pare_value *bias = n->n_in > C ? n->in[C] : NULL;
    bool quantized = n->n_in > Y_SCALE && n->in[Y_SCALE];

    if (!pare_node_is(n, &pare_op_qgemm) || pare_attr(n, "alpha") != 1 ||
        pare_attr(n, "transA") != 0 || !pare_int8_operand(&l->x, n->in[A], n, A_SCALE) ||
        pare_is_const(l->x.v))
        return false;
    l->tb = pare_attr(n, "transB") != 0;
    l->bias = bias;
    l->out = n->out[0];
    l->end = (struct pare_int8_end){ .lo = -INFINITY, .hi = INFINITY, .q = { .v = l->out } };
    return (!quantized || pare_int8_end_at(&l->end, n, Y_SCALE)) &&
           pare_int8_weight_read(&l->w, n->in[B], n->in[B_SCALE], n->in[B_ZERO], !l->tb) &&
           (!bias || (pare_is_const(bias) && bias->t.data && bias->t.dtype == PARE_I32 &&
                      pare_numel(&bias->t) == l->w.channels));
}

static bool read_integer(struct pare_node *n, struct linear_int8 *l)
{
    enum { A, B, A_ZERO, B_ZERO };
    const struct pare_value *zero = n->n_in > A_ZERO ? n->in[A_ZERO] : NULL;

    if (!pare_node_is(n, &pare_op_mat_mul_integer) || n->in[B]->t.rank != 2 ||
        (zero && (!pare_is_const(zero) || !zero->t.data || pare_numel(&zero->t) != 1)))
        return false;
    l->x = (struct pare_int8){ .v = n->in[A], .scale = 1 };
    l->x.zero = zero ? (int)pare_get_int(&zero->t, 0) : 0;
    l->out = n->out[0];
    return pare_int8_weight_read(&l->w, n->in[B], NULL, n->n_in > B_ZERO ? n->in[B_ZERO] : NULL, 1);
}

/* Bytes of copied rows, before the float results of each thread. */
static size_t copy_bytes(const struct linear_int8 *l)
{
    return l->copy ? (size_t)((l->M * pare_gemm_int8_fours(l->K) * 4 + 63) / 64 * 64) : 0;
}

static size_t work_bytes(const struct linear_int8 *l, int threads)
{
    if (l->panel)
        return copy_bytes(l) + (l->maps ? (size_t)threads * SOME_ROWS * ACROSS * sizeof(float) : 0);
    if (l->gemm)
        return (size_t)(l->M * l->N) * 4;
    return (size_t)(l->M * (l->wide ? pare_dot_length(l->K) : l->K)) * 2;
}

static bool linear_int8_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct linear_int8 *l = pare_alloc(v->backend->scratch, 1, sizeof(*l)), *keep;
    int fused = 0;

    if (!l || n->n_in < 2 || !n->in[0] || n->in[0]->t.rank < 2 || !pare_numel(&n->in[0]->t) ||
        !(n->op->domain ? read_qgemm(n, l)
                        : read_qdq(v, n, l) || read_qlinear(n, l) || read_integer(n, l)))
        return false;
    l->N = l->w.channels;
    l->K = pare_numel(&l->w.v->t) / l->N;
    if (l->K > PARE_DOT_LONGEST)
        return false;
    l->M = pare_numel(&n->in[0]->t) / l->K;
    l->panel = l->M > FEW && pare_gemm_int8_can(v->backend);
    l->copy = l->K % 4 || l->x.v->t.dtype == PARE_I8;
    l->gemm = pare_has_onednn && l->M > FEW && !l->panel &&
              pare_int8_exact(v->backend, &l->x, &l->w);
    l->wide = l->M > FEW && !l->panel && !l->gemm;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, (l->add != NULL) + l->maps + l->end.n))
        return false;
    *keep = *l;
    s->state = keep;
    s->in[0] = l->x.v;
    s->out[0] = l->out;
    s->work_bytes[0] = work_bytes(l, v->backend->threads);
    if (l->add)
        s->fused[fused++] = l->add;
    for (int i = 0; i < l->maps; i++)
        s->fused[fused++] = l->map[i];
    for (int i = 0; i < l->end.n; i++)
        s->fused[fused++] = l->end.node[i];
    return true;
}

/* ---- run ----------------------------------------------------------------------------- */

static int init_rows(struct linear_int8 *l, struct pare_backend *b, struct pare_err *err)
{
    double y = quantized(l) ? (double)l->end.q.scale : 1;
    struct pare_int8_out *o = &l->finish;

    *o = (struct pare_int8_out){ .out = result_of(l),
                                 .q = l->end.q,
                                 .lo = l->maps ? -INFINITY : (float)((double)l->end.lo / y),
                                 .hi = l->maps ? INFINITY : (float)((double)l->end.hi / y) };
    o->f = pare_alloc(b->arena, (size_t)pare_gemm_int8_columns(l->N), sizeof(*o->f));
    o->b = pare_alloc(b->arena, (size_t)pare_gemm_int8_columns(l->N), sizeof(*o->b));
    if (!o->f || !o->b)
        return pare_no_memory(err, "for the scales");
    for (int64_t i = 0; i < l->N; i++) {
        double unit = (double)l->x.scale * (double)pare_int8_scale(&l->w, i);

        o->f[i] = l->x.scale * pare_int8_scale(&l->w, i) / (float)y;
        if (l->bias)
            o->b[i] = (float)(pare_get(&l->bias->t, i) / (pare_is_f32(l->bias) ? unit : 1));
    }
    return 0;
}

static int init_wide(struct linear_int8 *l, struct pare_backend *b, struct pare_err *err)
{
    const int8_t *w = pare_int8_centered(&l->w, b->scratch);
    int64_t length = pare_dot_length(l->K);

    l->wider = pare_alloc(b->arena, pare_dot_packed(length, l->N), sizeof(*l->wider));
    if (!w || !l->wider)
        return pare_no_memory(err, "for the weights");
    for (int64_t i = 0; i < l->N; i++)
        for (int64_t k = 0; k < l->K; k++)
            l->wider[pare_dot_at(length, k, i)] = l->tb ? w[i * l->K + k] : w[k * l->N + i];
    return 0;
}

static int init_panel(struct linear_int8 *l, struct pare_backend *b, struct pare_err *err)
{
    const int8_t *w = pare_int8_centered(&l->w, b->scratch);
    int8_t *packed = pare_alloc_raw(b->arena, pare_gemm_int8_bytes(l->K, l->N), 1);
    int zero = l->x.zero + (l->x.v->t.dtype == PARE_I8 ? 128 : 0);

    l->sum = pare_alloc(b->arena, (size_t)pare_gemm_int8_columns(l->N), sizeof(*l->sum));
    if (!w || !packed || !l->sum)
        return pare_no_memory(err, "for the weights");
    pare_gemm_int8_pack(w, l->tb, l->K, l->N, packed);
    pare_gemm_int8_sums(packed, l->K, l->N, zero, l->sum);
    l->weights = packed;
    return 0;
}

static int linear_int8_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear_int8 *l = s->state;
    const int8_t *w;
    int8_t *transposed;

    if (s->share_from) {
        const struct linear_int8 *like = s->share_from->state;

        l->weights = like->weights;
        l->wider = like->wider;
        l->sum = like->sum;
        l->finish = like->finish;
        l->finish.out = result_of(l);
        return 0;
    }
    PARE_TRY(init_rows(l, b, err));
    if (l->panel)
        return init_panel(l, b, err);
    if (l->wide)
        return init_wide(l, b, err);
    w = pare_int8_centered(&l->w, l->tb || l->gemm ? b->arena : b->scratch);
    if (!w)
        return pare_no_memory(err, "for the weights");
    l->weights = w;
    if (l->tb || l->gemm)
        return 0;
    transposed = pare_alloc_raw(b->arena, (size_t)(l->N * l->K), 1);
    if (!transposed)
        return pare_no_memory(err, "for the weights");
    for (int64_t i = 0; i < l->N; i++)
        for (int64_t k = 0; k < l->K; k++)
            transposed[i * l->K + k] = w[k * l->N + i];
    l->weights = transposed;
    return 0;
}

PARE_SIMD static int32_t dot(const int16_t *restrict x, const int8_t *restrict w, int64_t n)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * w[i];
    return sum;
}

/* n results from element `at` of y on, the first in column c. */
static void finish(const struct linear_int8 *l, const int32_t *acc, int64_t c, int64_t n, char *y,
                   int64_t at)
{
    float f32[ACROSS];

    if (!l->maps) {
        pare_int8_finish(&l->finish, acc, c, n, y + (size_t)at * pare_dtype_size(l->out->t.dtype));
        return;
    }
    for (int64_t i = 0; i < n; i += ACROSS) {
        int64_t some = n - i < ACROSS ? n - i : ACROSS;

        pare_int8_finish(&l->finish, acc + i, c + i, some, f32);
        for (int k = 0; k < l->maps; k++)
            l->map[k]->op->map(l->map[k], f32, f32, some);
        pare_int8_quantize(&l->end, f32, y, at + i, some);
    }
}

static void run_strip(const struct linear_int8 *l, const int16_t *x, int64_t m, int64_t from,
                      char *y)
{
    int64_t n = l->N - from < STRIP ? l->N - from : STRIP;
    int32_t acc[STRIP];

    for (int64_t i = 0; i < n; i++)
        acc[i] = dot(x + m * l->K, l->weights + (from + i) * l->K, l->K);
    finish(l, acc, from, n, y, m * l->N + from);
}

#define ROWS 36

/* Rows from m on, all columns. */
static void run_rows(const struct linear_int8 *l, const void *x, int64_t m, int16_t *rows, char *y)
{
    int64_t n = l->M - m < ROWS ? l->M - m : ROWS, length = pare_dot_length(l->K);
    int32_t acc[ROWS * STRIP];

    for (int64_t i = 0; i < n; i++) {
        pare_dot_widen(&l->x, x, (m + i) * l->K, rows + i * length, l->K);
        memset(rows + i * length + l->K, 0, (size_t)(length - l->K) * sizeof(*rows));
    }
    if (quantized(l)) {
        pare_dot_block(&(struct pare_dot){ .x = rows,
                                           .w = l->wider,
                                           .rows = n,
                                           .columns = l->N,
                                           .K = length,
                                           .out = &l->finish,
                                           .stride = l->N,
                                           .bytes = (uint8_t *)y + m * l->N },
                       NULL);
        return;
    }
    for (int64_t c = 0; c < l->N; c += STRIP) {
        int64_t columns = l->N - c < STRIP ? l->N - c : STRIP;

        pare_dot_block(&(struct pare_dot){ .x = rows,
                                           .w = l->wider + c * length,
                                           .rows = n,
                                           .columns = columns,
                                           .K = length },
                       acc);
        for (int64_t i = 0; i < n; i++)
            finish(l, acc + i * columns, c, columns, y, (m + i) * l->N + c);
    }
}

static int run_gemm(const struct linear_int8 *l, const void *x, int32_t *acc, struct pare_err *err)
{
    const struct pare_onednn_int8 p = { .is_signed = l->x.v->t.dtype == PARE_I8,
                                        .tb = l->tb,
                                        .M = l->M,
                                        .N = l->N,
                                        .K = l->K,
                                        .x = x,
                                        .zero = l->x.zero,
                                        .w = l->weights,
                                        .acc = acc };

    return pare_onednn_int8(&p, err);
}

/* Copy to uint8 in rows of a multiple of 4; int8 values become values + 128, for which the zero
 * point is adjusted. */
PARE_SIMD static void copy_row(const uint8_t *x, int64_t K, uint8_t flip, uint8_t *y)
{
    for (int64_t k = 0; k < K; k++)
        y[k] = x[k] ^ flip;
    for (int64_t k = K; k < pare_gemm_int8_fours(K) * 4; k++)
        y[k] = 0;
}

struct job {
    const struct linear_int8 *l;
    const uint8_t *x;
    void *work; /* copied rows; sums; or widened rows */
    char *y;
    int64_t row;                  /* bytes of a row of x or of its copy */
    int64_t parts, columns, cuts; /* parts of the rows; cuts of `columns` columns */
};

static void copy_rows(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct linear_int8 *l = j->l;

    (void)thread;
    for (int64_t m = from; m < to; m++)
        copy_row(j->x + m * l->K, l->K, l->x.v->t.dtype == PARE_I8 ? 128 : 0,
                 (uint8_t *)j->work + m * j->row);
}

/* The product p of rows from m on: as float values, activations, then quantized. */
static void mapped_part(const struct linear_int8 *l, const struct pare_gemm_int8 *p, int64_t m,
                        float *f32, char *y)
{
    for (int64_t r = 0; r < p->rows; r += SOME_ROWS)
        for (int64_t c = p->from; c < p->to; c += ACROSS) {
            struct pare_gemm_int8 q = *p;

            q.x += r * p->x_row;
            q.w += c * pare_gemm_int8_fours(p->K) * 4;
            q.sum += c;
            q.out.f += c;
            q.out.b += c;
            q.y = f32;
            q.rows = p->rows - r < SOME_ROWS ? p->rows - r : SOME_ROWS;
            q.from = 0;
            q.to = q.N = q.y_row = p->to - c < ACROSS ? p->to - c : ACROSS;
            pare_gemm_int8_run(&q);
            for (int k = 0; k < l->maps; k++)
                l->map[k]->op->map(l->map[k], f32, f32, q.rows * q.to);
            for (int64_t i = 0; i < q.rows; i++)
                pare_int8_quantize(&l->end, f32 + i * q.to, y, (m + r + i) * l->N + c, q.to);
        }
}

static void panel_parts(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct linear_int8 *l = j->l;
    const int64_t size = (int64_t)pare_dtype_size(l->out->t.dtype);
    float *room = l->maps ? (float *)(void *)((char *)j->work + copy_bytes(l)) : NULL;

    for (int64_t k = from; k < to; k++) {
        int64_t i = k / j->cuts, c = k % j->cuts, m = l->M * i / j->parts;
        int64_t end = (c + 1) * j->columns;
        struct pare_gemm_int8 p = {
            .x = (l->copy ? (const uint8_t *)j->work : j->x) + m * j->row,
            .w = l->weights,
            .sum = l->sum,
            .out = l->finish,
            .y = j->y + m * l->N * size,
            .rows = l->M * (i + 1) / j->parts - m,
            .K = l->K,
            .N = l->N,
            .x_row = j->row,
            .y_row = l->N,
            .from = c * j->columns,
            .to = end < l->N ? end : l->N,
        };

        if (l->maps)
            mapped_part(l, &p, m, room + (int64_t)thread * SOME_ROWS * ACROSS, j->y);
        else
            pare_gemm_int8_run(&p);
    }
}

/* Divide the rows among the threads if there are many, else the columns. */
static void run_panel(struct job *j, int threads)
{
    const struct linear_int8 *l = j->l;

    j->row = l->copy ? pare_gemm_int8_fours(l->K) * 4 : l->K;
    j->parts = (l->M + SOME_ROWS - 1) / SOME_ROWS;
    j->columns = l->N;
    j->parts = j->parts < threads ? 1 : (j->parts + threads - 1) / threads * threads;
    if (j->parts == 1)
        j->columns = pare_gemm_int8_columns((l->N + threads - 1) / threads);
    j->cuts = (l->N + j->columns - 1) / j->columns;
    threads = l->M * l->N * l->K > 262144 ? threads : 1;
    pare_parallel(threads, l->copy ? l->M : 0, copy_rows, j);
    pare_parallel(threads, j->parts * j->cuts, panel_parts, j);
}

static void finish_rows(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct linear_int8 *l = j->l;

    (void)thread;
    for (int64_t m = from; m < to; m++)
        finish(l, (const int32_t *)j->work + m * l->N, 0, l->N, j->y, m * l->N);
}

static void wide_rows(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t m = from * ROWS; m < to * ROWS && m < j->l->M; m += ROWS)
        run_rows(j->l, j->x, m, (int16_t *)j->work + m * pare_dot_length(j->l->K), j->y);
}

static void row_strips(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t i = from; i < to; i++)
        for (int64_t m = 0; m < j->l->M; m++)
            run_strip(j->l, j->work, m, i * STRIP, j->y);
}

static int linear_int8_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear_int8 *l = s->state;
    struct job j = {
        .l = l,
        .x = s->in_buf[0]->t.data,
        .work = s->work[0] ? s->work[0]->t.data : NULL,
        .y = s->out_buf[0]->t.data,
    };

    if (l->panel) {
        run_panel(&j, b->threads);
        return 0;
    }
    if (l->gemm) {
        PARE_TRY(run_gemm(l, j.x, j.work, err));
        pare_parallel(l->M * l->N > 16384 ? b->threads : 1, l->M, finish_rows, &j);
        return 0;
    }
    if (l->wide) {
        pare_parallel(l->M * l->N * l->K > 65536 ? b->threads : 1, (l->M + ROWS - 1) / ROWS,
                      wide_rows, &j);
        return 0;
    }
    pare_dot_widen(&l->x, j.x, 0, j.work, l->M * l->K);
    pare_parallel(l->K * l->N > 16384 ? b->threads : 1, (l->N + STRIP - 1) / STRIP, row_strips, &j);
    return 0;
}

const struct pare_kernel pare_kernel_linear_int8 = {
    .name = "linear_int8",
    .doc = "Int8 Gemm and MatMul with constant weights and fused requantization.",
    .reads_int8 = true,
    .match = linear_int8_match,
    .init = linear_int8_init,
    .run = linear_int8_run,
};
