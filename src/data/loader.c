/* loader.c - batches of a data set, prefetched by a thread.
 *
 * Two batches alternate: while the caller has one, a thread prepares the other.  The thread starts
 * with the first batch; if it cannot be started or is disabled, the caller's own thread prepares
 * batches.
 *
 * The items of a batch depend only on (seed, epoch), and their augmentation on (seed, epoch, item),
 * so that a checkpoint needs no other state.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../base/rng.h"
#include "../tensor/tensor.h"

enum state { EMPTY, FULL, TAKEN };

struct slot {
    enum state state;
    int rc;
    struct pare_err err;
    struct pare_batch batch;
    int64_t *index;
};

struct pare_loader {
    const struct pare_data *d;
    struct pare_arena *arena, *scratch;
    bool train, shuffle, float_y;
    uint64_t seed;
    int64_t size, n_batches;
    int rank, ranks;      /* rank of this process; processes that share every batch */
    int64_t from, every;  /* batch i of this process is batch from + i * every of the set */
    int64_t item_size;    /* elements of an item */
    struct pare_tensor x; /* type and shape of a full batch, without data */
    struct pare_tensor in[PARE_DATA_INPUTS]; /* sets in memory: all inputs of the model */
    int map[PARE_DATA_INPUTS];     /* sets in memory: the set's input for each input of the model */
    int axis[PARE_DATA_INPUTS];    /* the axis with the items; -1: the value is for all items */
    void *spare[PARE_DATA_INPUTS]; /* one item from get(), if its axis is not 0 */
    int n_in;
    float *row;     /* one item, if x is not float32 or its channels are last */
    bool last;      /* batches have images as (H, W, C) */
    int64_t *order; /* (n) order of the items in epoch order_epoch */
    int64_t order_epoch;
    struct slot slot[2];

    int64_t epoch, at; /* position of the batch that next() returns */
    int turn;          /* the slot of that batch */
    bool threaded, started;

    pthread_mutex_t lock; /* protects the members below, and slot[].state */
    pthread_cond_t changed;
    pthread_t thread;
    bool busy, quit, drop;
    int64_t wanted;              /* epoch of the caller */
    int64_t make_epoch, make_at; /* the batch to prepare next */
    int make_turn;
};

/* ---- random numbers --------------------------------------------------------------- */

/* The finalizer of SplitMix64: every bit of a and b changes about half of the result bits. */
static uint64_t mix_seed(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;

    z = (z ^ z >> 29) * 0x94d049bb133111ebu;
    return z ^ z >> 32;
}

/* Fisher-Yates shuffle of the identity, so that the order does not depend on the previous epoch. */
static void make_order(struct pare_loader *l, int64_t epoch)
{
    struct pare_rng rng;

    if (l->order_epoch == epoch)
        return;
    pare_rng_init(&rng, mix_seed(mix_seed(l->seed, 1), (uint64_t)epoch));
    for (int64_t i = 0; i < l->d->n; i++) {
        int64_t k = l->shuffle ? (int64_t)pare_rng_below(&rng, (uint64_t)i + 1) : i;

        l->order[i] = l->order[k];
        l->order[k] = i;
    }
    l->order_epoch = epoch;
}

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

static int load_item(struct pare_loader *l, int64_t epoch, int64_t item, char *to,
                     struct pare_err *err)
{
    struct pare_mark m = pare_mark(l->scratch);
    struct pare_rng rng;
    int rc;

