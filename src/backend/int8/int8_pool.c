/* int8_pool.c - int8 MaxPool, AveragePool and global means with channels last.
 *
 * The maximum of int8 values is the maximum of their float values, so MaxPool between equal scales
 * needs no float values.  Means are 32-bit sums, then
 *     y = round((sum - count zero) f) + y_zero,   f = x_scale / (y_scale divisor).
 */
#include "../fuse/int8_function.h"

#include "../../base/simd.h"
#include "../../op/reduce/reduce_family.h"
#include "../fuse/padded_mean.h"
#include "../../base/team.h"

#define CHUNK 256      /* channels at a time */
#define MOST (1 << 22) /* values whose sum fits in 32 bits */
#define TALLEST 256    /* values whose sum fits in 16 bits, for columns of a window */

struct int8_pool {
    struct pare_window w; /* over three axes */
    bool max, global, count_pad, is_signed;
    struct pare_int8 x;
    struct pare_int8_end end;
    struct pare_value *out; /* float32 if the mean is not quantized */
    struct pare_ncs d;
    int64_t out_space;
    struct pare_node *mean;        /* the AveragePool after a Pad, or NULL */
    struct pare_int8_table *table; /* global mean: float values by byte; NULL: dequantized x */
};

/* ---- match --------------------------------------------------------------------------- */

static bool read_window(const struct pare_match *v, struct pare_node *n, struct int8_pool *p)
{
    struct pare_err err;

    p->mean = n->op->domain ? NULL : pare_padded_mean(v, n, &p->w);
    if (p->mean) {
        p->count_pad = true;
        return pare_window_meets(&p->w);
    }

    p->max = !(n->op->flags & PARE_OP_MEAN);
    if (!(n->op->flags & PARE_OP_POOL) || n->op->flags & PARE_OP_GLOBAL ||
        pare_pool_window(n, &p->w, &err) || !pare_window_meets(&p->w))
        return false;
    p->count_pad = !p->max && pare_pool_counts_pad(n);
    pare_window_3d(&p->w);
    return true;
}

/* Match a global mean of a function of an int8 tensor. */
static bool read_func(const struct pare_match *v, struct pare_node *n, struct int8_pool *p)
{
    struct pare_int8_func *f = pare_alloc(v->backend->scratch, 1, sizeof(*f));

    p->table = pare_alloc(v->backend->arena, 1, sizeof(*p->table));
    if (!f || !p->table || !p->global || !pare_int8_func(v, n->in[0], f) || f->transpose)
        return false;
    *p->table = f->table;
    p->x = f->x;
    return true;
}

/* Match a pool of int8 tensors, or one between DequantizeLinear and QuantizeLinear. */
static bool read_ends(const struct pare_match *v, struct pare_node *n, struct int8_pool *p)
{
    enum { X, X_SCALE, X_ZERO, Y_SCALE };
    struct pare_value *y = p->mean ? p->mean->out[0] : n->out[0];

    if (n->op->domain) {
        p->out = n->out[0];
        return pare_int8_operand(&p->x, n->in[X], n, X_SCALE) &&
               pare_int8_end_at(&p->end, n, Y_SCALE);
    }
    if (!pare_is_f32(n->in[0])) {
        p->x = (struct pare_int8){ .v = n->in[0] };
        p->out = n->out[0];
        return p->max && (n->in[0]->t.dtype == PARE_U8 || n->in[0]->t.dtype == PARE_I8);
    }
    if ((!pare_int8_source(v, n->in[0], &p->x) || p->x.viewed) && !read_func(v, n, p))
        return false;
    if (pare_int8_end(v, y, &p->end)) {
        p->out = p->end.q.v;
        return !p->max || (p->end.n == 1 && pare_int8_same(&p->x, &p->end.q));
    }
    p->end = (struct pare_int8_end){ 0 };
    p->out = y;
    return !p->max;
}

