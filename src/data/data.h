/* data.h - data sets, and loaders that make batches of them.
 *
 *     pare_data_open("fashion-mnist", "train", NULL, &data, err);
 *     pare_loader_new(data, &(struct pare_loader_opts){ .train = true, .seed = 1 }, &l, err);
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         while (!(rc = pare_loader_next(l, &b, err)) && b)
 *             ... b->x (N, C, H, W) float32, b->y (N) int64 ...
 *
 * A set is opened by name ("digits", "fashion-mnist") or by path; sources.def lists the formats.
 * The contents of a batch depend only on the set, the options, the seed, the epoch and the
 * position: not on threads, nor on earlier batches.
 */
#ifndef PARE_DATA_DATA_H
#define PARE_DATA_DATA_H

#include <stdatomic.h>

#include <pare/data.h>
#include <pare/plugin.h>

/* ---- options -------------------------------------------------------------------- */

/* The table of struct pare_data_opts. */
extern const struct pare_opt pare_data_options[];

/* ---- data sets ------------------------------------------------------------------ */

struct pare_source;
struct pare_data_parts;

/* An open data set.  Read-only: any number of loaders may share it. */
struct pare_data {
    const struct pare_source *source;
    const char *name;              /* as given by the caller */
    int64_t n;                     /* items */
    struct pare_tensor item;       /* type and shape of an item of a batch, mostly (C, H, W)
                                       float32; data is NULL */
    enum pare_dtype dtype;         /* stored element type */
    struct pare_tensor y;          /* (n) int64 labels, or (n, ...) int64 or float32 targets;
                                       data is NULL if there are none */
    int64_t classes;               /* 0 if y is not int64 */
    bool single;                   /* items have different shapes: a batch has one item */
    bool classes_known;            /* false: `classes` is the largest label + 1 */
    const char *note;              /* what was done to fit the model; NULL: nothing to say */
    const char *const *class_name; /* (classes) or NULL */
    struct pare_data_opts opts;    /* lists are not copied */
    struct pare_arena *arena;
    struct pare_data_parts *parts;  /* private to src/data: see source.h */
    const struct pare_input *input; /* (n_inputs) arrays named as the model's inputs; the
                                     * first is `item` */
    int n_inputs;                   /* 0: the set has one input */
    struct pare_data *whole;        /* the set that this is a part of, retained; or NULL */
    atomic_int references;
};

/* A part of a set: n items chosen at random, always the same ones, or (`those` false) all others.
 * Labels are copied; the files are those of `whole`, to which it keeps a reference. */
int pare_data_part(struct pare_data *whole, int64_t n, bool those, struct pare_data **part,
                   struct pare_err *err);

/* Open a set for a model: an archive of arrays may then have one array per input. */
struct pare_data_request {
    const char *spec, *split;
    const struct pare_io *io; /* the model's inputs; NULL: not known */
    int n_io;
};
int pare_data_open_for(const struct pare_data_request *r, const struct pare_data_opts *opts,
                       struct pare_data **data, struct pare_err *err);

/* Check that the items fit a model with this input.  Shapes with the same elements in the same
 * order agree ((1, 28, 28) and (784)); free dimensions agree with anything. */
int pare_data_check(const struct pare_data *data, const struct pare_io *input,
                    struct pare_err *err);

/* Whether an item is all of the model's first input, which has no axis for a batch. */
bool pare_data_is_whole(const struct pare_data *data, const struct pare_io *io, int n_io);

/* Check that class labels fit a model with n_out outputs per item; 0: unknown. */
int pare_data_check_classes(const struct pare_data *data, int64_t n_out, struct pare_err *err);

/* For calibration, which needs no labels: drop those that do not fit; data->note says why. */
int pare_data_drop_labels(struct pare_data *data, const char *why, struct pare_err *err);

/* The formats, for lists and help; the last is NULL. */
extern const struct pare_source *const pare_sources[];
const char *pare_source_name(const struct pare_source *s);
const char *pare_source_help(const struct pare_source *s);

/* ---- batches -------------------------------------------------------------------- */

struct pare_loader;

struct pare_loader_opts {
    bool train;    /* shuffle and augment, as the set's options specify */
    bool random;   /* items in random order, also without `train` */
    bool same;     /* every epoch has the order of the first; augmentation differs */
    int64_t batch; /* items per batch; 0: from the set's options.  A batch has one item if items
                      have different shapes, or if the model's input has no axis for a batch */
    bool float_y;  /* labels of batches are float32, also those of integers */
    uint64_t seed;
    const struct pare_io *input; /* the model's inputs, which batches then match; or NULL */
    int n_inputs;                /* number of inputs; 0 means 1 */

    /* Several processes share the set: this is rank `rank` of `ranks` (0 and 0: one process).
     * Each gets its share of every batch or, with `deal`, every ranks-th batch completely. */
    int rank, ranks;
    bool deal;
};

#define PARE_DATA_INPUTS 256  /* maximum number of inputs of a batch */
#define PARE_DATA_OUTPUTS 256 /* maximum number of outputs of a model that runs on batches */

struct pare_batch {
    struct pare_tensor x;   /* (N, ...) items; in the shape and type of the model's input, else as
                                   data->item.  Integer inputs get the values as stored. */
    struct pare_tensor *in; /* all inputs of the model, in its order; in[0] is x */
    int n_in;
    const int *axis;      /* by input: the axis with the items; -1: none, it is for all items */
    struct pare_tensor y; /* (N) or (N, ...) as data->y; data is NULL if there are none */
    const int64_t *index; /* (N): indices of the items */

    /* Items of the batch in all processes, and in this one.  If a batch has fewer items than
     * there are processes, `own` is 0 for some; then x has an item of another process. */
    int64_t whole, own;
};

/* The items of a batch in this process. */
static inline int64_t pare_batch_items(const struct pare_batch *b)
{
    return b->axis[0] < 0 ? 1 : b->x.dim[b->axis[0]];
}

/* Position of a loader, for checkpoints. */
struct pare_loader_pos {
    uint64_t seed;
    int64_t epoch;
    int64_t at;       /* batches returned in this epoch */
    int64_t n, batch; /* items and batch size; seeking to a position with others is an error */
};

/* The set must outlive the loader.  After the first batch only image decoders allocate memory. */
int pare_loader_new(const struct pare_data *data, const struct pare_loader_opts *opts,
                    struct pare_loader **loader, struct pare_err *err);

/* Get the next batch, valid until the next call; *batch is NULL at the end of an epoch, and the
 * following call starts the next epoch.  Only the last batch may be smaller than the others. */
int pare_loader_next(struct pare_loader *l, const struct pare_batch **batch, struct pare_err *err);

int64_t pare_loader_batches(const struct pare_loader *l);    /* per epoch, in this process */
int64_t pare_loader_batch_size(const struct pare_loader *l); /* of all except possibly the last */
struct pare_loader_pos pare_loader_tell(const struct pare_loader *l);
int pare_loader_seek(struct pare_loader *l, const struct pare_loader_pos *pos,
                     struct pare_err *err);
void pare_loader_free(struct pare_loader *l); /* NULL is allowed */

#endif
