/* linear_train.c - training of Gemm and MatMul with a 2-D weight by packed GEMM.
 *
 *     Y (M, N) = X (M, K) W + b      dX = dY W'      dW = X' dY      db = sum of dY's rows
 *
 * Forward by packed GEMM, which adds the bias for free; backward by pare_sgemm(); with bf16 all of
 * them by gemm_bf16.h.  If most rows of
 * dY are zero (after a network's last attention only one token in many is used), only the other
 * rows are multiplied.
 */
#include "gemm_bf16.h"
#include "gemm_packed_matrix.h"

#include "../../base/simd.h"
#include "../../op/matrix/matrix.h"

#define FEW 8               /* at most one row in this many is few */
#define LEAST_ROWS 64       /* fewer rows are not checked for zeros */
#define LEAST_SUM (1 << 15) /* elements whose sum several threads compute */

struct linear {
    int64_t M, N, K;
    bool tb;     /* W is (N, K) */
    bool panels; /* Y by packed GEMM */
    size_t few;  /* floats of scratch memory for the nonzero rows; after them, those of products */
    int64_t *rows; /* indices of the nonzero rows of dY; NULL: not checked */
};

/* N elements along the last axis, not one per row. */
static bool is_row(const struct pare_tensor *t, int64_t N)
{
    return t->rank && t->dim[t->rank - 1] == N && pare_numel(t) == N;
}

/* The product Y = X W of M rows; the gradients of X and W.  The caller sets a, b, c and add. */
static struct pare_sgemm product_y(const struct linear *l, int64_t M)
{
    return (struct pare_sgemm){ .tb = l->tb,
                                .M = M,
                                .N = l->N,
                                .K = l->K,
                                .lda = l->K,
                                .ldb = l->tb ? l->K : l->N,
                                .ldc = l->N };
}

static struct pare_sgemm product_x(const struct linear *l, int64_t M)
{
    return (struct pare_sgemm){ .tb = !l->tb,
                                .M = M,
                                .N = l->K,
                                .K = l->N,
                                .lda = l->N,
                                .ldb = l->tb ? l->K : l->N,
                                .ldc = l->K };
}

/* (N, K) = dY' X, or (K, N) = X' dY. */
static struct pare_sgemm product_w(const struct linear *l, int64_t M)
{
    const int64_t rows = l->tb ? l->N : l->K, columns = l->tb ? l->K : l->N;

    return (struct pare_sgemm){ .ta = true,
                                .M = rows,
                                .N = columns,
                                .K = M,
                                .lda = rows,
                                .ldb = columns,
                                .ldc = columns };
}

static void add_bf16_work(const struct linear *l, struct pare_step *s)
{
    const struct pare_sgemm y = product_y(l, l->M), x = product_x(l, l->M), w = product_w(l, l->M);
    const size_t to_x = pare_gemm_bf16_work(&x), to_w = pare_gemm_bf16_work(&w);

    s->work_bytes[0] = pare_gemm_bf16_work(&y) * sizeof(float);
    s->work_bytes[1] += (to_x > to_w ? to_x : to_w) * sizeof(float);
}

static bool linear_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x, *w;
    struct linear *l;
    int n_in;
    bool tb;

    if (!v->train || !pare_is_plain_product(n, &tb) || !pare_is_f32(n->in[0]) ||
        !pare_is_f32(n->in[1]))
        return false;
    x = &n->in[0]->t;
    w = &n->in[1]->t;
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    if (w->rank != 2 || x->rank < 2 || !pare_numel(&n->out[0]->t) || !pare_numel(x))
        return false;
    if (n_in == 3 && !is_row(&n->in[2]->t, n->out[0]->t.dim[1]))
        return false;
    l = pare_alloc(v->backend->arena, 1, sizeof(*l));
    if (!l || !pare_step_lists(s, v, n_in, 1, 0))
        return false;
    l->tb = tb;
    l->K = x->dim[x->rank - 1];
    l->N = w->dim[l->tb ? 0 : 1];
    l->M = pare_numel(x) / l->K;
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    s->state = l;
    s->unsaved_out = ~0u;
    if (l->M < LEAST_ROWS)
        return true;
    l->panels = v->backend->block >= 8 && l->N % v->backend->block == 0;
    s->work_bytes[0] = l->panels ? (size_t)(l->K * l->N) * sizeof(float) : 0;
    l->rows = pare_alloc(v->backend->arena, (size_t)(l->M / FEW), sizeof(*l->rows));
    l->few = (size_t)(l->M / FEW * (l->N + 2 * l->K));
    s->work_bytes[1] = l->few * sizeof(float);
    if (v->backend->bf16)
        add_bf16_work(l, s);
    return l->rows != NULL;
}