static bool int8_pool_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct int8_pool p = { 0 }, *keep;
    const struct pare_tensor *x;

    if ((n->op->domain && !(n->op->flags & PARE_OP_POOL)) || n->n_in < 1 || n->n_out != 1 ||
        !n->in[0])
        return false;
    x = &n->in[0]->t;
    if (x->rank < 4 || x->rank > 5 || !pare_numel(x) || !pare_numel(&n->out[0]->t) ||
        pare_is_const(n->in[0]))
        return false;
    p.global = pare_is_spatial_mean(n);
    if ((!p.global && !read_window(v, n, &p)) || !read_ends(v, n, &p))
        return false;
    p.d = pare_ncs(x);
    if (p.d.s > MOST)
        return false;
    p.out_space = p.global ? 1 : p.w.out[0] * p.w.out[1] * p.w.out[2];
    if (!p.global && !p.max && p.w.kernel[0] * p.w.kernel[1] > TALLEST)
        return false;
    p.is_signed = p.x.v->t.dtype == PARE_I8;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, (p.mean != NULL) + p.end.n))
        return false;
    *keep = p;
    s->state = keep;
    s->in[0] = p.x.v;
    s->out[0] = p.out;
    s->in_block[0] = PARE_CHANNELS_LAST;
    if (!p.global)
        s->work_bytes[0] = (size_t)v->backend->threads * (size_t)(p.w.in[2] * p.d.c) * 2;
    s->out_block[0] = p.out->t.rank == 2 ? 1 : PARE_CHANNELS_LAST;
    if (p.mean)
        s->fused[0] = p.mean;
    for (int i = 0; i < p.end.n; i++)
        s->fused[(p.mean != NULL) + i] = p.end.node[i];
    return true;
}

/* ---- run ----------------------------------------------------------------------------- */

/* The taps [lo, hi) of the window that starts at `start`. */
struct taps {
    int64_t lo[3], hi[3], start[3];
};

static void set_taps(const struct pare_window *w, int axis, int64_t o, struct taps *t)
{
    int64_t d = w->dilation[axis], start = o * w->stride[axis] - w->pad_begin[axis];
    int64_t hi = (w->in[axis] - start + d - 1) / d;

    t->start[axis] = start;
    t->lo[axis] = start < 0 ? (-start + d - 1) / d : 0;
    t->hi[axis] = hi < w->kernel[axis] ? hi : w->kernel[axis];
}

static int64_t set_start(const struct pare_window *w, const struct taps *t, const int64_t *k)
{
    return ((t->start[0] + k[0] * w->dilation[0]) * w->in[1] + t->start[1] +
            k[1] * w->dilation[1]) *
               w->in[2] +
           t->start[2] + k[2] * w->dilation[2];
}

/* The divisor of an average: padding counts up to the declared pads. */
static double divisor(const struct int8_pool *p, const struct taps *t, int64_t met)
{
    const struct pare_window *w = &p->w;
    double n = 1;

    for (int i = 0; i < 3 && p->count_pad; i++) {
        int64_t end = w->in[i] + w->pad_end[i];
        int64_t taps = (end - t->start[i] + w->dilation[i] - 1) / w->dilation[i];

        n *= (double)(taps < w->kernel[i] ? taps : w->kernel[i]);
    }
    return p->count_pad ? n : (double)met;
}

/* int8 and uint8 have the same order once the sign bit is flipped. */
PARE_SIMD static void max_into(uint8_t *restrict y, const uint8_t *restrict x, int64_t n,
                               bool is_signed)
{
    if (is_signed)
        for (int64_t i = 0; i < n; i++)
            y[i] = (int8_t)x[i] > (int8_t)y[i] ? x[i] : y[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] > y[i] ? x[i] : y[i];
}

PARE_SIMD static void add_into(int32_t *restrict sum, const uint8_t *restrict x, int64_t n,
                               bool is_signed)
{
    if (is_signed)
        for (int64_t i = 0; i < n; i++)
            sum[i] += (int8_t)x[i];
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i];
}

