/* concat.c - Concat: concatenate inputs along an axis. */
#include "movement.h"

struct concat {
    int64_t axis;
};

static const struct pare_opt concat_attrs[] = { { "axis", "axis to concatenate along", PARE_OPT_INT,
                                                  offsetof(struct concat, axis), 1, PARE_NO_MIN,
                                                  PARE_NO_MAX, NULL, NULL, true, NULL },
                                                PARE_OPT_END };

int pare_concat_axis(const struct pare_node *n)
{
    const struct concat *a = n->attr;

    return (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct concat *a = n->attr;
    struct pare_tensor y = n->in[0]->t;
    char buf[PARE_SHAPE_TEXT], first[PARE_SHAPE_TEXT];
    int axis;

    PARE_TRY(pare_axis(a->axis, y.rank, &axis, err));
    for (int k = 1; k < n->n_in; k++) {
        struct pare_tensor x;

        if (!n->in[k])
            return pare_fail(err, PARE_EFORMAT, "input %d is missing", k);
        x = n->in[k]->t;
        if (x.rank == y.rank)
            x.dim[axis] = y.dim[axis];
        if (!pare_same_shape(&x, &y))
            return pare_fail(err, PARE_ESHAPE, "inputs %s and %s do not fit along axis %d",
                             pare_shape_text(&n->in[0]->t, first, sizeof(first)),
                             pare_shape_text(&n->in[k]->t, buf, sizeof(buf)), axis);
        PARE_TRY(pare_add_size(y.dim[axis], n->in[k]->t.dim[axis], &y.dim[axis], err));
    }
    pare_like(&n->out[0]->t, &y);
    return 0;
}

static int move_concat(const struct pare_node *n, bool back)
{
    const struct pare_tensor *y = &n->out[0]->t;
    int axis = pare_concat_axis(n);
    int64_t outer = pare_span(y, 0, axis), inner = pare_span(y, axis + 1, y->rank), at = 0;
    struct pare_flow f;

    for (int k = 0; k < n->n_in; k++) {
        int64_t run = n->in[k]->t.dim[axis] * inner;

        if (run && pare_flow(&f, n->in[k], n->out[0], back))
            for (int64_t i = 0; i < outer; i++)
                pare_flow_run(&f, i * run, at + i * y->dim[axis] * inner, run);
        at += run;
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return move_concat(n, false);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return move_concat(n, true);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int axis = pare_concat_axis(n);
    int64_t from = 0;

    for (int k = 0; k < n->n_in; k++) {
        for (int i = 0; i < n->out[0]->t.rank; i++)
            if (i != axis)
                pare_tie(t, n->in[k], i, n->out[0], i);
        pare_tie_part(t, n->out[0], axis, from, n->in[k], axis);
        from += n->in[k]->t.dim[axis];
    }
}

const struct pare_op pare_op_concat = {
    .type = "Concat",
    .doc = "Concatenate inputs along an axis.",
    .since = 4,
    .in = "T+",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_LINEAR | PARE_OP_JOINS | PARE_OP_INT8_JOIN | PARE_OP_COPIES,
    .qlinear_type = "QLinearConcat",
    .attrs = concat_attrs,
    .attr_size = sizeof(struct concat),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .constant_channel = pare_constant_channel_same,
};
