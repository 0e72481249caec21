/* pickle_machine.h - between pickle.c, which runs a pickle, and pickle_calls.c. */
#ifndef PARE_IO_PICKLE_MACHINE_H
#define PARE_IO_PICKLE_MACHINE_H

#include "pickle.h"

#include "../base/map.h"

struct pare_machine {
    struct pare_arena *arena;
    const unsigned char *begin, *at, *end;
    struct pare_pickled *stack, *memo;
    int n, cap, n_memo, memo_cap, objects;
    struct pare_map keys; /* of storages */
    struct pare_pickle *out;
    bool done;
    struct pare_err *err;
};

/* What a global name stands for. */
struct pare_global {
    const char *module, *name;
    int (*call)(struct pare_machine *m, const struct pare_batch_check *args,
                struct pare_pickled *out);
    enum pare_dtype dtype; /* of a storage's type, which is not called */
};

int pare_pickle_bad(struct pare_machine *m, const char *what);
int pare_pickle_no_memory(struct pare_machine *m);

/* Zeroed and counted; NULL leaves the error. */
void *pare_pickle_object(struct pare_machine *m, size_t size);
int pare_pickle_items(struct pare_machine *m, enum pare_pickled_kind kind, struct pare_pickled *v);

/* In pickle_calls.c: the global of this name, or an error that names it; the storage that a
 * persistent id tells of. */
int pare_pickle_global(struct pare_machine *m, struct pare_str module, struct pare_str name,
                       struct pare_pickled *v);
int pare_pickle_storage(struct pare_machine *m, const struct pare_pickled *id,
                        struct pare_pickled *v);

#endif
