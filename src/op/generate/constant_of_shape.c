/* constant_of_shape.c - ConstantOfShape: a tensor filled with one value, its shape given as data.
 */
#include "../shape/movement.h"

struct constant_of_shape {
    const struct pare_tensor *value;
};

static const struct pare_opt constant_of_shape_attrs[] = {
    { "value", "value of one element (default: float32 zero)", PARE_OPT_TENSOR,
      offsetof(struct constant_of_shape, value), 0, 0, 0, NULL, NULL, false, NULL },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct constant_of_shape *a = n->attr;
    struct pare_list dim;

    PARE_TRY(pare_list_read(n, 0, none, &dim, err));
    if (a->value && pare_numel(a->value) != 1)
        return pare_fail(err, PARE_ESHAPE, "the value has %lld elements, expected 1",
                         (long long)pare_numel(a->value));
    for (int i = 0; i < dim.n; i++)
        if (dim.v[i] < 0)
            return pare_fail(err, PARE_ESHAPE, "the shape has a negative dimension: %lld",
                             (long long)dim.v[i]);
    return pare_shape_set(&n->out[0]->t, a->value ? a->value->dtype : PARE_F32, dim.n, dim.v, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    static const float zero;
    const struct constant_of_shape *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;

    (void)c, (void)err;
    pare_fill(y->data, pare_numel(y), a->value ? a->value->data : &zero, pare_dtype_size(y->dtype));
    return 0;
}

static bool zeros(const struct pare_node *n)
{
    static const char none[16];
    const struct constant_of_shape *a = n->attr;
    size_t size = a->value ? pare_dtype_size(a->value->dtype) : 0;

    if (!a->value)
        return true;
    return size && size <= sizeof(none) && pare_numel(a->value) == 1 && a->value->data &&
           !memcmp(a->value->data, none, size);
}

const struct pare_op pare_op_constant_of_shape = {
    .type = "ConstantOfShape",
    .doc = "A tensor filled with one value, its shape given as data.",
    .since = 9,
    .in = "L",
    .min_out = 1,
    .max_out = 1,
    .attrs = constant_of_shape_attrs,
    .attr_size = sizeof(struct constant_of_shape),
    .infer = infer,
    .forward = forward,
    .settings = 0x1,
    .zeros = zeros,
};
