/* int8_conv_match.c - match Conv between DequantizeLinear and QuantizeLinear, QLinearConv,
 * ConvInteger.
 */
#include "int8_conv_match.h"

#include "int8_function.h"

#include <math.h>

/* The int8 tensor of a float image; a Transpose from (N, ..., C) is another name of its layout. */
static bool read_image(const struct pare_match *v, const struct pare_value *f32,
                       struct pare_int8_conv *c)
{
    const struct pare_node *n = pare_is_fixed(f32) ? NULL : f32->maker;

    if (n && v->lazy[n->id] && pare_int8_transpose(n) < 0 && pare_is_f32(f32)) {
        c->layout = 1;
        f32 = n->in[0];
    }
    return pare_int8_source(v, f32, &c->x) && !c->x.viewed;
}

static bool read_conv(const struct pare_match *v, struct pare_node *n, struct pare_int8_conv *c)
{
    struct pare_err err;

    if (!read_image(v, n->in[0], c) || !pare_int8_weight(n->in[1], 0, &c->w) ||
        pare_conv_window(n, &c->win, &err))
        return false;
    c->bias = pare_int8_bias(n->n_in > 2 ? n->in[2] : NULL, &c->x, &c->w);
    if (!pare_int8_end(v, n->out[0], &c->end))
        c->end = (struct pare_int8_end){ .q = { .v = n->out[0] } };
    c->out = c->end.q.v;
    return !c->bias || pare_is_f32(c->bias) || c->bias->t.dtype == PARE_I32;
}

static bool read_qlinear(struct pare_node *n, struct pare_int8_conv *c)
{
    enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, B };
    struct pare_err err;

    c->bias = n->n_in > B ? n->in[B] : NULL;
    c->out = n->out[0];
    c->end = (struct pare_int8_end){ .lo = -INFINITY, .hi = INFINITY };
    return pare_int8_read(&c->x, n->in[X], n->in[X_SCALE], n->in[X_ZERO]) &&
           pare_int8_read(&c->end.q, n->out[0], n->in[Y_SCALE], n->in[Y_ZERO]) &&
           pare_int8_weight_read(&c->w, n->in[W], n->in[W_SCALE], n->in[W_ZERO], 0) &&
           !pare_conv_geometry(n->attr, &n->in[X]->t, &n->in[W]->t, &c->win, &err);
}

static bool read_integer(struct pare_node *n, struct pare_int8_conv *c)
{
    enum { X, W, X_ZERO, W_ZERO };
    const struct pare_value *zero = n->n_in > X_ZERO ? n->in[X_ZERO] : NULL;
    struct pare_err err;

    c->out = n->out[0];
    c->x = (struct pare_int8){ .v = n->in[X], .scale = 1 };
    if (zero && (!pare_is_const(zero) || !zero->t.data || pare_numel(&zero->t) != 1))
        return false;
    c->x.zero = zero ? (int)pare_get_int(&zero->t, 0) : 0;
    return pare_int8_weight_read(&c->w, n->in[W], NULL, n->n_in > W_ZERO ? n->in[W_ZERO] : NULL,
                                 0) &&
           !pare_conv_window(n, &c->win, &err);
}

/* Are scales and bias constants that float32 can represent? */
static bool has_valid_scales(const struct pare_int8_conv *c)
{
    if (c->bias && (!pare_is_const(c->bias) || !c->bias->t.data))
        return false;
    for (int64_t o = 0; o < c->w.channels; o++)
        if (!(fabs(pare_int8_conv_bias(c, o)) < 1e15) || !isfinite(pare_int8_conv_factor(c, o)))
            return false;
    return true;
}

bool pare_int8_conv(const struct pare_match *v, struct pare_node *n, struct pare_int8_conv *c)
{
    bool yes;

    if (n->op->domain)
        return false;
    c->layout = PARE_CHANNELS_LAST;
    if (pare_node_is(n, &pare_op_conv))
        yes = read_conv(v, n, c);
    else if (pare_node_is(n, &pare_op_qlinear_conv))
        yes = read_qlinear(n, c);
    else
        yes = pare_node_is(n, &pare_op_conv_integer) && read_integer(n, c);
    if (!yes)
        return false;
    c->shape = n->in[0]->t;
    c->shape.data = NULL;
    c->shape.dtype = c->x.v->t.dtype;
    return pare_numel(&n->out[0]->t) && pare_numel(&c->x.v->t) && !pare_is_const(c->x.v) &&
           has_valid_scales(c);
}

bool pare_int8_conv_below(const struct pare_int8_conv *c, double most)
{
    int64_t terms = pare_numel(&c->w.v->t) / c->w.channels;

    return 255.0 * c->w.reach * (double)terms < most;
}

float pare_int8_conv_factor(const struct pare_int8_conv *c, int64_t channel)
{
    return c->x.scale * pare_int8_scale(&c->w, channel) /
           (pare_int8_conv_quantized(c) ? c->end.q.scale : 1);
}

double pare_int8_conv_bias(const struct pare_int8_conv *c, int64_t channel)
{
    double b = c->bias ? pare_get(&c->bias->t, channel) : 0;

    return c->bias && c->bias->t.dtype == PARE_F32
               ? b / ((double)c->x.scale * (double)pare_int8_scale(&c->w, channel))
               : b;
}
