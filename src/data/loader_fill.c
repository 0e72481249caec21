/* loader_fill.c - contents of a batch: shapes, memory, items and labels. */
#include "loader.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/rng.h"
#include "../tensor/tensor.h"

/* ---- one batch -------------------------------------------------------------------- */

/* Finish an item in l->row: its order of axes, its type. */
static int store_item(struct pare_loader *l, char *to, struct pare_err *err)
{
    bool floats = l->x.dtype == PARE_F32;
    float *turned = l->last && !floats
                        ? pare_alloc_raw(l->scratch, (size_t)l->item_size, sizeof(*turned))
                        : NULL;

    if (l->last && !floats && !turned)
        return pare_no_memory(err, "for an item");
    if (l->last)
        pare_item_turn(l->row, floats ? (float *)(void *)to : turned, l->x.dim[3],
                       l->x.dim[1] * l->x.dim[2]);
    return floats ? 0
                  : pare_convert(l->x.dtype, to, PARE_F32, l->last ? turned : l->row, l->item_size,
                                 err);
}

static void seed_item(const struct pare_loader *l, int64_t epoch, int64_t item,
                      struct pare_rng *rng)
{
    uint64_t of_epoch = pare_loader_mix(pare_loader_mix(l->seed, 2), (uint64_t)epoch);

    pare_rng_init(rng, pare_loader_mix(of_epoch, (uint64_t)item));
}

static int load_item(struct pare_loader *l, int64_t epoch, int64_t item, char *to,
                     struct pare_err *err)
{
    struct pare_mark m = pare_mark(l->scratch);
    struct pare_rng rng;
    int rc;

    if (l->x.dtype != PARE_F32 && !l->row)
        return pare_item_raw(l->d, item, l->x.dtype, to, err);
    seed_item(l, epoch, item, &rng);
    rc = pare_item_load(l->d, item, l->train ? &rng : NULL, l->row ? l->row : (float *)(void *)to,
                        l->scratch, err);
    if (!rc && l->row)
        rc = store_item(l, to, err);
    pare_rewind(l->scratch, m);
    return rc;
}

/* The elements of one item of input k. */
static int64_t item_elements(const struct pare_loader *l, int k)
{
    return pare_numel(&l->in[k]) / (l->axis[k] < 0 ? 1 : l->in[k].dim[l->axis[k]]);
}

/* A value for all items of a batch must be that of its first item. */
static int check_shared(const struct pare_loader *l, const struct pare_batch *b, int k, int64_t i,
                        const void *from, struct pare_err *err)
{
    const struct pare_tensor *t = &l->d->input[l->map[k]].t;
    size_t bytes = (size_t)item_elements(l, k) * pare_dtype_size(t->dtype);
    int64_t first = l->d->parts->pick ? l->d->parts->pick[b->index[0]] : b->index[0];

    if (!i || l->d->parts->get || !bytes ||
        !memcmp(from, (const char *)t->data + (size_t)first * bytes, bytes))
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "the model's input '%s' has no axis for items, but the items of a batch have "
                     "different values; use a batch of 1",
                     l->d->input[l->map[k]].name);
}

/* Item i of the batch, made by get(). */
static int get_row(struct pare_loader *l, struct pare_batch *b, int64_t i, int64_t item,
                   struct pare_err *err)
{
    const struct pare_data *d = l->d;
    struct pare_tensor row[PARE_DATA_INPUTS];

    for (int k = 0; k < l->n_in; k++) {
        struct pare_tensor *r = &row[l->map[k]];
        size_t bytes = (size_t)item_elements(l, k) * pare_dtype_size(l->in[k].dtype);

        *r = d->input[l->map[k]].t;
        r->data = l->spare[k] ? l->spare[k] : (char *)b->in[k].data + (size_t)i * bytes;
    }
    PARE_TRY(d->parts->get(d->parts->user, item, row, d->n_inputs, err));
    for (int k = 0; k < l->n_in; k++)
        if (l->spare[k])
            PARE_TRY(pare_item_put(&b->in[k], l->axis[k], i, l->in[k].dtype, l->spare[k], err));
    return 0;
}

/* Item of a set from memory, as item i of the batch. */
static int load_row(struct pare_loader *l, struct pare_batch *b, int64_t i, int64_t item,
                    struct pare_err *err)
{
    const struct pare_data *d = l->d;

