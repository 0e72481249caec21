/* sequence_insert.c - SequenceInsert: a sequence with one more element. */
#include "sequence_family.h"

/* The position after the last element. */
static bool is_end(const struct pare_node *n, int64_t count)
{
    return n->n_in > 2 && n->in[2] && pare_numel(&n->in[2]->t) == 1 &&
           pare_get_int(&n->in[2]->t, 0) == count;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *s = &n->in[0]->t, *old = pare_elements(s);
    int64_t count = s->dim[0], at = count;
    struct pare_tensor *list, x, y;

    if (count && old[0].dtype != n->in[1]->t.dtype)
        return pare_fail(err, PARE_ESHAPE, "the tensor is %s, the elements of the sequence are %s",
                         pare_dtype_name(n->in[1]->t.dtype), pare_dtype_name(old[0].dtype));
    /* Elements live as long as the run, so only the list is copied. */
    if (!is_end(n, count))
        PARE_TRY(pare_sequence_position(n, 2, count, &at, err));
    PARE_TRY(pare_value_copy(c->results, &n->in[1]->t, &x, err));
    PARE_TRY(pare_sequence_new(c->results, &y, count + 1, err));
    list = y.data;
    for (int64_t i = 0; i <= count; i++)
        list[i] = i < at ? old[i] : i == at ? x : old[i - 1];
    n->out[0]->t = y;
    return 0;
}

const struct pare_op pare_op_sequence_insert = {
    .type = "SequenceInsert",
    .doc = "A sequence with one more element.",
    .since = 11,
    .in = "SAI?",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
