/* bit_cast.c - BitCast: the same bits as another element type of the same size. */
#include <string.h>

#include "../op.h"

struct bit_cast {
    int64_t to;
};

static const struct pare_opt bit_cast_attrs[] = {
    { "to", "the element type, as a TensorProto.DataType number", PARE_OPT_INT,
      offsetof(struct bit_cast, to), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, NULL },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct bit_cast *a = n->attr;
    enum pare_dtype from = n->in[0]->t.dtype;
    enum pare_dtype to = a->to < 0 || a->to > 1000 ? PARE_NONE : (enum pare_dtype)a->to;

    if (!pare_dtype_size(to) || to == PARE_STR || from == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "%s as element type %lld is not supported",
                         pare_dtype_name(from), (long long)a->to);
    if (pare_dtype_size(from) != pare_dtype_size(to) || pare_is_4bit(from) != pare_is_4bit(to))
        return pare_fail(err, PARE_ESHAPE, "%s and %s have different sizes", pare_dtype_name(from),
                         pare_dtype_name(to));
    PARE_TRY(pare_infer_same(n, err));
    n->out[0]->t.dtype = to;
    return 0;
}

/* In memory a bool is 0 or 1, and a 4-bit integer has the sign of its type. */
static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t count = pare_numel(x);
    const uint8_t *from = x->data;

    (void)c, (void)err;
    if (count)
        memcpy(y->data, x->data, (size_t)count * pare_dtype_size(x->dtype));
    for (int64_t i = 0; i < count && y->dtype == PARE_BOOL; i++)
        ((uint8_t *)y->data)[i] = from[i] != 0;
    for (int64_t i = 0; i < count && pare_is_4bit(y->dtype); i++) {
        uint8_t half = from[i] & 15;

        ((uint8_t *)y->data)[i] = y->dtype == PARE_I4 && half > 7 ? half | 0xf0 : half;
    }
    return 0;
}

const struct pare_op pare_op_bit_cast = {
    .type = "BitCast",
    .doc = "The same bits as another element type of the same size.",
    .since = 26,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = bit_cast_attrs,
    .attr_size = sizeof(struct bit_cast),
    .infer = infer,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
