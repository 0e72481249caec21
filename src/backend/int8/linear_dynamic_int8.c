/* linear_dynamic_int8.c - MatMulInteger with constant weights and a zero point known at run time.
 *
 *     y (M, N) = (x - zx) (w - zw),   x (M, K) uint8 or int8, w (K, N) uint8 or int8,
 *
 * as after DynamicQuantizeLinear; fused with the following Cast to float, Mul with the product of
 * the scales, Add of a bias, and the elementwise chain after them.  dynamic_weights.h explains how
 * any zero point of the weights fits.  The product is gemm_int8.h's if the CPU has VNNI, else
 * int8_dot.h's in int16.  The sums are exact.
 */
#include <string.h>

#include "../../base/simd.h"
#include "../../op/op.h"
#include "../rows/chain_ops.h"
#include "dynamic_weights.h"
#include "gemm_int8.h"
#include "int8_dot.h"
#include "../../base/team.h"

enum { A, B, A_ZERO, B_ZERO };

struct linear_dynamic {
    int64_t M, N, K;
    bool panel;            /* by gemm_int8.h */
    bool copy;             /* panel: x is copied into rows that are multiples of 4 */
    bool flip;             /* x is int8 */
    int in_zero, in_scale; /* inputs of the step; 0: none */
    int first_operand;     /* of the chain */
    struct pare_value *zero, *scale, *bias; /* zero of x; scales: one or N; bias: N floats */
    struct pare_node *fused[3];
    int n_fused;
    const struct pare_value *w, *wz;
    struct pare_value *x, *out;
    struct pare_chain links;    /* n_links 0: no chain */
    struct pare_value integers; /* describes the sums to gemm_int8.h */
    const int8_t *packed;
    int16_t *wider;  /* the weights for int8_dot.h, (N, padded K) */
    int32_t *column; /* their sums, padded to whole panels */
    int32_t *shift;  /* NULL: all 0 */
};

/* ---- match --------------------------------------------------------------------------- */

static bool is_row(const struct pare_value *v, int64_t N)
{
    return v && pare_is_f32(v) &&
           (pare_numel(&v->t) == 1 ||
            (v->t.rank >= 1 && v->t.dim[v->t.rank - 1] == N && pare_numel(&v->t) == N));
}

/* Is the value computed by a step before the node's? */
static bool is_ready(const struct pare_match *v, const struct pare_value *x)
{
    return pare_is_const(x) || v->layout[x->id] != 0;
}

/* Cast, Mul with scales that are known when this node runs, Add of a constant row. */
static void follow(const struct pare_match *v, struct linear_dynamic *l)
{
    struct pare_value *other;
    struct pare_node *n = pare_dynamic_next(v, l->out, &pare_op_cast, PARE_F32, &other), *mul, *add;

    mul = n ? pare_dynamic_next(v, n->out[0], &pare_op_mul, PARE_F32, &other) : NULL;
    if (!mul || !is_row(other, l->N) || !is_ready(v, other))
        return;
    l->fused[l->n_fused++] = n;
    l->fused[l->n_fused++] = mul;
    l->scale = other;
    l->out = mul->out[0];
    add = pare_dynamic_next(v, l->out, &pare_op_add, PARE_F32, &other);
    if (!add || !is_row(other, l->N) || pare_numel(&other->t) != l->N || !pare_is_const(other) ||
        !other->t.data)
        return;
    l->fused[l->n_fused++] = add;
    l->bias = other;
    l->out = add->out[0];
}

static bool read_node(const struct pare_match *v, const struct pare_node *n,
                      struct linear_dynamic *l)
{
    struct pare_value *zero = n->n_in > A_ZERO ? n->in[A_ZERO] : NULL;
    const struct pare_value *wz = n->n_in > B_ZERO ? n->in[B_ZERO] : NULL;

    if (!pare_node_is(n, &pare_op_mat_mul_integer) || n->op->domain || !pare_is_8bit(n->in[A]) ||
        n->in[B]->t.rank != 2 || n->in[A]->t.rank < 2 || !pare_numel(&n->in[A]->t) ||
        !pare_numel(&n->in[B]->t))
        return false;
    l->K = n->in[B]->t.dim[0];
    l->N = n->in[B]->t.dim[1];
    l->M = pare_numel(&n->in[A]->t) / l->K;
    l->w = n->in[B];
    l->wz = wz;
    l->zero = zero;
    l->x = n->in[A];
    l->out = n->out[0];
    l->integers.t.dtype = PARE_I32;
    l->flip = n->in[A]->t.dtype == PARE_I8;
    if ((zero && (pare_numel(&zero->t) != 1 || !is_ready(v, zero))) ||
        !pare_dynamic_known(l->w, wz, l->N))
        return false;
    return l->K <= PARE_DOT_LONGEST / 2;
}

