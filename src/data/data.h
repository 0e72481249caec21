/* data.h - data sets, and the batches made of them.
 *
 *     pare_data_open("fashion-mnist", "train", NULL, &data, err);
 *     pare_loader_new(data, &(struct pare_loader_opts){ .train = true, .seed = 1 }, &l, err);
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         while (!(rc = pare_loader_next(l, &b, err)) && b)
 *             ... b->x (N, C, H, W) float32, b->y (N) int64 ...
 *
 * A set is opened by name ("digits", "fashion-mnist") or by path; sources.def lists the formats.
 * What a batch holds depends only on the set, the options, the seed, the epoch and the position:
 * not on threads, nor on what was read before.
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

/* An opened set.  Read-only: any number of loaders may share it. */
struct pare_data {
    const struct pare_source *source;
    const char *name;              /* as it was asked for */
    int64_t n;                     /* items */
    struct pare_tensor item;       /* type and shape of one as batches have it, mostly
                                       (C, H, W) float32; data is NULL */
    enum pare_dtype dtype;         /* of the elements as they are stored */
    struct pare_tensor y;          /* (n) int64 labels, or (n, ...) int64 or float32 targets;
                                       data is NULL when there are none */
    int64_t classes;               /* 0 when y is not int64 */
    bool classes_known;            /* false: only the largest label is known, plus one */
    const char *const *class_name; /* `classes` of them, or NULL */
    struct pare_data_opts opts;    /* without the lists */
    struct pare_arena *arena;
    struct pare_data_parts *parts; /* for this folder: see source.h */
    const struct pare_input *input; /* (n_inputs) of a set from memory, whose first is `item` */
    int n_inputs;                   /* 0: the set was read from files and has one input */
    atomic_int references;
};

/* Can the model that takes `input` be trained or judged with this set?  Shapes that have the same
 * elements in the same order agree ((1, 28, 28) and (784)), as do free dimensions and anything.
 * n_out is the number of outputs for each item, such as logits; 0: not known. */
int pare_data_check(const struct pare_data *data, const struct pare_io *input, int64_t n_out,
                    struct pare_err *err);

/* The formats, for lists and help; the last is NULL. */
extern const struct pare_source *const pare_sources[];
const char *pare_source_name(const struct pare_source *s);
const char *pare_source_help(const struct pare_source *s);

/* ---- batches -------------------------------------------------------------------- */

struct pare_loader;

struct pare_loader_opts {
    bool train;    /* shuffle and vary the items as the set's options say */
    int64_t batch; /* 0: as the set's options say */
    uint64_t seed;
    const struct pare_io *input; /* the model's inputs, which batches then fit: see x; or NULL */
    int n_inputs;                /* of `input`; 0: 1 */

    /* Several processes share the set: this is number `rank` of `ranks` (0 and 0: alone).  Each
     * gets its part of every batch or, with `deal`, every ranks-th batch whole. */
    int rank, ranks;
    bool deal;
};

#define PARE_DATA_INPUTS 16 /* inputs that a batch has at most */

struct pare_batch {
    struct pare_tensor x; /* (N, ...) items; in the shape and type of the model's input, else
                                   as data->item.  Integer inputs get the numbers as stored. */
    struct pare_tensor *in; /* all inputs of the model, in its order; in[0] is x */
    int n_in;
    struct pare_tensor y; /* (N) or (N, ...) as data->y; data NULL when there are none */
    const int64_t *index; /* (N): which items these are */

    /* Items of the batch in all processes, and how many of them these are.  Where a batch has fewer
     * items than there are processes `own` is 0 for some; then x has one of another's. */
    int64_t whole, own;
};

/* Where a loader is, to be stored and to continue from.  All of it is numbers. */
struct pare_loader_pos {
    uint64_t seed;
    int64_t epoch;
    int64_t at;       /* batches handed out in this epoch */
    int64_t n, batch; /* of what; seeking refuses another */
};

/* The set must outlive the loader.  Nothing is allocated from the first batch to the last, but
 * what picture files need. */
int pare_loader_new(const struct pare_data *data, const struct pare_loader_opts *opts,
                    struct pare_loader **loader, struct pare_err *err);

/* The next batch, which is valid until the next call; *batch is NULL at the end of an epoch, and
 * the call after that starts another.  Only the last batch may be smaller than the others. */
int pare_loader_next(struct pare_loader *l, const struct pare_batch **batch, struct pare_err *err);

int64_t pare_loader_batches(const struct pare_loader *l);    /* in an epoch, of this process */
int64_t pare_loader_batch_size(const struct pare_loader *l); /* of all but perhaps the last */
struct pare_loader_pos pare_loader_tell(const struct pare_loader *l);
int pare_loader_seek(struct pare_loader *l, const struct pare_loader_pos *pos,
                     struct pare_err *err);
void pare_loader_free(struct pare_loader *l); /* NULL is fine */

#endif
