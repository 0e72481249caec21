/* verify_inputs.c - inputs from a data set for verifying a smaller model. */
#include "verify_inputs.h"

#include <string.h>

#include "../../base/arena.h"
#include "../../data/source.h"
#include "../../plan/shape_plans.h"
#include "../../tensor/tensor.h"
#include "../../train/train_options.h"

#define OTHER_SHAPES 2     /* to compare at, in addition to those of the first batch */
#define MOST_LOOKED_AT 256 /* items of different shapes that are decoded to find equal ones */

/* Batch `number`, whatever was read before. */
static int read_batch(struct pare_verify_inputs *f, int64_t number, const struct pare_batch **b,
                      struct pare_err *err)
{
    struct pare_loader_pos at = pare_loader_tell(f->loader);

    if (at.at != number || at.epoch) {
        at.epoch = 0;
        at.at = number;
        PARE_TRY(pare_loader_seek(f->loader, &at, err));
    }
    return pare_loader_next(f->loader, b, err);
}

static int next_input(void *user, int run, struct pare_tensor *in, struct pare_err *err)
{
    struct pare_verify_inputs *f = user;
    const struct pare_batch *b;

    PARE_TRY(read_batch(f, f->batch[run], &b, err));
    for (int k = 0; k < f->n_in; k++) {
        size_t bytes;

        if (!b || b->in[k].dtype != in[k].dtype || pare_numel(&b->in[k]) != pare_numel(&in[k]))
            return pare_fail(err, PARE_ESHAPE, "'%s' has no more batches of %lld", f->data->name,
                             (long long)in[0].dim[0]);
        PARE_TRY(pare_tensor_size(&in[k], NULL, &bytes, err));
        memcpy(in[k].data, b->in[k].data, bytes);
    }
    return 0;
}

/* Free dimensions are those of the first batch. */
static int set_shapes(struct pare_verify_inputs *f, struct pare_tensor *in, struct pare_err *err)
{
    const struct pare_batch *b;

    PARE_TRY(read_batch(f, 0, &b, err));
    for (int k = 0; k < f->n_in && b; k++)
        for (int a = 0; a < in[k].rank; a++)
            if (in[k].dim[a] < 0)
                in[k].dim[a] = b->in[k].rank == in[k].rank ? b->in[k].dim[a] : 1;
    return 0;
}

/* Keep the batch's shapes if no batch before it had them. */
static bool is_new_shape(struct pare_verify_inputs *f, const struct pare_tensor *first,
                         const struct pare_batch *b)
{
    struct pare_tensor *to = f->more + f->n_more * f->n_in;

    if (f->n_more == OTHER_SHAPES || pare_shapes_equal(first, b->in, b->n_in))
        return false;
    for (int i = 0; i < f->n_more; i++)
        if (pare_shapes_equal(f->more + i * f->n_in, b->in, b->n_in))
            return false;
    for (int k = 0; k < f->n_in; k++) {
        to[k] = b->in[k];
        to[k].data = NULL;
    }
    return true;
}

/* The first batches that have the shapes of the first one, at most `most`, and then one of each
 * other shape. */
static int choose_batches(struct pare_verify_inputs *f, int64_t most, int *runs,
                          struct pare_err *err)
{
    int64_t n = pare_loader_batches(f->loader), other[OTHER_SHAPES];
    struct pare_tensor first[PARE_DATA_INPUTS];
    const struct pare_batch *b;

    *runs = 0;
    f->batch = pare_alloc(f->arena, (size_t)most + OTHER_SHAPES, sizeof(*f->batch));
    f->more = pare_alloc(f->arena, OTHER_SHAPES * (size_t)f->n_in, sizeof(*f->more));
    if (!f->batch || !f->more)
        return pare_no_memory(err, "for inputs");
    n = f->data->single && n > most + MOST_LOOKED_AT ? most + MOST_LOOKED_AT : n;
    for (int64_t i = 0; i < n && (*runs < most || f->data->single); i++) {
        if (f->data->single || !i)
            PARE_TRY(read_batch(f, i, &b, err));
        if (!i)
            memcpy(first, b->in, (size_t)b->n_in * sizeof(*first));
        if (f->data->single && is_new_shape(f, first, b))
            other[f->n_more++] = i;
        else if (*runs < most && (!f->data->single || pare_shapes_equal(first, b->in, b->n_in)))
            f->batch[(*runs)++] = i;
    }
    memcpy(f->batch + *runs, other, (size_t)f->n_more * sizeof(*other));
    return 0;
}

int pare_verify_inputs_open(struct pare_verify_inputs *f, const struct pare_model *m,
                            struct pare_tensor *in, int64_t items, struct pare_speedup_opts *o,
                            struct pare_err *err)
{
    struct pare_loader_opts lo = { .batch = in->rank > 0 && in->dim[0] > 0 ? in->dim[0] : 1 };
    int64_t size, most;

    PARE_TRY(pare_model_fits_items(m, f->data, NULL, err));
    lo.n_inputs = f->n_in = pare_model_inputs(m, &lo.input);
    PARE_TRY(pare_loader_new(f->data, &lo, &f->loader, err));
    size = pare_loader_batch_size(f->loader);
    most = (items < f->data->n ? items : f->data->n) / size;
    if (most < 1)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has %lld items, fewer than the model's batch of %lld", f->data->name,
                         (long long)f->data->n, (long long)size);
    PARE_TRY(choose_batches(f, most, &o->runs, err));
    PARE_TRY(set_shapes(f, in, err));
    f->items = (o->runs + f->n_more) * size;
    o->more = f->more;
    o->n_more = f->n_more;
    o->feed = next_input;
    o->user = f;
    return 0;
}
