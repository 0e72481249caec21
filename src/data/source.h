/* source.h - interface of data set formats, and helpers that they share; data.h is for users of
 * sets.
 *
 * A format is one file with one descriptor at its end and one line in sources.def.  Its open()
 * stores the items in data->parts: either all of them in memory (pare_data_arrays), or their size
 * and a read() that decodes one.
 */
#ifndef PARE_DATA_SOURCE_H
#define PARE_DATA_SOURCE_H

#include "../base/limits.h"
#include "data.h"

/* One item.  Items that are not images have h = 1: dim[0] channels of w values. */
struct pare_image {
    enum pare_dtype dtype;
    int64_t c, h, w;
    bool last; /* true: stored as (h, w, c); false: as (c, h, w) */
    const void *data;
};

struct pare_source {
    const char *name, *help;
    bool by_name;     /* opened by name, not by path */
    const char *hint; /* for items without labels that do not fit the model; NULL: none */

    /* Does the path look like this format?  The first format that matches opens it. */
    bool (*probe)(struct pare_data *d, const char *path);

    /* Open the set for data->parts->split, which is "train", "val" or "test"; set parts->whole
     * if it has no splits.  path is NULL for sets with a name. */
    int (*open)(struct pare_data *d, const char *path, struct pare_err *err);

    /* Decode item i into memory of the arena.  NULL: parts->x has all items. */
    int (*read)(const struct pare_data *d, int64_t i, struct pare_arena *a, struct pare_image *p,
                struct pare_err *err);

    /* The height and width of item i, from the header of its file; the arena is for scratch memory.
     * NULL: all items have the same size. */
    int (*size)(const struct pare_data *d, int64_t i, struct pare_arena *a, int64_t *h, int64_t *w,
                struct pare_err *err);

    /* Read item i, a tensor for each input of the set, into memory of the arena; its shapes are
     * those in parts->each.  NULL: parts->each has the elements. */
    int (*load)(const struct pare_data *d, int64_t i, struct pare_arena *a, struct pare_tensor *in,
                struct pare_err *err);
};

struct pare_data_parts {
    struct pare_arena *tmp; /* for open(): freed afterward */
    double start;           /* time at which open() began */
    const char *split;
    const struct pare_io *io; /* for open(): inputs of the model; NULL: not known */
    int n_io;
    bool whole;              /* the set has no splits */
    bool is_image;           /* items are (C, H, W) images, which can be resized and cropped */
    struct pare_tensor x;    /* (n, ...) as stored, if in memory */
    struct pare_image form;  /* shape of every item; h and w are 0 if files differ */
    const char *norm;        /* the set's own normalization, for "auto"; or NULL */
    double scale;            /* the set's own scale; 0: by type */
    int64_t *pick;           /* (n) indices of the stored items in use; NULL: all */
    struct pare_ints resize; /* from the options */
    bool cropped;            /* the window has its own size */
    int64_t H, W;            /* size of the window that batches get */
    bool swapped;            /* batches have blue, green, red */
    int n_norm;              /* 1, or the number of channels */
    float *mean, *std;       /* (n_norm) */
    float *table;            /* (n_norm, 256): (v / scale - mean) / std of each byte v; or NULL */
    void *priv;              /* private to the format */
    int (*get)(void *user, int64_t item, struct pare_tensor *in, int n_in, struct pare_err *err);
    void *user;  /* argument of get(), which makes items; get NULL: input[].t has all items */
    bool *every; /* by input: its value is for all items; NULL: none is */
    struct pare_tensor *each; /* (stored items, inputs): items one by one; NULL: input[].t has
                               * all of them, else the shape of the first */
};

/* A set without items, allocated in the arena. */
int pare_data_start(struct pare_arena *a, const char *spec, struct pare_data **data,
                    struct pare_err *err);

/* For open(): use x (n, ...) and y (n, ...), both in data->arena, as items and labels.  y may be
 * NULL.  Determines the shape of items from opts.layout, and converts y to the form of data.h. */
int pare_data_arrays(struct pare_data *d, const struct pare_tensor *x, const struct pare_tensor *y,
                     struct pare_err *err);

/* For open(): a set of several inputs; input[k].t (items, ...) and its name are in data->arena. */
int pare_data_inputs(struct pare_data *d, const struct pare_input *input, int n, int64_t items,
                     struct pare_err *err);

/* For open(): a set whose items are tensors of their own, in parts->each; the names of the inputs
 * are in data->arena.  Items of different shapes are run one by one. */
int pare_data_each(struct pare_data *d, const char *const *name, int n_inputs, int64_t items,
                   struct pare_err *err);

/* For open(): the same with one array for each of parts->io, whose axes may be in another order
 * (named_arrays.c). */
int pare_data_named(struct pare_data *d, struct pare_input *input, struct pare_err *err);

/* Set labels or targets of data->n items that are already set.  If classes_known, larger labels
 * are an error. */
int pare_data_targets(struct pare_data *d, const struct pare_tensor *y, struct pare_err *err);

/* Add a note if an array of the set has a value that is not a number (NaN). */
int pare_data_note_nan(struct pare_data *d, struct pare_err *err);

/* Copy the labels of an item to place i of a batch, in the batch's type. */
int pare_target_put(const struct pare_tensor *to, int64_t i, const struct pare_tensor *from,
                    int64_t item, struct pare_err *err);

/* Join n tensors along their first axis, in data->arena.  Their other dimensions agree, or (option
 * 'fill') are padded. */
int pare_tensors_join(struct pare_data *d, const struct pare_tensor *const *t, int n,
                      struct pare_tensor *all, struct pare_err *err);