/* Bytes of the scratch memory before the rows: sums of columns and of rows. */
static size_t head_bytes(const struct linear_dynamic *l)
{
    return ((size_t)(pare_gemm_int8_columns(l->N) + l->M) * 4 + 63) / 64 * 64;
}

/* The lists of the step: x, zero point, scales, operands of the chain. */
static bool fill_step(const struct pare_match *v, const struct linear_dynamic *l, int inputs,
                      struct pare_step *s)
{
    const struct pare_chain *c = &l->links;
    size_t row = (size_t)pare_gemm_int8_fours(l->K) * 4;
    int at = inputs;

    if (!pare_step_lists(s, v, inputs + c->n_ops, 1, l->n_fused + c->n_links))
        return false;
    s->in[0] = l->x;
    if (l->in_zero)
        s->in[l->in_zero] = l->zero;
    if (l->in_scale)
        s->in[l->in_scale] = l->scale;
    for (int i = 0; i < c->n_ops; i++)
        if (c->op[i].value && c->op[i].value != l->out)
            s->in[at++] = c->op[i].value;
    s->n_in = at;
    for (int i = 0; i < l->n_fused; i++)
        s->fused[i] = l->fused[i];
    for (int i = 0; i < c->n_links; i++)
        s->fused[l->n_fused + i] = c->link[i].node;
    s->out[0] = c->n_links ? pare_chain_out(c) : l->out;
    s->work_bytes[0] = head_bytes(l) + (!l->panel ? (size_t)(l->M * pare_dot_length(l->K)) * 2
                                        : l->copy ? (size_t)l->M * row
                                                  : 0);
    return true;
}

static bool linear_dynamic_int8_match(const struct pare_match *v, struct pare_node *n,
                                      struct pare_step *s)
{
    struct linear_dynamic *l = pare_alloc(v->backend->scratch, 1, sizeof(*l)), *keep;
    int inputs = 1;

    if (!l || n->n_in < 2 || !read_node(v, n, l))
        return false;
    follow(v, l);
    l->panel = pare_gemm_int8_can(v->backend);
    l->copy = l->K % 4 || l->flip;
    l->in_zero = l->zero && !pare_is_const(l->zero) ? inputs++ : 0;
    l->in_scale = l->scale && !pare_is_const(l->scale) ? inputs++ : 0;
    l->first_operand = inputs;
    if (!l->scale || !pare_chain_after(v, l->out, &l->links))
        l->links.n_links = l->links.n_ops = 0;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !fill_step(v, l, inputs, s))
        return false;
    *keep = *l;
    s->state = keep;
    return true;
}

/* ---- init ---------------------------------------------------------------------------- */

static int init_weights(struct linear_dynamic *l, struct pare_backend *b, struct pare_err *err)
{
    struct pare_dynamic_weights d = { l->w, l->wz, l->K, l->N, true, NULL, NULL };
    int64_t length = pare_dot_length(l->K);
    int8_t *packed = NULL;

    PARE_TRY(pare_dynamic_center(&d, b, err));
    l->shift = d.shift;
    l->column = pare_alloc(b->arena, (size_t)pare_gemm_int8_columns(l->N), sizeof(*l->column));
    if (l->panel)
        l->packed = packed = pare_alloc_raw(b->arena, pare_gemm_int8_bytes(l->K, l->N), 1);
    else
        l->wider = pare_alloc(b->arena, pare_dot_packed(length, l->N), sizeof(*l->wider));
    if (!l->column || (!packed && !l->wider))
        return pare_no_memory(err, "for the weights");
    if (l->panel)
        pare_gemm_int8_pack(d.u, false, l->K, l->N, packed);
    for (int64_t k = 0; k < l->K; k++)
        for (int64_t i = 0; i < l->N; i++) {
            l->column[i] += d.u[k * l->N + i];
            if (l->wider)
                l->wider[pare_dot_at(length, k, i)] = d.u[k * l->N + i];
        }
    return 0;
}

static int linear_dynamic_int8_init(struct pare_step *s, struct pare_backend *b,
                                    struct pare_err *err)
{
    struct linear_dynamic *l = s->state;

