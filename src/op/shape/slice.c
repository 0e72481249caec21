/* slice.c - Slice: every step-th element of a range of some axes.
 *
 * Bounds are attributes before opset 10, inputs since.  Negative bounds count from the end, and
 * bounds are clamped, so that INT64_MAX means "to the end"; a negative step goes backward.
 */
#include "movement.h"

struct slice {
    struct pare_ints starts, ends, axes;
};

static const struct pare_opt slice_attrs[] = {
    PARE_INTS("starts", offsetof(struct slice, starts), "first element along each axis",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_INTS("ends", offsetof(struct slice, ends), "one past the last", PARE_NO_MIN, PARE_NO_MAX),
    PARE_INTS("axes", offsetof(struct slice, axes), "axes to slice (default: the first ones)",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* One axis of `dim` elements.  Forward both bounds may be past the last element, backward the end
 * may be before the first. */
static void range(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *out)
{
    int64_t back = step < 0, count = 0;

    step = step == INT64_MIN ? -INT64_MAX : step;
    start = clamp(start < 0 ? start + dim : start, 0, dim - back);
    end = clamp(end < 0 ? end + dim : end, -back, dim - back);
    if (dim && !back && start < end)
        count = (end - start - 1) / step + 1;
    if (dim && back && start > end)
        count = (start - end - 1) / -step + 1;
    out[0] = count ? start : 0;
    out[1] = count > 1 ? step : 1; /* a step that is never taken may be out of bounds */
    out[2] = count;
}

int pare_slice_ranges(const struct pare_node *n, struct pare_slice *s, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct slice *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_list start, end, axes, step;

    PARE_TRY(pare_list_read(n, 1, a->starts, &start, err));
    PARE_TRY(pare_list_read(n, 2, a->ends, &end, err));
    PARE_TRY(pare_axes_read(n, 3, a->axes, x->rank, &axes, err));
    PARE_TRY(pare_list_read(n, 4, none, &step, err));
    if (start.n < 0 || end.n != start.n || (axes.n >= 0 && axes.n != start.n) ||
        (step.n >= 0 && step.n != start.n) || start.n > x->rank)
        return pare_fail(err, PARE_ESHAPE,
                         "starts, ends, axes and steps have %d, %d, %d and %d entries for an "
                         "input of %d dimensions",
                         start.n, end.n, axes.n, step.n, x->rank);
    for (int i = 0; i < x->rank; i++) {
        s->start[i] = 0;
        s->step[i] = 1;
        s->count[i] = x->dim[i];
    }
    for (int k = 0; k < start.n; k++) {
        int axis = axes.n < 0 ? k : (int)axes.v[k];
        int64_t out[3];

        if (step.n >= 0 && !step.v[k])
            return pare_fail(err, PARE_ESHAPE, "the step along axis %d is 0", axis);
        range(x->dim[axis], start.v[k], end.v[k], step.n < 0 ? 1 : step.v[k], out);
        s->start[axis] = out[0];
        s->step[axis] = out[1];
        s->count[axis] = out[2];
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_slice s;

    PARE_TRY(pare_slice_ranges(n, &s, err));
    return pare_shape_set(&n->out[0]->t, n->in[0]->t.dtype, n->in[0]->t.rank, s.count, err);
}

static int move_slice(const struct pare_node *n, const struct pare_flow *f,
                      struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t from[PARE_MAX_RANK], to[PARE_MAX_RANK], first = 0;
    struct pare_move m = { .rank = 0 };
    struct pare_slice s;

    (void)scratch;
    PARE_TRY(pare_slice_ranges(n, &s, err));
    pare_strides(x, from);
    pare_strides(y, to);
    for (int i = 0; i < x->rank; i++) {
        first += s.start[i] * from[i];
        pare_move_axis(&m, s.count[i], s.step[i] * from[i], to[i]);
    }
    pare_flow_box(f, first, 0, &m);
    return 0;
}

PARE_BOTH_PASSES(move_slice)

/* With steps, the kept elements would no longer have a constant step. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_slice s;
    struct pare_err err;

    if (pare_slice_ranges(n, &s, &err))
        return;
    for (int i = 0; i < n->in[0]->t.rank; i++)
        if (s.step[i] == 1)
            pare_tie_part(t, n->in[0], i, s.start[i], n->out[0], i);
}

/* The number of the first `end` indices that are kept. */
static int64_t kept_before(const uint8_t *keep, int64_t end)
{
    int64_t n = 0;

    for (int64_t i = 0; i < end; i++)
        n += keep[i];
    return n;
}

/* Bounds decrease by the number of removed indices before them.  With steps, this holds only if no
 * index is removed. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct slice *a = n->attr;
    const struct pare_value *x = n->in[0];
    struct pare_list start, end, axes;
    struct pare_slice at;
    struct pare_err err;

    if (pare_slice_ranges(n, &at, &err) || pare_list_read(n, 1, a->starts, &start, &err) ||
        pare_list_read(n, 2, a->ends, &end, &err) ||
        pare_axes_read(n, 3, a->axes, x->t.rank, &axes, &err)) {
        pare_shrunk_fail(s, "its bounds are unknown");
        return;
    }
    for (int k = 0; k < start.n; k++) {
        int i = axes.n < 0 ? k : (int)axes.v[k];
        const uint8_t *keep = pare_shrunk_keep(s, x, i);

        if (pare_shrunk_dim(s, x, i) == x->t.dim[i])
            continue;
        if (pare_shrunk_free(s, x, i))
            pare_shrunk_fail(s, "the axis that it cuts follows a free dimension");
        if (at.step[i] != 1)
            pare_shrunk_fail(s, "it selects channels with steps");
        start.v[k] = kept_before(keep, at.start[i]);
        end.v[k] = kept_before(keep, at.start[i] + at.count[i]);
    }
    if (n->version < 10) {
        pare_shrunk_ints(s, "starts", start.v, start.n);
        pare_shrunk_ints(s, "ends", end.v, end.n);
    } else {
        pare_shrunk_list(s, 1, start.v, start.n);
        pare_shrunk_list(s, 2, end.v, end.n);
    }
}

static bool index_map(const struct pare_node *n, int k, struct pare_index_map *m)
{
    struct pare_err err;
    struct pare_slice s;

    (void)k;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!(n->in[i]->flags & PARE_V_CONST) || !n->in[i]->t.data))
            return false;
    if (pare_slice_ranges(n, &s, &err))
        return false;
    for (int i = 0; i < n->in[0]->t.rank; i++) {
        m->first[i] = s.start[i];
        m->step[i] = s.step[i];
    }
    return true;
}

const struct pare_op pare_op_slice = {
    .type = "Slice",
    .doc = "A range of some axes.",
    .since = 1,
    .in = "AI?I?I?I?",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_KEEPS_AXES | PARE_OP_MOVES | PARE_OP_COPIES,
    .attrs = slice_attrs,
    .attr_size = sizeof(struct slice),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .index_map = index_map,
    .int8_since = 1,
    .sizes = 0x6,
    .constant_channel = pare_constant_channel_same,
    .shrink = shrink,
};
