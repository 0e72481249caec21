/* random_graph.h - random networks, reproducible by seed, to test plans.
 *
 * A graph starts from one or two inputs and grows by a dozen random pieces, each of which reads
 * existing values, preferably recent ones.  Sizes stay small and values stay near 1, so that
 * two kernels for the same network agree to a few digits less than float32 has.
 */
#ifndef PARE_TEST_RANDOM_GRAPH_H
#define PARE_TEST_RANDOM_GRAPH_H

#include "make_model.h"

#include <math.h>

#include "base/rng.h"

enum { RG_VALUES = 160, RG_INPUTS = 2 };

struct rg_value {
    const char *name;
    int rank;
    int64_t dim[PARE_MAX_RANK];
    int uses;
};

struct rg {
    struct pare_rng r;
    struct build b;
    struct rg_value v[RG_VALUES];
    int n, n_in;
    int64_t limit;                    /* largest number of elements of a value */
    struct pare_tensor in[RG_INPUTS]; /* shapes of the inputs */
};

/* ---- random choices ---------------------------------------------------------------------- */

static inline int64_t rg_int(struct rg *g, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pare_rng_below(&g->r, (uint64_t)(hi - lo + 1));
}

static inline bool rg_chance(struct rg *g, int percent)
{
    return rg_int(g, 0, 99) < percent;
}

static inline void rg_fill(struct pare_rng *r, const struct pare_tensor *t, float scale)
{
    for (int64_t i = 0; i < pare_numel(t); i++)
        pare_f32_mut(t)[i] = scale * (float)(2 * pare_rng_uniform(r) - 1);
}

/* A constant of uniform numbers around `mid`. */
static inline const char *rg_const(struct rg *g, int rank, const int64_t *dim, float mid,
                                   float scale)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    rg_fill(&g->r, &t, scale);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] += mid;
    return build_floats(&g->b, rank, dim, pare_f32(&t));
}

/* ---- values ------------------------------------------------------------------------------ */

static inline int64_t rg_numel(const struct rg_value *v)
{
    int64_t n = 1;

    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}

/* The name of value i, as an input of a new node: counts the use. */
static inline const char *rg_name(struct rg *g, int i)
{
    g->v[i].uses++;
    return g->v[i].name;
}

static inline int rg_add(struct rg *g, const char *name, int rank, const int64_t *dim)
{
    assert_true(g->n < RG_VALUES);
    g->v[g->n] = (struct rg_value){ .name = name, .rank = rank };
    memcpy(g->v[g->n].dim, dim, (size_t)rank * sizeof(*dim));
    return g->n++;
}

static inline int rg_like(struct rg *g, const char *name, int x)
{
    struct rg_value v = g->v[x];

    return rg_add(g, name, v.rank, v.dim);
}

/* A value of lo to hi axes, most often a recent one; -1: none found. */
static inline int rg_pick(struct rg *g, int lo, int hi)
{
    for (int tries = 0; tries < 12; tries++) {
        int back = (int)rg_int(g, 0, rg_chance(g, 70) ? 2 : g->n - 1);
        int i = back < g->n ? g->n - 1 - back : 0;

        if (g->v[i].rank >= lo && g->v[i].rank <= hi && rg_numel(&g->v[i]) > 0)
            return i;
    }
    return -1;
}

static inline int rg_unary(struct rg *g, const char *type, int x, struct bin attrs)
{
    return rg_like(g, build_node(&g->b, type, NAMES(rg_name(g, x)), attrs), x);
}

static inline int rg_binary(struct rg *g, const char *type, int a, int b, int like)
{
    const char *left = rg_name(g, a);

    return rg_like(g, build_node(&g->b, type, NAMES(left, rg_name(g, b)), NOTHING), like);
}

/* An operator whose second operand is the constant named `c`. */
static inline int rg_with(struct rg *g, const char *type, int x, const char *c)
{
    return rg_like(g, build_node(&g->b, type, NAMES(rg_name(g, x), c), NOTHING), x);
}

/* ---- convolutions and the operators that follow them ---------------------------------------- */

struct rg_window {
    int64_t k[3], s[3], d[3], pads[6], out[3];
};

/* A window that fits; `same` keeps the spatial shape. */
static inline struct rg_window rg_make_window(struct rg *g, const struct rg_value *x, bool same)
{
    struct rg_window w = { 0 };
    int nd = x->rank - 2;

    for (int i = 0; i < nd; i++) {
        int64_t in = x->dim[i + 2], ext;

        w.k[i] = same ? 1 + 2 * rg_int(g, 0, 1) : rg_int(g, 1, rg_chance(g, 20) ? 5 : 3);
        w.d[i] = rg_chance(g, 20) ? 2 : 1;
        w.s[i] = same || rg_chance(g, 60) ? 1 : rg_int(g, 1, 3);
        ext = (w.k[i] - 1) * w.d[i] + 1;
        w.pads[i] = same ? ext / 2 : rg_int(g, 0, ext > 1 ? ext / 2 : 0);
        w.pads[nd + i] = same ? ext / 2 : rg_int(g, 0, ext > 1 ? ext / 2 : 0);
        if (in + w.pads[i] + w.pads[nd + i] < ext) {
            w.k[i] = w.d[i] = ext = 1;
            w.pads[i] = w.pads[nd + i] = 0;
        }
        w.out[i] = (in + w.pads[i] + w.pads[nd + i] - ext) / w.s[i] + 1;
    }
    return w;
}

