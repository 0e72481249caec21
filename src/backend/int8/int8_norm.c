/* int8_norm.c - BatchNormalization after a Concat, from int8 to int8 in one pass.
 *
 * DenseNet's layers begin with
 *     Concat (of dequantized tensors) -> BatchNormalization -> Relu -> QuantizeLinear.
 * Every int8 result is q = clamp(a x + b) with a and b by channel, which include the scales of the
 * operand and of the result.  Operands may also be float32 values; channels are last.
 */
#include "../fuse/int8_operands.h"

#include <math.h>

#include "../../base/team.h"
#include "../../op/nn/norm.h"
#include "../../op/shape/movement.h"

#define SOME 32 /* pixels at a time */

struct part {
    struct pare_int8 q; /* q.v is the operand; scale 1 and zero 0 if it is float32 */
    bool f32;
    int64_t at, len; /* of the channels */
};

struct int8_norm {
    struct part *part;
    int parts;
    const struct pare_node *norm;
    struct pare_int8_end end;
    int64_t C, pixels;
    float *a, *b; /* by channel */
    float lo, hi; /* bounds of the result minus its zero point */
    bool wide;    /* vectors of AVX-512 */
};

/* ---- match ------------------------------------------------------------------------------ */

static bool is_plain_norm(const struct pare_node *n)
{
    if (!pare_node_is(n, &pare_op_batch_normalization) || n->n_in < 5 || pare_bn_trains(n) ||
        !pare_bn_per_channel(n))
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]) || !n->in[i]->t.data)
            return false;
    return true;
}

static bool read_part(const struct pare_match *v, struct pare_value *x, struct part *p)
{
    if (pare_is_fixed(x) || !pare_is_f32(x))
        return false;
    if (pare_int8_source(v, x, &p->q) && !p->q.viewed &&
        pare_layout_of(v, p->q.v) == PARE_CHANNELS_LAST)
        return true;
    p->q = (struct pare_int8){ .v = x, .scale = 1 };
    p->f32 = true;
    return pare_is_computed(v, x) && (!x->maker || !v->lazy[x->maker->id]);
}

/* The parts of n's first value: inputs of a Concat, or one float32 value. */
static bool read_parts(const struct pare_match *v, struct pare_node *n, struct int8_norm *k)
{
    bool concat = pare_node_is(n, &pare_op_concat);
    int whole = 0;

    k->parts = concat ? n->n_in : 1;
    k->part = pare_alloc(v->backend->arena, (size_t)k->parts, sizeof(*k->part));
    for (int i = 0; k->part && i < k->parts; i++) {
        struct part *p = &k->part[i];

        if (!read_part(v, n->in[i], p))
            return false;
        p->at = k->C;
        p->len = n->in[i]->t.dim[1];
        k->C += p->len;
        whole += !p->f32 || pare_layout_of(v, p->q.v) == PARE_CHANNELS_LAST;
    }
    return k->part && (concat || k->part->f32) && 2 * whole >= k->parts;
}

static bool can(struct int8_norm *k, const struct pare_backend *b)
{
#if defined(__x86_64__)
    k->wide = b->vnni && b->block == 16 && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    return k->wide || __builtin_cpu_supports("avx2");
#else
    (void)k, (void)b;
    return false;
#endif
}

static bool int8_norm_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    bool concat = pare_node_is(n, &pare_op_concat);
    struct int8_norm *k;
    struct pare_node *norm;
    int at = 0;

    if ((!concat && !is_plain_norm(n)) || v->lazy[n->id] || !pare_is_f32(n->out[0]) ||
        n->out[0]->t.rank != 4 || !pare_numel(&n->out[0]->t) ||
        (concat && pare_concat_axis(n) != 1))
        return false;
    norm = concat ? pare_only_consumer(v, n->out[0]) : n;
    k = pare_alloc(v->backend->arena, 1, sizeof(*k));
    if (!k || !norm || !is_plain_norm(norm) || (concat && norm->in[0] != n->out[0]) ||
        !can(k, v->backend) || !pare_int8_end(v, norm->out[0], &k->end) || !read_parts(v, n, k) ||
        !pare_step_lists(s, v, k->parts, 1, (int)concat + k->end.n))
        return false;
    k->norm = norm;
    k->pixels = pare_numel(&n->out[0]->t) / k->C;
    for (int i = 0; i < k->parts; i++) {
        s->in[i] = k->part[i].q.v;
        s->in_block[i] = PARE_CHANNELS_LAST;
    }
    if (concat)
        s->fused[at++] = norm;
    for (int i = 0; i < k->end.n; i++)
        s->fused[at++] = k->end.node[i];
    s->out[0] = k->end.q.v;
    s->out_block[0] = PARE_CHANNELS_LAST;
    s->state = k;
    return true;
}