/* Means of n channels from their sums over `count` taps. */
PARE_SIMD static void requantize_mean(const struct int8_pool *p, const int32_t *sum, int64_t count,
                                      double by, char *y, int64_t at, int64_t n)
{
    const struct pare_int8 *q = &p->end.q;
    bool f32 = pare_is_f32(p->out);
    float unit = f32 ? 1 : q->scale, f = p->x.scale / (unit * (float)by);
    float lo = f32 ? 0 : p->end.lo / unit, hi = f32 ? 0 : p->end.hi / unit;
    int32_t zeros = (int32_t)(count * p->x.zero);

    for (int64_t i = 0; i < n; i++) {
        float v = (float)(sum[i] - zeros) * f;

        if (f32) {
            ((float *)y)[at + i] = v;
            continue;
        }
        v = v > lo ? v : lo;
        v = v < hi ? v : hi;
        ((uint8_t *)y)[at + i] = (uint8_t)(int)pare_int8_round(q, v); /* int8 has the same bits */
    }
}

/* Mean of channels [c, c + n) of one image. */
static void global_mean(const struct int8_pool *p, const uint8_t *x, char *y, int64_t image,
                        int64_t c)
{
    int64_t C = p->d.c, n = C - c < CHUNK ? C - c : CHUNK;
    int32_t sum[CHUNK] = { 0 };

    for (int64_t s = 0; s < p->d.s; s++)
        add_into(sum, x + s * C + c, n, p->is_signed);
    requantize_mean(p, sum, p->d.s, (double)p->d.s, y, image * C + c, n);
}

PARE_SIMD static void add_rows(const float *restrict f32, int64_t rows, int64_t n,
                               double *restrict sum)
{
    float some[CHUNK] = { 0 };

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < n; c++)
            some[c] += f32[r * n + c];
    for (int64_t c = 0; c < n; c++)
        sum[c] += (double)some[c];
}

#define ROOM 2048

/* The same for float values by a table: some rows at a time are dequantized. */
static void global_func(const struct int8_pool *p, const uint8_t *x, char *y, int64_t image,
                        int64_t c)
{
    int64_t C = p->d.c, n = C - c < CHUNK ? C - c : CHUNK, at = image * C + c;
    int64_t rows = n == C ? ROOM / C : ROOM / CHUNK;
    double sum[CHUNK] = { 0 };
    float f32[ROOM];

    for (int64_t s = 0; s < p->d.s; s += rows) {
        int64_t m = p->d.s - s < rows ? p->d.s - s : rows;

        if (n == C)
            pare_int8_floats(p->table, x + s * C, f32, m * C);
        else
            for (int64_t r = 0; r < m; r++)
                pare_int8_floats(p->table, x + (s + r) * C + c, f32 + r * n, n);
        add_rows(f32, m, n, sum);
    }
    for (int64_t i = 0; i < n; i++)
        f32[i] = (float)(sum[i] / (double)p->d.s);
    if (pare_is_f32(p->out))
        memcpy((float *)y + at, f32, (size_t)n * sizeof(*f32));
    else
        pare_int8_quantize(&p->end, f32, y, at, n);
}

/* ---- windows: reduce the columns of all pixels of a row first, then along the row -------- */

PARE_SIMD static void sum_into(uint16_t *restrict y, const uint8_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (uint16_t)(y[i] + x[i]);
}

PARE_SIMD static void sum_flipped(uint16_t *restrict y, const uint8_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (uint16_t)(y[i] + (x[i] ^ 128));
}

PARE_SIMD static void widen(uint16_t *restrict y, const uint8_t *restrict x, int64_t n,
                            uint8_t flip)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] ^ flip;
}

