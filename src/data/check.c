/* check.c - check that the items and labels of a data set fit a model. */
#include <stdio.h>
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../tensor/tensor.h"

/* "(N, 3, ?, 32)", as the model declares it. */
static const char *input_text(const struct pare_io *io, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "(N");

    for (int i = 1; i < io->rank && at < size; i++)
        at += (size_t)(io->dim[i] < 0
                           ? snprintf(buf + at, size - at, ", ?")
                           : snprintf(buf + at, size - at, ", %lld", (long long)io->dim[i]));
    if (at < size)
        snprintf(buf + at, size - at, ")");
    return buf;
}

static bool same_dims(const struct pare_tensor *item, const struct pare_io *io)
{
    bool same = io->rank == item->rank + 1;

    for (int i = 0; same && i < item->rank; i++)
        same = io->dim[i + 1] < 0 || io->dim[i + 1] == item->dim[i];
    return same;
}

/* The next dimension from i on that is not 1. */
static int skip_ones(const int64_t *dim, int n, int i)
{
    while (i < n && dim[i] == 1)
        i++;
    return i;
}

/* Do they have the same elements in the same order: one is flat, or they differ only in
 * dimensions of 1? */
static bool same_order(const struct pare_tensor *item, const struct pare_tensor *want)
{
    int i = skip_ones(item->dim, item->rank, 0), k = skip_ones(want->dim, want->rank, 0);

    if (item->rank <= 1 || want->rank <= 1)
        return true;
    while (i < item->rank && k < want->rank && item->dim[i] == want->dim[k]) {
        i = skip_ones(item->dim, item->rank, i + 1);
        k = skip_ones(want->dim, want->rank, k + 1);
    }
    return i == item->rank && k == want->rank;
}

/* Fill in free dimensions: the item may have other dimensions of 1, as sounds (samples) for an
 * input (N, 1, ?). */
static bool fills(const struct pare_tensor *item, const struct pare_io *io,
                  struct pare_tensor *want)
{
    int k = skip_ones(item->dim, item->rank, 0);

    want->rank = io->rank - 1;
    for (int i = 0; i < want->rank; i++) {
        want->dim[i] = io->dim[i + 1];
        if (want->dim[i] == 1)
            continue;
        if (k == item->rank || (want->dim[i] >= 0 && want->dim[i] != item->dim[k]))
            return false;
        want->dim[i] = item->dim[k];
        k = skip_ones(item->dim, item->rank, k + 1);
    }
    return k == item->rank;
}

/* Without free dimensions: the shape has the elements of an item, in the same order. */
static bool reshapes(const struct pare_tensor *item, const struct pare_io *io,
                     struct pare_tensor *want)
{
    struct pare_err err;
    int64_t n;

    *want = (struct pare_tensor){ .dtype = item->dtype, .rank = io->rank - 1 };
    for (int i = 0; i < want->rank; i++) {
        if (io->dim[i + 1] < 0)
            return false;
        want->dim[i] = io->dim[i + 1];
    }
    return !pare_tensor_size(want, &n, NULL, &err) && n == pare_numel(item) &&
           same_order(item, want);
}

static bool is_float(enum pare_dtype t)
{
    return t == PARE_F32 || t == PARE_F64 || t == PARE_F16 || t == PARE_BF16;
}

/* (C, H, W) as (H, W, C). */
static struct pare_tensor turned(const struct pare_tensor *item)
{
    struct pare_tensor t = *item;

    t.dim[0] = item->dim[1];
    t.dim[1] = item->dim[2];
    t.dim[2] = item->dim[0];
    return t;
}

bool pare_item_last(const struct pare_data *d, const struct pare_io *input)
{
    struct pare_tensor last;

    if (!input || d->n_inputs || !d->parts->is_image || d->item.rank != 3 || input->rank != 4)
        return false;
    last = turned(&d->item);
    if (!same_dims(&last, input))
        return false;
    return !same_dims(&d->item, input) || input->layout == PARE_NHWC;
}

