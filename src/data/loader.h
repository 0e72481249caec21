/* loader.h - state of a loader, shared by loader.c (order, thread, position) and loader_fill.c
 * (contents of a batch). */
#ifndef PARE_DATA_LOADER_H
#define PARE_DATA_LOADER_H

#include <pthread.h>

#include "source.h"
#include "../base/arena.h"

enum pare_slot_state { PARE_SLOT_EMPTY, PARE_SLOT_FULL, PARE_SLOT_TAKEN };

struct pare_loader_slot {
    enum pare_slot_state state;
    int rc;
    struct pare_err err;
    struct pare_batch batch;
    int64_t *index;
    struct pare_arena *own; /* of an item that has its own shape; NULL: all have the same */
    struct pare_mark start; /* of `own` when it is empty */
};

struct pare_loader {
    const struct pare_data *d;
    struct pare_arena *arena, *scratch;
    bool train, shuffle, same, float_y;
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
    bool known;                           /* the model's inputs are in `fit` */
    struct pare_io fit[PARE_DATA_INPUTS]; /* each with its items on axis 0 */
    float *row;     /* one item, if x is not float32 or its channels are last */
    bool last;      /* batches have images as (H, W, C) */
    int64_t *order; /* (n) order of the items in epoch order_epoch */
    int64_t order_epoch;
    struct pare_loader_slot slot[2];

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

/* Seed of a random choice about `b`, for example an item. */
uint64_t pare_loader_mix(uint64_t a, uint64_t b);

/* Items per batch, at most, in this process. */
int64_t pare_loader_most(const struct pare_loader *l);

/* Whether the batch being prepared is not wanted any more. */
bool pare_loader_dropped(struct pare_loader *l);

/* The order of the items of an epoch, in l->order. */
void pare_loader_order(struct pare_loader *l, int64_t epoch);

/* *yes: every batch has one item, since items have different shapes or the model's input has no
 * axis for a batch. */
int pare_loader_single(const struct pare_loader *l, const struct pare_loader_opts *o, bool *yes,
                       struct pare_err *err);

/* Shapes of batches, and memory for them. */
int pare_loader_shapes(struct pare_loader *l, const struct pare_loader_opts *o,
                       struct pare_err *err);
int pare_loader_slot(struct pare_loader *l, struct pare_loader_slot *s, struct pare_err *err);

/* Fill a slot with batch `at` of an epoch; s->rc says whether it worked. */
void pare_loader_fill(struct pare_loader *l, struct pare_loader_slot *s, int64_t epoch, int64_t at);

#endif
