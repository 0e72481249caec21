/* linear_nbits.c - Gemm, MatMul and MatMulNBits with packed constant weights of 4 or 8 bits.
 *
 *     Y (M, N) = X (M, K) W + b,   W[k][n] = scale[n][k / group] * (q[n][k] - zero[n][k / group])
 *
 * Weights stay packed.  Few rows are multiplied while the weights are unpacked in registers; for
 * more rows, a strip of W at a time is dequantized into a cache-sized buffer.
 */
#include <stdatomic.h>

#include "nbits_rows.h"

#include "../../op/matrix/matrix.h"
#include "../../op/quant/nbits.h"
#include "../../op/quant/quant_family.h"
#include "../backend.h"
#include "../../base/team.h"

#define FEW 12                  /* rows for which unpacking W once per 4 rows is faster */
#define STRIP 32                /* columns per thread and task */
#define TILE ((int64_t)1 << 18) /* floats of a dequantized strip of W */

struct linear {
    int64_t M;
    struct pare_nbits w;
    struct pare_value *q, *scale, *zero, *bias; /* zero and bias may be NULL */
    int axis;                                   /* axis of K in q (N, K) or (K, N) */
    int64_t block;                              /* group size; 0: one scale per column, or one for
                                                   all */
    bool nbits;       /* MatMulNBits: weights are stored by rows, zero points are packed */
    int64_t tile;     /* columns of W to dequantize at a time; 0: none */
    const float *row; /* the bias */
    int threads;
};

/* ---- match ---------------------------------------------------------------------------------- */

static bool is_known(const struct pare_value *v, enum pare_dtype d)
{
    return v && pare_is_const(v) && v->t.dtype == d && pare_const_raw(v);
}

/* A float32 constant of N elements along the last axis. */
static bool is_row(const struct pare_value *v, int64_t N)
{
    const struct pare_tensor *t = &v->t;

    return pare_is_const(v) && pare_is_f32(v) && t->rank >= 1 && t->dim[t->rank - 1] == N &&
           pare_numel(t) == N;
}

static struct pare_value *input(const struct pare_node *n, int i)
{
    return n->n_in > i ? n->in[i] : NULL;
}

static bool read_nbits(const struct pare_node *n, struct linear *l)
{
    enum { A, B, SCALES, ZEROS, INDEX, BIAS };
    struct pare_nbits_attrs a;

    if (!pare_node_is(n, &pare_op_mat_mul_nbits))
        return false;
    a = pare_nbits_get(n);
    l->q = n->in[B];
    l->scale = n->in[SCALES];
    l->zero = input(n, ZEROS);
    l->bias = input(n, BIAS);
    l->nbits = true;
    l->w = (struct pare_nbits){ .N = a.N, .K = a.K, .group = a.block, .groups = a.blocks };
    l->w.bits = (int)a.bits;
    l->block = a.block;
    return (a.bits == 4 || a.bits == 8) && is_known(l->q, PARE_U8) &&
           is_known(l->scale, PARE_F32) && (!l->zero || is_known(l->zero, PARE_U8)) &&
           (!l->bias || is_row(l->bias, a.N));
}

/* Read the scales of a DequantizeLinear: by group along K, by column, or one. */
static bool read_scales(const struct pare_node *d, struct linear *l)
{
    const struct pare_tensor *q = &l->q->t, *s = &l->scale->t;
    int64_t axis = (int64_t)pare_attr(d, "axis");
    int at;
    struct pare_err err;

    l->block = (int64_t)pare_attr(d, "block_size");
    l->w.group = l->w.K;
    l->w.groups = 1;
    if (!l->block && pare_numel(s) == 1)
        return true;
    if (pare_axis(axis, 2, &at, &err))
        return false;
    if (!l->block)
        return at != l->axis && s->rank == 1 && s->dim[0] == l->w.N;
    l->w.group = l->block < l->w.K ? l->block : l->w.K;
    l->w.groups = l->w.K / l->block + (l->w.K % l->block != 0);
    return at == l->axis && s->rank == 2 && s->dim[at] == l->w.groups && s->dim[!at] == q->dim[!at];
}

