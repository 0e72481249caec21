/* memory_set.c - a data set from arrays in memory, or from a callback (pare_data_from_arrays). */
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../base/sized.h"
#include "../tensor/tensor.h"

#define DEFAULT_BATCH 64

const struct pare_source pare_source_memory = {
    .name = "memory",
    .help = "arrays of a C program",
};

/* An item of its own shape, made by get(). */
static int load(const struct pare_data *d, int64_t i, struct pare_arena *a, struct pare_tensor *in,
                struct pare_err *err)
{
    const struct pare_arrays *made = d->parts->priv;
    struct pare_tensor item[PARE_DATA_INPUTS];

    for (int k = 0; k < d->n_inputs; k++)
        PARE_TRY(pare_tensor_alloc(a, &in[k], err));
    memcpy(item, in, (size_t)d->n_inputs * sizeof(*in));
    return made->get(made->user, i, item, d->n_inputs, err);
}

static const struct pare_source made_items = { .name = "memory", .help = "", .load = load };

static int check_input(const struct pare_arrays *a, const bool *every, int k, struct pare_err *err)
{
    const struct pare_input *in = &a->input[k];
    const char *name = in->name ? in->name : "";
    char text[PARE_SHAPE_TEXT];
    size_t bytes;

    if (!in->name && a->n_inputs > 1)
        return pare_fail(err, PARE_ECONFIG, "input %d of %d has no name", k, a->n_inputs);
    for (int i = 0; i < k; i++)
        if (!strcmp(a->input[i].name, name))
            return pare_fail(err, PARE_ECONFIG, "input '%s' is given twice", name);
    if (in->t.dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "input '%s' has strings, only numbers are supported", name);
    PARE_TRY(pare_at(err, pare_tensor_size(&in->t, NULL, &bytes, err), "input '%s'", name));
    if (!a->get && !(every && every[k]) && (!in->t.rank || in->t.dim[0] != a->n || !in->t.data))
        return pare_fail(err, PARE_ESHAPE, "input '%s' is %s%s, must have %lld items", name,
                         pare_shape_text(&in->t, text, sizeof(text)),
                         in->t.data ? "" : " without data", (long long)a->n);
    return 0;
}

static int check(const struct pare_arrays *a, const bool *every, struct pare_err *err)
{
    if (a->n < 1)
        return pare_fail(err, PARE_ECONFIG, "a data set has %lld items, must have at least 1",
                         (long long)a->n);
    if (a->n_inputs < 1 || a->n_inputs > PARE_DATA_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "a data set has %d inputs, must have 1 to %d",
                         a->n_inputs, PARE_DATA_INPUTS);
    if (a->shape && !a->get)
        return pare_fail(err, PARE_ECONFIG,
                         "shape() without get(), which fills items of these shapes");
    if (a->batch < 0)
        return pare_fail(err, PARE_ECONFIG, "a batch has %lld items", (long long)a->batch);
    for (int k = 0; k < a->n_inputs; k++)
        PARE_TRY(check_input(a, every, k, err));
    return 0;
}

static void take_inputs(struct pare_data *d, const struct pare_arrays *a,
                        const struct pare_input *in)
{
    d->input = in;
    d->n_inputs = a->n_inputs;
    d->n = a->n;
    d->dtype = in[0].t.dtype;
    d->parts->get = a->get;
    d->item = pare_input_item(d, 0);
    d->parts->whole = true;
}

struct pare_tensor pare_input_item(const struct pare_data *d, int k)
{
    struct pare_tensor item = d->input[k].t;

    item.data = NULL;
    if (!d->parts->get && !d->parts->each && !(d->parts->every && d->parts->every[k])) {
        item.rank--;
        memmove(item.dim, item.dim + 1, (size_t)item.rank * sizeof(*item.dim));
    }
    return item;
}

int pare_data_inputs(struct pare_data *d, const struct pare_input *input, int n, int64_t items,
                     struct pare_err *err)
{
    struct pare_arrays a = { .n = items, .input = input, .n_inputs = n };

    PARE_TRY(check(&a, d->parts->every, err));
    take_inputs(d, &a, input);
    return 0;
}

/* Items of a set have the same types, and ranks. */
static int check_item(const struct pare_data *d, const char *const *name, int n, int64_t i,
                      bool *same, struct pare_err *err)
{
    for (int k = 0; k < n; k++) {
        const struct pare_tensor *t = &d->parts->each[i * n + k], *first = &d->parts->each[k];
        char text[PARE_SHAPE_TEXT], of_first[PARE_SHAPE_TEXT];

        if (t->dtype == PARE_STR)
            return pare_fail(err, PARE_EUNSUPPORTED, "strings, only numbers are supported");
        PARE_TRY(pare_tensor_size(t, NULL, NULL, err));
        if (t->dtype != first->dtype || t->rank != first->rank)
            return pare_fail(err, PARE_ESHAPE, "input '%s' is %s %s, that of the first item %s %s",
                             name[k] ? name[k] : "", pare_dtype_name(t->dtype),
                             pare_shape_text(t, text, sizeof(text)), pare_dtype_name(first->dtype),
                             pare_shape_text(first, of_first, sizeof(of_first)));
        *same &= pare_same_shape(t, first);
    }
    return 0;
}

