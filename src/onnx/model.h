/* model.h - struct pare_model: a loaded file with its protobuf, mapped pages and graph. */
#ifndef PARE_ONNX_MODEL_H
#define PARE_ONNX_MODEL_H

#include <stdatomic.h>
#include <sys/types.h>

#include "../graph/graph.h"

/* A model has two views of the same data.  `proto` is the file's ModelProto; saving writes it.
 * `graph` is built from it once, and plans, compressions and speedup work on the graph or on
 * clones of it.  Constants of the graph point to the weights of the protobuf, and those into the
 * mapped file: loading copies no weights. */
struct pare_stored;

struct pare_model {
    struct pare_arena *arena; /* the model itself, its protobuf structs and its graph */
    atomic_int references;    /* pare_model_free() frees the model when it becomes 0 */
    struct pare_model *base; /* the model whose memory this one shares and holds a reference to, for
                               * example the one that it was edited from (edit.h); NULL: none */
    const struct pare_model *around; /* of a body's model (body_model.h): the model with the body,
                                      * whose names are taken; NULL: none */
    struct pare_arena *shared;       /* more memory that is freed with the model; NULL: none */
    struct pare_model *adopted;      /* the memory of edits that this model has taken; NULL: none */
    const char *path;                /* for error messages */
    const char *dir;                 /* the folder of external data; NULL: none */
    void *proto;                     /* Onnx__ModelProto, used in src/onnx/ only */
    const void *file;   /* the protobuf as it was read, if intake changed `proto` and nothing
                                * else did: saving writes it.  NULL: saving writes `proto` */
    const void *narrow; /* the protobuf as it was read, if intake only made float16, bfloat16 or
                         * float64 float32 (intake/widen_compute.c); else NULL */
    const void *wide;   /* with `narrow`: what `proto` was then */
    struct pare_load_opts how;        /* how it was loaded */
    struct pare_intake_count *intake; /* one per step of intake (intake/intake.h) */
    int n_intake;
    struct pare_stored
        *stored;    /* types that weights had in the file (stored_types.h); NULL: none */
    bool any_batch; /* inputs and outputs with a declared batch of 1 accept any batch in memory;
                     * saving writes the declared one (plan/batch/free_batch.h) */
    const char *one_batch;    /* why the batch of 1 cannot be freed; NULL: not known */
    struct pare_graph *graph; /* the main graph, with the shapes that the file declares */
    struct pare_io *in, *out; /* inputs, without initializers, and outputs of the main graph */
    int n_in, n_out;
    int builds;           /* how often `graph` was built; for tests */
    struct pare_pages {   /* mapped files, unmapped with the model */
        const char *name; /* location of external data; NULL: the model file, or scratch */
        void *data;
        size_t len;
        dev_t dev; /* identifies the file; not set for scratch */
        ino_t ino;
        bool scratch; /* memory of pare_scratch_pages(), not a user's file */
        struct pare_pages *next;
    } * pages;
    int n_external; /* number of external data files in `pages` */
};

/* Let m refer to memory of `base`: base is freed after m. */
void pare_model_borrow(struct pare_model *m, const struct pare_model *base);

/* Something changes the model: from now on saving writes what intake made of the file. */
static inline void pare_model_touch(struct pare_model *m)
{
    m->file = NULL;
}

/* Make m what was made of it by an edit, which is freed: m keeps its address, its notes about
 * intake and the protobuf that was read.  Values and nodes of the graph from before stay valid
 * memory, but no longer belong to the model. */
void pare_model_adopt(struct pare_model *m, struct pare_model *edited);

/* Add to the count of a step of intake. */
void pare_model_counted(struct pare_model *m, const char *step, int64_t n);

/* ---- serialized forms ------------------------------------------------------------------------ */

/* Parse a serialized TensorProto, as in the .pb files of test data sets.  The result does not
 * refer to the bytes. */
int pare_tensor_parse(const void *bytes, size_t len, struct pare_arena *a, struct pare_tensor *t,
                      const char **name, struct pare_err *err);

/* Serialize a tensor; name may be NULL. */
int pare_tensor_pack(const struct pare_tensor *t, const char *name, struct pare_arena *a,
                     void **bytes, size_t *len, struct pare_err *err);

