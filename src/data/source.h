/* source.h - what the formats of data sets share; see data.h for how sets are used.
 *
 * A format is one file with one descriptor at its bottom and one line in sources.def.  Its open()
 * leaves the items in data->parts: either all of them in memory (pare_data_arrays), or a size and
 * a read() that decodes one.
 */
#ifndef PARE_DATA_SOURCE_H
#define PARE_DATA_SOURCE_H

#include "../base/limits.h"
#include "data.h"

/* One item.  Whatever is not a picture is one with h = 1: dim[0] channels of w numbers. */
struct pare_picture {
    enum pare_dtype dtype;
    int64_t c, h, w;
    bool last; /* stored (h, w, c), else (c, h, w) */
    const void *data;
};

struct pare_source {
    const char *name, *help;
    bool by_name; /* opened by its name, not by a path */

    /* Does the path look like this format?  The first that says so is asked to open it. */
    bool (*probe)(struct pare_data *d, const char *path);

    /* For data->parts->split, which is "train", "val" or "test"; set parts->whole where there is
     * no such division.  path is NULL for sets with a name. */
    int (*open)(struct pare_data *d, const char *path, struct pare_err *err);

    /* Decode item i into memory of the arena.  NULL: parts->x has them all. */
    int (*read)(const struct pare_data *d, int64_t i, struct pare_arena *a, struct pare_picture *p,
                struct pare_err *err);
};

struct pare_data_parts {
    struct pare_arena *tmp; /* for open(): freed when the set is open */
    const char *split;
    bool whole;               /* the set has no parts: the split made no difference */
    bool picture;             /* items are (C, H, W) pictures, which can be resized and cropped */
    struct pare_tensor x;     /* (n, ...) as stored, when in memory */
    struct pare_picture form; /* of every item; h and w 0 where files differ */
    const char *norm;         /* the set's own, for "auto"; or NULL */
    double scale;             /* the set's own; 0: by type */
    int64_t *pick;            /* (n) which stored items are used; NULL: all */
    struct pare_ints resize;  /* as the options have it */
    bool cropped;             /* the window has a size of its own */
    int64_t H, W;             /* of the window that is handed out */
    int n_norm;               /* 1, or one for each channel */
    float *mean, *std;        /* (n_norm) */
    float *table;             /* (n_norm, 256) of a byte v: (v / scale - mean) / std; or NULL */
    void *priv;               /* the format's own */
    int (*get)(void *user, int64_t item, struct pare_tensor *in, int n_in, struct pare_err *err);
    void *user; /* of get(), which makes items of sets from memory; NULL: input[].t has them all */
};

/* A set without items yet, all of it in the arena. */
int pare_data_start(struct pare_arena *a, const char *spec, struct pare_data **data,
                    struct pare_err *err);

/* For open(): take over x (n, ...) and y (n, ...), both in data->arena.  y may be NULL.  Finds the
 * shape of items as opts.layout says, and makes y what data.h promises. */
int pare_data_arrays(struct pare_data *d, const struct pare_tensor *x, const struct pare_tensor *y,
                     struct pare_err *err);

/* The second half of it: labels or targets, for data->n items that are already there.  Where
 * classes_known, labels beyond are refused. */
int pare_data_targets(struct pare_data *d, const struct pare_tensor *y, struct pare_err *err);

bool pare_wants_test(const struct pare_data *d); /* split is "test" or "val" */

/* ---- files ------------------------------------------------------------------------ */

bool pare_is_dir(const char *path);
bool pare_is_file(const char *path);

/* "dir/name" when there is such a file, else NULL. */
const char *pare_file_in(struct pare_arena *a, const char *dir, const char *name);

/* The names in a directory but those that start with a dot, sorted by their bytes. */
int pare_dir_list(struct pare_arena *a, const char *dir, const char *const **names, int *n,
                  struct pare_err *err);

/* ---- an item's way into a batch ----------------------------------------------------- */

/* Bilinear as in Pillow, to the bit: shrinking averages over all pixels that are covered.  Bytes
 * only.  The result is in the arena; p itself when its size is right already. */
int pare_rescale(struct pare_arena *a, struct pare_picture *p, int64_t h, int64_t w,
                 struct pare_err *err);

/* The size after resizing an h x w picture as the options say. */
void pare_resized(const struct pare_ints *resize, int64_t h, int64_t w, int64_t *rh, int64_t *rw);

/* Item i (of data->n) as float32 in out, (C, H, W).  rng decides where it is cropped and whether
 * it is mirrored; NULL: in the middle, as it is.  The arena is for scratch. */
struct pare_rng;
int pare_item_load(const struct pare_data *d, int64_t i, struct pare_rng *rng, float *out,
                   struct pare_arena *a, struct pare_err *err);

/* Item i as it is stored, converted to another type.  Only of sets in memory. */
int pare_item_raw(const struct pare_data *d, int64_t i, enum pare_dtype dtype, void *out,
                  struct pare_err *err);

/* The shape in which a model that takes `input` gets the items: (..) without N, or an error that
 * says why there is none. */
int pare_item_shape(const struct pare_data *d, const struct pare_io *input,
                    struct pare_tensor *shape, struct pare_err *err);

/* ---- sets from memory --------------------------------------------------------------- */

/* The set's input for the model's input io[i] of n: by name, or the only one; -1: none. */
int pare_input_find(const struct pare_data *d, const struct pare_io *io, int n, int i,
                    struct pare_err *err);

/* The shape and type in which a model gets the items of input k, without N. */
int pare_input_shape(const struct pare_data *d, int k, const struct pare_io *io,
                     struct pare_tensor *shape, struct pare_err *err);

/* ---- decoders ----------------------------------------------------------------------- */

/* IDX, plain or compressed by gzip.  t->data is in the arena, or in `bytes`. */
int pare_idx_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_tensor *t,
                   struct pare_err *err);

/* Images and labels in IDX files; the labels' may be NULL. */
int pare_idx_open(struct pare_data *d, const char *images, const char *labels,
                  struct pare_err *err);

/* To bytes, red green blue, channels last. */
int pare_png_decode(struct pare_arena *a, const void *bytes, size_t len, struct pare_picture *p,
                    struct pare_err *err);
int pare_jpeg_decode(struct pare_arena *a, const void *bytes, size_t len, struct pare_picture *p,
                     struct pare_err *err);

extern const char *const pare_cifar10_names[10];

#endif