static inline int rg_conv_to(struct rg *g, int x, int64_t channels, bool same)
{
    struct rg_value v = g->v[x];
    struct rg_window w = rg_make_window(g, &v, same);
    int64_t C = v.dim[1], group = 1, O = channels, taps = 1, dim[5] = { 0 }, y[5] = { v.dim[0] };
    int nd = v.rank - 2, style = (int)rg_int(g, 0, 5);
    struct bin attrs, pads;
    const char *weights, *name;

    if (style == 0 && (!same || O % C == 0)) {
        group = C; /* depthwise, perhaps with a multiplier */
        O = same ? O : C * rg_int(g, 1, C < 10 ? 3 : 1);
    } else if (style == 1) {
        for (group = rg_int(g, 1, C); C % group || O % group; group--)
            ;
    }
    dim[0] = O;
    dim[1] = C / group;
    y[1] = O;
    pads = at_ints("pads", 2 * nd, w.pads);
    if (!same && rg_chance(g, 10)) {
        pads = at_text("auto_pad", rg_chance(g, 50) ? "SAME_UPPER" : "SAME_LOWER");
        for (int i = 0; i < nd; i++) {
            w.d[i] = 1;
            w.out[i] = (v.dim[i + 2] + w.s[i] - 1) / w.s[i];
        }
    }
    for (int i = 0; i < nd; i++) {
        dim[i + 2] = w.k[i];
        y[i + 2] = w.out[i];
        taps *= w.k[i];
    }
    attrs = CAT(at_ints("strides", nd, w.s), at_ints("dilations", nd, w.d), pads,
                at_int("group", group));
    weights = rg_const(g, v.rank, dim, 0, 1.5f / sqrtf((float)(taps * dim[1])));
    name = rg_chance(g, 60)
               ? build_node(&g->b, "Conv",
                            NAMES(rg_name(g, x), weights, rg_const(g, 1, &O, 0, 0.5f)), attrs)
               : build_node(&g->b, "Conv", NAMES(rg_name(g, x), weights), attrs);
    return rg_add(g, name, v.rank, y);
}

static inline int64_t rg_channels(struct rg *g, int x)
{
    const struct rg_value *v = &g->v[x];
    int64_t most = g->limit / (rg_numel(v) / v->dim[1]);

    most = most > 37 ? 37 : most;
    return most < 1 ? 1 : rg_chance(g, 25) && most >= 16 ? most / 16 * 16 : rg_int(g, 1, most);
}

static inline int rg_bn(struct rg *g, int x)
{
    int64_t C = g->v[x].dim[1];
    const char *scale = rg_const(g, 1, &C, 1, 0.5f), *bias = rg_const(g, 1, &C, 0, 0.5f);
    const char *mean = rg_const(g, 1, &C, 0, 0.3f), *var = rg_const(g, 1, &C, 1, 0.4f);

    return rg_like(g,
                   build_node(&g->b, "BatchNormalization",
                              NAMES(rg_name(g, x), scale, bias, mean, var),
                              at_float("epsilon", 1e-3f)),
                   x);
}

/* 0.5 x (1 + erf(x / sqrt 2)), as exporters write it. */
static inline int rg_gelu(struct rg *g, int x)
{
    int e = rg_with(g, "Div", x, build_scalar(&g->b, 1.41421356f)), half;

    e = rg_unary(g, "Erf", e, NOTHING);
    e = rg_with(g, "Add", e, build_scalar(&g->b, 1));
    half = rg_binary(g, "Mul", x, e, x);
    return rg_with(g, "Mul", half, build_scalar(&g->b, 0.5f));
}