    if (d->parts->pick)
        item = d->parts->pick[item];
    if (d->parts->get)
        return get_row(l, b, i, item, err);
    for (int k = 0; k < l->n_in; k++) {
        const struct pare_tensor *t = &d->input[l->map[k]].t;
        bool every = d->parts->every && d->parts->every[l->map[k]];
        size_t bytes = (size_t)item_elements(l, k) * pare_dtype_size(t->dtype);
        const char *from = (const char *)t->data + (every ? 0 : (size_t)item * bytes);

        if (l->axis[k] < 0 && !every)
            PARE_TRY(check_shared(l, b, k, i, from, err));
        PARE_TRY(pare_item_put(&b->in[k], l->axis[k], i, t->dtype, from, err));
    }
    return 0;
}

/* The items of a batch that belong to this process: *n from *first, in the epoch's order. */
static void part_of(const struct pare_loader *l, int64_t at, struct pare_batch *b, int64_t *first,
                    int64_t *n)
{
    int64_t from, to;

    *first = (l->from + at * l->every) * l->size;
    b->whole = l->d->n - *first < l->size ? l->d->n - *first : l->size;
    from = b->whole * l->rank / l->ranks;
    to = b->whole * (l->rank + 1) / l->ranks;
    b->own = to - from;
    *first += b->own ? from : 0;
    *n = b->own ? b->own : 1;
}

/* The shape of a batch of n items: the item's with n at the axis; axis -1: the item's. */
static int batch_shape(int axis, int64_t n, const struct pare_tensor *item, struct pare_tensor *t,
                       struct pare_err *err)
{
    *t = *item;
    t->data = NULL;
    if (axis < 0)
        return 0;
    if (item->rank == PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "items have %d dimensions, at most %d are supported",
                         item->rank, PARE_MAX_RANK - 1);
    memmove(t->dim + axis + 1, t->dim + axis, (size_t)(item->rank - axis) * sizeof(*t->dim));
    t->dim[axis] = n;
    t->rank++;
    return 0;
}

/* ---- items of their own shapes --------------------------------------------------------- */

/* The tensor of input k for an item of this shape, in memory of the slot. */
static int own_tensor(struct pare_loader *l, struct pare_loader_slot *s, int k,
                      const struct pare_tensor *item, struct pare_err *err)
{
    struct pare_tensor *t = &s->batch.in[k];

    PARE_TRY(batch_shape(l->axis[k], 1, item, t, err));
    return pare_tensor_alloc(s->own, t, err);
}

/* An image or a sound of its own size. */
static int own_image(struct pare_loader *l, struct pare_loader_slot *s, int64_t epoch, int64_t item,
                     struct pare_err *err)
{
    struct pare_tensor t, shape, *x = &s->batch.in[0];
    struct pare_rng rng;

    seed_item(l, epoch, item, &rng);
    PARE_TRY(pare_item_own(l->d, item, l->train ? &rng : NULL, s->own, &t, err));
    if (l->last)
        t = (struct pare_tensor){ t.dtype, 3, { t.dim[1], t.dim[2], t.dim[0] }, t.data };
    shape = t;
    if (l->known)
        PARE_TRY(pare_item_fit(l->d, &t, &l->fit[0], &shape, err));
    PARE_TRY(own_tensor(l, s, 0, &shape, err));
    if (l->last) {
        float *turned = pare_alloc_raw(s->own, (size_t)pare_numel(&t), sizeof(*turned));

        if (!turned)
            return pare_no_memory(err, "for an item");
        pare_item_turn(pare_f32(&t), turned, t.dim[2], t.dim[0] * t.dim[1]);
        t.data = turned;
    }
    return pare_convert(x->dtype, x->data, PARE_F32, t.data, pare_numel(x), err);
}

/* An item of a set whose items are tensors of their own shapes, or read one by one. */
static int own_row(struct pare_loader *l, struct pare_loader_slot *s, int64_t i, int64_t item,
                   struct pare_err *err)
{
    const struct pare_data *d = l->d;
    struct pare_mark m = pare_mark(l->scratch);
    struct pare_tensor in[PARE_DATA_INPUTS], shape;
    int rc = pare_item_tensors(d, item, l->scratch, in, err);