    if (s->share_from) {
        const struct linear_dynamic *like = s->share_from->state;

        l->packed = like->packed;
        l->wider = like->wider;
        l->column = like->column;
        l->shift = like->shift;
    } else {
        PARE_TRY(init_weights(l, b, err));
    }
    if (!l->links.n_links)
        return 0;
    return pare_chain_init(&l->links, b, s->in_buf + l->first_operand, l->out,
                           pare_f32(&s->out_buf[0]->t), err);
}

/* ---- run ----------------------------------------------------------------------------- */

struct job {
    const struct linear_dynamic *l;
    const uint8_t *x;
    const int32_t *sum; /* by column: what the zero points add */
    int32_t *row_sum;   /* by row: sum of x */
    const float *scale;
    char *rows; /* scratch: x as the product reads it */
    int32_t *y;
    int zero;                     /* zero point of x */
    int64_t parts, columns, cuts; /* parts of the rows; cuts of `columns` columns */
};

/* y of a row: minus the shift times the row's sum; then to float, in place. */
PARE_SIMD static void finish_row(const struct job *j, int64_t m)
{
    const struct linear_dynamic *l = j->l;
    int32_t *y = j->y + m * l->N;
    float *f = (float *)(void *)y;
    const float *b = l->bias ? pare_f32(&l->bias->t) : NULL;
    bool one = l->scale && pare_numel(&l->scale->t) == 1;

    if (l->shift)
        for (int64_t i = 0; i < l->N; i++)
            y[i] -= l->shift[i] * j->row_sum[m];
    if (!l->scale)
        return;
    for (int64_t i = 0; i < l->N; i++) {
        int32_t v;
        float r;

        memcpy(&v, &y[i], sizeof(v));
        r = (float)v * j->scale[one ? 0 : i];
        r = b ? r + b[i] : r;
        memcpy(&f[i], &r, sizeof(r));
    }
}

PARE_SIMD static void copy_row(const uint8_t *x, int64_t K, uint8_t flip, uint8_t *y)
{
    for (int64_t k = 0; k < K; k++)
        y[k] = x[k] ^ flip;
    for (int64_t k = K; k < pare_gemm_int8_fours(K) * 4; k++)
        y[k] = 0;
}

#define SOME_ROWS 96

/* Rows m..m + n - 1, columns from..to - 1, by VNNI. */
static void run_panel(const struct job *j, int64_t m, int64_t n, int64_t from, int64_t to)
{
    const struct linear_dynamic *l = j->l;
    int64_t row = l->copy ? pare_gemm_int8_fours(l->K) * 4 : l->K;
    struct pare_gemm_int8 p = {
        .x = (l->copy ? (const uint8_t *)j->rows : j->x) + m * row,
        .w = l->packed,
        .sum = j->sum,
        .out = { .out = &l->integers },
        .y = j->y + m * l->N,
        .shift = l->shift,
        .row_sum = j->row_sum + m,
        .scale = l->scale ? j->scale : NULL,
        .bias = l->bias ? pare_f32(&l->bias->t) : NULL,
        .one_scale = l->scale && pare_numel(&l->scale->t) == 1,
        .rows = n,
        .K = l->K,
        .N = l->N,
        .x_row = row,
        .y_row = l->N,
        .from = from,
        .to = to,
    };

    pare_gemm_int8_run(&p);
}

#define COLUMNS 32
#define ROWS 32

/* The same without VNNI: at most ROWS rows, all columns. */
static void run_dots(const struct job *j, int64_t m, int64_t n)
{
    const struct linear_dynamic *l = j->l;
    int64_t length = pare_dot_length(l->K);
    const int16_t *x = (const int16_t *)(const void *)j->rows + m * length;
    int32_t acc[ROWS * COLUMNS];

    for (int64_t c = 0; c < l->N; c += COLUMNS) {
        int64_t columns = l->N - c < COLUMNS ? l->N - c : COLUMNS;

        pare_dot_block(&(struct pare_dot){ .x = x,
                                           .w = l->wider + c * length,
                                           .rows = n,
                                           .columns = columns,
                                           .K = length },
                       acc);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < columns; k++)
                j->y[(m + i) * l->N + c + k] = acc[i * columns + k] + j->sum[c + k];
    }
}

