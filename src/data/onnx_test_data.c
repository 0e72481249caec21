/* onnx_test_data.c - test data sets of ONNX models.
 *
 * A folder with input_0.pb and output_0.pb, or one with several such folders named test_data_set_0,
 * test_data_set_1, ..., as in the ONNX model zoo.  The first dimension of a tensor is the number of
 * items.
 */
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../io/tensor_pb.h"
#include "../tensor/tensor.h"

#define MAX_SETS 4096

struct set {
    struct pare_tensor t[2]; /* input_0.pb, output_0.pb */
    bool has_out;
};

static bool probe(struct pare_data *d, const char *path)
{
    return pare_is_dir(path) && (pare_file_in(d->arena, path, "input_0.pb") ||
                                 pare_file_in(d->arena, path, "test_data_set_0/input_0.pb"));
}

/* Concatenate the inputs (k = 0) or outputs (k = 1) of all sets.  They must have the same type,
 * and the same shape after the first dimension. */
static int concat_tensors(struct pare_data *d, const struct set *s, int n, int k,
                          struct pare_tensor *all, struct pare_err *err)
{
    const struct pare_tensor *first = &s[0].t[k];
    char one[PARE_SHAPE_TEXT], other[PARE_SHAPE_TEXT], *to;
    size_t bytes;

    *all = *first;
    all->dim[0] = 0;
    for (int i = 0; i < n; i++) {
        struct pare_tensor like = s[i].t[k];

        like.dim[0] = first->dim[0];
        if (like.dtype != first->dtype || !pare_same_shape(&like, first))
            return pare_fail(err, PARE_ESHAPE, "test_data_set_%d has %s %s, but the first %s %s", i,
                             pare_dtype_name(like.dtype),
                             pare_shape_text(&s[i].t[k], one, sizeof(one)),
                             pare_dtype_name(first->dtype),
                             pare_shape_text(first, other, sizeof(other)));
        if (s[i].t[k].dim[0] > INT64_MAX - all->dim[0])
            return pare_fail(err, PARE_ELIMIT, "too many items");
        all->dim[0] += s[i].t[k].dim[0];
    }
    PARE_TRY(pare_tensor_alloc(d->arena, all, err));
    to = all->data;
    for (int i = 0; i < n; i++, to += bytes) {
        PARE_TRY(pare_tensor_size(&s[i].t[k], NULL, &bytes, err));
        if (bytes)
            memcpy(to, s[i].t[k].data, bytes);
    }
    return 0;
}

static int read_set(struct pare_arena *a, const char *dir, struct set *s, struct pare_err *err)
{
    const char *in = pare_file_in(a, dir, "input_0.pb"), *name;
    const char *out = pare_file_in(a, dir, "output_0.pb");

    if (!in)
        return pare_fail(err, PARE_EIO, "%s: no input_0.pb there", dir);
    if (pare_file_in(a, dir, "input_1.pb"))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "%s: there is an input_1.pb; only sets with one input are supported", dir);
    PARE_TRY(pare_pb_read(a, in, &s->t[0], &name, err));
    if (!s->t[0].rank)
        return pare_fail(err, PARE_ESHAPE, "%s: a single number, not a list of items", in);
    s->has_out = out != NULL;
    if (!out)
        return 0;
    PARE_TRY(pare_pb_read(a, out, &s->t[1], &name, err));
    if (!s->t[1].rank || s->t[0].dim[0] != s->t[1].dim[0])
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
    }
    return 0;
}

static int open_sets(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct pare_tensor x, y;
    struct set *s;
    int n;

    d->parts->whole = true;
    PARE_TRY(read_sets(d->parts->tmp, path, &s, &n, err));
    PARE_TRY(pare_at(err, concat_tensors(d, s, n, 0, &x, err), "%s: input_0.pb", path));
    if (s->has_out)
        PARE_TRY(pare_at(err, concat_tensors(d, s, n, 1, &y, err), "%s: output_0.pb", path));
    return pare_at(err, pare_data_arrays(d, &x, s->has_out ? &y : NULL, err), "%s", path);
}

const struct pare_source pare_source_onnx_test_data = {
    .name = "onnx-test-data",
    .help = "a folder with test_data_set_0/input_0.pb and output_0.pb, as ONNX models come with",
    .probe = probe,
    .open = open_sets,
};
