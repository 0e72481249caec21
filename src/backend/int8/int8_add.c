/* int8_add.c - int8 residual Add, Relu, QuantizeLinear.
 *
 *     y = round(a f + (b g + c)),   f = a_scale / y_scale,   g = b_scale / y_scale,
 *     c = y_zero - (f a_zero + g b_zero),
 *
 * each sum rounded once: the arithmetic of ONNX Runtime, so that sums about halfway between two
 * integers give the same result.
 */
#include "../fuse/int8_operands.h"

#include "../../base/simd.h"
#include "../../op/op.h"
#include "../../base/team.h"

#define CHUNK 4096

struct int8_add {
    struct pare_int8 a, b;
    struct pare_int8_end end;
    float f, g, c, lo, hi; /* bounds of y */
};

/* Convert the bounds of the float sum to int8 values. */
static void int8_add_prepare(struct int8_add *c)
{
    const struct pare_int8 *q = &c->end.q;

    c->f = c->a.scale / q->scale;
    c->g = c->b.scale / q->scale;
    c->c = (float)q->zero - (float)((double)c->f * c->a.zero + (double)(c->g * (float)c->b.zero));
    c->lo = pare_int8_round(q, c->end.lo / q->scale);
    c->hi = pare_int8_round(q, c->end.hi / q->scale);
}

static bool read_qdq(const struct pare_match *v, const struct pare_node *n, struct int8_add *c)
{
    return pare_node_is(n, &pare_op_add) && pare_int8_source(v, n->in[0], &c->a) &&
           pare_int8_source(v, n->in[1], &c->b) && !c->a.viewed && !c->b.viewed &&
           pare_int8_end(v, n->out[0], &c->end);
}

static bool read_qlinear(const struct pare_node *n, struct int8_add *c)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE };

    return pare_node_is(n, &pare_op_qlinear_add) &&
           pare_int8_operand(&c->a, n->in[A], n, A_SCALE) &&
           pare_int8_operand(&c->b, n->in[B], n, B_SCALE) &&
           pare_int8_end_at(&c->end, n, Y_SCALE) && !pare_is_const(c->a.v) &&
           !pare_is_const(c->b.v);
}

static bool int8_add_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct int8_add c = { 0 }, *keep;
    int layout;

    if ((!read_qdq(v, n, &c) && !read_qlinear(n, &c)) || !pare_same_shape(&c.a.v->t, &c.b.v->t))
        return false;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 2, 1, c.end.n))
        return false;
    int8_add_prepare(&c);
    *keep = c;
    layout = pare_int8_keep(v, &c.a) == PARE_CHANNELS_LAST ? PARE_CHANNELS_LAST
                                                           : pare_int8_keep(v, &c.b);
    s->state = keep;
    s->in[0] = c.a.v;
    s->in[1] = c.b.v;
    s->out[0] = c.end.q.v;
    s->in_block[0] = s->in_block[1] = s->out_block[0] = layout;
    for (int i = 0; i < c.end.n; i++)
        s->fused[i] = c.end.node[i];
    s->inplace = 1;
    return true;
}

#define SUM(T, x, z, y)                          \
    for (int64_t i = 0; i < n; i++) {            \
        float v = PARE_FMA((float)(z)[i], g, k); \
                                                 \
        v = PARE_FMA((float)(x)[i], f, v);       \
        v = v > lo ? v : lo;                     \
        v = v < hi ? v : hi;                     \
        (y)[i] = (T)(int)(v + magic - magic);    \
    }

PARE_SIMD static void add_rows(const struct int8_add *c, const void *x, const void *z, void *y,
                               int64_t n)
{
    const float magic = 12582912.0f; /* as in pare_int8_round() */
    const float f = c->f, g = c->g, k = c->c, lo = c->lo, hi = c->hi;
    bool xs = c->a.v->t.dtype == PARE_I8, zs = c->b.v->t.dtype == PARE_I8;
    bool ys = c->end.q.v->t.dtype == PARE_I8;
    const uint8_t *xu = x, *zu = z;
    const int8_t *xi = x, *zi = z;
    uint8_t *yu = y;
    int8_t *yi = y;

    if (!xs && !zs && !ys) {
        SUM(uint8_t, xu, zu, yu)
    } else if (xs && zs && ys) {
        SUM(int8_t, xi, zi, yi)
    } else {
        for (int64_t i = 0; i < n; i++) {
            float v = PARE_FMA(zs ? (float)zi[i] : (float)zu[i], g, k);

            v = PARE_FMA(xs ? (float)xi[i] : (float)xu[i], f, v);
            v = v > lo ? v : lo;
            v = v < hi ? v : hi;
            yu[i] = (uint8_t)(int)(v + magic - magic); /* int8 has the same bits */
        }
    }
}

static void add_chunks(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_add *c = s->state;
    const char *x = s->in_buf[0]->t.data, *z = s->in_buf[1]->t.data;
    char *y = s->out_buf[0]->t.data;
    int64_t n = pare_numel(&s->out[0]->t);

    (void)thread;
    for (int64_t i = from * CHUNK; i < to * CHUNK && i < n; i += CHUNK)
        add_rows(c, x + i, z + i, y + i, n - i < CHUNK ? n - i : CHUNK);
}

static int int8_add_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    int64_t n = pare_numel(&s->out[0]->t);

    (void)err;
    pare_parallel(n > 32768 ? b->threads : 1, (n + CHUNK - 1) / CHUNK, add_chunks, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_add = {
    .name = "int8_add",
    .doc = "Int8 residual Add, requantized.",
    .match = int8_add_match,
    .run = int8_add_run,
};
