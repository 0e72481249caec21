/* small_cnn.h - a network that uses every kind of kernel, in any float type. */
#ifndef PARE_TEST_SMALL_CNN_H
#define PARE_TEST_SMALL_CNN_H

#include "make_model.h"

#include "base/rng.h"

struct small_cnn {
    struct build b;
    struct pare_rng rng;
    int dtype;   /* of the network */
    int through; /* weights are rounded to this type first, so that networks can be compared */
};

static inline void small_convert(struct pare_tensor *t, int dtype)
{
    struct pare_tensor c = build_tensor(dtype, t->rank, t->dim);
    struct pare_err err;

    assert_int_equal(pare_convert(c.dtype, c.data, t->dtype, t->data, pare_numel(t), &err), 0);
    *t = c;
}

/* Uniform numbers around `mid`. */
static inline const char *small_weights(struct small_cnn *c, float mid, int rank,
                                        const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = mid + 0.4f * (float)(2 * pare_rng_uniform(&c->rng) - 1);
    small_convert(&t, c->through);
    small_convert(&t, c->dtype);
    return build_const(&c->b, c->dtype, rank, dim, t.data);
}
#define SMALL(c, mid, ...) small_weights(c, mid, INTS(__VA_ARGS__))

/* Each weight is a separate statement, so that random numbers are drawn in the same order by every
 * compiler. */
static inline const char *small_block(struct small_cnn *c, const char *x, int64_t in, int64_t out)
{
    const char *w = SMALL(c, 0, out, in, 3, 3), *bias = SMALL(c, 0, out), *y;
    const char *scale = SMALL(c, 1, out), *shift = SMALL(c, 0, out);
    const char *mean = SMALL(c, 0, out), *var = SMALL(c, 1, out);

    y = build_node(&c->b, "Conv", NAMES(x, w, bias), at_ints("pads", INTS(1, 1, 1, 1)));
    y = build_node(&c->b, "BatchNormalization", NAMES(y, scale, shift, mean, var), NOTHING);
    return build_node(&c->b, "Relu", NAMES(y), NOTHING);
}

/* (2, 3, 8, 8) to (2, 10). */
static inline void small_cnn(struct small_cnn *c, int dtype, int through)
{
    struct build *b = &c->b;
    const char *x, *y, *z, *scale, *bias;

    memset(c, 0, sizeof(*c));
    pare_rng_init(&c->rng, 7);
    c->dtype = dtype;
    c->through = through;
    b->opset = 17;
    x = small_block(c, build_input(b, dtype, INTS(2, 3, 8, 8)), 3, 16);
    y = build_node(b, "Add", NAMES(small_block(c, x, 16, 16), x), NOTHING);
    z = build_node(b, "MaxPool", NAMES(y),
                   CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2))));
    y = build_node(b, "Concat", NAMES(z, small_block(c, z, 16, 5)), at_int("axis", 1));
    z = build_node(b, "GlobalAveragePool", NAMES(y), NOTHING);
    y = build_node(b, "Mul", NAMES(y, build_node(b, "Sigmoid", NAMES(z), NOTHING)), NOTHING);
    y = build_node(b, "Transpose", NAMES(y), at_ints("perm", INTS(0, 2, 3, 1)));
    scale = SMALL(c, 1, 21);
    bias = SMALL(c, 0, 21);
    y = build_node(b, "LayerNormalization", NAMES(y, scale, bias), NOTHING);
    y = build_node(b, "Flatten", NAMES(y), NOTHING);
    scale = SMALL(c, 0, 336, 10);
    bias = SMALL(c, 0, 10);
    y = build_node(b, "Gemm", NAMES(y, scale, bias), at_float("alpha", 0.25f));
    build_output(b, build_node(b, "Softmax", NAMES(y), at_int("axis", 1)));
}

static inline struct pare_tensor small_input(struct small_cnn *c)
{
    struct pare_tensor t = build_tensor(PARE_F32, INTS(2, 3, 8, 8));

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_normal(&c->rng);
    small_convert(&t, c->through);
    small_convert(&t, c->dtype);
    return t;
}

#endif
