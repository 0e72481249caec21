/* qlinear_concat.c - QLinearConcat (com.microsoft): concatenation of quantized tensors.
 *
 * Its inputs are the result's scale and zero point, then integers, scale and zero point of each
 * operand.
 */
#include "../shape/movement.h"
#include "qlinear_family.h"

enum { FIRST = 2 };

struct concat {
    int64_t axis;
};

static const struct pare_opt attrs[] = { { "axis", "axis to concatenate along", PARE_OPT_INT,
                                           offsetof(struct concat, axis), 1, PARE_NO_MIN,
                                           PARE_NO_MAX, NULL, NULL, true, NULL },
                                         PARE_OPT_END };

static const struct pare_qlinear how = { .real = &pare_op_concat, .first = FIRST };

static int check(const struct pare_node *n, struct pare_err *err)
{
    enum pare_dtype type = n->in[1]->t.dtype;

    if (n->n_in < FIRST + 3 || (n->n_in - FIRST) % 3)
        return pare_fail(err, PARE_EFORMAT, "%d inputs, expected 2 and 3 per operand", n->n_in);
    PARE_TRY(pare_qlinear_single(n, 0, PARE_F32, err));
    PARE_TRY(pare_qlinear_single(n, 1, type, err));
    for (int k = FIRST; k < n->n_in; k += 3) {
        if (!n->in[k] || !n->in[k + 1])
            return pare_fail(err, PARE_EFORMAT, "input %d is missing", n->in[k] ? k + 1 : k);
        if (n->in[k]->t.dtype != type)
            return pare_fail(err, PARE_EUNSUPPORTED, "input %d is %s, must be %s", k,
                             pare_dtype_name(n->in[k]->t.dtype), pare_dtype_name(type));
        PARE_TRY(pare_qlinear_single(n, k + 1, PARE_F32, err));
        PARE_TRY(pare_qlinear_single(n, k + 2, type, err));
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct concat *a = n->attr;
    char buf[PARE_SHAPE_TEXT], first[PARE_SHAPE_TEXT];
    struct pare_tensor y;
    int axis;

    PARE_TRY(check(n, err));
    y = n->in[FIRST]->t;
    PARE_TRY(pare_axis(a->axis, y.rank, &axis, err));
    for (int k = FIRST + 3; k < n->n_in; k += 3) {
        struct pare_tensor x = n->in[k]->t;

        if (x.rank == y.rank)
            x.dim[axis] = y.dim[axis];
        if (!pare_same_shape(&x, &y))
            return pare_fail(err, PARE_ESHAPE, "operands %s and %s do not fit along axis %d",
                             pare_shape_text(&n->in[FIRST]->t, first, sizeof(first)),
                             pare_shape_text(&n->in[k]->t, buf, sizeof(buf)), axis);
        PARE_TRY(pare_add_size(y.dim[axis], n->in[k]->t.dim[axis], &y.dim[axis], err));
    }
    pare_like(&n->out[0]->t, &y);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_qlinear_forward(n, &how, c, err);
}

const struct pare_op pare_op_qlinear_concat = {
    .type = "QLinearConcat",
    .doc = "Concatenate quantized tensors along an axis.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "FTA*",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct concat),
    .infer = infer,
    .scales = { .x = FIRST + 1, .y = 0 },
    .forward = forward,
};
