/* concat_from_sequence.c - ConcatFromSequence: concatenate or stack the elements of a sequence. */
#include "../shape/movement.h"

struct join {
    int64_t axis, new_axis;
};

static const struct pare_opt join_attrs[] = {
    { "axis", "axis to concatenate along", PARE_OPT_INT, offsetof(struct join, axis), 0,
      PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, NULL },
    PARE_INT("new_axis", offsetof(struct join, new_axis), "1: the axis is new", 0, 0, 1),
    PARE_OPT_END
};

/* The shape of the result and the axis; elements differ along the axis only, if it is not new. */
static int shape_of(const struct pare_node *n, struct pare_tensor *y, int *axis,
                    struct pare_err *err)
{
    const struct join *a = n->attr;
    const struct pare_tensor *s = &n->in[0]->t, *e = pare_elements(s);
    char first[PARE_SHAPE_TEXT], other[PARE_SHAPE_TEXT];
    int64_t sum = 0;

    if (!s->dim[0])
        return pare_fail(err, PARE_ESHAPE, "the sequence is empty");
    *y = e[0];
    y->rank += a->new_axis != 0;
    if (y->rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has %d dimensions, at most %d are handled",
                         y->rank, PARE_MAX_RANK);
    PARE_TRY(pare_axis(a->axis, y->rank, axis, err));
    for (int64_t i = 0; i < s->dim[0]; i++) {
        struct pare_tensor x = e[i];

        PARE_TRY(pare_add_size(sum,
                               a->new_axis      ? 1
                               : x.rank > *axis ? x.dim[*axis]
                                                : 0,
                               &sum, err));
        if (!a->new_axis && x.rank == e[0].rank)
            x.dim[*axis] = e[0].dim[*axis];
        if (x.dtype != e[0].dtype || !pare_same_shape(&x, &e[0]))
            return pare_fail(err, PARE_ESHAPE, "elements %s and %s do not fit along axis %d",
                             pare_shape_text(&e[0], first, sizeof(first)),
                             pare_shape_text(&e[i], other, sizeof(other)), *axis);
    }
    for (int i = *axis + 1; i < y->rank && a->new_axis; i++)
        y->dim[i] = e[0].dim[i - 1];
    y->dim[*axis] = sum;
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *s = &n->in[0]->t, *e = pare_elements(s);
    struct pare_tensor y;
    size_t size, at = 0;
    int64_t outer;
    int axis;

    PARE_TRY(shape_of(n, &y, &axis, err));
    PARE_TRY(pare_tensor_alloc(c->results, &y, err));
    n->out[0]->t = y;
    if (pare_is_empty(&y))
        return 0;
    outer = pare_span(&y, 0, axis);
    size = pare_dtype_size(y.dtype) * (size_t)pare_span(&y, axis, y.rank);
    for (int64_t k = 0; k < s->dim[0]; k++) {
        size_t run = (size_t)(pare_numel(&e[k]) / outer) * pare_dtype_size(y.dtype);

        for (int64_t i = 0; i < outer && run; i++)
            memcpy((char *)y.data + (size_t)i * size + at,
                   (const char *)e[k].data + (size_t)i * run, run);
        at += run;
    }
    return 0;
}

const struct pare_op pare_op_concat_from_sequence = {
    .type = "ConcatFromSequence",
    .doc = "Concatenate or stack the elements of a sequence.",
    .since = 11,
    .in = "S",
    .min_out = 1,
    .max_out = 1,
    .attrs = join_attrs,
    .attr_size = sizeof(struct join),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