/* Integer inputs get the values as stored, in stored order. */
static int check_type(const struct pare_data *d, const struct pare_io *io, struct pare_err *err)
{
    const struct pare_data_parts *p = d->parts;

    if (is_float(io->dtype) || io->dtype == PARE_NONE)
        return 0;
    if (io->dtype == PARE_STR)
        return pare_fail(err, PARE_ESHAPE, "the model's input '%s' takes strings, '%s' has numbers",
                         io->name, d->name);
    if (is_float(d->dtype))
        return pare_fail(err, PARE_ESHAPE, "the model's input '%s' takes %s, but '%s' has %s",
                         io->name, pare_dtype_name(io->dtype), d->name, pare_dtype_name(d->dtype));
    if (d->source->read || p->resize.n || p->cropped || p->swapped ||
        (p->is_image && p->form.c > 1 && p->form.last != pare_item_last(d, io)))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the model's input '%s' takes %s: images cannot be resized, cropped or "
                         "converted between (C, H, W) and (H, W, C) for it",
                         io->name, pare_dtype_name(io->dtype));
    return 0;
}

/* Is an item all of the input, which has no axis for a batch? */
static bool is_whole_input(const struct pare_tensor *item, const struct pare_io *io)
{
    bool same = io->rank == item->rank && io->rank > 0 && io->dim[0] > 0;

    for (int i = 0; same && i < item->rank; i++)
        same = io->dim[i] < 0 || io->dim[i] == item->dim[i];
    return same;
}

int pare_item_fit(const struct pare_data *d, const struct pare_tensor *of,
                  const struct pare_io *input, struct pare_tensor *shape, struct pare_err *err)
{
    char want[PARE_SHAPE_TEXT], have[PARE_SHAPE_TEXT];
    struct pare_tensor item = *of;

    *shape = item;
    shape->data = NULL;
    shape->dtype = input->dtype == PARE_NONE ? item.dtype : input->dtype;
    if (input->rank < 0 || same_dims(&item, input))
        return 0;
    if (input->rank > 0 && reshapes(&item, input, shape)) {
        shape->dtype = input->dtype;
        return 0;
    }
    if (is_whole_input(&item, input)) {
        enum pare_dtype dtype = shape->dtype;

        *shape = item;
        shape->dtype = dtype;
        return 0;
    }
    if (input->rank > 0 && fills(&item, input, shape))
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "the model's input '%s' takes %s, but the items of '%s' are %s%s", input->name,
                     input->rank ? input_text(input, want, sizeof(want)) : "a single number",
                     d->name, pare_shape_text(&item, have, sizeof(have)),
                     d->parts->is_image && d->dtype == PARE_U8 && input->rank == 4 &&
                             item.rank == 3 && input->dim[1] == item.dim[0]
                         ? "; --resize H,W resizes images"
                     : d->source && d->source->hint && !d->y.data ? d->source->hint
                                                                  : "");
}

int pare_item_shape(const struct pare_data *d, const struct pare_io *input,
                    struct pare_tensor *shape, struct pare_err *err)
{
    struct pare_tensor item;

    *shape = d->item;
    if (!input)
        return 0;
    if (d->n_inputs)
        return pare_input_shape(d, 0, input, 0, shape, err);
    PARE_TRY(check_type(d, input, err));
    if (pare_item_last(d, input))
        *shape = turned(&d->item);
    item = *shape;
    return pare_item_fit(d, &item, input, shape, err);
}

int pare_image_check(const struct pare_data *d, int64_t h, int64_t w, const struct pare_io *input,
                     struct pare_err *err)
{
    struct pare_tensor item = { PARE_F32, 3, { d->item.dim[0], h, w }, NULL }, shape;

    if (pare_item_last(d, input))
        item = turned(&item);
    return pare_item_fit(d, &item, input, &shape, err);
}

