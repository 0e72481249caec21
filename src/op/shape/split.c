/* split.c - Split: split an axis into parts, one per output.
 *
 * Sizes are an attribute before opset 13 and an input since.  Without them the parts are equal;
 * since 18 the last may be smaller.
 */
#include "movement.h"

#define MAX_PARTS 64 /* parts of an axis that may lose channels */

struct split {
    int64_t axis, num_outputs;
    struct pare_ints split;
};

static const struct pare_opt split_attrs[] = {
    PARE_INT("axis", offsetof(struct split, axis), "axis to split", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("num_outputs", offsetof(struct split, num_outputs),
             "number of parts; the last may be smaller", 0, 1, 1e9),
    PARE_INTS("split", offsetof(struct split, split), "sizes of the parts", PARE_NO_MIN,
              PARE_NO_MAX),
    PARE_OPT_END
};

int pare_split_axis(const struct pare_node *n)
{
    const struct split *a = n->attr;

    return (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
}

int64_t pare_split_size(const struct pare_node *n, int i)
{
    const struct split *a = n->attr;
    const struct pare_tensor *given = pare_given(n, 1);
    int64_t dim = n->in[0]->t.dim[pare_split_axis(n)];
    int64_t part = dim / n->n_out + (dim % n->n_out != 0);

    if (given)
        return pare_get_int(given, i);
    if (a->split.n)
        return a->split.v[i];
    return i < n->n_out - 1 ? part : dim - part * (n->n_out - 1);
}

/* One size per output, none negative, with the size of the axis as their sum. */
static int check_sizes(const struct pare_node *n, int axis, struct pare_err *err)
{
    const struct split *a = n->attr;
    const struct pare_tensor *given = pare_given(n, 1);
    int64_t count = given ? pare_numel(given) : a->split.n, sum = 0;
    int64_t dim = n->in[0]->t.dim[axis];

    if ((given || count) && count != n->n_out)
        return pare_fail(err, PARE_ESHAPE, "%lld sizes are given for %d outputs", (long long)count,
                         n->n_out);
    if (a->num_outputs && a->num_outputs != n->n_out)
        return pare_fail(err, PARE_ESHAPE, "num_outputs is %lld but there are %d outputs",
                         (long long)a->num_outputs, n->n_out);
    if (!given && !count && n->version < 18 && dim % n->n_out)
        return pare_fail(err, PARE_ESHAPE, "an axis of %lld cannot be split in %d equal parts",
                         (long long)dim, n->n_out);
    for (int i = 0; i < n->n_out; i++) {
        int64_t size = pare_split_size(n, i);

        if (size < 0 || size > dim - sum)
            return pare_fail(err, PARE_ESHAPE,
                             "part %d of size %lld does not fit in an axis of %lld", i,
                             (long long)size, (long long)dim);
        sum += size;
    }
    if (sum != dim)
        return pare_fail(err, PARE_ESHAPE, "the parts add up to %lld of an axis of %lld",
                         (long long)sum, (long long)dim);
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct split *a = n->attr;
    int axis;

    PARE_TRY(pare_axis(a->axis, n->in[0]->t.rank, &axis, err));
    PARE_TRY(pare_need(n, 1, err));
    PARE_TRY(check_sizes(n, axis, err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) {
            pare_like(&n->out[i]->t, &n->in[0]->t);
            n->out[i]->t.dim[axis] = pare_split_size(n, i);
        }
    return 0;
}

static int move_split(const struct pare_node *n, bool back)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int axis = pare_split_axis(n);
    int64_t outer = pare_span(x, 0, axis), inner = pare_span(x, axis + 1, x->rank), at = 0;
    struct pare_flow f;

    for (int k = 0; k < n->n_out; k++) {
        int64_t run = pare_split_size(n, k) * inner;

        if (run && pare_flow(&f, n->in[0], n->out[k], back))
            for (int64_t i = 0; i < outer; i++)
                pare_flow_run(&f, at + i * x->dim[axis] * inner, i * run, run);
        at += run;
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return move_split(n, false);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return move_split(n, true);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int axis = pare_split_axis(n);
    int64_t from = 0;

    for (int k = 0; k < n->n_out; k++) {
        for (int i = 0; n->out[k] && i < n->in[0]->t.rank; i++)
            if (i != axis)
                pare_tie(t, n->in[0], i, n->out[k], i);
        pare_tie_part(t, n->in[0], axis, from, n->out[k], axis);
        from += pare_split_size(n, k);
    }
}

static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    int64_t v[MAX_PARTS];
    int axis = pare_split_axis(n);

    if (pare_shrunk_dim(s, n->in[0], axis) == n->in[0]->t.dim[axis])
        return;
    if (pare_shrunk_free(s, n->in[0], axis)) {
        pare_shrunk_fail(s, "the axis that it splits follows a free dimension");
        return;
    }
    if (n->n_out > MAX_PARTS) {
        pare_shrunk_fail(s, "it has too many parts");
        return;
    }
    for (int k = 0; k < n->n_out; k++) {
        if (!n->out[k]) {
            pare_shrunk_fail(s, "some of its outputs are absent");
            return;
        }
        v[k] = pare_shrunk_dim(s, n->out[k], axis);
    }
    if (n->version < 13)
        pare_shrunk_ints(s, "split", v, n->n_out);
    else
        pare_shrunk_list(s, 1, v, n->n_out);
}

static bool index_map(const struct pare_node *n, int k, struct pare_index_map *m)
{
    for (int i = 0; i < k; i++)
        m->first[pare_split_axis(n)] += pare_split_size(n, i);
    return true;
}

const struct pare_op pare_op_split = {
    .type = "Split",
    .doc = "Split an axis into parts.",
    .since = 2,
    .in = "AI?",
    .min_out = 1,
    .max_out = -1,
    .flags = PARE_OP_LINEAR | PARE_OP_MOVES | PARE_OP_COPIES,
    .attrs = split_attrs,
    .attr_size = sizeof(struct split),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .index_map = index_map,
    .int8_since = 2,
    .sizes = 0x2,
    .constant_channel = pare_constant_channel_same,
    .shrink = shrink,
};
