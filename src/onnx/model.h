/* model.h - a loaded file: the protobuf that backs it, its pages, and the graph built on it. */
#ifndef PARE_ONNX_MODEL_H
#define PARE_ONNX_MODEL_H

#include <stdatomic.h>
#include <sys/types.h>

#include "../graph/graph.h"

struct pare_model {
    struct pare_arena *arena;
    atomic_int references;     /* freed when it becomes 0 */
    struct pare_model *base;   /* the model that this one shares memory with; NULL: none */
    struct pare_arena *shared; /* more memory that dies with the model; NULL: none */
    const char *path, *dir;    /* for messages, and where external data is looked for */
    void *proto;               /* the ModelProto; only src/onnx/ looks inside */
    struct pare_graph *graph;
    struct pare_io *in, *out; /* main graph, initializers not counted as inputs */
    int n_in, n_out;
    struct pare_pages {   /* mapped files, unmapped with the model */
        const char *name; /* as the model names it; NULL for the model itself */
        void *data;
        size_t len;
        dev_t dev;
        ino_t ino;
        bool apart; /* no file that anybody sees, see pare_scratch_pages() */
        struct pare_pages *next;
    } * pages;
    int n_beside; /* pages of files beside the model */
};

/* The model refers to memory of `base`, which is freed after it. */
void pare_model_borrow(struct pare_model *m, const struct pare_model *base);

/* A serialized TensorProto, as in the .pb files of test data sets.  The result does not refer to
 * the bytes. */
int pare_tensor_parse(const void *bytes, size_t len, struct pare_arena *a, struct pare_tensor *t,
                      const char **name, struct pare_err *err);

/* The reverse; name may be NULL. */
int pare_tensor_pack(const struct pare_tensor *t, const char *name, struct pare_arena *a,
                     void **bytes, size_t *len, struct pare_err *err);

/* Bytes of the files that the model was read from, external data included. */
double pare_model_file_bytes(const struct pare_model *m);

/* An independent copy. */
int pare_model_duplicate(const struct pare_model *m, struct pare_model **copy,
                         struct pare_err *err);

/* Can this path be written to?  Not over the file that the model was read from, nor over one that
 * its weights are in, nor over what is no file. */
int pare_model_target(const struct pare_model *m, const char *path, struct pare_err *err);

/* Another model that is what pare_model_save() would write, in pages that can be given back.  It
 * refers to memory in the arena, which must outlive it. */
int pare_model_copy(const struct pare_model *m, struct pare_arena *a, struct pare_model **copy,
                    struct pare_err *err);

/* The bytes at `data` were copied and are not needed for now: where they are pages of a mapped
 * file, let the system have them.  Whoever reads them again gets them from the file. */
void pare_model_release(const struct pare_model *m, const void *data, size_t len);

/* Make an initializer of the main graph the model's own memory, aligned and open to change: what
 * is written into v->t.data is what later plans compute with and what is saved.  The second takes
 * memory that pare_model_release() can give back. */
int pare_model_own(struct pare_model *m, struct pare_value *v, struct pare_err *err);
int pare_model_own_scratch(struct pare_model *m, struct pare_value *v, struct pare_err *err);

/* Memory behind a file without a name (scratch_pages.c): what is given back with pare_pages_release() is
 * there again when it is read.  NULL when it is little, or there is no such file; the struct is in
 * the arena. */
struct pare_pages *pare_scratch_pages(struct pare_arena *a, size_t bytes);
void pare_pages_release(const struct pare_pages *list, const void *data, size_t len);
void pare_pages_free(struct pare_pages *list);

/* pare_tensor_alloc() of such memory, put into *list; from the arena where there is none. */
int pare_tensor_scratch(struct pare_arena *a, struct pare_tensor *t, struct pare_pages **list,
                        struct pare_err *err);

/* A word about the model that is saved with it (metadata_props), in place of what was noted under
 * the key; and what is noted there, or NULL. */
int pare_model_note(struct pare_model *m, const char *key, const char *value, struct pare_err *err);
const char *pare_model_noted(const struct pare_model *m, const char *key);

/* Give the first input this shape, which must agree with what is declared, and the outputs those
 * that follow from it. */
int pare_model_fix_input(struct pare_model *m, const int64_t *dim, int rank, struct pare_err *err);

#endif
