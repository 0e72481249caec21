/* gather_nd.c - GatherND: select slices by tuples of indices.
 *
 * The last axis of the indices has tuples of k; the first batch_dims axes are shared with the data.
 * Data (B..., d1..., r...) by indices (B..., i..., k) gives (B..., i..., r...).
 */
#include "movement.h"

struct gather_nd {
    int64_t batch_dims;
};

static const struct pare_opt gather_nd_attrs[] = {
    PARE_INT("batch_dims", offsetof(struct gather_nd, batch_dims),
             "number of leading axes shared by data and indices", 0, 0, PARE_MAX_RANK),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct gather_nd *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *at = &n->in[1]->t;
    int64_t dim[2 * PARE_MAX_RANK], k;
    char bx[PARE_SHAPE_TEXT], bi[PARE_SHAPE_TEXT];
    int b = (int)a->batch_dims, rank = 0;

    k = at->rank ? at->dim[at->rank - 1] : 0;
    if (b >= at->rank || b >= x->rank || k < 1 || k > x->rank - b)
        return pare_fail(err, PARE_ESHAPE, "indices %s do not fit data %s with %d shared axes",
                         pare_shape_text(at, bi, sizeof(bi)), pare_shape_text(x, bx, sizeof(bx)),
                         b);
    for (int i = 0; i < at->rank - 1; i++) {
        if (i < b && at->dim[i] != x->dim[i])
            return pare_fail(err, PARE_ESHAPE, "indices %s and data %s differ in shared axis %d",
                             pare_shape_text(at, bi, sizeof(bi)),
                             pare_shape_text(x, bx, sizeof(bx)), i);
        dim[rank++] = at->dim[i];
    }
    for (int i = b + (int)k; i < x->rank; i++)
        dim[rank++] = x->dim[i];
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

static int move_gather_nd(const struct pare_node *n, const struct pare_flow *f,
                          struct pare_arena *scratch, struct pare_err *err)
{
    const struct gather_nd *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *at = &n->in[1]->t;
    int b = (int)a->batch_dims, k = (int)at->dim[at->rank - 1];
    int64_t batches = pare_span(at, 0, b), rows = pare_span(at, b, at->rank - 1);
    int64_t batch = pare_span(x, b, x->rank), run = pare_span(x, b + k, x->rank), to = 0;

    (void)scratch;
    for (int64_t o = 0; o < batches; o++)
        for (int64_t r = 0; r < rows; r++, to += run) {
            int64_t from;

            PARE_TRY(pare_index_row(at, o * rows + r, x, b, &from, err));
            pare_flow_run(f, o * batch + from, to, run);
        }
    return 0;
}

PARE_BOTH_PASSES(move_gather_nd)

const struct pare_op pare_op_gather_nd = {
    .type = "GatherND",
    .doc = "Select slices by tuples of indices.",
    .since = 11,
    .in = "AI",
    .min_out = 1,
    .max_out = 1,
    .attrs = gather_nd_attrs,
    .attr_size = sizeof(struct gather_nd),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
