/* loader.c - batches of a data set, prefetched by a thread.
 *
 * Two batches alternate: while the caller has one, a thread prepares the other.  The thread starts
 * with the first batch; if it cannot be started or is disabled, the caller's own thread prepares
 * batches.
 *
 * The items of a batch depend only on (seed, epoch), and their augmentation on (seed, epoch, item),
 * so that a checkpoint needs no other state.
 */
#include "loader.h"

#include <signal.h>

#include "../base/arena.h"
#include "../base/rng.h"

/* ---- random numbers --------------------------------------------------------------- */

/* The finalizer of SplitMix64: every bit of a and b changes about half of the result bits. */
uint64_t pare_loader_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;

    z = (z ^ z >> 29) * 0x94d049bb133111ebu;
    return z ^ z >> 32;
}

/* Fisher-Yates shuffle of the identity, so that the order does not depend on the previous epoch. */
void pare_loader_order(struct pare_loader *l, int64_t epoch)
{
    struct pare_rng rng;

    epoch = l->same ? 0 : epoch;
    if (l->order_epoch == epoch)
        return;
    pare_rng_init(&rng, pare_loader_mix(pare_loader_mix(l->seed, 1), (uint64_t)epoch));
    for (int64_t i = 0; i < l->d->n; i++) {
        int64_t k = l->shuffle ? (int64_t)pare_rng_below(&rng, (uint64_t)i + 1) : i;

        l->order[i] = l->order[k];
        l->order[k] = i;
    }
    l->order_epoch = epoch;
}

int64_t pare_loader_most(const struct pare_loader *l)
{
    return (l->size + l->ranks - 1) / l->ranks;
}

/* ---- the thread ------------------------------------------------------------------- */

bool pare_loader_dropped(struct pare_loader *l)
{
    bool yes;

    pthread_mutex_lock(&l->lock);
    yes = l->quit || l->drop;
    pthread_mutex_unlock(&l->lock);
    return yes;
}

/* Only training is known to continue with another epoch. */
static bool is_idle(const struct pare_loader *l)
{
    return l->slot[l->make_turn].state != PARE_SLOT_EMPTY ||
           (!l->train && l->make_epoch != l->wanted);
}

static void *prefetch_thread(void *arg)
{
    struct pare_loader *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        struct pare_loader_slot *s = &l->slot[l->make_turn];
        int64_t epoch = l->make_epoch, at = l->make_at;

        if (l->drop || is_idle(l)) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        l->busy = true;
        pthread_mutex_unlock(&l->lock);
        pare_loader_fill(l, s, epoch, at);
        pthread_mutex_lock(&l->lock);
        l->busy = false;
        if (!l->drop) {
            s->state = PARE_SLOT_FULL;
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
static struct pare_loader_slot *take_batch(struct pare_loader *l)
{
    struct pare_loader_slot *s = &l->slot[l->turn];

    if (l->threaded && !l->started)
        start_thread(l);
    if (!l->threaded) {
        pare_loader_fill(l, s, l->epoch, l->at);
        return s;
    }
    pthread_mutex_lock(&l->lock);
    l->wanted = l->epoch;
    if (l->slot[!l->turn].state == PARE_SLOT_TAKEN)
        l->slot[!l->turn].state = PARE_SLOT_EMPTY;
    pthread_cond_broadcast(&l->changed);
    while (s->state != PARE_SLOT_FULL)
        pthread_cond_wait(&l->changed, &l->lock);
    s->state = PARE_SLOT_TAKEN;
    pthread_mutex_unlock(&l->lock);
    l->turn = !l->turn;
    return s;
}

int pare_loader_next(struct pare_loader *l, const struct pare_batch **batch, struct pare_err *err)
{
    struct pare_loader_slot *s;

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
    l->slot[0].state = l->slot[1].state = PARE_SLOT_EMPTY;
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

/* Which batches belong to this process, and its share of each.  Of items that run one by one, one
 * process has the item and the others run it without effect (pare_batch.own is 0). */
static int set_share(struct pare_loader *l, const struct pare_loader_opts *o, bool single,
                     struct pare_err *err)
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
    if (l->size < ranks && !single)
        return pare_fail(err, PARE_ECONFIG,
                         "a batch has %lld items, too few to share them between %d processes",
                         (long long)l->size, ranks);
    return 0;
}

static int set_up(struct pare_loader *l, const struct pare_loader_opts *o, struct pare_err *err)
{
    const struct pare_data_opts *d = &l->d->opts;
    int64_t n = l->d->n;
    bool single;

    l->train = o->train;
    l->shuffle = o->random || (o->train && d->shuffle);
    l->same = o->same;
    l->threaded = d->prefetch;
    l->seed = o->seed;
    l->float_y = o->float_y;
    l->order_epoch = -1;
    PARE_TRY(pare_loader_single(l, o, &single, err));
    l->size = single ? 1 : o->batch ? o->batch : d->batch;
    if (l->size < 1)
        return pare_fail(err, PARE_ECONFIG, "a batch has %lld items, must have at least 1",
                         (long long)l->size);
    l->n_batches = n / l->size + (n % l->size && !(o->train && d->drop_last));
    if (!l->n_batches)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has %lld item%s, less than a batch of %lld, and 'drop_last' leaves "
                         "nothing",
                         l->d->name, (long long)n, n == 1 ? "" : "s", (long long)l->size);
    PARE_TRY(set_share(l, o, single, err));
    l->scratch = pare_arena_new(1 << 20);
    l->order = pare_alloc_raw(l->arena, (size_t)n, sizeof(*l->order));
    if (!l->scratch || !l->order)
        return pare_no_memory(err, "for the order of %lld items", (long long)n);
    PARE_TRY(pare_loader_shapes(l, o, err));
    PARE_TRY(pare_loader_slot(l, &l->slot[0], err));
    return pare_loader_slot(l, &l->slot[1], err);
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
    pare_arena_free(l->slot[0].own);
    pare_arena_free(l->slot[1].own);
    pare_arena_free(l->scratch);
    pare_arena_free(l->arena);
}