/* The number of the option 'fill'; 0 if it is not given. */
int pare_data_fill(const struct pare_data *d, float *v, struct pare_err *err);

/* For open(): whether it is the name of an input of the model, so not that of the labels. */
bool pare_names_input(const struct pare_data *d, const char *name);

/* For open(): show progress, in units of `what`; an error if it is canceled. */
int pare_open_progress(const struct pare_data *d, const char *what, int64_t done, int64_t total,
                       struct pare_err *err);

bool pare_wants_test(const struct pare_data *d); /* split is "test" or "val" */

/* ---- files ------------------------------------------------------------------------ */

bool pare_is_dir(const char *path);
bool pare_is_file(const char *path);

/* "dir/name" if the file exists, else NULL. */
const char *pare_file_in(struct pare_arena *a, const char *dir, const char *name);

/* The names in a folder except those that start with a dot, sorted by bytes. */
int pare_dir_list(struct pare_arena *a, const char *dir, const char *const **names, int *n,
                  struct pare_err *err);

/* ---- items of a batch --------------------------------------------------------------- */

/* Bilinear resize as in Pillow, to the bit: shrinking averages over all covered pixels.  Bytes
 * only.  The result is in the arena, or p itself if it has the right size. */
int pare_rescale(struct pare_arena *a, struct pare_image *p, int64_t h, int64_t w,
                 struct pare_err *err);

/* The size of an h x w image after resizing by the options. */
void pare_resized(const struct pare_ints *resize, int64_t h, int64_t w, int64_t *rh, int64_t *rw);

/* Item i (of data->n) as float32 in out, (C, H, W).  rng chooses crop and mirroring; NULL:
 * center crop, not mirrored.  The arena is for scratch memory. */
struct pare_rng;
int pare_item_load(const struct pare_data *d, int64_t i, struct pare_rng *rng, float *out,
                   struct pare_arena *a, struct pare_err *err);

/* For sets whose images are resized to different sizes: they run one by one. */
int pare_image_sizes(struct pare_data *d, struct pare_err *err);

/* Check that a model with this input takes images of h x w. */
int pare_image_check(const struct pare_data *d, int64_t h, int64_t w, const struct pare_io *input,
                     struct pare_err *err);

/* Item i in its own size, float32 in the arena: (C, H, W) of an image. */
int pare_item_own(const struct pare_data *d, int64_t i, struct pare_rng *rng, struct pare_arena *a,
                  struct pare_tensor *t, struct pare_err *err);

/* Item i of a set with parts->each: a tensor for each input of the set. */
int pare_item_tensors(const struct pare_data *d, int64_t i, struct pare_arena *a,
                      struct pare_tensor *in, struct pare_err *err);

/* (C, H, W) to (H, W, C). */
void pare_item_turn(const float *from, float *to, int64_t channels, int64_t pixels);

/* Item i as stored, converted to another type.  Only for sets in memory. */
int pare_item_raw(const struct pare_data *d, int64_t i, enum pare_dtype dtype, void *out,
                  struct pare_err *err);

/* The shape of items for a model with this input, without N, or an error with the reason. */
int pare_item_shape(const struct pare_data *d, const struct pare_io *input,
                    struct pare_tensor *shape, struct pare_err *err);

/* The shape and type in which a model with this input, whose items are on axis 0, gets an item of
 * the set; of the rank of the input if that has no axis for a batch. */
int pare_item_fit(const struct pare_data *d, const struct pare_tensor *item,
                  const struct pare_io *input, struct pare_tensor *shape, struct pare_err *err);

/* Whether the model takes the set's images as (H, W, C). */
bool pare_item_last(const struct pare_data *d, const struct pare_io *input);

/* ---- sets from memory --------------------------------------------------------------- */

/* The set's input for the model's input io[i] of n: by name, or the only one; -1: none. */
int pare_input_find(const struct pare_data *d, const struct pare_io *io, int n, int i,
                    struct pare_err *err);

/* The axis of the model's input io[i] that has the items; -1: none, all items share the value. */
int pare_batch_axis(const struct pare_io *io, int i);

/* Check that the first input does not name another axis than its first as the batch. */
int pare_batch_check(const struct pare_io *io, struct pare_err *err);

/* io[i] with that axis first; without one, as if it had one in front. */
struct pare_io pare_io_items(const struct pare_io *io, int i);

/* The shape and type in which a model gets the items of input k for io[i], without N. */
int pare_input_shape(const struct pare_data *d, int k, const struct pare_io *io, int i,
                     struct pare_tensor *shape, struct pare_err *err);

/* Store one item as item i of the batch `to`, whose items are on this axis; -1: as all of it. */
int pare_item_put(const struct pare_tensor *to, int axis, int64_t i, enum pare_dtype dtype,
                  const void *from, struct pare_err *err);

/* Input k of one item as stored. */
struct pare_tensor pare_input_item(const struct pare_data *d, int k);

/* ---- decoders ----------------------------------------------------------------------- */

/* IDX, plain or gzip-compressed.  t->data is in the arena, or in `bytes`. */
int pare_idx_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_tensor *t,
                   struct pare_err *err);

/* Images and labels in IDX files; the labels' may be NULL. */
int pare_idx_open(struct pare_data *d, const char *images, const char *labels,
                  struct pare_err *err);

/* Decode to bytes, red, green, blue, channels last. */
int pare_png_decode(struct pare_arena *a, const void *bytes, size_t len, struct pare_image *p,
                    struct pare_err *err);
int pare_jpeg_decode(struct pare_arena *a, const void *bytes, size_t len, struct pare_image *p,
                     struct pare_err *err);

extern const char *const pare_cifar10_names[10];

#endif