static void run_panels(const struct pare_step *s, const struct pare_backend *b)
{
    const struct linear *l = s->state;
    const struct pare_packed_gemm_weights w = { s->in_buf[1]->t.data, l->K, l->N, l->tb };
    float *packed = pare_f32_mut(&s->work[0]->t);
    struct pare_packed_gemm p = pare_packed_gemm_matrix(l->M, l->K, l->N, b->block);

    p.x = pare_f32(&s->in_buf[0]->t);
    p.w = packed;
    p.bias = s->n_in > 2 ? pare_f32(&s->in_buf[2]->t) : NULL;
    p.y = pare_f32_mut(&s->out_buf[0]->t);
    pare_packed_gemm_pack(b, &w, packed);
    pare_packed_gemm_multiply(b, &p, NULL, NULL);
}

/* In bf16 if the plan is and if it can; `work` NULL: there is no scratch memory for that. */
static int multiply(const struct pare_backend *b, const struct pare_sgemm *p, const float *bias,
                    float *work, struct pare_err *err)
{
    struct pare_sgemm whole = *p;

    if (work && pare_gemm_bf16_can(b, p)) {
        pare_gemm_bf16(b, p, bias, work);
        return 0;
    }
    for (int64_t i = 0; i < p->M && bias; i++)
        memcpy(p->c + i * p->ldc, bias, (size_t)p->N * sizeof(*bias));
    whole.add = p->add || bias;
    return pare_sgemm(&whole) ? pare_no_memory(err, "for a matrix product") : 0;
}

static int linear_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    struct pare_sgemm p = product_y(l, l->M);

    if (l->panels && !b->bf16) {
        run_panels(s, b);
        return 0;
    }
    p.a = pare_f32(&s->in_buf[0]->t);
    p.b = pare_f32(&s->in_buf[1]->t);
    p.c = pare_f32_mut(&s->out_buf[0]->t);
    return multiply(b, &p, s->n_in > 2 ? pare_f32(&s->in_buf[2]->t) : NULL,
                    s->work[0] ? pare_f32_mut(&s->work[0]->t) : NULL, err);
}

/* n of the N columns. */
PARE_SIMD static void add_rows(const float *gy, int64_t M, int64_t N, int64_t n, float *gb)
{
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < n; j++)
            gb[j] += gy[i * N + j];
}

/* gb += the sum of the rows, each thread for its own columns. */
static void sum_rows(const struct pare_backend *b, const float *gy, int64_t M, int64_t N, float *gb)
{
    const int64_t threads = M * N < LEAST_SUM || N < 16 * b->threads ? 1 : b->threads;

#pragma omp parallel for num_threads((int)threads) schedule(static)
    for (int64_t i = 0; i < threads; i++) {
        const int64_t from = N * i / threads, to = N * (i + 1) / threads;

        add_rows(gy + from, M, N, to - from, gb + from);
    }
}

/* The operands of the gradients: all rows, or the nonzero ones. */
struct operands {
    int64_t M;
    const float *gy, *x;
    float *gx;
    bool add; /* add to gx */
};