static bool read_weight(const struct pare_node *n, struct linear *l)
{
    const struct pare_node *d = n->in[1]->maker;
    enum pare_dtype t;

    if (!pare_node_is(d, &pare_op_dequantize_linear) || n->in[1]->t.rank != 2)
        return false;
    l->q = d->in[0];
    l->scale = d->in[1];
    l->zero = input(d, 2);
    t = l->q->t.dtype;
    if ((t != PARE_U8 && t != PARE_I8 && !pare_is_4bit(t)) || !is_known(l->q, t) ||
        !is_known(l->scale, PARE_F32) || (l->zero && !is_known(l->zero, t)))
        return false;
    l->w.bits = pare_is_4bit(t) ? 4 : 8;
    l->w.K = l->q->t.dim[l->axis];
    l->w.N = l->q->t.dim[!l->axis];
    return read_scales(d, l);
}

static bool read_float(const struct pare_node *n, struct linear *l)
{
    bool tb;

    if (n->n_in < 2 || !pare_is_f32(n->in[1]) || !pare_is_const(n->in[1]) ||
        !pare_is_plain_product(n, &tb) || n->in[0]->t.rank < 2)
        return false;
    l->axis = tb ? 1 : 0;
    l->bias = input(n, 2);
    return (!l->bias || is_row(l->bias, n->out[0]->t.dim[1])) && read_weight(n, l);
}

static bool read_node(const struct pare_node *n, struct linear *l)
{
    if (!pare_is_f32(n->in[0]) || pare_is_const(n->in[0]) || !pare_numel(&n->out[0]->t) ||
        !(read_nbits(n, l) || read_float(n, l)) || l->w.K < 1 ||
        !pare_nbits_fits(l->w.bits, l->w.group, l->w.groups))
        return false;
    l->M = pare_numel(&n->in[0]->t) / l->w.K;
    return l->M > 0;
}

/* Few rows: x in field order.  More rows: a strip of W per thread. */
static size_t work_bytes(struct linear *l, int threads)
{
    int64_t each;

    l->threads = threads > 0 ? threads : 1;
    if (l->M <= FEW)
        return (size_t)(l->M * (pare_nbits_ordered(&l->w) + l->w.groups)) * sizeof(float);
    each = (l->w.N + l->threads - 1) / l->threads;
    l->tile = TILE / l->w.K < each ? TILE / l->w.K : each;
    l->tile = l->tile < 16 ? 16 : l->tile / 16 * 16;
    return (size_t)(l->threads * l->tile * l->w.K) * sizeof(float);
}

static bool linear_nbits_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct linear *l = pare_alloc(v->backend->scratch, 1, sizeof(*l)), *keep;
    struct pare_value *out = n->n_out ? n->out[0] : NULL, *other;
    struct pare_node *add;

    if (!l || !n->n_in || !n->in[0] || !out || !n->op || !read_node(n, l))
        return false;
    add = l->bias ? NULL : pare_only_consumer(v, out);
    if (add && (!pare_node_is(add, &pare_op_add) || add->in[0] == add->in[1] ||
                !pare_same_shape(&add->out[0]->t, &out->t)))
        add = NULL;
    other = add ? add->in[add->in[0] == out] : NULL;
    if (add && !is_row(other, l->w.N))
        add = NULL;
    if (add) {
        l->bias = other;
        out = add->out[0];
    }
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, add != NULL))
        return false;
    s->work_bytes[0] = work_bytes(l, v->backend->threads);
    *keep = *l;
    s->state = keep;
    s->in[0] = n->in[0];
    s->out[0] = out;
    if (add)
        s->fused[0] = add;
    return true;
}

/* ---- init ----------------------------------------------------------------------------------- */

/* Element i of an integer constant, packed as in the file or unpacked. */
static int element_at(const struct pare_value *v, int64_t i)
{
    if (v->t.data)
        return v->t.dtype == PARE_U8 || v->t.dtype == PARE_U4 ? ((const uint8_t *)v->t.data)[i]
                                                              : ((const int8_t *)v->t.data)[i];
    if (pare_is_4bit(v->t.dtype))
        return pare_nibble(v->t.dtype, v->raw, i);
    return v->t.dtype == PARE_U8 ? ((const uint8_t *)v->raw)[i] : ((const int8_t *)v->raw)[i];
}

