/* split_to_sequence.c - SplitToSequence: split a tensor along an axis into a sequence. */
#include "../shape/movement.h"

struct split {
    int64_t axis, keepdims;
};

static const struct pare_opt split_attrs[] = {
    PARE_INT("axis", offsetof(struct split, axis), "axis to split", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("keepdims", offsetof(struct split, keepdims),
             "0: without sizes, elements lose the axis", 1, 0, 1),
    PARE_OPT_END
};

/* The size of part i along the axis, which has `total` elements. */
static int64_t size_of(const struct pare_tensor *split, int64_t i, int64_t total)
{
    int64_t each;

    if (split && split->rank)
        return pare_get_int(split, i);
    each = split ? pare_get_int(split, 0) : 1;
    return total - i * each < each ? total - i * each : each;
}

static int count_parts(const struct pare_tensor *split, int64_t total, int64_t *count,
                       struct pare_err *err)
{
    int64_t sum = 0, each = 1;

    if (split && split->rank > 1)
        return pare_fail(err, PARE_ESHAPE, "split has %d dimensions, expected 0 or 1", split->rank);
    if (!split || !split->rank) {
        if (split)
            each = pare_get_int(split, 0);
        if (each < 1)
            return pare_fail(err, PARE_ESHAPE, "parts of %lld elements, expected 1 or more",
                             (long long)each);
        *count = total / each + (total % each != 0);
        return 0;
    }
    *count = split->dim[0];
    for (int64_t i = 0; i < *count; i++) {
        int64_t v = pare_get_int(split, i);

        if (v < 0 || v > total - sum)
            return pare_fail(err, PARE_ESHAPE,
                             "the sizes do not add up to %lld, part %lld has %lld",
                             (long long)total, (long long)i, (long long)v);
        sum += v;
    }
    if (sum != total)
        return pare_fail(err, PARE_ESHAPE, "the sizes add up to %lld, the axis has %lld elements",
                         (long long)sum, (long long)total);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct split *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *split = pare_given(n, 1);
    int64_t count = 0, from = 0, outer;
    struct pare_tensor s;
    size_t inner;
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(count_parts(split, x->dim[axis], &count, err));
    PARE_TRY(pare_sequence_new(c->results, &s, count, err));
    outer = pare_is_empty(x) ? 0 : pare_span(x, 0, axis);
    inner = (size_t)pare_span(x, axis + 1, x->rank) * pare_dtype_size(x->dtype);
    for (int64_t i = 0; i < count; i++) {
        struct pare_tensor *y = (struct pare_tensor *)s.data + i;
        int64_t size = size_of(split, i, x->dim[axis]);

        *y = *x;
        y->dim[axis] = size;
        PARE_TRY(pare_tensor_alloc(c->results, y, err));
        for (int64_t o = 0; o < outer && size; o++)
            memcpy((char *)y->data + (size_t)(o * size) * inner,
                   (const char *)x->data + (size_t)(o * x->dim[axis] + from) * inner,
                   (size_t)size * inner);
        from += size;
        if (split || a->keepdims)
            continue;
        y->rank--;
        for (int k = axis; k < y->rank; k++)
            y->dim[k] = x->dim[k + 1];
    }
    n->out[0]->t = s;
    return 0;
}

const struct pare_op pare_op_split_to_sequence = {
    .type = "SplitToSequence",
    .doc = "Split a tensor along an axis into a sequence.",
    .since = 11,
    .in = "AI?",
    .min_out = 1,
    .max_out = 1,
    .attrs = split_attrs,
    .attr_size = sizeof(struct split),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
