/* onnx_test_data.c - test data sets of ONNX models.
 *
 * A folder with input_0.pb, input_1.pb, ... and output_0.pb, or one with several such folders named
 * test_data_set_0, test_data_set_1, ..., as in the ONNX model zoo.  The first dimension of a tensor
 * is the number of items.  Sets of different shapes run one by one, and so do those of a model
 * whose input has no axis for a batch.
 */
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../io/tensor_pb.h"
#include "../tensor/tensor.h"

#define MAX_SETS 4096

struct set {
    struct pare_tensor in[PARE_DATA_INPUTS], out;
    int n_in;
    bool has_out;
};

static bool probe(struct pare_data *d, const char *path)
{
    return pare_is_dir(path) && (pare_file_in(d->arena, path, "input_0.pb") ||
                                 pare_file_in(d->arena, path, "test_data_set_0/input_0.pb"));
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_inputs(struct pare_arena *a, const char *dir, struct set *s, struct pare_err *err)
{
    for (;; s->n_in++) {
        const char *file = pare_sprintf(a, "input_%d.pb", s->n_in), *path, *name;

        path = file ? pare_file_in(a, dir, file) : NULL;
        if (!path)
            break;
        if (s->n_in == PARE_DATA_INPUTS)
            return pare_fail(err, PARE_ELIMIT, "%s: more than %d inputs", dir, PARE_DATA_INPUTS);
        PARE_TRY(pare_pb_read(a, path, &s->in[s->n_in], &name, err));
        if (s->in[s->n_in].dtype == PARE_STR)
            return pare_fail(err, PARE_EUNSUPPORTED, "%s: strings, only numbers are supported",
                             path);
    }
    if (!s->n_in)
        return pare_fail(err, PARE_EIO, "%s: no input_0.pb there", dir);
    return s->in[0].rank ? 0
                         : pare_fail(err, PARE_ESHAPE,
                                     "%s/input_0.pb: a single number, not a list of items", dir);
}

static int read_set(struct pare_arena *a, const char *dir, struct set *s, struct pare_err *err)
{
    const char *out = pare_file_in(a, dir, "output_0.pb"), *name;

    *s = (struct set){ .has_out = out != NULL };
    PARE_TRY(read_inputs(a, dir, s, err));
    if (!out)
        return 0;
    PARE_TRY(pare_pb_read(a, out, &s->out, &name, err));
    /* The outputs of a detector, for example, are not those of one item each. */
    s->has_out = s->out.rank && s->in[0].dim[0] == s->out.dim[0];
    return 0;
}

/* All of test_data_set_0, test_data_set_1, ... up to the first that does not exist. */
static int read_sets(struct pare_arena *a, const char *path, struct set **s, int *n,
                     struct pare_err *err)
{
    bool alone = pare_file_in(a, path, "input_0.pb") != NULL;
    int cap = 0;

    *s = NULL;
    for (*n = 0; !*n || !alone; ++*n) {
        const char *dir = alone ? path : pare_sprintf(a, "%s/test_data_set_%d", path, *n);

        if (*n && dir && !pare_is_dir(dir))
            break;
        *s = dir && *n < MAX_SETS ? pare_grow(a, *s, *n, &cap, sizeof(**s)) : NULL;
        if (!*s)
            return pare_fail(err, PARE_ELIMIT, "%s: more than %d sets, or no memory", path, *n);
        PARE_TRY(read_set(a, dir, *s + *n, err));
        if ((*s)[*n].n_in != (*s)[0].n_in)
            return pare_fail(err, PARE_EIO, "%s: test_data_set_%d has %d inputs, the first has %d",
                             path, *n, (*s)[*n].n_in, (*s)[0].n_in);
    }
    return 0;
}

/* ---- one set --------------------------------------------------------------------------------- */

/* Input k of all sets, or (k < 0) their outputs. */
static int join(struct pare_data *d, const struct set *s, int n, int k, struct pare_tensor *all,
                struct pare_err *err)
{
    const struct pare_tensor **t = pare_alloc(d->parts->tmp, (size_t)n, sizeof(*t));

    if (!t)
        return pare_no_memory(err, "for a data set");
    for (int i = 0; i < n; i++)
        t[i] = k < 0 ? &s[i].out : &s[i].in[k];
    return pare_tensors_join(d, t, n, all, err);
}

/* Values that all items share are those of the first set. */
static int several_inputs(struct pare_data *d, const struct set *s, int n, struct pare_err *err)
{
    const struct pare_io *io = d->parts->io;
    struct pare_input *in = pare_alloc(d->arena, (size_t)s->n_in, sizeof(*in));

    if (!in)
        return pare_no_memory(err, "for a data set");
    if (d->parts->n_io != s->n_in)
        return pare_fail(err, PARE_ESHAPE, "it has %d inputs, the model takes %d", s->n_in,
                         d->parts->n_io);
    for (int k = 0; k < s->n_in; k++) {
        int axis = pare_batch_axis(io, k);

        if (axis > 0 && n > 1)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "input '%s' has its batch on axis %d; use a single test_data_set",
                             io[k].name, axis);
        in[k].name = pare_strdup(d->arena, io[k].name);
        if (!in[k].name)
            return pare_no_memory(err, "for a data set");
        PARE_TRY(pare_at(err, join(d, s, axis < 0 || !s->in[k].rank ? 1 : n, k, &in[k].t, err),
                         "input_%d.pb", k));
    }
    return pare_data_named(d, in, err);
}