/* Repack into rows of K values if the constant is (K, N). */
static int pack_rows(struct linear *l, struct pare_backend *b, struct pare_err *err)
{
    struct pare_nbits *w = &l->w;
    bool four = w->bits == 4;
    uint8_t *q;

    w->row_bytes = four ? (w->K + 1) / 2 : w->K;
    q = pare_alloc(b->arena, (size_t)(w->N * w->row_bytes), 1);
    if (!q)
        return pare_no_memory(err, "for packed weights");
    w->q = q;
#pragma omp parallel for num_threads(b->threads)
    for (int64_t n0 = 0; n0 < w->N; n0 += 64) /* 64 columns at a time: their rows are short */
        for (int64_t k = 0; k < w->K; k++)
            for (int64_t n = n0; n < n0 + 64 && n < w->N; n++) {
                int v = element_at(l->q, l->axis ? n * w->K + k : k * w->N + n);
                uint8_t *to = q + n * w->row_bytes + (four ? k / 2 : k);

                *to = (uint8_t)(four ? *to | (v & 15) << (k & 1 ? 4 : 0) : v);
            }
    return 0;
}

static int init_rows(struct linear *l, struct pare_backend *b, struct pare_err *err)
{
    struct pare_nbits *w = &l->w;
    enum pare_dtype t = l->q->t.dtype;
    bool sign = t == PARE_I4 || t == PARE_I8;

    w->flip = sign ? 0 : w->bits == 4 ? 0x88888888u : 0x80808080u;
    w->q = pare_const_raw(l->q);
    if (l->nbits) {
        w->row_bytes = w->groups * w->group * w->bits / 8;
        return 0;
    }
    w->row_bytes = w->K * w->bits / 8;
    if (l->axis && w->K * w->bits % 8 == 0 && (w->bits == 8 || !l->q->t.data))
        return 0;
    return pack_rows(l, b, err);
}

/* Index of the scale of row n and group g. */
static int64_t scale_at(const struct linear *l, int64_t n, int64_t g)
{
    int64_t count = pare_numel(&l->scale->t);

    if (l->nbits || (l->block && l->axis))
        return n * l->w.groups + g;
    return l->block ? g * l->w.N + n : count == 1 ? 0 : n;
}

/* The shift for which q + shift = q - zero point. */
static int shift_at(const struct linear *l, int64_t n, int64_t g)
{
    int middle = l->w.flip ? 1 << (l->w.bits - 1) : 0;
    int64_t row = l->w.bits == 4 ? (l->w.groups + 1) / 2 : l->w.groups;

    if (!l->zero)
        return l->nbits ? 0 : middle;
    if (l->nbits)
        return middle -
               pare_nbits_at((const uint8_t *)pare_const_raw(l->zero) + n * row, l->w.bits, g);
    return middle - element_at(l->zero, scale_at(l, n, g));
}

static int init_scales(struct linear *l, struct pare_backend *b, struct pare_err *err)
{
    struct pare_nbits *w = &l->w;
    const uint8_t *from = pare_const_raw(l->scale);
    float *s = pare_alloc_raw(b->arena, (size_t)(w->N * w->groups), sizeof(*s));
    int16_t *d = pare_alloc_raw(b->scratch, (size_t)(w->N * w->groups), sizeof(*d)), *keep;
    bool any = false;

    if (!s || !d)
        return pare_no_memory(err, "for packed weights");
    for (int64_t n = 0; n < w->N; n++)
        for (int64_t g = 0; g < w->groups; g++) {
            int64_t i = n * w->groups + g;

            memcpy(&s[i], from + scale_at(l, n, g) * (int64_t)sizeof(float), sizeof(float));
            d[i] = (int16_t)shift_at(l, n, g);
            any |= d[i] != 0;
        }
    w->scale = s;
    keep = any ? pare_alloc_raw(b->arena, (size_t)(w->N * w->groups), sizeof(*d)) : NULL;
    if (any && !keep)
        return pare_no_memory(err, "for packed weights");
    if (any)
        memcpy(keep, d, (size_t)(w->N * w->groups) * sizeof(*d));
    w->shift = keep;
    return 0;
}

