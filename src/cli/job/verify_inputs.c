/* verify_inputs.c - inputs from a data set for verifying a smaller model. */
#include "verify_inputs.h"

#include <string.h>

#include "../../data/source.h"
#include "../../tensor/tensor.h"
#include "../../train/train_options.h"

static int next_input(void *user, int run, struct pare_tensor *in, struct pare_err *err)
{
    struct pare_verify_inputs *f = user;
    const struct pare_batch *b;
    size_t bytes;

    (void)run;
    PARE_TRY(pare_loader_next(f->loader, &b, err));
    if (!b || b->x.dtype != in->dtype || pare_numel(&b->x) != pare_numel(in))
        return pare_fail(err, PARE_ESHAPE, "'%s' has no more batches of %lld", f->data->name,
                         (long long)in->dim[0]);
    PARE_TRY(pare_tensor_size(in, NULL, &bytes, err));
    memcpy(in->data, b->x.data, bytes);
    return 0;
}

int pare_verify_inputs_open(struct pare_verify_inputs *f, const struct pare_model *m,
                            struct pare_tensor *in, int64_t items, struct pare_speedup_opts *o,
                            struct pare_err *err)
{
    const struct pare_io *io;
    struct pare_loader_opts lo = { .batch = in->rank > 0 && in->dim[0] > 0 ? in->dim[0] : 1 };
    struct pare_tensor item;
    int64_t runs;

    PARE_TRY(pare_model_fits_items(m, f->data, NULL, err));
    pare_model_inputs(m, &io);
    PARE_TRY(pare_item_shape(f->data, &io[0], &item, err));
    for (int k = 0; k < in->rank; k++)
        if (in->dim[k] < 0)
            in->dim[k] = k && in->rank == item.rank + 1 ? item.dim[k - 1] : 1;
    lo.input = &io[0];
    runs = lo.batch > 0 ? (items < f->data->n ? items : f->data->n) / lo.batch : 0;
    if (runs < 1)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has %lld items, fewer than the model's batch of %lld", f->data->name,
                         (long long)f->data->n, (long long)lo.batch);
    PARE_TRY(pare_loader_new(f->data, &lo, &f->loader, err));
    f->items = runs * lo.batch;
    o->feed = next_input;
    o->user = f;
    o->runs = (int)runs;
    return 0;
}
