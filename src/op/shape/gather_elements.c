/* gather_elements.c - GatherElements: y[i, j, k] = x[at[i, j, k], j, k] for axis 0, etc. */
#include "scatter_family.h"

struct gather_elements {
    int64_t axis;
};

static const struct pare_opt gather_elements_attrs[] = {
    PARE_INT("axis", offsetof(struct gather_elements, axis), "axis to select along", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct gather_elements *a = n->attr;
    const struct pare_tensor *at = &n->in[1]->t;
    int axis;

    PARE_TRY(pare_axis(a->axis, n->in[0]->t.rank, &axis, err));
    PARE_TRY(pare_fits_beside(&n->in[0]->t, at, axis, err));
    return pare_shape_set(&n->out[0]->t, n->in[0]->t.dtype, at->rank, at->dim, err);
}

static int move_gather_elements(const struct pare_node *n, const struct pare_flow *f,
                                struct pare_arena *scratch, struct pare_err *err)
{
    const struct gather_elements *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t count = pare_numel(y), *at, step;
    struct pare_walk w;
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_indices(scratch, &n->in[1]->t, x->dim[axis], &at, err));
    step = pare_walk_beside(&w, x, y, axis);
    for (int64_t i = 0; i < count; i++, pare_walk_next(&w))
        pare_flow_run(f, w.at[0] + at[i] * step, i, 1);
    return 0;
}

PARE_BOTH_PASSES(move_gather_elements)

const struct pare_op pare_op_gather_elements = {
    .type = "GatherElements",
    .doc = "Select single elements along an axis by index.",
    .since = 11,
    .in = "AI",
    .min_out = 1,
    .max_out = 1,
    .attrs = gather_elements_attrs,
    .attr_size = sizeof(struct gather_elements),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
