/* eye_like.c - EyeLike: ones on a diagonal, in the shape of an input. */
#include "../shape/movement.h"

struct eye_like {
    int64_t dtype, k;
};

static const struct pare_opt eye_like_attrs[] = {
    PARE_INT("dtype", offsetof(struct eye_like, dtype), "element type (default: the input's)", 0, 0,
             64),
    PARE_INT("k", offsetof(struct eye_like, k), "diagonal; positive: above the main one", 0,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct eye_like *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    enum pare_dtype d = a->dtype ? (enum pare_dtype)a->dtype : x->dtype;

    if (x->rank != 2)
        return pare_fail(err, PARE_ESHAPE, "a matrix is expected, found %d dimensions", x->rank);
    if (!pare_dtype_size(d) || d == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "a diagonal of type %s is not supported",
                         pare_dtype_name(d));
    return pare_shape_set(&n->out[0]->t, d, 2, x->dim, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct eye_like *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;
    int64_t rows = y->dim[0], cols = y->dim[1], k = a->k, one = 1, bits[2];
    size_t size = pare_dtype_size(y->dtype);

    (void)c;
    if (pare_is_empty(y))
        return 0;
    PARE_TRY(pare_convert(y->dtype, bits, PARE_I64, &one, 1, err));
    memset(y->data, 0, (size_t)pare_numel(y) * size);
    k = k < -rows ? -rows : k > cols ? cols : k;
    for (int64_t i = 0; i < rows; i++)
        if (i + k >= 0 && i + k < cols)
            pare_copy_one((char *)y->data + (size_t)(i * cols + i + k) * size, bits, size);
    return 0;
}

const struct pare_op pare_op_eye_like = {
    .type = "EyeLike",
    .doc = "Ones on a diagonal, in the shape of the input.",
    .since = 9,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = eye_like_attrs,
    .attr_size = sizeof(struct eye_like),
    .flags = PARE_OP_SHAPES,
    .infer = infer,
    .forward = forward,
};