int pare_input_find(const struct pare_data *d, const struct pare_io *io, int n, int i,
                    struct pare_err *err)
{
    for (int k = 0; k < d->n_inputs; k++)
        if (d->input[k].name ? !strcmp(d->input[k].name, io[i].name) : n == 1)
            return k;
    pare_fail(err, PARE_ESHAPE, "'%s' has no values for the model's input '%s'", d->name,
              io[i].name);
    return -1;
}

int pare_input_shape(const struct pare_data *d, int k, const struct pare_io *io, int i,
                     struct pare_tensor *shape, struct pare_err *err)
{
    struct pare_tensor item = pare_input_item(d, k);
    struct pare_io items = pare_io_items(io, i);
    bool floats = is_float(items.dtype) || items.dtype == PARE_NONE;

    *shape = item;
    if (item.dtype != items.dtype && (d->parts->get || (!floats && is_float(item.dtype))) &&
        items.dtype != PARE_NONE)
        return pare_fail(err, PARE_ESHAPE, "the model's input '%s' takes %s, but '%s' has %s",
                         items.name, pare_dtype_name(items.dtype), d->name,
                         pare_dtype_name(item.dtype));
    if (d->parts->each && item.dtype == PARE_U8 && floats)
        return pare_fail(err, PARE_ESHAPE,
                         "the model's input '%s' takes %s, but '%s' has %s; write its items as "
                         "float32, normalized as the model expects",
                         items.name, pare_dtype_name(items.dtype), d->name,
                         pare_dtype_name(item.dtype));
    for (int64_t n = 0; d->parts->each && n < d->n; n++) {
        int64_t at = d->parts->pick ? d->parts->pick[n] : n;

        PARE_TRY(
            pare_at(err,
                    pare_item_fit(d, &d->parts->each[at * d->n_inputs + k], &items, shape, err),
                    "item %lld", (long long)n));
    }
    return pare_item_fit(d, &item, &items, shape, err);
}

bool pare_data_is_whole(const struct pare_data *d, const struct pare_io *io, int n_io)
{
    struct pare_tensor shape;
    struct pare_err err;
    int k = d->n_inputs ? pare_input_find(d, io, n_io, 0, &err) : 0;

    if (k < 0 || io->rank < 1)
        return false;
    return !(d->n_inputs ? pare_input_shape(d, k, io, 0, &shape, &err)
                         : pare_item_shape(d, io, &shape, &err)) &&
           shape.rank == io->rank;
}

/* A single output can distinguish two classes. */
int pare_data_check_classes(const struct pare_data *d, int64_t n_out, struct pare_err *err)
{
    const int64_t *y = pare_i64(&d->y);
    int64_t n = pare_numel(&d->y), i = 0;

    if (n_out <= 0 || d->classes == n_out || (n_out == 1 && d->classes == 2) ||
        (!d->classes_known && d->classes < n_out))
        return 0;
    if (d->classes_known)
        return pare_fail(err, PARE_ESHAPE, "the model has %lld output%s, but '%s' has %lld classes",
                         (long long)n_out, n_out == 1 ? "" : "s", d->name, (long long)d->classes);
    while (i < n - 1 && y[i] < n_out)
        i++;
    return pare_fail(err, PARE_ESHAPE,
                     "the label of item %lld of '%s' is %lld, but the model has %lld output%s",
                     (long long)(i / (n / d->n)), d->name, (long long)y[i], (long long)n_out,
                     n_out == 1 ? "" : "s");
}

int pare_data_check(const struct pare_data *data, const struct pare_io *input, struct pare_err *err)
{
    struct pare_tensor shape;

    if (input)
        PARE_TRY(pare_batch_check(input, err));
    return pare_item_shape(data, input, &shape, err);
}

int pare_data_drop_labels(struct pare_data *data, const char *why, struct pare_err *err)
{
    data->note = pare_sprintf(data->arena, "%s%s%s: its labels are not used",
                              data->note ? data->note : "", data->note ? "\n" : "", why);
    if (!data->note)
        return pare_no_memory(err, "for a message");
    data->y = (struct pare_tensor){ 0 };
    data->classes = 0;
    return 0;
}