PARE_SIMD static void add_wide(int32_t *restrict sum, const uint16_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

/* The maxima, or the sums (of int8 + 128), of all columns of the input rows under the window. */
static void reduce_columns(const struct int8_pool *p, const struct taps *t, const uint8_t *x,
                           void *row)
{
    int64_t n = p->w.in[2] * p->d.c, k[3] = { 0, 0, 0 }, met = 0;
    struct taps from = *t;

    from.start[2] = 0;
    for (k[0] = t->lo[0]; k[0] < t->hi[0]; k[0]++)
        for (k[1] = t->lo[1]; k[1] < t->hi[1]; k[1]++, met++) {
            const uint8_t *line = x + set_start(&p->w, &from, k) * p->d.c;

            if (p->max && !met)
                memcpy(row, line, (size_t)n);
            else if (p->max)
                max_into(row, line, n, p->is_signed);
            else if (!met)
                widen(row, line, n, p->is_signed ? 128 : 0);
            else if (!p->is_signed)
                sum_into(row, line, n);
            else
                sum_flipped(row, line, n);
        }
}

/* One output of the mean, n channels from c on. */
static void mean_at(const struct int8_pool *p, const struct taps *t, const uint16_t *row, char *y,
                    int64_t at, int64_t c, int64_t n)
{
    int64_t rows = (t->hi[0] - t->lo[0]) * (t->hi[1] - t->lo[1]);
    int64_t met = rows * (t->hi[2] - t->lo[2]);
    int32_t sum[CHUNK] = { 0 };

    for (int64_t k = t->lo[2]; k < t->hi[2]; k++)
        add_wide(sum, row + (t->start[2] + k * p->w.dilation[2]) * p->d.c + c, n);
    for (int64_t i = 0; i < n && p->is_signed; i++)
        sum[i] -= (int32_t)(met * 128);
    requantize_mean(p, sum, met, divisor(p, t, met), y, at, n);
}

static void max_at(const struct int8_pool *p, const struct taps *t, const uint8_t *row, uint8_t *y)
{
    for (int64_t k = t->lo[2]; k < t->hi[2]; k++) {
        const uint8_t *from = row + (t->start[2] + k * p->w.dilation[2]) * p->d.c;

        if (k == t->lo[2])
            memcpy(y, from, (size_t)p->d.c);
        else
            max_into(y, from, p->d.c, p->is_signed);
    }
}

static void run_row(const struct int8_pool *p, const uint8_t *x, char *y, int64_t image,
                    int64_t row, void *room)
{
    int64_t C = p->d.c, at = (image * p->out_space + row * p->w.out[2]) * C;
    struct taps t;

    set_taps(&p->w, 0, row / p->w.out[1], &t);
    set_taps(&p->w, 1, row % p->w.out[1], &t);
    reduce_columns(p, &t, x, room);
    for (int64_t q = 0; q < p->w.out[2]; q++) {
        set_taps(&p->w, 2, q, &t);
        if (p->max)
            max_at(p, &t, room, (uint8_t *)y + at + q * C);
        for (int64_t c = 0; c < C && !p->max; c += CHUNK)
            mean_at(p, &t, room, y, at + q * C + c, c, C - c < CHUNK ? C - c : CHUNK);
    }
}

static void global_parts(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_pool *p = s->state;
    const uint8_t *x = s->in_buf[0]->t.data;
    char *y = s->out_buf[0]->t.data;
    const int64_t image = p->d.c * p->d.s, parts = (p->d.c + CHUNK - 1) / CHUNK;

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t n = i / parts, c = i % parts * CHUNK;

        if (p->table)
            global_func(p, x + n * image, y, n, c);
        else
            global_mean(p, x + n * image, y, n, c);
    }
}

static void run_rows(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_pool *p = s->state;
    const int64_t image = p->d.c * p->d.s, each = p->w.out[0] * p->w.out[1];
    const uint8_t *x = s->in_buf[0]->t.data;
    char *room = s->work[0]->t.data;

    for (int64_t r = from; r < to; r++)
        run_row(p, x + r / each * image, s->out_buf[0]->t.data, r / each, r % each,
                room + thread * p->w.in[2] * p->d.c * 2);
}

static int int8_pool_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct int8_pool *p = s->state;
    const int threads = p->d.n * p->d.c * p->d.s > 16384 ? b->threads : 1;

    (void)err;
    if (p->global)
        pare_parallel(threads, p->d.n * ((p->d.c + CHUNK - 1) / CHUNK), global_parts, s);
    else
        pare_parallel(threads, p->d.n * p->w.out[0] * p->w.out[1], run_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_pool = {
    .name = "int8_pool",
    .doc = "Int8 pools and global means.",
    .match = int8_pool_match,
    .run = int8_pool_run,
};
