/* compress.c - Compress: select slices along an axis, or elements, by a condition. */
#include "movement.h"

struct compress {
    int64_t axis;
};

#define NO_AXIS (-0x1p63) /* INT64_MIN: all elements, flattened */

static const struct pare_opt compress_attrs[] = {
    PARE_INT("axis", offsetof(struct compress, axis),
             "axis to select along (default: the flattened input)", NO_AXIS, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END
};

/* The input as (outer, len, inner), and the number of conditions. */
struct frame {
    int axis; /* -1: none */
    int64_t outer, len, inner, known;
};

static int frame_of(const struct pare_node *n, struct frame *f, struct pare_err *err)
{
    const struct compress *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *cond = &n->in[1]->t;
    int64_t count = pare_numel(cond);

    *f = (struct frame){ -1, 1, pare_numel(x), 1, 0 };
    if (a->axis != INT64_MIN) {
        PARE_TRY(pare_axis(a->axis, x->rank, &f->axis, err));
        f->outer = pare_span(x, 0, f->axis);
        f->len = x->dim[f->axis];
        f->inner = pare_span(x, f->axis + 1, x->rank);
    }
    if (cond->rank != 1)
        return pare_fail(err, PARE_ESHAPE, "the condition has %d dimensions, must have 1",
                         cond->rank);
    f->known = count < f->len ? count : f->len;
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor *y = &n->out[0]->t;
    int64_t count = 0;
    struct frame f;

    PARE_TRY(pare_need(n, 1, err));
    PARE_TRY(frame_of(n, &f, err));
    for (int64_t i = 0; i < f.known; i++)
        count += ((const uint8_t *)n->in[1]->t.data)[i] != 0;
    if (f.axis < 0)
        return pare_shape_set(y, n->in[0]->t.dtype, 1, &count, err);
    pare_like(y, &n->in[0]->t);
    y->dim[f.axis] = count;
    return 0;
}

static int move_compress(const struct pare_node *n, const struct pare_flow *f,
                         struct pare_arena *scratch, struct pare_err *err)
{
    const uint8_t *cond = n->in[1]->t.data;
    struct frame a;
    int64_t to = 0;

    (void)scratch;
    PARE_TRY(frame_of(n, &a, err));
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.known; i++)
            if (cond[i]) {
                pare_flow_run(f, (o * a.len + i) * a.inner, to, a.inner);
                to += a.inner;
            }
    return 0;
}

PARE_BOTH_PASSES(move_compress)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_err err;
    struct frame f;

    if (frame_of(n, &f, &err) || f.axis < 0)
        return;
    for (int i = 0; i < n->in[0]->t.rank; i++)
        if (i != f.axis)
            pare_tie(t, n->in[0], i, n->out[0], i);
}

const struct pare_op pare_op_compress = {
    .type = "Compress",
    .doc = "Select slices along an axis by a condition.",
    .since = 9,
    .in = "AB",
    .min_out = 1,
    .max_out = 1,
    .attrs = compress_attrs,
    .attr_size = sizeof(struct compress),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
