/* reverse_sequence.c - ReverseSequence: reverse the first steps of each sequence in a batch. */
#include "movement.h"

struct reverse_sequence {
    int64_t batch_axis, time_axis;
};

static const struct pare_opt reverse_sequence_attrs[] = {
    PARE_INT("batch_axis", offsetof(struct reverse_sequence, batch_axis), "axis of the sequences",
             1, 0, 1),
    PARE_INT("time_axis", offsetof(struct reverse_sequence, time_axis), "axis of the steps", 0, 0,
             1),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct reverse_sequence *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *len = &n->in[1]->t;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank < 2 || a->batch_axis == a->time_axis)
        return pare_fail(err, PARE_ESHAPE,
                         "two different axes are needed, found axes %lld and "
                         "%lld of %s",
                         (long long)a->batch_axis, (long long)a->time_axis,
                         pare_shape_text(x, buf, sizeof(buf)));
    if (len->rank != 1 || len->dim[0] != x->dim[a->batch_axis])
        return pare_fail(err, PARE_ESHAPE,
                         "the lengths are %s, one is needed for each of %lld "
                         "sequences",
                         pare_shape_text(len, buf, sizeof(buf)), (long long)x->dim[a->batch_axis]);
    return pare_infer_same(n, err);
}

static int move_reverse_sequence(const struct pare_node *n, const struct pare_flow *f,
                                 struct pare_arena *scratch, struct pare_err *err)
{
    const struct reverse_sequence *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    bool time_first = !a->time_axis;
    int64_t batch = x->dim[a->batch_axis], steps = x->dim[a->time_axis];
    int64_t run = pare_span(x, 2, x->rank);

    (void)scratch;
    for (int64_t b = 0; b < batch; b++) {
        int64_t len = pare_i64(&n->in[1]->t)[b];

        if (len < 0 || len > steps)
            return pare_fail(err, PARE_ESHAPE, "sequence %lld has length %lld of %lld steps",
                             (long long)b, (long long)len, (long long)steps);
        for (int64_t t = 0; t < steps; t++) {
            int64_t from = t < len ? len - 1 - t : t;

            pare_flow_run(f, (time_first ? from * batch + b : b * steps + from) * run,
                          (time_first ? t * batch + b : b * steps + t) * run, run);
        }
    }
    return 0;
}

PARE_BOTH_PASSES(move_reverse_sequence)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct reverse_sequence *a = n->attr;

    for (int i = 0; i < n->in[0]->t.rank; i++)
        if (i != a->time_axis)
            pare_tie(t, n->in[0], i, n->out[0], i);
}

const struct pare_op pare_op_reverse_sequence = {
    .type = "ReverseSequence",
    .doc = "Reverse the first steps of each sequence.",
    .since = 10,
    .in = "AL",
    .min_out = 1,
    .max_out = 1,
    .attrs = reverse_sequence_attrs,
    .attr_size = sizeof(struct reverse_sequence),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