/* ---- one by one ------------------------------------------------------------------------------ */

/* Is each set one run of a model whose first input has no axis for a batch?  The input's first
 * dimension is fixed, and the outputs have another. */
static bool are_whole(const struct pare_data *d, const struct set *s, int n)
{
    const struct pare_io *io = d->parts->n_io ? d->parts->io : NULL;
    bool other = false;

    if (!io || io->rank < 1 || io->dim[0] < 2)
        return false;
    for (int i = 0; i < n; i++) {
        if (s[i].in[0].rank != io->rank || s[i].in[0].dim[0] != io->dim[0])
            return false;
        other |= !s[i].has_out;
    }
    return other;
}

static bool same_values(const struct pare_tensor *a, const struct pare_tensor *b)
{
    size_t bytes = (size_t)pare_numel(a) * pare_dtype_size(a->dtype);

    return pare_same_shape(a, b) && (!bytes || !memcmp(a->data, b->data, bytes));
}

/* Do sets differ in shape, or in a value that all items of a batch share? */
static bool differ(const struct pare_data *d, const struct set *s, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = 0; k < s->n_in; k++) {
            bool shared = d->parts->n_io > k && k && pare_batch_axis(d->parts->io, k) < 0;
            struct pare_tensor one = s[0].in[k], other = s[i].in[k];

            if (one.rank != other.rank || one.dtype != other.dtype)
                return false; /* join() says so */
            if (shared && !same_values(&one, &other))
                return true;
            one.dim[0] = other.dim[0] = 1;
            if (!shared && !pare_same_shape(&one, &other))
                return true;
        }
    return false;
}

/* Item `row` of a set: input k as the model gets it, without the axis of the batch. */
static int take_row(const struct pare_data *d, const struct set *s, int k, int64_t row, bool whole,
                    struct pare_tensor *t, struct pare_err *err)
{
    int axis = d->parts->n_io > k ? pare_batch_axis(d->parts->io, k) : 0;
    int64_t items = s->in[0].dim[0];

    *t = s->in[k];
    if (whole || axis < 0 || !t->rank)
        return 0;
    if (axis >= t->rank || t->dim[axis] != items || (axis && items != 1))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "input_%d.pb has its batch on axis %d; a set of one item is needed", k,
                         axis);
    memmove(t->dim + axis, t->dim + axis + 1, (size_t)(t->rank - axis - 1) * sizeof(*t->dim));
    t->rank--;
    t->data = (char *)t->data + (size_t)(row * pare_numel(t)) * pare_dtype_size(t->dtype);
    return 0;
}

static int copy_rows(struct pare_data *d, const struct set *s, int n, bool whole,
                     struct pare_err *err)
{
    struct pare_tensor *to = d->parts->each;

