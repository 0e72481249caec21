/* constant.c - Constant: a value given by an attribute. */
#include <math.h>

#include "../shape/movement.h"

struct constant {
    const struct pare_tensor *value, *sparse;
    double real;
    int64_t whole;
    const char *text;
    struct pare_floats reals;
    struct pare_ints wholes;
    struct pare_strs texts;
};

/* The attribute that differs from these defaults is the one present; no float32 is 1e300. */
#define NO_REAL 1e300
#define NO_WHOLE (-0x1p63)

static const struct pare_opt constant_attrs[] = {
    { "value", "a tensor", PARE_OPT_TENSOR, offsetof(struct constant, value), 0, 0, 0, NULL, NULL,
      false, NULL },
    { "sparse_value", "a sparse tensor (not supported)", PARE_OPT_TENSOR,
      offsetof(struct constant, sparse), 0, 0, 0, NULL, NULL, false, NULL },
    PARE_FLOAT("value_float", offsetof(struct constant, real), "a float32 scalar", NO_REAL,
               -INFINITY, INFINITY),
    PARE_FLOATS("value_floats", offsetof(struct constant, reals), "a float32 list", -INFINITY,
                INFINITY),
    PARE_INT("value_int", offsetof(struct constant, whole), "an int64 scalar", NO_WHOLE,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INTS("value_ints", offsetof(struct constant, wholes), "an int64 list", PARE_NO_MIN,
              PARE_NO_MAX),
    PARE_TEXT("value_string", offsetof(struct constant, text), NULL, "a string scalar", NULL),
    PARE_TEXTS("value_strings", offsetof(struct constant, texts), NULL, "a string list"),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct constant *a = n->attr;
    struct pare_tensor *y = &n->out[0]->t;
    int64_t count;

    if (a->value) {
        pare_like(y, a->value);
        return 0;
    }
    if (a->reals.v || a->wholes.v || a->texts.v) {
        enum pare_dtype d = a->wholes.v ? PARE_I64 : PARE_STR;

        count = a->reals.v ? a->reals.n : a->wholes.v ? a->wholes.n : a->texts.n;
        return pare_shape_set(y, a->reals.v ? PARE_F32 : d, 1, &count, err);
    }
    if (a->text)
        return pare_shape_set(y, PARE_STR, 0, NULL, err);
    if (a->real < NO_REAL || isinf(a->real))
        return pare_shape_set(y, PARE_F32, 0, NULL, err);
    if (a->whole != INT64_MIN)
        return pare_shape_set(y, PARE_I64, 0, NULL, err);
    return pare_fail(err, PARE_EUNSUPPORTED, "it has no value of a supported kind");
}

static void store_element(const struct pare_tensor *y, int64_t i, const struct constant *a)
{
    switch ((int)y->dtype) {
    case PARE_F32: pare_f32_mut(y)[i] = (float)(a->reals.v ? a->reals.v[i] : a->real); break;
    case PARE_I64: pare_i64_mut(y)[i] = a->wholes.v ? a->wholes.v[i] : a->whole; break;
    default: {
        const char *s = a->texts.v ? a->texts.v[i] : a->text;

        ((struct pare_str *)y->data)[i] = (struct pare_str){ s, strlen(s) };
        break;
    }
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct constant *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;
    int64_t count = pare_numel(y);

    (void)c, (void)err;
    if (a->value && count)
        memcpy(y->data, a->value->data, (size_t)count * pare_dtype_size(y->dtype));
    for (int64_t i = 0; !a->value && i < count; i++)
        store_element(y, i, a);
    return 0;
}

/* Like an initializer: its axes follow its consumers. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    for (int i = 0; i < n->out[0]->t.rank; i++)
        pare_tie(t, n->out[0], i, n->out[0], i);
}

const struct pare_op pare_op_constant = {
    .type = "Constant",
    .doc = "A value given by an attribute.",
    .since = 1,
    .in = "",
    .min_out = 1,
    .max_out = 1,
    .attrs = constant_attrs,
    .attr_size = sizeof(struct constant),
    .infer = infer,
    .forward = forward,
    .ties = ties,
};
