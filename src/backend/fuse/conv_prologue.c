/* conv_prologue.c - match and apply BatchNormalization, Relu or gates on the input of a Conv. */
#include "conv_prologue.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/norm.h"

static bool is(const struct pare_node *n, const struct pare_op *op)
{
    return pare_node_is(n, op) && n->n_in >= 1 && n->n_out == 1;
}

static bool is_bn(const struct pare_node *n)
{
    if (!is(n, &pare_op_batch_normalization) || n->n_in < 5 || pare_bn_trains(n) ||
        !pare_bn_per_channel(n))
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]))
            return false;
    return true;
}

/* Is g one value per channel, of each image or of all? */
static bool is_gate(const struct pare_match *v, const struct pare_value *g,
                    const struct pare_value *x)
{
    if (!g || !pare_is_f32(g) || pare_is_fixed(g) || !pare_is_computed(v, g) ||
        g->t.rank != x->t.rank || g->t.dim[1] != x->t.dim[1] ||
        (g->t.dim[0] != 1 && g->t.dim[0] != x->t.dim[0]))
        return false;
    return pare_numel(&g->t) == g->t.dim[0] * g->t.dim[1];
}

static bool is_mul(const struct pare_match *v, struct pare_node *n, struct pare_conv_prologue *f)
{
    if (!is(n, &pare_op_mul) || n->n_in != 2 || n->version < 7)
        return false;
    for (int k = 0; k < 2; k++)
        if (pare_is_f32(n->in[k]) && pare_same_shape(&n->in[k]->t, &n->out[0]->t) &&
            n->in[k]->t.rank >= 3 && is_gate(v, n->in[!k], n->in[k])) {
            f->x = n->in[k];
            f->gate = n->in[!k];
            f->gate_block = pare_block_of(v, f->gate) == f->block ? f->block : 1;
            return !pare_same_shape(&f->x->t, &f->gate->t);
        }
    return false;
}

bool pare_conv_prologue(const struct pare_match *v, struct pare_node *n,
                        struct pare_conv_prologue *f)
{
    *f = (struct pare_conv_prologue){ .node = { n }, .block = v->backend->block };
    if (is_bn(n))
        f->x = n->in[0];
    else if (!is_mul(v, n, f))
        return false;
    f->conv = pare_only_consumer(v, n->out[0]);
    if (!f->gate && is(f->conv, &pare_op_relu)) {
        f->relu = true;
        f->node[1] = f->conv;
        f->conv = pare_only_consumer(v, f->conv->out[0]);
    }
    if (!is(f->conv, &pare_op_conv) || !pare_is_f32(f->x) || f->x->t.rank < 3 ||
        pare_is_fixed(f->x) || f->conv->in[0] != (f->node[1] ? f->node[1] : n)->out[0])
        return false;
    f->C = f->x->t.dim[1];
    return true;
}

int pare_conv_prologue_init(struct pare_conv_prologue *f, struct pare_backend *b,
                            struct pare_err *err)
{
    const struct pare_node *bn = f->node[0];
    size_t padded = (size_t)(f->C + f->block);
    const float *p[4];

    if (f->gate)
        return 0;
    f->scale = pare_alloc(b->arena, padded, sizeof(float));
    f->shift = pare_alloc(b->arena, padded, sizeof(float));
    if (!f->scale || !f->shift)
        return pare_no_memory(err, "for BatchNormalization");
    for (int i = 0; i < 4; i++) {
        p[i] = pare_const_f32(b, bn->in[i + 1], err);
        if (!p[i])
            return err->code;
    }
    for (int64_t k = 0; k < f->C; k++) {
        double s = (double)p[0][k] / sqrt((double)p[3][k] + pare_bn_epsilon(bn));

        f->scale[k] = (float)s;
        f->shift[k] = (float)((double)p[1][k] - s * (double)p[2][k]);
    }
    return 0;
}

/* y = x s + t, with `relu` max(y, 0); vectors of 8 with a stride of `step`. */
PARE_SIMD static void affine(const float *x, const float *s, const float *t, bool relu, float *y,
                             int64_t n, int64_t step)
{
    const pare_v8 scale = PARE_V8(s), shift = PARE_V8(t), zero = { 0 };

    for (int64_t i = 0; i < n && relu; i += step) {
        pare_v8 v = PARE_V8(x + i) * scale + shift;

        PARE_PUT8(y + i, PARE_WHERE8(~(v < zero), v)); /* NaN is kept */
    }
    for (int64_t i = 0; i < n && !relu; i += step)
        PARE_PUT8(y + i, PARE_V8(x + i) * scale + shift);
}

PARE_SIMD static void multiply_gate(const float *x, const float *s, float *y, int64_t n,
                                    int64_t step)
{
    const pare_v8 scale = PARE_V8(s);

    for (int64_t i = 0; i < n; i += step)
        PARE_PUT8(y + i, PARE_V8(x + i) * scale);
}

void pare_conv_prologue_run(const struct pare_conv_prologue *f, const float *gate, int64_t at,
                            const float *x, float *y, int64_t n)
{
    const int64_t first = at * f->block, left = f->C - first;
    float s[16] = { 0 };

    for (int k = 0; k < f->block && k < left && gate; k++)
        s[k] = gate[first + k];
    for (int k = 0; k < f->block; k += 8)
        if (gate)
            multiply_gate(x + k, s + k, y + k, n, f->block);
        else
            affine(x + k, f->scale + first + k, f->shift + first + k, f->relu, y + k, n, f->block);
}