    for (int k = 0; k < l->n_in && !rc; k++) {
        const struct pare_tensor *t = &in[l->map[k]];

        if (d->single && l->known)
            rc = pare_item_fit(d, t, &l->fit[k], &shape, err);
        if (d->single && !rc)
            rc = own_tensor(l, s, k, l->known ? &shape : t, err);
        if (!rc)
            rc = pare_item_put(&s->batch.in[k], l->axis[k], i, t->dtype, t->data, err);
    }
    pare_rewind(l->scratch, m);
    return rc;
}

static int load_one(struct pare_loader *l, struct pare_loader_slot *s, int64_t epoch, int64_t i,
                    struct pare_err *err)
{
    size_t row = (size_t)l->item_size * pare_dtype_size(l->x.dtype);
    int64_t item = s->index[i];

    if (l->d->parts->each)
        return own_row(l, s, i, item, err);
    if (l->d->n_inputs)
        return load_row(l, &s->batch, i, item, err);
    if (l->d->single)
        return own_image(l, s, epoch, item, err);
    return load_item(l, epoch, item, (char *)s->batch.in[0].data + (size_t)i * row, err);
}

/* ---- a whole batch --------------------------------------------------------------------- */

void pare_loader_fill(struct pare_loader *l, struct pare_loader_slot *s, int64_t epoch, int64_t at)
{
    const struct pare_tensor *y = &l->d->y;
    int64_t first, n;

    pare_loader_order(l, epoch);
    part_of(l, at, &s->batch, &first, &n);
    if (s->own)
        pare_rewind(s->own, s->start);
    for (int k = 0; k < l->n_in && !s->own; k++)
        if (l->axis[k] >= 0)
            s->batch.in[k].dim[l->axis[k]] = n;
    s->rc = 0;
    if (y->data)
        s->batch.y.dim[0] = n;
    for (int64_t i = 0; i < n && !s->rc; i++) {
        s->index[i] = l->order[first + i];
        if (pare_loader_dropped(l))
            return;
        if (y->data)
            s->rc = pare_target_put(&s->batch.y, i, y, s->index[i], &s->err);
        if (!s->rc)
            s->rc = load_one(l, s, epoch, i, &s->err);
        pare_at(&s->err, s->rc, "%s", l->d->name);
    }
    s->batch.x = s->batch.in[0];
}

/* ---- shapes and memory ------------------------------------------------------------- */

int pare_loader_slot(struct pare_loader *l, struct pare_loader_slot *s, struct pare_err *err)
{
    s->batch.in = pare_alloc(l->arena, (size_t)l->n_in, sizeof(*s->batch.in));
    s->batch.n_in = l->n_in;
    s->batch.axis = l->axis;
    if (!s->batch.in)
        return pare_no_memory(err, "for a batch");
    if (l->d->single) {
        s->own = pare_arena_new(1 << 16);
        if (!s->own)
            return pare_no_memory(err, "for a batch");
        s->start = pare_mark(s->own);
    }
    for (int k = 0; k < l->n_in && !s->own; k++) {
        s->batch.in[k] = l->in[k];
        PARE_TRY(pare_tensor_alloc(l->arena, &s->batch.in[k], err));
    }
    s->batch.x = s->batch.in[0];
    s->batch.y = l->d->y;
    if (l->d->y.data) {
        s->batch.y.dtype = l->float_y ? PARE_F32 : l->d->y.dtype;
        s->batch.y.dim[0] = pare_loader_most(l);
        PARE_TRY(pare_tensor_alloc(l->arena, &s->batch.y, err));
    }
    s->index = pare_alloc(l->arena, (size_t)pare_loader_most(l), sizeof(*s->index));
    s->batch.index = s->index;
    return s->index ? 0 : pare_no_memory(err, "for a batch");
}

static int set_shape(struct pare_loader *l, const struct pare_io *input, struct pare_err *err)
{
    struct pare_tensor item;
    bool floats;

    PARE_TRY(pare_item_shape(l->d, input, &item, err));
    l->axis[0] = input && item.rank == input->rank ? -1 : 0;
    l->item_size = pare_numel(&item);
    PARE_TRY(batch_shape(l->axis[0], pare_loader_most(l), &item, &l->x, err));
    floats = item.dtype == PARE_F64 || item.dtype == PARE_F16 || item.dtype == PARE_BF16;
    l->last = pare_item_last(l->d, input) && (floats || item.dtype == PARE_F32);
    floats |= l->last;
    l->row = floats ? pare_alloc_raw(l->arena, (size_t)l->item_size, sizeof(*l->row)) : NULL;
    return floats && !l->row ? pare_no_memory(err, "for an item") : 0;
}