/* Row m as the product reads it, and its sum. */
static void prepare_row(const struct job *j, int64_t m, int zero)
{
    const struct linear_dynamic *l = j->l;
    int64_t row = l->panel ? pare_gemm_int8_fours(l->K) * 4 : pare_dot_length(l->K) * 2;
    struct pare_int8 q = { .v = l->x, .zero = zero };
    char *to = j->rows + m * row;

    if (l->shift)
        j->row_sum[m] = pare_dynamic_row_sum(j->x + m * l->K, l->K, l->flip);
    if (l->panel && l->copy) {
        copy_row(j->x + m * l->K, l->K, l->flip ? 128 : 0, (uint8_t *)to);
    } else if (!l->panel) {
        pare_dot_widen(&q, j->x, m * l->K, (int16_t *)(void *)to, l->K);
        memset(to + l->K * 2, 0, (size_t)(row - l->K * 2));
    }
}

/* Rows m..m + n - 1, columns from..to - 1, to the end of the chain. */
static void run_part(const struct job *j, int64_t m, int64_t n, int64_t from, int64_t to)
{
    const struct linear_dynamic *l = j->l;
    float *y = (float *)(void *)j->y;

    if (l->panel) {
        run_panel(j, m, n, from, to);
    } else {
        run_dots(j, m, n);
        for (int64_t k = m; k < m + n; k++)
            finish_row(j, k);
    }
    if (l->links.n_links && to - from == l->N)
        pare_chain_run(&l->links, m * l->N, (m + n) * l->N, y);
    else if (l->links.n_links)
        for (int64_t k = m; k < m + n; k++)
            pare_chain_run(&l->links, k * l->N + from, k * l->N + to, y);
}

static void prepare_rows(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t m = from; m < to; m++)
        prepare_row(j, m, j->zero);
}

static void run_parts(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct linear_dynamic *l = j->l;

    (void)thread;
    for (int64_t k = from; k < to; k++) {
        int64_t i = k / j->cuts, first = k % j->cuts * j->columns, last = first + j->columns;
        int64_t m = l->M * i / j->parts, end = l->M * (i + 1) / j->parts;

        if (end > m)
            run_part(j, m, end - m, first, last < l->N ? last : l->N);
    }
}

/* Divide the rows among the threads if there are many, else the columns. */
static void run_all(struct job *j, int threads)
{
    const struct linear_dynamic *l = j->l;
    int64_t some = l->panel ? SOME_ROWS : ROWS;
    bool prepare = l->copy || !l->panel || l->shift;

    j->parts = (l->M + some - 1) / some;
    j->columns = l->N;
    if (l->panel && j->parts < threads)
        j->columns = pare_gemm_int8_columns((l->N + threads - 1) / threads);
    else
        j->parts = (j->parts + threads - 1) / threads * threads; /* equal shares */
    j->cuts = (l->N + j->columns - 1) / j->columns;
    threads = l->M * l->N * l->K > 262144 ? threads : 1;
    pare_parallel(threads, prepare ? l->M : 0, prepare_rows, j);
    pare_parallel(threads, j->parts * j->cuts, run_parts, j);
}

static int linear_dynamic_int8_run(struct pare_step *s, struct pare_backend *b,
                                   struct pare_err *err)
{
    const struct linear_dynamic *l = s->state;
    int32_t *sum = s->work[0]->t.data;
    struct job j = { .l = l, .x = s->in_buf[0]->t.data, .sum = sum, .y = s->out_buf[0]->t.data };
    int32_t zero = 0, all;

    (void)err;
    if (l->zero) {
        const uint8_t *z = l->in_zero ? s->in_buf[l->in_zero]->t.data : l->zero->t.data;

        zero = l->zero->t.dtype == PARE_I8 ? (int8_t)*z : *z;
    }
    if (l->scale)
        j.scale = l->in_scale ? s->in_buf[l->in_scale]->t.data : l->scale->t.data;
    j.row_sum = sum + pare_gemm_int8_columns(l->N);
    j.rows = (char *)sum + head_bytes(l);
    all = l->panel ? -(zero + (l->flip ? 128 : 0)) : 0; /* int8_dot.h subtracts the zero point */
    for (int64_t i = 0; i < pare_gemm_int8_columns(l->N); i++)
        sum[i] = all * l->column[i] +
                 (i < l->N && l->shift ? (int32_t)l->K * zero * l->shift[i] : 0);
    j.zero = zero;
    run_all(&j, b->threads);
    return 0;
}

const struct pare_kernel pare_kernel_linear_dynamic_int8 = {
    .name = "linear_dynamic_int8",
    .doc = "MatMulInteger after DynamicQuantizeLinear, with the scales and the bias after it.",
    .reads_int8 = true,
    .match = linear_dynamic_int8_match,
    .init = linear_dynamic_int8_init,
    .run = linear_dynamic_int8_run,
};