static inline int rg_act(struct rg *g, int x)
{
    static const char *const plain[] = { "Relu", "Relu", "Sigmoid", "Tanh", "Softplus", "Abs" };
    const char *lo = build_scalar(&g->b, rg_chance(g, 50) ? 0 : -0.7f);
    int gate;

    switch (rg_int(g, 0, 10)) {
    case 0: return rg_unary(g, "LeakyRelu", x, at_float("alpha", 0.1f));
    case 1: return rg_unary(g, "Elu", x, at_float("alpha", 0.7f));
    case 2:
        return rg_like(g,
                       build_node(&g->b, "Clip",
                                  NAMES(rg_name(g, x), lo, build_scalar(&g->b, 1.1f)), NOTHING),
                       x);
    case 3: return rg_like(g, build_node(&g->b, "Clip", NAMES(rg_name(g, x), lo), NOTHING), x);
    case 4: return rg_gelu(g, x);
    case 5:
        gate = rg_unary(g, "Sigmoid", x, NOTHING);
        return rg_chance(g, 50) ? rg_binary(g, "Mul", x, gate, x) : rg_binary(g, "Mul", gate, x, x);
    case 6:
        gate = rg_unary(g, "HardSigmoid", x,
                        CAT(at_float("alpha", 1 / 6.f), at_float("beta", 0.5f)));
        return rg_binary(g, "Mul", x, gate, x);
    case 7:
        if (g->b.opset >= 14)
            return rg_unary(g, "HardSwish", x, NOTHING);
        return rg_unary(g, "HardSigmoid", x, NOTHING);
    default: return rg_unary(g, plain[rg_int(g, 0, 5)], x, NOTHING);
    }
}

static inline void rg_conv(struct rg *g)
{
    int x = rg_pick(g, 3, 5);

    if (x < 0)
        return;
    x = rg_conv_to(g, x, rg_channels(g, x), rg_chance(g, 30));
    if (rg_chance(g, 50))
        x = rg_bn(g, x);
    for (int i = rg_chance(g, 15) ? 2 : rg_chance(g, 60); i > 0; i--)
        x = rg_act(g, x);
}

static inline void rg_activation(struct rg *g)
{
    int x = rg_pick(g, 0, PARE_MAX_RANK);

    if (x >= 0)
        rg_act(g, x);
}

static inline void rg_norm(struct rg *g)
{
    int x = rg_pick(g, 2, 5);

    if (x >= 0)
        rg_bn(g, x);
}

/* f(x) + x, where f is one or two convolutions; also x + x. */
static inline void rg_residual(struct rg *g)
{
    int x = rg_pick(g, 3, 5), y = x;

    if (x < 0)
        return;
    for (int i = (int)rg_int(g, 0, 2); i > 0; i--) {
        y = rg_conv_to(g, y, g->v[x].dim[1], true);
        if (rg_chance(g, 40))
            y = rg_bn(g, y);
        if (rg_chance(g, 40))
            y = rg_act(g, y);
    }
    y = rg_chance(g, 50) ? rg_binary(g, "Add", y, x, x) : rg_binary(g, "Add", x, y, x);
    if (rg_chance(g, 50))
        rg_act(g, y);
}

/* A 1x1 convolution, possibly after a normalization of its input. */
static inline int rg_pointwise(struct rg *g, int x, bool norm)
{
    struct rg_value v = g->v[x];
    int64_t dim[5] = { rg_channels(g, x), v.dim[1], 1, 1, 1 }, y[5];
    const char *w;

    memcpy(y, v.dim, sizeof(y));
    y[1] = dim[0];
    if (norm)
        x = rg_bn(g, x);
    if (norm && rg_chance(g, 70))
        x = rg_unary(g, "Relu", x, NOTHING);
    w = rg_const(g, v.rank, dim, 0, 1.5f / sqrtf((float)v.dim[1]));
    x = rg_add(g, build_node(&g->b, "Conv", NAMES(rg_name(g, x), w), NOTHING), v.rank, y);
    return rg_chance(g, 50) ? rg_act(g, x) : x;
}

static inline void rg_dense_layer(struct rg *g)
{
    int x = rg_pick(g, 3, 5);

    if (x >= 0)
        rg_pointwise(g, x, true);
}

/* x gate(mean over space of x), possibly followed by a 1x1 convolution. */
static inline void rg_squeeze_excite(struct rg *g)
{
    int x = rg_pick(g, 3, 5), s;
    int64_t C, one[5] = { 1, 1, 1, 1, 1 };

    if (x < 0)
        return;
    C = g->v[x].dim[1];
    one[0] = g->v[x].dim[0];
    one[1] = C;
    if (rg_chance(g, 30)) /* a gate per image and channel */
        s = rg_add(g, build_node(&g->b, "GlobalMaxPool", NAMES(rg_name(g, x)), NOTHING),
                   g->v[x].rank, one);
    else
        s = rg_add(g, build_node(&g->b, "GlobalAveragePool", NAMES(rg_name(g, x)), NOTHING),
                   g->v[x].rank, one);
    if (rg_chance(g, 80)) {
        s = rg_conv_to(g, s, rg_int(g, 1, 9), true);
        s = rg_act(g, s);
        s = rg_conv_to(g, s, C, true);
    }
    s = rg_unary(g, rg_chance(g, 50) ? "Sigmoid" : "HardSigmoid", s, NOTHING);
    x = rg_chance(g, 50) ? rg_binary(g, "Mul", x, s, x) : rg_binary(g, "Mul", s, x, x);
    if (rg_chance(g, 60))
        rg_pointwise(g, x, false);
}

#include "random_graph_more.h"

#endif