static int linear_nbits_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;

    if (s->share_from) {
        l->w = ((const struct linear *)s->share_from->state)->w;
        l->row = ((const struct linear *)s->share_from->state)->row;
        return 0;
    }
    PARE_TRY(init_rows(l, b, err));
    PARE_TRY(init_scales(l, b, err));
    if (!l->bias)
        return 0;
    l->row = pare_const_f32(b, l->bias, err);
    return l->row ? 0 : err->code;
}

/* ---- run ------------------------------------------------------------------------------------ */

struct few {
    const struct linear *l;
    struct pare_nbits_job job;
};

static void run_strips(void *arg, int64_t first, int64_t end, int thread)
{
    const struct few *f = arg;
    const struct linear *l = f->l;
    float *y = f->job.y;

    (void)thread;
    for (int64_t i = first; i < end; i++) {
        int64_t from = i * STRIP, to = from + STRIP < l->w.N ? from + STRIP : l->w.N;

        pare_nbits_dot(&l->w, &f->job, from, to);
        for (int64_t m = 0; m < l->M && l->row; m++)
            for (int64_t n = from; n < to; n++)
                y[m * l->w.N + n] += l->row[n];
    }
}

static void run_few(const struct linear *l, const float *x, float *y, float *work)
{
    const struct pare_nbits *w = &l->w;
    int64_t len = pare_nbits_ordered(w), strips = (w->N + STRIP - 1) / STRIP;
    float *sums = work + l->M * len;

    for (int64_t m = 0; m < l->M; m++)
        pare_nbits_order(w, x + m * w->K, work + m * len, w->shift ? sums + m * w->groups : NULL);
    pare_parallel(w->K * w->N > 16384 ? l->threads : 1, strips, run_strips,
                  &(struct few){ l, { work, sums, len, (int)l->M, y } });
}

/* Columns of the result from `from` on, by a dequantized strip of W. */
static int run_tile(const struct linear *l, const float *x, float *y, float *tile, int64_t from)
{
    const struct pare_nbits *w = &l->w;
    int64_t n = w->N - from < l->tile ? w->N - from : l->tile;

    for (int64_t i = 0; i < n; i++)
        pare_nbits_dequantize(w, from + i, tile + i * w->K);
    for (int64_t m = 0; m < l->M && l->row; m++)
        memcpy(y + m * w->N + from, l->row + from, (size_t)n * sizeof(*y));
    return pare_product_strip(&(struct pare_strip){ .x = x,
                                                    .w = tile,
                                                    .y = y + from,
                                                    .M = l->M,
                                                    .N = n,
                                                    .K = w->K,
                                                    .stride = w->N,
                                                    .add = l->row != NULL });
}

struct tiles {
    struct pare_step *s;
    atomic_bool failed;
};

static void run_tiles(void *arg, int64_t from, int64_t to, int thread)
{
    struct tiles *j = arg;
    const struct linear *l = j->s->state;
    float *work = pare_f32_mut(&j->s->work[0]->t) + thread * l->tile * l->w.K;

    for (int64_t i = from; i < to; i++)
        if (run_tile(l, pare_f32(&j->s->in_buf[0]->t), pare_f32_mut(&j->s->out_buf[0]->t), work,
                     i * l->tile))
            atomic_store(&j->failed, true);
}

static int linear_nbits_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32_mut(&s->out_buf[0]->t), *work = pare_f32_mut(&s->work[0]->t);
    struct tiles j = { .s = s };

    (void)b;
    if (!l->tile) {
        run_few(l, x, y, work);
        return 0;
    }
    pare_parallel(l->threads, (l->w.N + l->tile - 1) / l->tile, run_tiles, &j);
    return atomic_load(&j.failed) ? pare_no_memory(err, "for packed weights") : 0;
}

const struct pare_kernel pare_kernel_linear_nbits = {
    .name = "linear_nbits",
    .doc = "Gemm, MatMul and MatMulNBits with packed weights of 4 and 8 bits.",
    .reads_int8 = true,
    .match = linear_nbits_match,
    .init = linear_nbits_init,
    .run = linear_nbits_run,
};
