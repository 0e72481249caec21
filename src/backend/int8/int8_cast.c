/* int8_cast.c - QuantizeLinear and DequantizeLinear with one scale, between any two layouts.
 *
 * Also float values that are a function of an int8 tensor (int8_function.h).  Seen as (N, C, S),
 * element (n, c, s) in blocks of b channels is at
 *     ((n * ceil(C / b) + c / b) * S + s) * b + c % b       (row-major: b = 1),
 * and with channels last at (n * S + s) * C + c.
 */
#include "../fuse/int8_function.h"

#include <math.h>

#include "../../op/op.h"
#include "../../base/team.h"

#define CHUNK 256

struct int8_cast {
    struct pare_int8_end end; /* q is the int8 side */
    struct pare_ncs d;
    int block;     /* layout of the float side */
    bool straight; /* both sides have the same order */
    bool to_real;
    const struct pare_int8_table *table; /* int8 to float, by byte; NULL: (q - zero) * scale */
};

static bool is_node(const struct pare_node *n, const struct pare_op *op)
{
    return pare_node_is(n, op) && pare_numel(&n->out[0]->t) > 0;
}

static bool match_quantize(const struct pare_match *v, struct pare_node *n, struct pare_step *s,
                           struct int8_cast *c)
{
    int from = pare_layout_of(v, n->in[0]), to = pare_int8_result_layout(v, n->out[0]);

    if (pare_is_const(n->in[0]) || !pare_is_f32(n->in[0]) || pare_attr(n, "block_size") != 0 ||
        !pare_int8_read(&c->end.q, n->out[0], n->in[1], n->n_in > 2 ? n->in[2] : NULL) ||
        !pare_step_lists(s, v, 1, 1, 0))
        return false;
    if (to == 1)
        from = 1;
    c->block = from;
    c->straight = from == to;
    s->in_block[0] = from;
    s->out_block[0] = to;
    return true;
}

/* The int8 tensor may have another order of axes: it is read in the value's order. */
static bool match_dequantize(const struct pare_match *v, struct pare_node *n, struct pare_step *s,
                             struct int8_cast *c)
{
    struct pare_int8_func *f = pare_alloc(v->backend->scratch, 1, sizeof(*f));
    int from, to = v->lazy_layout ? v->lazy_layout : 1;
    struct pare_int8_table *table;

    if (!f || !v->lazy[n->id] || !pare_int8_func(v, n->out[0], f) ||
        !pare_step_lists(s, v, 1, 1, 0))
        return false;
    from = pare_int8_func_keep(v, f);
    if (from != PARE_CHANNELS_LAST)
        from = to = 1;
    if (!f->plain) {
        table = pare_alloc(v->backend->arena, 1, sizeof(*table));
        if (!table)
            return false;
        *table = f->table;
        c->table = table;
    }
    c->end.q = f->x;
    c->block = to;
    c->straight = from == to;
    c->to_real = true;
    s->in[0] = f->x.v;
    s->in_block[0] = pare_int8_func_layout(f, from);
    s->out_block[0] = to;
    return true;
}

static bool int8_cast_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct int8_cast c = { .end = { .lo = -INFINITY, .hi = INFINITY } }, *keep;
    bool to_bytes = is_node(n, &pare_op_quantize_linear);

    if (to_bytes ? !match_quantize(v, n, s, &c) : !match_dequantize(v, n, s, &c))
        return false;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep)
        return false;
    c.d = pare_ncs(&n->out[0]->t);
    *keep = c;
    s->state = keep;
    if (to_bytes)
        s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    return true;
}

static void dequantize(const struct int8_cast *c, const uint8_t *x, float *y, int64_t n)
{
    if (c->table)
        pare_int8_floats(c->table, x, y, n);
    else
        pare_int8_dequantize(&c->end.q, x, 0, y, n);
}

/* Convert some neighboring pixels, all channels of an image, between channels last (p points to the
 * first pixel) and blocks. */