/* pare_model_parse() with options; opts may be NULL. */
int pare_model_parse_with(const void *data, size_t len, const char *dir,
                          const struct pare_load_opts *opts, struct pare_model **model,
                          struct pare_err *err);

/* Quantization of a layer of a quantized model: of its weight, input and output, as
 * pare_model_layer_quant() returns them. */
struct pare_layer_scales {
    const char *name;             /* the second weight of a recurrent layer is a layer "NAME.R" */
    const struct pare_node *node; /* of a graph with shapes, as the values are */
    const struct pare_value *weight, *bias; /* dequantized, or an integer operator's; NULL: none */
    struct pare_model_quant q[3];           /* dtype PARE_NONE: float, or computed at run time */
};

/* The layers of which something is quantized.  Everything is in the arena. */
int pare_model_scales(const struct pare_model *m, struct pare_arena *a,
                      struct pare_layer_scales **list, int *n, struct pare_err *err);

/* A clone of the graph with shapes for a batch of 1, and its layers. */
struct pare_layer_info;
int pare_model_find_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                           struct pare_layer_info **list, int *n, struct pare_err *err);

/* The type that an initializer had in the file if intake made it float32; else PARE_NONE. */
enum pare_dtype pare_model_stored_type(const struct pare_model *m, const char *name);

/* Bytes of the files that the model was read from, external data included. */
double pare_model_file_bytes(const struct pare_model *m);

/* Size of the message that saving would write, without external data. */
double pare_model_message_bytes(const struct pare_model *m);

/* Make an independent copy: it shares no memory with m. */
int pare_model_duplicate(const struct pare_model *m, struct pare_model **copy,
                         struct pare_err *err);

/* Check that the path can be written: it is not the file that the model was loaded from, not one
 * of its external data files, and not something other than a regular file. */
int pare_model_target(const struct pare_model *m, const char *path, struct pare_err *err);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Release the pages of the mapped files that hold these bytes, or all pages.  Reading them again
 * reloads them from the file. */
void pare_model_release(const struct pare_model *m, const void *data, size_t len);
void pare_model_release_all(const struct pare_model *m);

/* Make an initializer of the main graph writable: copy it to aligned memory of the model.  Later
 * plans compute with, and saving writes, what is stored in v->t.data.  The second function takes
 * scratch memory, which pare_model_release() can drop. */
int pare_model_own(struct pare_model *m, struct pare_value *v, struct pare_err *err);
int pare_model_own_scratch(struct pare_model *m, struct pare_value *v, struct pare_err *err);

/* Memory backed by an unlinked temporary file (scratch_pages.c): pages released with
 * pare_pages_release() are re-read on access.  NULL: `bytes` is small, or the file cannot be
 * created.  The struct is allocated in the arena. */
struct pare_pages *pare_scratch_pages(struct pare_arena *a, size_t bytes);
void pare_pages_release(const struct pare_pages *list, const void *data, size_t len);
void pare_pages_free(struct pare_pages *list);

/* Allocate a tensor's data as scratch pages, added to *list, or in the arena if there are none. */
int pare_tensor_scratch(struct pare_arena *a, struct pare_tensor *t, struct pare_pages **list,
                        struct pare_err *err);

/* ---- notes and shapes ------------------------------------------------------------------------ */

/* Set a key-value note that is saved with the model (metadata_props), or read it; NULL: no such
 * note. */
int pare_model_note(struct pare_model *m, const char *key, const char *value, struct pare_err *err);
const char *pare_model_noted(const struct pare_model *m, const char *key);

/* Fix the shape of the first input, which must agree with the declared one, and declare the shapes
 * of the outputs that follow from it.  Edited models share the declarations with their base.
 * *before, in the arena, is for pare_model_restore_shapes(), which declares the shapes from before
 * this call again; on error nothing has changed.  before may be NULL. */
struct pare_declared_shapes;
int pare_model_fix_input(struct pare_model *m, const int64_t *dim, int rank, struct pare_arena *a,
                         struct pare_declared_shapes **before, struct pare_err *err);
void pare_model_restore_shapes(struct pare_model *m, const struct pare_declared_shapes *before);

#endif
