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

static int check_input(const struct pare_arrays *a, int k, struct pare_err *err)
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
    if (!a->get && (!in->t.rank || in->t.dim[0] != a->n || !in->t.data))
        return pare_fail(err, PARE_ESHAPE, "input '%s' is %s%s, must have %lld items", name,
                         pare_shape_text(&in->t, text, sizeof(text)),
                         in->t.data ? "" : " without data", (long long)a->n);
    return 0;
}

static int check(const struct pare_arrays *a, struct pare_err *err)
{
    if (a->n < 1)
        return pare_fail(err, PARE_ECONFIG, "a data set has %lld items, must have at least 1",
                         (long long)a->n);
    if (a->n_inputs < 1 || a->n_inputs > PARE_DATA_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "a data set has %d inputs, must have 1 to %d",
                         a->n_inputs, PARE_DATA_INPUTS);
    if (a->batch < 0)
        return pare_fail(err, PARE_ECONFIG, "a batch has %lld items", (long long)a->batch);
    for (int k = 0; k < a->n_inputs; k++)
        PARE_TRY(check_input(a, k, err));
    return 0;
}

static void take_inputs(struct pare_data *d, const struct pare_arrays *a,
                        const struct pare_input *in)
{
    d->input = in;
    d->n_inputs = a->n_inputs;
    d->n = a->n;
    d->dtype = in[0].t.dtype;
    d->item = in[0].t;
    d->item.data = NULL;
    if (!a->get) {
        d->item.rank--;
        memmove(d->item.dim, d->item.dim + 1, (size_t)d->item.rank * sizeof(*d->item.dim));
    }
    d->parts->whole = true;
}

int pare_data_inputs(struct pare_data *d, const struct pare_input *input, int n,
                     struct pare_err *err)
{
    struct pare_arrays a = { .n = input[0].t.rank ? input[0].t.dim[0] : 0,
                             .input = input,
                             .n_inputs = n };

    PARE_TRY(check(&a, err));
    take_inputs(d, &a, input);
    return 0;
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
    take_inputs(d, a, in);
    d->parts->get = a->get;
    d->parts->user = a->user;
    d->opts = (struct pare_data_opts){ .batch = a->batch ? a->batch : DEFAULT_BATCH,
                                       .shuffle = !a->ordered,
                                       .prefetch = !a->get };
    return a->y ? pare_data_targets(d, a->y, err) : 0;
}

int pare_data_from_arrays(const struct pare_arrays *arrays, struct pare_data **data,
                          struct pare_err *err)
{
    struct pare_arrays a;
    struct pare_arena *arena;
    struct pare_data *d;
    const char *name;
    int rc;

    *data = NULL;
    PARE_TRY(pare_sized_copy(&a, sizeof(a), arrays, err));
    name = a.name ? a.name : "memory";
    PARE_TRY(pare_at(err, check(&a, err), "%s", name));
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