    if (l->x.dtype != PARE_F32 && !l->row)
        return pare_item_raw(l->d, item, l->x.dtype, to, err);
    pare_rng_init(&rng, mix_seed(mix_seed(mix_seed(l->seed, 2), (uint64_t)epoch), (uint64_t)item));
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

static bool interrupted(struct pare_loader *l)
{
    bool yes;

    pthread_mutex_lock(&l->lock);
    yes = l->quit || l->drop;
    pthread_mutex_unlock(&l->lock);
    return yes;
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

static void fill_batch(struct pare_loader *l, struct slot *s, int64_t epoch, int64_t at)
{
    const struct pare_tensor *y = &l->d->y;
    int64_t first, n;
    size_t x_row = (size_t)l->item_size * pare_dtype_size(l->x.dtype);

    make_order(l, epoch);
    part_of(l, at, &s->batch, &first, &n);
    s->batch.x.dim[0] = n;
    for (int k = 0; k < l->n_in; k++)
        if (l->axis[k] >= 0)
            s->batch.in[k].dim[l->axis[k]] = n;
    s->rc = 0;
    if (y->data)
        s->batch.y.dim[0] = n;
    for (int64_t i = 0; i < n && !s->rc; i++) {
        int64_t item = s->index[i] = l->order[first + i];

        if (interrupted(l))
            return;
        if (y->data)
            s->rc = pare_target_put(&s->batch.y, i, y, item, &s->err);
        if (s->rc)
            break;
        s->rc = l->d->n_inputs ? load_row(l, &s->batch, i, item, &s->err)
                               : load_item(l, epoch, item,
                                           (char *)s->batch.x.data + (size_t)i * x_row, &s->err);
        pare_at(&s->err, s->rc, "%s", l->d->name);
    }
}

/* ---- the thread ------------------------------------------------------------------- */

/* Only training is known to continue with another epoch. */
static bool is_idle(const struct pare_loader *l)
{
    return l->slot[l->make_turn].state != EMPTY || (!l->train && l->make_epoch != l->wanted);
}

static void *prefetch_thread(void *arg)
{
    struct pare_loader *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        struct slot *s = &l->slot[l->make_turn];
        int64_t epoch = l->make_epoch, at = l->make_at;

        if (l->drop || is_idle(l)) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        l->busy = true;
        pthread_mutex_unlock(&l->lock);
        fill_batch(l, s, epoch, at);
        pthread_mutex_lock(&l->lock);
        l->busy = false;
        if (!l->drop) {
            s->state = FULL;
            l->make_turn = !l->make_turn;
            l->make_at = at + 1 == l->n_batches ? 0 : at + 1;
            l->make_epoch += l->make_at == 0;
        }
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Block signals: the caller's handlers must not run in this thread. */
static void start_thread(struct pare_loader *l)
{
    sigset_t all, before;

    l->make_epoch = l->epoch;
    l->make_at = l->at;
    l->make_turn = l->turn;
    l->wanted = l->epoch;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    l->started = !pthread_create(&l->thread, NULL, prefetch_thread, l);
    l->threaded = l->started;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- the caller's side -------------------------------------------------------------- */

/* Release the caller's batch and wait for the next. */
static struct slot *take_batch(struct pare_loader *l)
{
    struct slot *s = &l->slot[l->turn];

    if (l->threaded && !l->started)
        start_thread(l);
    if (!l->threaded) {
        fill_batch(l, s, l->epoch, l->at);
        return s;
    }
    pthread_mutex_lock(&l->lock);
    l->wanted = l->epoch;
    if (l->slot[!l->turn].state == TAKEN)
        l->slot[!l->turn].state = EMPTY;
    pthread_cond_broadcast(&l->changed);
    while (s->state != FULL)
        pthread_cond_wait(&l->changed, &l->lock);
    s->state = TAKEN;
    pthread_mutex_unlock(&l->lock);
    l->turn = !l->turn;
    return s;
}

int pare_loader_next(struct pare_loader *l, const struct pare_batch **batch, struct pare_err *err)
{
    struct slot *s;

    *batch = NULL;
    if (l->at == l->n_batches) {
        l->at = 0;
        l->epoch++;
        return 0;
    }
    s = take_batch(l);
    if (s->rc) {
        struct pare_loader_pos here = pare_loader_tell(l);

        *err = s->err;
        pare_loader_seek(l, &here, &s->err); /* so that the next call tries again */
        return err->code;
    }
    l->at++;
    *batch = &s->batch;
    return 0;
}

struct pare_loader_pos pare_loader_tell(const struct pare_loader *l)
{
    return (struct pare_loader_pos){ l->seed, l->epoch, l->at, l->d->n, l->size };
}

int pare_loader_seek(struct pare_loader *l, const struct pare_loader_pos *pos, struct pare_err *err)
{
    if (pos->n != l->d->n || pos->batch != l->size)
        return pare_fail(err, PARE_ECONFIG,
                         "the position is in batches of %lld out of %lld items, but '%s' has "
                         "batches of %lld out of %lld",
                         (long long)pos->batch, (long long)pos->n, l->d->name, (long long)l->size,
                         (long long)l->d->n);
    if (pos->epoch < 0 || pos->at < 0 || pos->at > l->n_batches)
        return pare_fail(err, PARE_ECONFIG, "there is no batch %lld of epoch %lld in '%s'",
                         (long long)pos->at, (long long)pos->epoch, l->d->name);
    pthread_mutex_lock(&l->lock);
    l->drop = true;
    while (l->busy)
        pthread_cond_wait(&l->changed, &l->lock);
    l->order_epoch = pos->seed == l->seed ? l->order_epoch : -1;
    l->seed = pos->seed;
    l->epoch = l->make_epoch = pos->epoch;
    l->at = l->make_at = pos->at;
    if (pos->at == l->n_batches) {
        l->make_epoch++;
        l->make_at = 0;
    }
    l->slot[0].state = l->slot[1].state = EMPTY;
    l->turn = l->make_turn = 0;
    l->drop = false;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

int64_t pare_loader_batches(const struct pare_loader *l)
{
    return l->n_batches;
}

int64_t pare_loader_batch_size(const struct pare_loader *l)
{
    return l->size;
}

/* ---- new, free ---------------------------------------------------------------------- */

static int64_t most(const struct pare_loader *l)
{
    return (l->size + l->ranks - 1) / l->ranks;
}

static int make_slot(struct pare_loader *l, struct slot *s, struct pare_err *err)
{
    s->batch.in = pare_alloc(l->arena, (size_t)l->n_in, sizeof(*s->batch.in));
    s->batch.n_in = l->n_in;
    s->batch.axis = l->axis;
    if (!s->batch.in)
        return pare_no_memory(err, "for a batch");
    for (int k = 0; k < l->n_in; k++) {
        s->batch.in[k] = l->in[k];
        PARE_TRY(pare_tensor_alloc(l->arena, &s->batch.in[k], err));
    }
    s->batch.x = s->batch.in[0];
    s->batch.y = l->d->y;
    if (l->d->y.data) {
        s->batch.y.dtype = l->float_y ? PARE_F32 : l->d->y.dtype;
        s->batch.y.dim[0] = most(l);
        PARE_TRY(pare_tensor_alloc(l->arena, &s->batch.y, err));
    }
    s->index = pare_alloc(l->arena, (size_t)most(l), sizeof(*s->index));
    s->batch.index = s->index;
    return s->index ? 0 : pare_no_memory(err, "for a batch");
}

/* The shape (N, ...) of a batch from the shape of an item. */
static int set_shape(struct pare_loader *l, const struct pare_io *input, struct pare_err *err)
{
    struct pare_tensor item;
    bool floats;

    PARE_TRY(pare_item_shape(l->d, input, &item, err));
    if (item.rank == PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "items have %d dimensions, at most %d are supported",
                         item.rank, PARE_MAX_RANK - 1);
    l->item_size = pare_numel(&item);
    l->x = (struct pare_tensor){ .dtype = item.dtype, .rank = item.rank + 1, .dim = { most(l) } };
    memcpy(l->x.dim + 1, item.dim, sizeof(*item.dim) * (size_t)item.rank);
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

    *t = *item;
    t->data = NULL;
    if (axis >= 0) {
        if (item->rank == PARE_MAX_RANK)
            return pare_fail(err, PARE_ELIMIT, "items have %d dimensions, at most %d are supported",
                             item->rank, PARE_MAX_RANK - 1);
        memmove(t->dim + axis + 1, t->dim + axis, (size_t)(item->rank - axis) * sizeof(*t->dim));
        t->dim[axis] = most(l);
        t->rank++;
    }
    if (!axis || !l->d->parts->get)
        return 0;
    l->spare[k] = pare_alloc(l->arena, (size_t)item_elements(l, k) + 1, pare_dtype_size(t->dtype));
    return l->spare[k] ? 0 : pare_no_memory(err, "for an item");
}

/* The set's inputs in the model's order; without a model, in the set's order. */
static int set_inputs(struct pare_loader *l, const struct pare_loader_opts *o, struct pare_err *err)
{
    int n = o->n_inputs ? o->n_inputs : 1;

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
        PARE_TRY(set_input(l, k, &item, err));
    }
    if (l->d->parts->get && l->n_in != l->d->n_inputs)
        return pare_fail(err, PARE_ECONFIG, "'%s' has %d inputs, the model has %d", l->d->name,
                         l->d->n_inputs, l->n_in);
    l->x = l->in[0];
    return 0;
}

/* Which batches belong to this process, and its share of each. */
static int set_share(struct pare_loader *l, const struct pare_loader_opts *o, struct pare_err *err)
{
    int ranks = o->ranks > 1 ? o->ranks : 1, rank = o->ranks > 1 ? o->rank : 0;

    l->ranks = 1;
    l->every = 1;
    if (o->deal) {
        l->from = rank;
        l->every = ranks;
        l->n_batches = (l->n_batches - rank + ranks - 1) / ranks;
        l->n_batches = l->n_batches > 0 ? l->n_batches : 0;
        return 0;
    }
    l->rank = rank;
    l->ranks = ranks;
    if (l->size < ranks)
        return pare_fail(err, PARE_ECONFIG,
                         "a batch has %lld items, too few to share them between %d processes",
                         (long long)l->size, ranks);
    return 0;
}

static int set_up(struct pare_loader *l, const struct pare_loader_opts *o, struct pare_err *err)
{
    const struct pare_data_opts *d = &l->d->opts;
    int64_t n = l->d->n;

    l->train = o->train;
    l->shuffle = o->train && d->shuffle;
    l->threaded = d->prefetch;
    l->seed = o->seed;
    l->float_y = o->float_y;
    l->size = o->batch ? o->batch : d->batch;
    l->order_epoch = -1;
    if (l->size < 1)
        return pare_fail(err, PARE_ECONFIG, "a batch has %lld items, must have at least 1",
                         (long long)l->size);
    l->n_batches = n / l->size + (n % l->size && !(o->train && d->drop_last));
    if (!l->n_batches)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has %lld item%s, less than a batch of %lld, and 'drop_last' leaves "
                         "nothing",
                         l->d->name, (long long)n, n == 1 ? "" : "s", (long long)l->size);
    PARE_TRY(set_share(l, o, err));
    l->scratch = pare_arena_new(1 << 20);
    l->order = pare_alloc_raw(l->arena, (size_t)n, sizeof(*l->order));
    if (!l->scratch || !l->order)
        return pare_no_memory(err, "for the order of %lld items", (long long)n);
    PARE_TRY(set_inputs(l, o, err));
    PARE_TRY(make_slot(l, &l->slot[0], err));
    return make_slot(l, &l->slot[1], err);
}

int pare_loader_new(const struct pare_data *data, const struct pare_loader_opts *opts,
                    struct pare_loader **loader, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_loader *l = a ? pare_alloc(a, 1, sizeof(*l)) : NULL;
    int rc;

    *loader = NULL;
    if (!l) {
        pare_arena_free(a);
        return pare_no_memory(err, "for batches");
    }
    l->d = data;
    l->arena = a;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    rc = set_up(l, opts, err);
    if (rc)
        pare_loader_free(l);
    else
        *loader = l;
    return rc;
}

void pare_loader_free(struct pare_loader *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->quit = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    pare_arena_free(l->scratch);
    pare_arena_free(l->arena);
}