    for (int i = 0; i < n; i++)
        for (int64_t row = 0; row < (whole ? 1 : s[i].in[0].dim[0]); row++)
            for (int k = 0; k < s->n_in; k++, to++) {
                struct pare_tensor t;

                PARE_TRY(pare_at(err, take_row(d, &s[i], k, row, whole, &t, err),
                                 "test_data_set_%d", i));
                *to = t;
                PARE_TRY(pare_tensor_alloc(d->arena, to, err));
                if (pare_numel(&t))
                    memcpy(to->data, t.data, (size_t)pare_numel(&t) * pare_dtype_size(t.dtype));
            }
    return 0;
}

static int one_by_one(struct pare_data *d, const struct set *s, int n, bool whole,
                      struct pare_err *err)
{
    const char **name = pare_alloc(d->arena, (size_t)s->n_in, sizeof(*name));
    int64_t items = 0;

    for (int i = 0; i < n; i++)
        items += whole ? 1 : s[i].in[0].dim[0];
    d->parts->each = pare_alloc(d->arena, (size_t)items * (size_t)s->n_in, sizeof(*d->parts->each));
    if (!name || !d->parts->each)
        return pare_no_memory(err, "for a data set");
    if (d->parts->n_io && d->parts->n_io != s->n_in)
        return pare_fail(err, PARE_ESHAPE, "it has %d inputs, the model takes %d", s->n_in,
                         d->parts->n_io);
    for (int k = 0; k < s->n_in; k++) {
        name[k] = d->parts->n_io ? pare_strdup(d->arena, d->parts->io[k].name)
                                 : pare_sprintf(d->arena, "input_%d", k);
        if (!name[k])
            return pare_no_memory(err, "for a data set");
    }
    PARE_TRY(copy_rows(d, s, n, whole, err));
    return pare_data_each(d, name, s->n_in, items, err);
}

/* The outputs, if each item has one and all have the same shape. */
static int use_outputs(struct pare_data *d, const struct set *s, int n, bool whole,
                       struct pare_err *err)
{
    bool all = !whole;
    struct pare_tensor y;

    for (int i = 0; i < n && all; i++) {
        struct pare_tensor like = s[i].out;

        all = s[i].has_out && s[0].has_out && like.rank == s[0].out.rank;
        like.dim[0] = s[0].out.dim[0];
        all = all && (pare_same_shape(&like, &s[0].out) || d->opts.fill);
    }
    if (!all && s[0].out.data)
        d->note = pare_sprintf(d->arena,
                               "%s: outputs are not used as labels: they do not have a row of the "
                               "same shape for each item",
                               d->name);
    if (!all)
        return !s[0].out.data || d->note ? 0 : pare_no_memory(err, "for a message");
    PARE_TRY(pare_at(err, join(d, s, n, -1, &y, err), "output_0.pb"));
    return pare_data_targets(d, &y, err);
}

static int use_sets(struct pare_data *d, const struct set *s, int n, struct pare_err *err)
{
    bool whole = are_whole(d, s, n);
    struct pare_tensor x;

    if (whole || (!d->opts.fill && differ(d, s, n))) {
        PARE_TRY(one_by_one(d, s, n, whole, err));
    } else if (s->n_in == 1) {
        PARE_TRY(pare_at(err, join(d, s, n, 0, &x, err), "input_0.pb"));
        PARE_TRY(pare_data_arrays(d, &x, NULL, err));
    } else {
        PARE_TRY(several_inputs(d, s, n, err));
    }
    return use_outputs(d, s, n, whole, err);
}

static int open_sets(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct set *s;
    int n;

    d->parts->whole = true;
    PARE_TRY(read_sets(d->parts->tmp, path, &s, &n, err));
    return pare_at(err, use_sets(d, s, n, err), "%s", path);
}

const struct pare_source pare_source_onnx_test_data = {
    .name = "onnx-test-data",
    .help = "a folder with test_data_set_0/input_0.pb, ... and output_0.pb, as ONNX models come "
            "with; --fill pads sets of other lengths, which run one by one otherwise",
    .probe = probe,
    .open = open_sets,
};
