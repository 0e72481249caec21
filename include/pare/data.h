/* data.h - data sets: by name or path, from arrays in memory, from a callback.
 *
 *     pare_data_open("fashion-mnist", "train", NULL, &data, &err);
 *
 *     struct pare_input x = { "input", { PARE_F32, 4, { n, 3, 32, 32 }, pixels } };
 *     struct pare_arrays a = { sizeof(a), "mine", n, &x, 1, &labels };
 *     pare_data_from_arrays(&a, &data, &err);
 *
 * A data set is read-only: any number of trainings and evaluations may share it.  They count
 * references to it, so it can be freed at any time.
 */
#ifndef PARE_DATA_H
#define PARE_DATA_H

#include <pare/option.h>
#include <pare/pare.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pare_data;

/* How items of a file or folder become tensors; 'pare help train' explains each option.  An image
 * is resized; in training padded; cropped (in training at random, otherwise in the center); in
 * training flipped at random; then (v / scale - mean[c]) / std[c]. */
struct pare_data_opts {
    size_t size;                   /* sizeof(struct pare_data_opts), or 0 */
    struct pare_ints resize, crop; /* S or H,W */
    bool gray;                     /* convert color images to brightness */
    const char *layout;            /* "auto", "chw", "hwc", "none" (not images); NULL: auto */
    double scale;                  /* 0: the set's own, 255 for bytes, else 1 */
    const char *norm;              /* mean and std by name, "imagenet"; NULL: the set's own */
    struct pare_floats mean, std;  /* one number or one for each channel, instead of `norm` */
    int64_t pad;
    bool flip;
    double holdout;              /* fraction of the training items that is kept for validation */
    int64_t limit;               /* use at most this many items, chosen at random; 0: all */
    int64_t batch;               /* 0: 64 */
    bool shuffle, drop_last;     /* in training only */
    bool prefetch;               /* prepare the next batch in a thread */
    const char *label, *columns; /* of a CSV file: columns, separated by commas; NULL: by name, all
                                     others */
    const char *fill;   /* a number to put after shorter items; NULL: none may be shorter */
    int64_t rate;       /* samples per second of sounds; 0: that of the first file */
    const char *pixels; /* of pixels instead of `norm`: "0..1", "-1..1", "0..255"; NULL: by norm */
    const char *channels;       /* "rgb" or "bgr"; NULL: rgb */
    bool mono;                  /* mix the channels of sounds */
    pare_progress_fn *progress; /* of opening a large set; NULL: none */
    void *user;                 /* argument of progress() */
    int64_t cutout;             /* side of a square of each training image that becomes 0 */
};

/* Open a data set by name ("digits", "fashion-mnist") or by path for a split: "train", "val" or
 * "test".  A set without parts of its own gives all of it for any split; with `holdout`, "train" is
 * one part of it and "val" and "test" are the other.  opts may be NULL: shuffled batches of 64. */
PARE_API int pare_data_open(const char *spec, const char *split, const struct pare_data_opts *opts,
                            struct pare_data **data, struct pare_err *err);

/* One input of the model, for all items. */
struct pare_input {
    const char *name; /* the model's input; NULL when the model has only one */
    struct pare_tensor
        t; /* (n, ...) in memory; with get(): (...), the type and shape of one item */
};

/* Items in memory, or made by a callback.  Values are used as they are. */
struct pare_arrays {
    size_t size;      /* sizeof(struct pare_arrays), or 0 */
    const char *name; /* for messages; NULL: "memory" */
    int64_t n;        /* number of items */
    const struct pare_input *input;
    int n_inputs;
    const struct pare_tensor *y; /* (n) int64 labels, or (n, ...) targets; NULL: no labels */

    /* Fill in[k].data, the memory of input k, with item `item`.  Called in the thread that
     * trains or evaluates.  NULL: the tensors of `input` hold all items. */
    int (*get)(void *user, int64_t item, struct pare_tensor *in, int n_in, struct pare_err *err);
    void *user;

    int64_t batch; /* 0: 64 */
    bool ordered;  /* do not shuffle in training */

    /* Change in[k].dim, at first that of input[k].t, to the shape of item `item`; get() receives
     * it.  Called for every item when the set is made.  If shapes differ, items run one by one.
     * NULL: all items have the shapes of `input`. */
    int (*shape)(void *user, int64_t item, struct pare_tensor *in, int n_in, struct pare_err *err);
};

/* Tensors of `input` and `y` must outlive the data set; the structs need not. */
PARE_API int pare_data_from_arrays(const struct pare_arrays *a, struct pare_data **data,
                                   struct pare_err *err);

PARE_API int64_t pare_data_count(const struct pare_data *data); /* items */
PARE_API bool pare_data_has_labels(const struct pare_data *data);
PARE_API void pare_data_retain(struct pare_data *data); /* one more pare_data_free() is due */
PARE_API void pare_data_free(struct pare_data *data);

#ifdef __cplusplus
}
#endif

#endif
