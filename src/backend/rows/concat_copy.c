/* concat_copy.c - Concat as a few large copies, row-major or blocked.
 *
 * Blocked channels can be concatenated if every operand but the last fills its blocks; then an
 * operand is one contiguous piece per image.
 */
#include "../backend.h"

#include "../../op/shape/movement.h"
#include "../../base/team.h"

struct concat {
    int64_t outer; /* images, or the product of the axes before the concatenation axis */
    size_t *bytes; /* by operand: bytes per outer index */
};

/* The layout of most of the data, if the operands can be concatenated in it. */
static int common_block(const struct pare_match *v, const struct pare_node *n, int axis)
{
    int64_t blocked = 0, total = 0;
    int block = 1;

    for (int i = 0; i < n->n_in; i++)
        if (pare_block_of(v, n->in[i]) > block)
            block = pare_block_of(v, n->in[i]);
    if (axis != 1 || block == 1)
        return 1;
    for (int i = 0; i < n->n_in; i++) {
        int64_t count = pare_numel(&n->in[i]->t);

        if (n->in[i]->t.rank < 3 || (i < n->n_in - 1 && n->in[i]->t.dim[1] % block))
            return 1;
        total += count;
        blocked += pare_block_of(v, n->in[i]) == block ? count : 0;
    }
    return 2 * blocked >= total ? block : 1;
}

static bool concat_copy_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct concat *c;
    int axis, block;

    if (!pare_node_is(n, &pare_op_concat))
        return false;
    axis = pare_concat_axis(n);
    block = common_block(v, n, axis);
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, n->n_in, 1, 0))
        return false;
    c->bytes = pare_alloc(v->backend->arena, (size_t)n->n_in, sizeof(*c->bytes));
    if (!c->bytes)
        return false;
    c->outer = pare_span(&n->out[0]->t, 0, axis);
    for (int i = 0; i < n->n_in; i++) {
        int64_t count = pare_block_numel(&n->in[i]->t, block);

        c->bytes[i] = c->outer ? (size_t)(count / c->outer) * pare_dtype_size(n->in[i]->t.dtype)
                               : 0;
        s->in[i] = n->in[i];
        s->in_block[i] = block;
    }
    s->out[0] = n->out[0];
    s->out_block[0] = block;
    s->state = c;
    return true;
}

static size_t bytes_before(const struct concat *c, int64_t input)
{
    size_t bytes = 0;

    for (int64_t k = 0; k < input; k++)
        bytes += c->bytes[k];
    return bytes;
}

/* An item is one input of one index of the axes before the concatenated one. */
static void copy_inputs(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct concat *c = s->state;
    const size_t total = bytes_before(c, s->n_in);

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t o = i / s->n_in, k = i % s->n_in;

        if (c->bytes[k])
            memcpy((char *)s->out_buf[0]->t.data + (size_t)o * total + bytes_before(c, k),
                   (const char *)s->in_buf[k]->t.data + (size_t)o * c->bytes[k], c->bytes[k]);
    }
}

static int concat_copy_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct concat *c = s->state;

    (void)err;
    pare_parallel(bytes_before(c, s->n_in) * (size_t)c->outer > 65536 ? b->threads : 1,
                  c->outer * s->n_in, copy_inputs, s);
    return 0;
}

const struct pare_kernel pare_kernel_concat_copy = {
    .name = "concat_copy",
    .doc = "Concat as large copies.",
    .match = concat_copy_match,
    .run = concat_copy_run,
};
