/* pickle.h - interpreter for the pickles of torch.save; executes nothing.
 *
 * A pickle is a program for a stack machine that can call any Python function.  This interpreter
 * supports only the opcodes that torch.save emits for tensors and plain data, and calls nothing:
 * the few global names that it accepts stand for a dict, a tensor or a storage type.  Anything else
 * is an error that names it.
 */
#ifndef PARE_IO_PICKLE_H
#define PARE_IO_PICKLE_H

#include <pare/pare.h>

#include "../base/limits.h"

enum pare_pickled_kind {
    PARE_PICKLED_NONE,
    PARE_PICKLED_BOOL,  /* i */
    PARE_PICKLED_INT,   /* i */
    PARE_PICKLED_FLOAT, /* f */
    PARE_PICKLED_TEXT,  /* text */
    PARE_PICKLED_TUPLE, /* items */
    PARE_PICKLED_LIST,  /* items */
    PARE_PICKLED_DICT,  /* items: key, value, key, value, ... */
    PARE_PICKLED_TENSOR,
    PARE_PICKLED_STORAGE,
    PARE_PICKLED_GLOBAL,
    PARE_PICKLED_MARK, /* only on the interpreter's stack */
};

struct pare_batch_check;
struct pare_strided;
struct pare_storage;
struct pare_global;

struct pare_pickled {
    enum pare_pickled_kind kind;
    union {
        int64_t i;
        double f;
        struct pare_str text;
        struct pare_batch_check *items; /* may be shared, and may contain itself */
        struct pare_strided *tensor;
        struct pare_storage *storage;
        const struct pare_global *global;
    };
};

struct pare_batch_check {
    struct pare_pickled *item;
    int n, cap;
};

/* A storage: elements outside the pickle, found by a key. */
struct pare_storage {
    const char *key;
    enum pare_dtype dtype;
    int64_t numel;
    int64_t reach; /* number of elements that tensors use, at most numel */
    void *data;    /* NULL; set by the reader of the archive */
};

/* A tensor: element (i, j, ...) is number offset + i * stride[0] + j * stride[1] + ... of the
 * storage, and always inside it. */
struct pare_strided {
    struct pare_storage *storage;
    int64_t offset;
    int rank;
    int64_t dim[PARE_MAX_RANK], stride[PARE_MAX_RANK];
};

struct pare_pickle {
    struct pare_pickled root;
    struct pare_storage **storage; /* without duplicates */
    int n_storages, cap;
};

/* Run the pickle in `bytes`.  Strings point into `bytes`; everything else is in the arena. */
int pare_pickle_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_pickle *p,
                      struct pare_err *err);

#endif
