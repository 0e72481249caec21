/* named_arrays.c - arrays named as the model's inputs: which axis has the items.
 *
 * The model's batch is dimension 0 of its first input.  Other inputs may have it elsewhere (the
 * state of a recurrent network, (2, batch, 128)) or not at all (a sampling rate).  An array is
 * given as one batch of all items, in the model's own order of axes; or as (items, ...); or,
 * without items, for all of them.
 */
#include <string.h>
#include <strings.h>

#include "source.h"
#include "../tensor/tensor.h"

static bool says_batch(const char *sym)
{
    for (const char *p = sym; p && *p; p++)
        if (!strncasecmp(p, "batch", 5))
            return true;
    return false;
}

static int named_axis(const struct pare_io *io, const char *sym)
{
    for (int a = 0; a < io->rank; a++)
        if (io->sym[a] && (sym ? !strcmp(io->sym[a], sym) : says_batch(io->sym[a])))
            return a;
    return -1;
}

int pare_batch_axis(const struct pare_io *io, int i)
{
    const struct pare_io *first = &io[0], *in = &io[i];
    int axis = -1, open = 0;

    if (!i || in->rank < 0)
        return 0;
    if (first->rank > 0 && first->sym[0])
        axis = named_axis(in, first->sym[0]);
    if (axis < 0 && in->rank > 0 && (in->dim[0] < 0 || in->dim[0] == first->dim[0]))
        return 0;
    if (axis < 0)
        axis = named_axis(in, NULL);
    for (int a = 0; axis < 0 && a < in->rank; a++)
        open += in->dim[a] < 0;
    for (int a = 0; axis < 0 && open == 1 && a < in->rank; a++)
        if (in->dim[a] < 0)
            return a;
    return axis;
}

int pare_batch_check(const struct pare_io *io, struct pare_err *err)
{
    int axis = io->rank > 0 && !says_batch(io->sym[0]) ? named_axis(io, NULL) : 0;

    if (axis <= 0)
        return 0;
    return pare_fail(err, PARE_EUNSUPPORTED,
                     "the model's input '%s' has its batch '%s' on axis %d; data sets need it on "
                     "axis 0",
                     io->name, io->sym[axis], axis);
}

struct pare_io pare_io_items(const struct pare_io *io, int i)
{
    struct pare_io to = io[i];
    int axis = pare_batch_axis(io, i);

    if (to.rank < 0 || !axis)
        return to;
    memmove(to.dim + 1, to.dim, (size_t)(axis < 0 ? to.rank : axis) * sizeof(*to.dim));
    memmove(to.sym + 1, to.sym, (size_t)(axis < 0 ? to.rank : axis) * sizeof(*to.sym));
    to.dim[0] = axis < 0 ? -1 : io[i].dim[axis];
    to.sym[0] = axis < 0 ? NULL : io[i].sym[axis];
    to.rank += axis < 0;
    return to;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Whether the dimensions of t from `from` on are those of io, without axis `skip` of io. */
static bool matches(const struct pare_tensor *t, int from, const struct pare_io *io, int skip)
{
    if (t->rank - from != io->rank - (skip >= 0))
        return false;
    for (int a = 0, k = from; a < io->rank; a++)
        if (a != skip) {
            if (io->dim[a] >= 0 && io->dim[a] != t->dim[k])
                return false;
            k++;
        }
    return true;
}

/* Whether t is one batch of all items. */
static bool is_batch(const struct pare_tensor *t, const struct pare_io *io, int axis)
{
    struct pare_io any = *io;

    if (axis < 0)
        return false;
    any.dim[axis] = -1;
    return matches(t, 0, &any, -1);
}

/* The number of items: that of the first array with a batch. */
static int64_t count_items(const struct pare_io *io, int n_io, const struct pare_input *in)
{
    for (int k = 0; k < n_io; k++) {
        int axis = pare_batch_axis(io, k);

        if (is_batch(&in[k].t, &io[k], axis))
            return in[k].t.dim[axis];
        if (in[k].t.rank > 0 && (axis == 0 || in[k].t.rank > io[k].rank))
            return in[k].t.dim[0];
    }
    return 1;
}

/* (outer, n, inner) to (n, outer, inner). */
static int items_first(struct pare_data *d, struct pare_tensor *t, int axis, struct pare_err *err)
{
    struct pare_tensor to = *t;
    size_t inner = pare_dtype_size(t->dtype), outer = 1, n = (size_t)t->dim[axis];

    memmove(to.dim + 1, t->dim, (size_t)axis * sizeof(*to.dim));
    to.dim[0] = t->dim[axis];
    PARE_TRY(pare_tensor_alloc(d->arena, &to, err));
    for (int a = 0; a < t->rank; a++) {
        outer *= a < axis ? (size_t)t->dim[a] : 1;
        inner *= a > axis ? (size_t)t->dim[a] : 1;
    }
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < n && inner; i++)
            memcpy((char *)to.data + (i * outer + o) * inner,
                   (const char *)t->data + (o * n + i) * inner, inner);
    *t = to;
    return 0;
}

/* Bring the array of io[k] to (n, ...), or set *every: it has no items. */
static int arrange(struct pare_data *d, const struct pare_io *io, int k, int64_t n,
                   struct pare_tensor *t, bool *every, struct pare_err *err)
{
    int axis = pare_batch_axis(io, k);
    char have[PARE_SHAPE_TEXT];

    if (is_batch(t, &io[k], axis) && t->dim[axis] == n)
        return axis ? items_first(d, t, axis, err) : 0;
    if (axis > 0 && t->rank == io[k].rank + 1 && t->dim[0] == n && t->dim[axis + 1] == 1) {
        memmove(t->dim + axis + 1, t->dim + axis + 2,
                (size_t)(t->rank - axis - 2) * sizeof(*t->dim));
        t->rank--; /* each item is a batch of 1 */
    }
    if (t->rank > 0 && t->dim[0] == n && (axis == 0 || matches(t, 1, &io[k], axis)))
        return 0;
    *every = matches(t, 0, &io[k], axis);
    if (*every)
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "array '%s' is %s, which is neither one value for all items nor one for each "
                     "of %lld",
                     io[k].name, pare_shape_text(t, have, sizeof(have)), (long long)n);
}

int pare_data_named(struct pare_data *d, struct pare_input *in, struct pare_err *err)
{
    const struct pare_io *io = d->parts->io;
    int n_io = d->parts->n_io;
    int64_t n = count_items(io, n_io, in);

    d->parts->every = pare_alloc(d->arena, (size_t)n_io, sizeof(*d->parts->every));
    if (!d->parts->every)
        return pare_no_memory(err, "for a data set");
    for (int k = 0; k < n_io; k++)
        PARE_TRY(arrange(d, io, k, n, &in[k].t, &d->parts->every[k], err));
    return pare_data_inputs(d, in, n_io, n, err);
}

int pare_item_put(const struct pare_tensor *to, int axis, int64_t i, enum pare_dtype dtype,
                  const void *from, struct pare_err *err)
{
    int64_t inner = 1, outer = 1;

    for (int a = 0; a < to->rank; a++) {
        outer *= a < axis ? to->dim[a] : 1;
        inner *= a > axis ? to->dim[a] : 1;
    }
    for (int64_t o = 0; o < outer; o++) {
        int64_t at = axis < 0 ? 0 : (o * to->dim[axis] + i) * inner;

        PARE_TRY(pare_convert(to->dtype, (char *)to->data + (size_t)at * pare_dtype_size(to->dtype),
                              dtype,
                              (const char *)from + (size_t)(o * inner) * pare_dtype_size(dtype),
                              inner, err));
    }
    return 0;
}