static int int8_norm_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct int8_norm *k = s->state;
    const struct pare_node *n = k->norm;
    const struct pare_int8_out o = { .out = k->end.q.v,
                                     .q = k->end.q,
                                     .lo = k->end.lo / k->end.q.scale,
                                     .hi = k->end.hi / k->end.q.scale };

    pare_int8_bounds(&o, &k->lo, &k->hi);
    k->a = pare_alloc(b->arena, (size_t)k->C, sizeof(*k->a));
    k->b = pare_alloc(b->arena, (size_t)k->C, sizeof(*k->b));
    if (!k->a || !k->b)
        return pare_no_memory(err, "for the scales");
    for (int i = 0; i < k->parts; i++) {
        const struct part *p = &k->part[i];

        for (int64_t c = p->at; c < p->at + p->len; c++) {
            double by = pare_get(&n->in[1]->t, c) /
                        sqrt(pare_get(&n->in[4]->t, c) + pare_bn_epsilon(n));
            double shift = pare_get(&n->in[2]->t, c) - by * pare_get(&n->in[3]->t, c);
            double a = by * (double)p->q.scale;

            k->a[c] = (float)(a / (double)k->end.q.scale);
            k->b[c] = (float)((shift - a * p->q.zero) / (double)k->end.q.scale);
        }
    }
    return 0;
}

/* ---- run -------------------------------------------------------------------------------- */

/* Pixels of one part. */
struct strip {
    const struct int8_norm *k;
    const void *x;
    uint8_t *y;
    const float *a, *b;
    int64_t len, pixels;
    enum pare_dtype type; /* of x */
};

/* Channels from `c` on of pixel i, one by one. */
static void single(const struct strip *t, int64_t i, int64_t c)
{
    const struct int8_norm *k = t->k;

    for (; c < t->len; c++) {
        int64_t at = i * t->len + c;
        float x = t->type == PARE_F32  ? ((const float *)t->x)[at]
                  : t->type == PARE_U8 ? (float)((const uint8_t *)t->x)[at]
                                       : (float)((const int8_t *)t->x)[at];
        float v = x * t->a[c] + t->b[c];

        v = v > k->lo ? v : k->lo;
        v = v < k->hi ? v : k->hi;
        t->y[i * k->C + c] = (uint8_t)(int)(nearbyintf(v) + (float)k->end.q.zero);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#include "../simd/ints512.h"
#include "int8_norm_loops.h"
#include "../simd/ints_end.h"

#include "../simd/ints256.h"
#include "int8_norm_loops.h"
#include "../simd/ints_end.h"

static void run_strip(const struct strip *t)
{
    (t->k->wide ? strip_avx512 : strip_avx2)(t);
}

#else

static void run_strip(const struct strip *t)
{
    for (int64_t i = 0; i < t->pixels; i++)
        single(t, i, 0);
}

#endif

static void run_pixels(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct int8_norm *k = s->state;

    (void)thread;
    for (int64_t i = from * SOME; i < to * SOME && i < k->pixels; i += SOME)
        for (int p = 0; p < k->parts; p++) {
            const struct part *part = &k->part[p];
            const char *x = s->in_buf[p]->t.data;
            struct strip t = { .k = k,
                               .a = k->a + part->at,
                               .b = k->b + part->at,
                               .len = part->len,
                               .pixels = k->pixels - i < SOME ? k->pixels - i : SOME,
                               .type = s->in_buf[p]->t.dtype };

            t.x = x + (size_t)(i * part->len) * pare_dtype_size(t.type);
            t.y = (uint8_t *)s->out_buf[0]->t.data + i * k->C + part->at;
            run_strip(&t);
        }
}

static int int8_norm_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct int8_norm *k = s->state;

    (void)err;
    pare_parallel(k->pixels * k->C > 65536 ? b->threads : 1, (k->pixels + SOME - 1) / SOME,
                  run_pixels, s);
    return 0;
}

const struct pare_kernel pare_kernel_int8_norm = {
    .name = "int8_norm",
    .doc = "Concat and BatchNormalization with requantization.",
    .match = int8_norm_match,
    .init = int8_norm_init,
    .run = int8_norm_run,
};