/* The shape of the k-th input of a set in memory: the item's with the batch at its axis. */
static int set_input(struct pare_loader *l, int k, const struct pare_tensor *item,
                     struct pare_err *err)
{
    struct pare_tensor *t = &l->in[k];
    int axis = l->axis[k];

    PARE_TRY(batch_shape(axis, pare_loader_most(l), item, t, err));
    if (!axis || !l->d->parts->get)
        return 0;
    l->spare[k] = pare_alloc(l->arena, (size_t)item_elements(l, k) + 1, pare_dtype_size(t->dtype));
    return l->spare[k] ? 0 : pare_no_memory(err, "for an item");
}

int pare_loader_single(const struct pare_loader *l, const struct pare_loader_opts *o, bool *yes,
                       struct pare_err *err)
{
    const struct pare_data *d = l->d;
    struct pare_tensor shape = { .rank = -1 };
    int k = 0;

    *yes = d->single;
    if (!o->input)
        return 0;
    if (d->n_inputs) {
        k = pare_input_find(d, o->input, o->n_inputs ? o->n_inputs : 1, 0, err);
        if (k < 0)
            return err->code;
        PARE_TRY(pare_input_shape(d, k, o->input, 0, &shape, err));
    } else {
        PARE_TRY(pare_item_shape(d, o->input, &shape, err));
    }
    *yes |= o->input->rank > 0 && shape.rank == o->input->rank;
    return 0;
}

/* The model's inputs, as far as items of their own shapes are compared with them. */
static int copy_inputs(struct pare_loader *l, const struct pare_loader_opts *o,
                       struct pare_err *err)
{
    int n = o->n_inputs ? o->n_inputs : 1;

    l->known = o->input != NULL;
    for (int k = 0; l->known && k < n && k < PARE_DATA_INPUTS; k++) {
        l->fit[k] = pare_io_items(o->input, k);
        l->fit[k].name = pare_strdup(l->arena, o->input[k].name);
        if (!l->fit[k].name)
            return pare_no_memory(err, "for batches");
        memset(l->fit[k].sym, 0, sizeof(l->fit[k].sym));
    }
    return 0;
}

/* The set's inputs in the model's order; without a model, in the set's order. */
int pare_loader_shapes(struct pare_loader *l, const struct pare_loader_opts *o,
                       struct pare_err *err)
{
    int n = o->n_inputs ? o->n_inputs : 1;

    PARE_TRY(copy_inputs(l, o, err));
    if (!l->d->n_inputs) {
        PARE_TRY(set_shape(l, o->input, err));
        l->in[0] = l->x;
        l->n_in = 1;
        return 0;
    }
    l->n_in = o->input ? n : l->d->n_inputs;
    if (l->n_in > PARE_DATA_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "the model has %d inputs, at most %d are supported",
                         l->n_in, PARE_DATA_INPUTS);
    for (int k = 0; k < l->n_in; k++) {
        struct pare_tensor item = pare_input_item(l->d, k < l->d->n_inputs ? k : 0);

        l->axis[k] = o->input ? pare_batch_axis(o->input, k) : 0;
        l->map[k] = o->input ? pare_input_find(l->d, o->input, n, k, err) : k;
        if (l->map[k] < 0)
            return err->code;
        if (o->input)
            PARE_TRY(pare_input_shape(l->d, l->map[k], o->input, k, &item, err));
        if (o->input && l->axis[k] == 0 && item.rank == o->input[k].rank)
            l->axis[k] = -1;
        PARE_TRY(set_input(l, k, &item, err));
    }
    if (l->d->parts->get && l->n_in != l->d->n_inputs)
        return pare_fail(err, PARE_ECONFIG, "'%s' has %d inputs, the model has %d", l->d->name,
                         l->d->n_inputs, l->n_in);
    l->x = l->in[0];
    return 0;
}
