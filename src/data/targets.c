/* targets.c - convert arrays to items with labels, and check both. */
#include <math.h>
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../tensor/tensor.h"

#define MAX_CLASS INT32_MAX

/* ---- items ------------------------------------------------------------------------ */

/* Channels are last if the last dimension looks like color channels and the first does not. */
static bool channels_last(const char *layout, const int64_t *dim)
{
    bool first = dim[0] == 1 || dim[0] == 3 || dim[0] == 4;
    bool last = dim[2] == 1 || dim[2] == 3 || dim[2] == 4;

    return !strcmp(layout, "hwc") || (!strcmp(layout, "auto") && last && !first);
}

/* (H, W) bytes and (C, H, W) of any type are images, unless the layout says otherwise. */
static int find_form(struct pare_data *d, const struct pare_tensor *x, struct pare_err *err)
{
    struct pare_data_parts *p = d->parts;
    const char *layout = d->opts.layout;
    const int64_t *dim = x->dim + 1;
    bool told = !strcmp(layout, "chw") || !strcmp(layout, "hwc");
    int rank = x->rank - 1;

    if (told && rank != 2 && rank != 3)
        return pare_fail(err, PARE_ESHAPE,
                         "layout '%s' is for images, but items have %d "
                         "dimensions",
                         layout, rank);
    p->is_image = strcmp(layout, "none") &&
                  (rank == 3 || (rank == 2 && (told || x->dtype == PARE_U8)));
    p->form = (struct pare_image){ .dtype = x->dtype, .c = 1, .h = 1, .w = 1 };
    if (p->is_image && rank == 3) {
        bool last = channels_last(layout, dim);

        p->form.last = last;
        p->form.c = dim[last ? 2 : 0];
        p->form.h = dim[last ? 0 : 1];
        p->form.w = dim[last ? 1 : 2];
    } else if (p->is_image) {
        p->form.h = dim[0];
        p->form.w = dim[1];
    } else {
        p->form.c = rank ? dim[0] : 1;
        for (int i = 1; i < rank; i++)
            p->form.w *= dim[i];
    }
    return 0;
}

int pare_data_arrays(struct pare_data *d, const struct pare_tensor *x, const struct pare_tensor *y,
                     struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];
    int64_t n;

    if (x->dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "its items are strings, only numbers are supported");
    PARE_TRY(pare_tensor_size(x, &n, NULL, err));
    if (!x->rank || !n)
        return pare_fail(err, PARE_ESHAPE, "it is %s: it has no items",
                         pare_shape_text(x, buf, sizeof(buf)));
    d->n = x->dim[0];
    d->dtype = x->dtype;
    d->parts->x = *x;
    PARE_TRY(find_form(d, x, err));
    if (!d->parts->is_image) {
        d->item.rank = x->rank - 1;
        memcpy(d->item.dim, x->dim + 1, sizeof(*x->dim) * (size_t)(x->rank - 1));
    }
    return y ? pare_data_targets(d, y, err) : 0;
}

/* ---- labels ----------------------------------------------------------------------- */

static bool is_float(enum pare_dtype t)
{
    return t == PARE_F32 || t == PARE_F64 || t == PARE_F16 || t == PARE_BF16;
}

static int check_labels(struct pare_data *d, struct pare_err *err)
{
    int64_t n = pare_numel(&d->y), limit = d->classes_known ? d->classes : MAX_CLASS, most = 0;
    const int64_t *y = pare_i64(&d->y);

    for (int64_t i = 0; i < n; i++) {
        if (y[i] < 0 || y[i] >= limit)
            return pare_fail(err, PARE_EFORMAT, "the label of item %lld is %lld, must be 0 to %lld",
                             (long long)(i / (n / d->n)), (long long)y[i], (long long)limit - 1);
        most = y[i] > most ? y[i] : most;
    }
    d->classes = d->classes_known ? d->classes : most + 1;
    return 0;
}

/* The first element that is NaN; -1: none. */
static int64_t find_nan(const struct pare_tensor *t)
{
    int64_t n = t->data ? pare_numel(t) : 0;

    for (int64_t i = 0; i < n && t->dtype == PARE_F32; i++)
        if (isnan(((const float *)t->data)[i]))
            return i;
    for (int64_t i = 0; i < n && t->dtype == PARE_F64; i++)
        if (isnan(((const double *)t->data)[i]))
            return i;
    return -1;
}

int pare_data_note_nan(struct pare_data *d, struct pare_err *err)
{
    bool one = !d->n_inputs;

    for (int k = 0; k < (one ? 1 : d->n_inputs); k++) {
        const struct pare_tensor *t = one ? &d->parts->x : &d->input[k].t;
        int64_t at = d->parts->each ? -1 : find_nan(t);

        if (at < 0 || !t->rank)
            continue;
        d->note = pare_sprintf(d->arena,
                               "%s%s%s: warning: item %lld%s%s has a value that is not a number "
                               "(NaN), and results that depend on it are not numbers either",
                               d->note ? d->note : "", d->note ? "\n" : "", d->name,
                               (long long)(at / (pare_numel(t) / t->dim[0])), one ? "" : " of ",
                               one ? "" : d->input[k].name);
        return d->note ? 0 : pare_no_memory(err, "to open a data set");
    }
    return 0;
}

int pare_data_targets(struct pare_data *d, const struct pare_tensor *y, struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];
    int64_t n;

    if (y->dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "its labels are strings, only numbers are supported");
    PARE_TRY(pare_tensor_size(y, &n, NULL, err));
    if (!y->rank || y->dim[0] != d->n || !n)
        return pare_fail(err, PARE_ESHAPE, "there are %lld items, but the labels are %s",
                         (long long)d->n, pare_shape_text(y, buf, sizeof(buf)));
    d->y = *y;
    d->y.dtype = is_float(y->dtype) ? PARE_F32 : PARE_I64;
    if (d->y.dtype == PARE_I64 && y->rank == 2 && y->dim[1] == 1)
        d->y.rank = 1;
    if (d->y.dtype != y->dtype) {
        PARE_TRY(pare_tensor_alloc(d->arena, &d->y, err));
        PARE_TRY(pare_convert(d->y.dtype, d->y.data, y->dtype, y->data, n, err));
    }
    if (d->y.dtype == PARE_I64)
        return check_labels(d, err);
    d->classes = 0;
    d->classes_known = false;
    d->class_name = NULL;
    if (find_nan(&d->y) >= 0)
        return pare_fail(err, PARE_EFORMAT, "the label of item %lld is not a number (NaN)",
                         (long long)(find_nan(&d->y) / (n / d->n)));
    return 0;
}

int pare_target_put(const struct pare_tensor *to, int64_t i, const struct pare_tensor *from,
                    int64_t item, struct pare_err *err)
{
    size_t each = (size_t)(pare_numel(from) / from->dim[0]);

    return pare_convert(to->dtype, (char *)to->data + (size_t)i * each * pare_dtype_size(to->dtype),
                        from->dtype,
                        (const char *)from->data +
                            (size_t)item * each * pare_dtype_size(from->dtype),
                        (int64_t)each, err);
}