static void quantize_part(const struct int8_cast *c, const float *x, int64_t s0, int64_t m,
                          uint8_t *y)
{
    int64_t C = c->d.c, S = c->d.s, b = c->block;
    uint8_t part[CHUNK];

    if (b == 1) {
        for (int64_t k = 0; k < C; k++) {
            pare_int8_quantize(&c->end, x + k * S + s0, part, 0, m);
            for (int64_t i = 0; i < m; i++)
                y[(s0 + i) * C + k] = part[i];
        }
        return;
    }
    for (int64_t k = 0; k < C; k += b) {
        const float *from = x + (k * S + s0 * b);
        int64_t lanes = C - k < b ? C - k : b, step = CHUNK / b;

        for (int64_t i = 0; i < m; i += step) {
            int64_t n = m - i < step ? m - i : step;

            pare_int8_quantize(&c->end, from + i * b, part, 0, n * b);
            for (int64_t j = 0; j < n; j++)
                memcpy(y + (s0 + i + j) * C + k, part + j * b, (size_t)lanes);
        }
    }
}

static void dequantize_part(const struct int8_cast *c, const uint8_t *x, int64_t s0, int64_t m,
                            float *y)
{
    int64_t C = c->d.c, S = c->d.s, b = c->block;
    uint8_t part[CHUNK];

    if (b == 1) {
        for (int64_t k = 0; k < C; k++) {
            for (int64_t i = 0; i < m; i++)
                part[i] = x[(s0 + i) * C + k];
            dequantize(c, part, y + k * S + s0, m);
        }
        return;
    }
    for (int64_t k = 0; k < C; k += b) {
        float *to = y + (k * S + s0 * b);
        int64_t lanes = C - k < b ? C - k : b, step = CHUNK / b;

        for (int64_t i = 0; i < m; i += step) {
            int64_t n = m - i < step ? m - i : step;

            memset(part, c->end.q.zero, sizeof(part));
            for (int64_t j = 0; j < n; j++)
                memcpy(part + j * b, x + (s0 + i + j) * C + k, (size_t)lanes);
            dequantize(c, part, to + i * b, n * b);
            for (int64_t j = 0; j < n && lanes < b; j++) /* padding lanes are zero */
                memset(to + (i + j) * b + lanes, 0, (size_t)(b - lanes) * sizeof(*to));
        }
    }
}

#define STRAIGHT 16384 /* elements at a time, if both sides have the same layout */

static void straight_pieces(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_cast *c = s->state;
    const void *x = s->in_buf[0]->t.data;
    void *y = s->out_buf[0]->t.data;
    const int64_t n = c->d.n * c->d.c * c->d.s;

    (void)thread;
    for (int64_t i = from * STRAIGHT; i < to * STRAIGHT && i < n; i += STRAIGHT) {
        int64_t m = n - i < STRAIGHT ? n - i : STRAIGHT;

        if (c->to_real)
            dequantize(c, (const uint8_t *)x + i, (float *)y + i, m);
        else
            pare_int8_quantize(&c->end, (const float *)x + i, y, i, m);
    }
}

static void image_parts(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_cast *c = s->state;
    const void *x = s->in_buf[0]->t.data;
    void *y = s->out_buf[0]->t.data;
    int64_t parts = (c->d.s + CHUNK - 1) / CHUNK, bytes = c->d.c * c->d.s;
    int64_t reals = c->block > 1 ? (c->d.c + c->block - 1) / c->block * c->block * c->d.s : bytes;

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t n = i / parts, s0 = i % parts * CHUNK;
        int64_t m = c->d.s - s0 < CHUNK ? c->d.s - s0 : CHUNK;

        if (c->to_real)
            dequantize_part(c, (const uint8_t *)x + n * bytes, s0, m, (float *)y + n * reals);
        else
            quantize_part(c, (const float *)x + n * reals, s0, m, (uint8_t *)y + n * bytes);
    }
}

static int int8_cast_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct int8_cast *c = s->state;
    const int64_t n = c->d.n * c->d.c * c->d.s;
    const int threads = n > STRAIGHT ? b->threads : 1;

    (void)err;
    if (c->straight)
        pare_parallel(threads, (n + STRAIGHT - 1) / STRAIGHT, straight_pieces, s);
    else
        pare_parallel(threads, c->d.n * ((c->d.s + CHUNK - 1) / CHUNK), image_parts, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_cast = {
    .name = "int8_cast",
    .doc = "QuantizeLinear and DequantizeLinear between any two layouts.",
    .match = int8_cast_match,
    .run = int8_cast_run,
};
