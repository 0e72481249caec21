/* tensor_scatter.c - TensorScatter: write a sequence into a cache, at one position per sample.
 *
 *     present[b, ..., at[b] + i, ...] = update[b, ..., i, ...],   the rest is past
 *
 * In circular mode positions are modulo the length of the cache.
 */
#include "movement.h"

enum { PAST, UPDATE, AT };

struct tensor_scatter {
    int64_t axis;
    const char *mode;
};

static const struct pare_opt tensor_scatter_attrs[] = {
    PARE_INT("axis", offsetof(struct tensor_scatter, axis), "axis of the sequence", -2, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_CHOICE("mode", offsetof(struct tensor_scatter, mode),
                "what happens at the end of the cache: an error, or resume at its start", "linear",
                "linear|circular"),
    PARE_OPT_END
};

static int axis_of(const struct pare_node *n, int *axis, struct pare_err *err)
{
    const struct tensor_scatter *a = n->attr;

    PARE_TRY(pare_axis(a->axis, n->in[PAST]->t.rank, axis, err));
    return *axis ? 0 : pare_fail(err, PARE_ESHAPE, "axis 0 is the batch, not the sequence");
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *past = &n->in[PAST]->t, *update = &n->in[UPDATE]->t;
    const struct pare_tensor *at = pare_given(n, AT);
    char bp[PARE_SHAPE_TEXT], bu[PARE_SHAPE_TEXT];
    bool fits = past->rank == update->rank;
    int axis;

    PARE_TRY(axis_of(n, &axis, err));
    for (int i = 0; fits && i < past->rank; i++)
        fits = i == axis ? update->dim[i] <= past->dim[i] : update->dim[i] == past->dim[i];
    if (!fits)
        return pare_fail(err, PARE_ESHAPE,
                         "the update is %s but the cache is %s; they may differ in axis %d only, "
                         "where the update must not be longer",
                         pare_shape_text(update, bu, sizeof(bu)),
                         pare_shape_text(past, bp, sizeof(bp)), axis);
    if (at && (at->rank != 1 || at->dim[0] != past->dim[0]))
        return pare_fail(err, PARE_ESHAPE,
                         "write_indices is %s, expected one for each of %lld samples",
                         pare_shape_text(at, bu, sizeof(bu)), (long long)past->dim[0]);
    return pare_infer_same(n, err);
}

/* The two tensors as (batch, outer, length, inner). */
struct view {
    int64_t batch, outer, length, max, inner;
};

static int view_of(const struct pare_node *n, struct view *v, struct pare_err *err)
{
    const struct pare_tensor *past = &n->in[PAST]->t;
    int axis;

    PARE_TRY(axis_of(n, &axis, err));
    *v = (struct view){ .batch = past->dim[0],
                        .outer = pare_span(past, 1, axis),
                        .length = n->in[UPDATE]->t.dim[axis],
                        .max = past->dim[axis],
                        .inner = pare_span(past, axis + 1, past->rank) };
    return 0;
}

/* Where the update of sample b starts. */
static int start_of(const struct pare_node *n, const struct view *v, int64_t b, int64_t *start,
                    struct pare_err *err)
{
    const struct tensor_scatter *a = n->attr;
    const struct pare_tensor *at = pare_given(n, AT);

    *start = at ? pare_i64(at)[b] : 0;
    if (!strcmp(a->mode, "circular")) {
        *start = v->max ? (*start % v->max + v->max) % v->max : 0;
        return 0;
    }
    if (*start < 0 || *start > v->max - v->length)
        return pare_fail(
            err, PARE_ESHAPE,
            "write index %lld of sample %lld leaves no room for %lld positions of %lld",
            (long long)*start, (long long)b, (long long)v->length, (long long)v->max);
    return 0;
}

/* The position in the cache of row i of the update's o-th block, in elements. */
static int64_t place(const struct view *v, int64_t o, int64_t start, int64_t i)
{
    return (o * v->max + (start + i) % v->max) * v->inner;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    size_t size = pare_dtype_size(n->in[PAST]->t.dtype);
    const char *from = n->in[UPDATE]->t.data;
    char *to = n->out[0]->t.data;
    struct view v;
    int64_t start;

    PARE_TRY(pare_forward_copy(n, c, err));
    PARE_TRY(view_of(n, &v, err));
    for (int64_t o = 0; o < v.batch * v.outer && v.inner; o++) {
        PARE_TRY(start_of(n, &v, o / v.outer, &start, err));
        for (int64_t i = 0; i < v.length; i++)
            memcpy(to + (size_t)place(&v, o, start, i) * size,
                   from + (size_t)((o * v.length + i) * v.inner) * size, (size_t)v.inner * size);
    }
    return 0;
}

/* Rows that were written belong to the update, the others to the cache. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gpast = pare_f32_mut(&n->in[PAST]->grad), *gupdate = pare_f32_mut(&n->in[UPDATE]->grad);
    struct view v;
    int64_t start;

    (void)c;
    PARE_TRY(view_of(n, &v, err));
    for (int64_t o = 0; gy && o < v.batch * v.outer && v.inner; o++) {
        PARE_TRY(start_of(n, &v, o / v.outer, &start, err));
        for (int64_t i = 0; i < v.max; i++) {
            int64_t at = place(&v, o, start, i);
            float *to = i < v.length ? gupdate : gpast;
            int64_t row = i < v.length ? (o * v.length + i) * v.inner : at;

            for (int64_t k = 0; to && k < v.inner; k++)
                to[row + k] += gy[at + k];
        }
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_err err;
    int axis;

    if (axis_of(n, &axis, &err))
        return;
    for (int i = 0; i < n->out[0]->t.rank; i++)
        if (i != axis) {
            pare_tie(t, n->in[PAST], i, n->out[0], i);
            pare_tie(t, n->in[UPDATE], i, n->out[0], i);
        }
    if (pare_given(n, AT))
        pare_tie(t, n->in[AT], 0, n->out[0], 0);
}

const struct pare_op pare_op_tensor_scatter = {
    .type = "TensorScatter",
    .doc = "Write a sequence into a cache, at one position per sample.",
    .since = 24,
    .in = "TTL?",
    .min_out = 1,
    .max_out = 1,
    .attrs = tensor_scatter_attrs,
    .attr_size = sizeof(struct tensor_scatter),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
