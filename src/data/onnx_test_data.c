/* onnx_test_data.c - test data sets of ONNX models.
 *
 * A folder with input_0.pb, input_1.pb, ... and output_0.pb, or one with several such folders named
 * test_data_set_0, test_data_set_1, ..., as in the ONNX model zoo.  The first dimension of a tensor
 * is the number of items.
 */
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
    if (!s->has_out && s->n_in == 1)
        return pare_fail(err, PARE_ESHAPE,
                         "%s: input_0.pb and output_0.pb do not have the same number of items",
                         dir);
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
        if ((*s)[*n].has_out != (*s)[0].has_out)
            return pare_fail(err, PARE_EIO, "%s: not every set has an output_0.pb", path);
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

static int use_sets(struct pare_data *d, const struct set *s, int n, struct pare_err *err)
{
    struct pare_tensor x, y;

    if (s->n_in == 1) {
        PARE_TRY(pare_at(err, join(d, s, n, 0, &x, err), "input_0.pb"));
        PARE_TRY(pare_data_arrays(d, &x, NULL, err));
    } else {
        PARE_TRY(several_inputs(d, s, n, err));
    }
    if (!s->has_out)
        return 0;
    PARE_TRY(pare_at(err, join(d, s, n, -1, &y, err), "output_0.pb"));
    return pare_data_targets(d, &y, err);
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
            "with; --fill pads sets of other lengths",
    .probe = probe,
    .open = open_sets,
};
