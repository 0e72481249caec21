/* speedup_rig.h - fixture for tests of speedup: small networks with masked channels, shrunk and
 * compared.
 *
 * All biases and statistics are random and not 0, also those of masked channels, unless a test
 * specifies otherwise: the constant contribution of a channel must not be lost.
 */
#ifndef PARE_TEST_SPEEDUP_RIG_H
#define PARE_TEST_SPEEDUP_RIG_H

#include "make_model.h"

#include <pare/compress.h>

#include "base/rng.h"

/* Which output channels have weights: all, the even ones, the first half, none, the second half. */
enum { ALL, HALF, FRONT, NONE, BACK };

struct net {
    struct build b;
    struct pare_rng r;
    bool unpadded;  /* convolutions are not padded */
    bool zero_bias; /* biases of masked channels are 0 */
};

static inline struct net net_new(uint64_t seed)
{
    struct net n = { .b = { .opset = 17 } };

    pare_rng_init(&n.r, seed);
    return n;
}

static inline bool net_keeps(int which, int64_t i, int64_t n)
{
    return which == ALL || (which == HALF && i % 2 == 0) || (which == FRONT && i < n / 2) ||
           (which == BACK && i >= n / 2);
}

static inline struct pare_tensor net_random(struct net *n, float mid, float scale, int rank,
                                            const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = mid + scale * (float)(2 * pare_rng_uniform(&n->r) - 1);
    return t;
}

static inline const char *net_const(struct net *n, float mid, float scale, int rank,
                                    const int64_t *dim)
{
    struct pare_tensor t = net_random(n, mid, scale, rank, dim);

    return build_floats(&n->b, rank, dim, pare_f32(&t));
}
#define CONST(n, mid, scale, ...) net_const(n, mid, scale, INTS(__VA_ARGS__))

/* Weights with zeros for the channels of `axis` that `which` excludes. */
static inline const char *net_weight(struct net *n, int which, int axis, int rank,
                                     const int64_t *dim)
{
    struct pare_tensor t = net_random(n, 0, 0.6f, rank, dim);
    int64_t inner = 1;

    for (int i = axis + 1; i < rank; i++)
        inner *= dim[i];
    for (int64_t i = 0; i < pare_numel(&t); i++)
        if (!net_keeps(which, i / inner % dim[axis], dim[axis]))
            pare_f32_mut(&t)[i] = 0;
    return build_floats(&n->b, rank, dim, pare_f32(&t));
}
#define WEIGHT(n, which, axis, ...) net_weight(n, which, axis, INTS(__VA_ARGS__))

static inline const char *net_bias(struct net *n, int which, int64_t O)
{
    struct pare_tensor t = net_random(n, 0.2f, 0.5f, 1, &O);

    for (int64_t i = 0; i < O && n->zero_bias; i++)
        if (!net_keeps(which, i, O))
            pare_f32_mut(&t)[i] = 0;
    return build_floats(&n->b, 1, &O, pare_f32(&t));
}

/* A convolution from I to O channels, kernel K, with a bias. */
static inline const char *net_conv(struct net *n, const char *x, int which, int64_t I, int64_t O,
                                   int64_t K)
{
    const char *w = WEIGHT(n, which, 0, O, I, K, K), *b = net_bias(n, which, O);
    int64_t p = n->unpadded ? 0 : K / 2;

    return build_node(&n->b, "Conv", NAMES(x, w, b), at_ints("pads", INTS(p, p, p, p)));
}

static inline const char *net_grouped_conv(struct net *n, const char *x, int which, int64_t C,
                                           int64_t each, int64_t K)
{
    const char *w = WEIGHT(n, which, 0, C, each, K, K), *b = net_bias(n, which, C);
    int64_t p = n->unpadded ? 0 : K / 2;

    return build_node(&n->b, "Conv", NAMES(x, w, b),
                      CAT(at_ints("pads", INTS(p, p, p, p)), at_int("group", C / each)));
}

static inline const char *net_bn(struct net *n, const char *x, int64_t C)
{
    const char *scale = CONST(n, 1, 0.4f, C), *bias = CONST(n, 0.1f, 0.5f, C);
    const char *mean = CONST(n, 0, 0.5f, C), *var = CONST(n, 1, 0.5f, C);

    return build_node(&n->b, "BatchNormalization", NAMES(x, scale, bias, mean, var), NOTHING);
}

static inline const char *net_relu(struct net *n, const char *x)
{
    return build_node(&n->b, "Relu", NAMES(x), NOTHING);
}

static inline const char *net_add(struct net *n, const char *x, const char *y)
{
    return build_node(&n->b, "Add", NAMES(x, y), NOTHING);
}

/* Convolution, normalization, activation. */
static inline const char *net_block(struct net *n, const char *x, int which, int64_t I, int64_t O)
{
    return net_relu(n, net_bn(n, net_conv(n, x, which, I, O, 3), O));
}

static inline const char *net_gemm(struct net *n, const char *x, int which, int64_t I, int64_t O)
{
    const char *w = WEIGHT(n, which, 0, O, I), *b = net_bias(n, which, O);

    return build_node(&n->b, "Gemm", NAMES(x, w, b), at_int("transB", 1));
}

static inline const char *net_image(struct net *n)
{
    return build_input(&n->b, PARE_F32, INTS(2, 3, 9, 8));
}

/* ---- shrinking ------------------------------------------------------------------------------- */

struct speedup_result {
    struct pare_model *before, *after;
    struct pare_speedup_report r;
};

static inline struct speedup_result net_speedup_with(struct net *n,
                                                     const struct pare_speedup_opts *o)
{
    struct speedup_result s;
    struct pare_err err;

    s.before = build_model(&n->b);
    if (pare_speedup(s.before, o, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    assert_true(s.r.verified || o->unverified);
    return s;
}

/* Shrinks the model; fails if the result computes something else. */
static inline struct speedup_result net_speedup(struct net *n)
{
    struct pare_speedup_opts o = { .threads = 1 };

    return net_speedup_with(n, &o);
}

static inline void speedup_free(struct speedup_result *s)
{
    pare_model_free(s->after);
    pare_model_free(s->before);
}

/* Remaining output channels of linear node i, in the order of the report. */
static inline int64_t speedup_out_channels(const struct speedup_result *s, int i)
{
    for (int k = 0; k < s->r.n_layers; k++)
        if (s->r.layer[k].out >= 0 && i-- == 0)
            return s->r.layer[k].gone ? 0 : s->r.layer[k].out_left;
    fail_msg("the report has fewer layers");
    return -1;
}

static inline int64_t speedup_in_channels(const struct speedup_result *s, int i)
{
    for (int k = 0; k < s->r.n_layers; k++)
        if (s->r.layer[k].out >= 0 && i-- == 0)
            return s->r.layer[k].gone ? 0 : s->r.layer[k].in_left;
    fail_msg("the report has fewer layers");
    return -1;
}

/* Shrinks the model, checks the remaining channels of the layers' outputs, and frees it. */
static inline void net_expect(struct net *n, const char *y, int count, const int64_t *out)
{
    struct speedup_result s;

    build_output(&n->b, y);
    s = net_speedup(n);
    for (int i = 0; i < count; i++)
        if (speedup_out_channels(&s, i) != out[i])
            fail_msg("layer %d has %lld channels left, expected %lld", i,
                     (long long)speedup_out_channels(&s, i), (long long)out[i]);
    speedup_free(&s);
}
#define EXPECT(n, y, ...) net_expect(n, y, INTS(__VA_ARGS__))

#endif
