/* pickle_machine.h - state of the pickle interpreter, shared by pickle.c and pickle_calls.c. */
#ifndef PARE_IO_PICKLE_MACHINE_H
#define PARE_IO_PICKLE_MACHINE_H

#include "pickle.h"

#include "../base/map.h"

struct pare_machine {
    struct pare_arena *arena;
    const unsigned char *begin, *at, *end;
    struct pare_pickled *stack, *memo;
    int n, cap, n_memo, memo_cap, objects;
    struct pare_map keys; /* storages by key */
    struct pare_pickle *out;
    bool done;
    struct pare_err *err;
};

/* A global name and its meaning. */
struct pare_global {
    const char *module, *name;
    int (*call)(struct pare_machine *m, const struct pare_batch_check *args,
                struct pare_pickled *out);
    enum pare_dtype dtype; /* element type of a storage type, which is not called */
};

int pare_pickle_bad(struct pare_machine *m, const char *what);
int pare_pickle_no_memory(struct pare_machine *m);

/* A zeroed object, counted against the limit; NULL: error is set. */
void *pare_pickle_object(struct pare_machine *m, size_t size);
int pare_pickle_items(struct pare_machine *m, enum pare_pickled_kind kind, struct pare_pickled *v);

/* In pickle_calls.c: look up a global, or fail with its name; make the storage of a persistent
 * id. */
int pare_pickle_global(struct pare_machine *m, struct pare_str module, struct pare_str name,
                       struct pare_pickled *v);
int pare_pickle_storage(struct pare_machine *m, const struct pare_pickled *id,
                        struct pare_pickled *v);

#endif