static int multiply_backward(struct pare_step *s, const struct pare_backend *b,
                             const struct operands *w, struct pare_err *err)
{
    const struct linear *l = s->state;
    struct pare_buf *gw = s->in_buf[1]->grad;
    struct pare_sgemm to_x = product_x(l, w->M), to_w = product_w(l, w->M);
    float *work = s->work[1] ? pare_f32_mut(&s->work[1]->t) + l->few : NULL;

    if (w->gx) {
        to_x.add = w->add;
        to_x.a = w->gy;
        to_x.b = pare_f32(&s->in_buf[1]->t);
        to_x.c = w->gx;
        PARE_TRY(multiply(b, &to_x, NULL, work, err));
    }
    if (gw) {
        to_w.add = !s->grad_assign[1];
        to_w.a = l->tb ? w->gy : w->x;
        to_w.b = l->tb ? w->x : w->gy;
        to_w.c = pare_f32_mut(&gw->t);
        PARE_TRY(multiply(b, &to_w, NULL, work, err));
    }
    return 0;
}

static bool is_zero(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

/* List the nonzero rows of dY; returns their number, -1: more than a few. */
static int64_t find_rows(const struct linear *l, const float *gy)
{
    int64_t n = 0;

    for (int64_t i = 0; i < l->M && l->rows; i++) {
        if (is_zero(gy + i * l->N, l->N))
            continue;
        if (n == l->M / FEW)
            return -1;
        l->rows[n++] = i;
    }
    return l->rows && n ? n : -1;
}

/* Gather n rows, multiply, and scatter X's gradient. */
static int backward_few(struct pare_step *s, const struct pare_backend *b,
                        const struct operands *all, int64_t n, struct operands *few,
                        struct pare_err *err)
{
    const struct linear *l = s->state;
    float *gy = pare_f32_mut(&s->work[1]->t), *x = gy + n * l->N, *gx = x + n * l->K;
    const size_t row = (size_t)l->K * sizeof(float);

    for (int64_t i = 0; i < n; i++) {
        memcpy(gy + i * l->N, all->gy + l->rows[i] * l->N, (size_t)l->N * sizeof(float));
        memcpy(x + i * l->K, all->x + l->rows[i] * l->K, row);
    }
    *few = (struct operands){ .M = n, .gy = gy, .x = x, .gx = all->gx ? gx : NULL };
    if (all->gx && !all->add) /* before W's gradient, which may use the same memory */
        memset(all->gx, 0, (size_t)l->M * row);
    PARE_TRY(multiply_backward(s, b, few, err));
    for (int64_t i = 0; i < n && all->gx; i++)
        for (int64_t k = 0; k < l->K; k++)
            all->gx[l->rows[i] * l->K + k] += gx[i * l->K + k];
    return 0;
}

static int linear_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    struct pare_buf *gx = s->in_buf[0]->grad, *gb = s->n_in > 2 ? s->in_buf[2]->grad : NULL;
    struct operands all = {
        .M = l->M,
        .gy = pare_f32(&s->out_buf[0]->grad->t),
        .x = pare_f32(&s->in_buf[0]->t),
        .gx = gx ? pare_f32_mut(&gx->t) : NULL,
        .add = gx && !s->grad_assign[0],
    };
    struct operands few = all;
    int64_t n = find_rows(l, all.gy);

    if (n < 0)
        PARE_TRY(multiply_backward(s, b, &all, err));
    else
        PARE_TRY(backward_few(s, b, &all, n, &few, err));
    if (gb && s->grad_assign[2])
        memset(gb->t.data, 0, gb->bytes);
    if (gb)
        sum_rows(b, few.gy, few.M, l->N, pare_f32_mut(&gb->t));
    return 0;
}

const struct pare_kernel pare_kernel_linear_train = {
    .name = "linear_train",
    .doc = "Training of Gemm and MatMul by packed GEMM.",
    .match = linear_train_match,
    .run = linear_train_run,
    .backward = linear_train_backward,
};