int pare_data_each(struct pare_data *d, const char *const *name, int n, int64_t items,
                   struct pare_err *err)
{
    struct pare_input *in = pare_alloc(d->arena, (size_t)n, sizeof(*in));
    bool same = true;

    if (!in)
        return pare_no_memory(err, "for a data set");
    for (int64_t i = 0; i < items; i++)
        PARE_TRY(pare_at(err, check_item(d, name, n, i, &same, err), "item %lld", (long long)i));
    for (int k = 0; k < n; k++) {
        in[k] = (struct pare_input){ name[k], d->parts->each[k] };
        in[k].t.data = NULL;
    }
    d->input = in;
    d->n_inputs = n;
    d->n = items;
    d->dtype = in[0].t.dtype;
    d->item = pare_input_item(d, 0);
    d->single = !same;
    return 0;
}

int pare_item_tensors(const struct pare_data *d, int64_t i, struct pare_arena *a,
                      struct pare_tensor *in, struct pare_err *err)
{
    int64_t at = d->parts->pick ? d->parts->pick[i] : i;

    memcpy(in, d->parts->each + at * d->n_inputs, (size_t)d->n_inputs * sizeof(*in));
    return d->source->load ? d->source->load(d, at, a, in, err) : 0;
}

/* Ask for the shapes of all items. */
static int take_shapes(struct pare_data *d, const struct pare_arrays *a,
                       const struct pare_input *in, struct pare_err *err)
{
    size_t n = (size_t)a->n_inputs;
    struct pare_tensor *each = pare_alloc(d->arena, (size_t)a->n, n * sizeof(*each));
    struct pare_arrays *made = pare_alloc(d->arena, 1, sizeof(*made));
    const char *name[PARE_DATA_INPUTS];

    if (!each || !made)
        return pare_no_memory(err, "for %lld items", (long long)a->n);
    for (int64_t i = 0; i < a->n; i++) {
        struct pare_tensor *item = each + (size_t)i * n;
        int rc;

        for (int k = 0; k < a->n_inputs; k++) {
            item[k] = in[k].t;
            item[k].data = NULL;
            name[k] = in[k].name;
        }
        rc = a->shape(a->user, i, item, a->n_inputs, err);
        for (int k = 0; k < a->n_inputs; k++)
            item[k].data = NULL;
        PARE_TRY(pare_at(err, rc, "item %lld", (long long)i));
    }
    *made = (struct pare_arrays){ .get = a->get, .user = a->user };
    d->parts->priv = made;
    d->parts->each = each;
    d->parts->whole = true;
    d->source = &made_items;
    return pare_data_each(d, name, a->n_inputs, a->n, err);
}

static int fill(struct pare_data *d, const struct pare_arrays *a, struct pare_err *err)
{
    struct pare_input *in = pare_alloc(d->arena, (size_t)a->n_inputs, sizeof(*in));

    if (!in)
        return pare_no_memory(err, "for a data set");
    for (int k = 0; k < a->n_inputs; k++) {
        in[k] = a->input[k];
        in[k].name = in[k].name ? pare_strdup(d->arena, in[k].name) : NULL;
        if (!in[k].name && a->input[k].name)
            return pare_no_memory(err, "for a data set");
    }
    d->source = &pare_source_memory;
    if (a->shape)
        PARE_TRY(take_shapes(d, a, in, err));
    else
        take_inputs(d, a, in);
    d->parts->user = a->user;
    d->opts = (struct pare_data_opts){ .batch = a->batch ? a->batch : DEFAULT_BATCH,
                                       .shuffle = !a->ordered,
                                       .prefetch = !a->get };
    return a->y ? pare_data_targets(d, a->y, err) : 0;
}

int pare_data_from_arrays(const struct pare_arrays *arrays, struct pare_data **data,
                          struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_arrays a;
    struct pare_arena *arena;
    struct pare_data *d;
    const char *name;
    int rc;

    *data = NULL;
    PARE_TRY(pare_sized_copy(&a, sizeof(a), arrays, err));
    name = a.name ? a.name : "memory";
    PARE_TRY(pare_at(err, check(&a, NULL, err), "%s", name));
    arena = pare_arena_new(1 << 12);
    if (!arena)
        return pare_no_memory(err, "for a data set");
    rc = pare_data_start(arena, name, &d, err);
    if (!rc)
        rc = pare_at(err, fill(d, &a, err), "%s", name);
    if (rc)
        pare_arena_free(arena);
    else
        *data = d;
    return rc;
}
