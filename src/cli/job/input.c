/* input.c - shapes and data of a model's inputs, from options, files or random numbers. */
#include "input.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../base/arena.h"
#include "../../base/rng.h"
#include "../../graph/free_dims.h"
#include "../../io/npy.h"
#include "../../io/npz.h"
#include "../../io/tensor_pb.h"
#include "../../onnx/model.h"
#include "../../tensor/tensor.h"

static int init_inputs(struct pare_cli *c, const struct pare_model *m, struct pare_inputs *in,
                       struct pare_err *err)
{
    if (in->io)
        return 0;
    in->n = pare_model_inputs(m, &in->io);
    in->t = pare_alloc(c->arena, (size_t)in->n, sizeof(*in->t));
    in->given = pare_alloc(c->arena, (size_t)in->n, sizeof(*in->given));
    in->note = pare_alloc(c->arena, (size_t)in->n * (PARE_MAX_RANK + 1), sizeof(*in->note));
    if (!in->t || !in->given || !in->note)
        return pare_no_memory(err, "for the inputs");
    for (int i = 0; i < in->n; i++) {
        in->t[i] = (struct pare_tensor){ .dtype = in->io[i].dtype, .rank = in->io[i].rank };
        memcpy(in->t[i].dim, in->io[i].dim, sizeof(in->t[i].dim));
    }
    return 0;
}

static int find_input(const struct pare_inputs *in, const char *name)
{
    for (int i = 0; i < in->n; i++)
        if (!strcmp(in->io[i].name, name))
            return i;
    return -1;
}

static int unknown_input(struct pare_cli *c, const struct pare_inputs *in, const char *name,
                         struct pare_err *err)
{
    const char *names[64] = { 0 };
    char hint[PARE_HINT_TEXT], otherwise[PARE_HINT_TEXT] = "";
    int n = 0;

    for (; n < in->n && n < 64; n++)
        names[n] = in->io[n].name;
    if (n)
        snprintf(otherwise, sizeof(otherwise), "; %s '%s'", n > 1 ? "the first is" : "its input is",
                 names[0]);
    return pare_misuse(c, err, "the model has no input '%s'%s", name,
                       pare_cli_hint(name, names, n, otherwise, hint, sizeof(hint)));
}

/* ---- shapes ---------------------------------------------------------------- */

/* "1,3,224,224" into t's dimensions. */
static bool parse_dims(const char *s, struct pare_tensor *t)
{
    t->rank = 0;
    while (*s) {
        char *end;

        if (t->rank == PARE_MAX_RANK || *s < '0' || *s > '9')
            return false;
        t->dim[t->rank++] = strtoll(s, &end, 10);
        s = end;
        if (*s == ',' || *s == 'x')
            s++;
        else if (*s)
            return false;
    }
    return true;
}

/* Set every free dimension named `sym` to this size; false if there is none. */
static bool bind_symbol(struct pare_inputs *in, const char *sym, int64_t size)
{
    bool any = false;

    for (int i = 0; i < in->n; i++)
        for (int k = 0; k < in->io[i].rank && !in->given[i]; k++)
            if (in->io[i].dim[k] < 0 && in->io[i].sym[k] && !strcmp(in->io[i].sym[k], sym)) {
                in->t[i].dim[k] = size;
                any = true;
            }
    return any;
}

/* Set dimensions of other inputs that have the same names. */
static void bind_same_symbols(struct pare_inputs *in, int i)
{
    for (int k = 0; k < in->io[i].rank; k++)
        if (in->io[i].dim[k] < 0 && in->io[i].sym[k] && k < in->t[i].rank)
            bind_symbol(in, in->io[i].sym[k], in->t[i].dim[k]);
}

/* Apply one --shape. */
static int apply_shape(struct pare_cli *c, struct pare_inputs *in, const char *arg,
                       struct pare_err *err)
{
    const char *eq = strrchr(arg, '=');
    const char *name = eq ? pare_strndup(c->arena, arg, (size_t)(eq - arg)) : NULL;
    struct pare_tensor s = { .rank = 0 };
    int i = name ? find_input(in, name) : 0;

    if (eq && !name)
        return pare_no_memory(err, "for the inputs");
    if (!parse_dims(eq ? eq + 1 : arg, &s))
        return pare_misuse(c, err, "--shape '%s': expected name=1,3,224,224", arg);
    if (name && i < 0) {
        if (s.rank == 1 && bind_symbol(in, name, s.dim[0]))
            return 0;
        return unknown_input(c, in, name, err);
    }
    if (!name && in->n != 1)
        return pare_misuse(c, err, "--shape '%s': the model has %d inputs, specify which: name=%s",
                           arg, in->n, arg);
    if (in->given[i])
        return pare_misuse(c, err, "--shape '%s': the shape of this input is set by its file", arg);
    s.dtype = in->t[i].dtype;
    in->t[i] = s;
    bind_same_symbols(in, i);
    return 0;
}

/* The declared shape, with names of free dimensions: "(batch, 3, ?, ?)". */
static const char *declared_shape(const struct pare_io *io, char *buf, size_t size)
{
    size_t at = 1;

    snprintf(buf, size, "(");
    for (int k = 0; k < io->rank && at < size; k++) {
        const char *comma = k ? ", " : "";

        if (io->dim[k] >= 0)
            at += (size_t)snprintf(buf + at, size - at, "%s%" PRId64, comma, io->dim[k]);
        else
            at += (size_t)snprintf(buf + at, size - at, "%s%.20s", comma,
                                   io->sym[k] && *io->sym[k] ? io->sym[k] : "?");
    }
    if (at < size)
        snprintf(buf + at, size - at, ")");
    return buf;
}

/* The shape must match the dimensions that the model fixes. */
static int check_shape(struct pare_cli *c, const struct pare_inputs *in, int i,
                       struct pare_err *err)
{
    const struct pare_io *io = &in->io[i];
    char a[PARE_SHAPE_TEXT], b[2 * PARE_SHAPE_TEXT];
    bool fits = io->rank < 0 || io->rank == in->t[i].rank;

    for (int k = 0; k < io->rank && fits; k++)
        fits = io->dim[k] < 0 || io->dim[k] == in->t[i].dim[k];
    if (fits)
        return 0;
    return pare_misuse(c, err, "input '%s' has shape %s, but the model expects %s", io->name,
                       pare_shape_text(&in->t[i], a, sizeof(a)), declared_shape(io, b, sizeof(b)));
}

static int add_note(struct pare_inputs *in, const char *text, struct pare_err *err)
{
    in->note[in->n_notes++] = text;
    return text ? 0 : pare_no_memory(err, "for the inputs");
}

/* An input without a declared type or rank. */
static int bind_unknown(struct pare_cli *c, struct pare_inputs *in, int i, bool lenient,
                        struct pare_err *err)
{
    const char *name = in->io[i].name;

    if (lenient) {
        in->t[i] = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
        return add_note(in,
                        pare_sprintf(c->arena, "input '%s' is not a tensor of known shape", name),
                        err);
    }
    if (in->t[i].dtype == PARE_NONE)
        return pare_fail(err, PARE_EUNSUPPORTED, "input '%s' is not a tensor", name);
    return pare_misuse(c, err,
                       "the file does not declare the shape of input '%s': give --shape %s=...",
                       name, name);
}

/* The first free dimension of the input that is not its batch; -1: none. */
static int first_free(const struct pare_inputs *in, int i)
{
    for (int k = in->t[i].rank > 1; k < in->t[i].rank; k++)
        if (in->t[i].dim[k] < 0)
            return k;
    return -1;
}

/* The graph inferred with free dimensions of size 1, or if nodes fail for that size, with sizes
 * that they accept.  *g is NULL: only batches are free. */
static int find_sizes(struct pare_cli *c, const struct pare_model *m, const struct pare_inputs *in,
                      const struct pare_shape_args *args, struct pare_graph **g,
                      struct pare_err *err)
{
    struct pare_tensor *given = pare_alloc(c->arena, (size_t)in->n + 1, sizeof(*given));
    struct pare_graph *ones, *fits;
    bool any = false;

    *g = NULL;
    if (!given)
        return pare_no_memory(err, "for the inputs");
    for (int i = 0; i < in->n; i++) {
        given[i] = in->t[i];
        given[i].data = NULL;
        if (given[i].rank > 0 && given[i].dim[0] < 0 && args->batch)
            given[i].dim[0] = args->batch;
        any |= first_free(in, i) >= 0;
    }
    if (!any || args->open)
        return 0;
    ones = pare_graph_clone(c->arena, m->graph, err);
    if (!ones)
        return err->code;
    for (int i = 0; i < in->n; i++)
        ones->in[i]->t = given[i];
    pare_graph_bind(ones, 1);
    PARE_TRY(pare_graph_infer(ones, true, err));
    if (!ones->failed)
        return 0;
    PARE_TRY(pare_graph_infer_free(c->arena, m->graph, in->io, given, &fits, err));
    *g = fits->failed < ones->failed ? fits : NULL;
    return 0;
}

/* Set dimensions that are still free: the first one to the batch size if given, others to 1 or to
 * their size in `sized`, with a note. */
static int bind_free(struct pare_cli *c, struct pare_inputs *in, int i,
                     const struct pare_shape_args *args, const struct pare_graph *sized,
                     struct pare_err *err)
{
    const struct pare_io *io = &in->io[i];
    struct pare_tensor *t = &in->t[i];

    if (t->dtype == PARE_NONE || t->rank < 0)
        return bind_unknown(c, in, i, args->lenient, err);
    for (int k = 0; k < t->rank; k++) {
        bool batch = !k && args->batch;
        const char *sym = k < io->rank && io->sym[k] && *io->sym[k] ? io->sym[k] : NULL;

        if (t->dim[k] >= 0 || (args->open && !batch))
            continue;
        t->dim[k] = batch ? args->batch : sized ? sized->in[i]->t.dim[k] : 1;
        if (!batch)
            PARE_TRY(add_note(in,
                              pare_sprintf(c->arena,
                                           "input '%s': dimension %d%s%s%s is free, using %" PRId64,
                                           io->name, k, sym ? " '" : "", sym ? sym : "",
                                           sym ? "'" : "", t->dim[k]),
                              err));
    }
    return check_shape(c, in, i, err);
}

int pare_inputs_shape(struct pare_cli *c, const struct pare_model *m,
                      const struct pare_shape_args *args, struct pare_inputs *in,
                      struct pare_err *err)
{
    struct pare_graph *sized;
    bool batched = false;

    PARE_TRY(init_inputs(c, m, in, err));
    for (int i = 0; i < in->n; i++)
        if (in->given[i])
            bind_same_symbols(in, i);
    for (int i = 0; i < args->shape.n; i++)
        PARE_TRY(apply_shape(c, in, args->shape.v[i], err));
    for (int i = 0; i < in->n; i++) {
        batched |= in->t[i].rank > 0 && in->t[i].dim[0] < 0;
        batched |= in->t[i].rank > 0 && in->t[i].dim[0] == args->batch;
    }
    if (args->batch && !batched)
        return pare_misuse(c, err, "--batch %" PRId64 ": no input has a free first dimension",
                           args->batch);
    PARE_TRY(find_sizes(c, m, in, args, &sized, err));
    for (int i = 0; i < in->n; i++)
        PARE_TRY(bind_free(c, in, i, args, sized, err));
    return 0;
}

/* ---- files ----------------------------------------------------------------- */

/* oneDNN's Relu turns NaN into 0; see docs/security.md. */
static int note_nan(struct pare_cli *c, struct pare_inputs *in, int i, struct pare_err *err)
{
    const struct pare_tensor *t = &in->t[i];
    int64_t bad = 0;

    for (int64_t k = 0; t->dtype != PARE_STR && k < pare_numel(t); k++)
        bad += !isfinite(pare_get(t, k));
    if (!bad)
        return 0;
    return add_note(in,
                    pare_sprintf(c->arena,
                                 "input '%s': %" PRId64 " of %" PRId64 " values are not finite; "
                                 "oneDNN's Relu turns NaN into 0",
                                 in->io[i].name, bad, pare_numel(t)),
                    err);
}

static int set_input(struct pare_cli *c, struct pare_inputs *in, int i, const struct pare_tensor *t,
                     const char *from, struct pare_err *err)
{
    if (in->t[i].dtype != t->dtype)
        return pare_fail(err, PARE_ESHAPE, "%s: has type %s, but input '%s' has type %s", from,
                         pare_dtype_name(t->dtype), in->io[i].name,
                         pare_dtype_name(in->t[i].dtype));
    if (in->given[i])
        return pare_misuse(c, err, "%s: input '%s' is given twice", from, in->io[i].name);
    in->t[i] = *t;
    in->given[i] = true;
    return note_nan(c, in, i, err);
}

static int read_npz(struct pare_cli *c, struct pare_inputs *in, const char *path,
                    struct pare_err *err)
{
    struct pare_named *list;
    int n;

    PARE_TRY(pare_npz_read(c->arena, path, &list, &n, err));
    if (n == 1 && in->n == 1)
        return set_input(c, in, 0, &list[0].t, path, err);
    for (int k = 0; k < n; k++) {
        int i = find_input(in, list[k].name);

        if (i < 0)
            return pare_at(err, unknown_input(c, in, list[k].name, err), "%s", path);
        PARE_TRY(set_input(c, in, i, &list[k].t, path, err));
    }
    return 0;
}

/* The input that a file given without a name sets: the one named inside the file, or the first that
 * is not set yet. */
static int input_for(const struct pare_inputs *in, const char *own_name)
{
    int i = own_name && *own_name ? find_input(in, own_name) : -1;

    for (int k = 0; k < in->n && i < 0; k++)
        if (!in->given[k])
            i = k;
    return i < 0 ? 0 : i;
}

static int read_one(struct pare_cli *c, struct pare_inputs *in, const char *arg,
                    struct pare_err *err)
{
    const char *eq = strchr(arg, '='), *path = arg, *name = NULL, *own = NULL;
    struct pare_tensor t;
    int i = -1;

    if (eq && access(arg, F_OK)) {
        name = pare_strndup(c->arena, arg, (size_t)(eq - arg));
        if (!name)
            return pare_no_memory(err, "for the inputs");
        path = eq + 1;
        i = find_input(in, name);
        if (i < 0)
            return unknown_input(c, in, name, err);
    }
    if (pare_ends_with(path, ".npz") && !name)
        return read_npz(c, in, path, err);
    if (pare_ends_with(path, ".npy"))
        PARE_TRY(pare_npy_read(c->arena, path, &t, err));
    else if (pare_ends_with(path, ".pb"))
        PARE_TRY(pare_pb_read(c->arena, path, &t, &own, err));
    else
        return pare_misuse(c, err, "--input '%s': expected a .npy, .npz or .pb file", arg);
    if (!in->n)
        return pare_misuse(c, err, "--input '%s': the model has no inputs", arg);
    return set_input(c, in, name ? i : input_for(in, own), &t, path, err);
}

int pare_inputs_read(struct pare_cli *c, const struct pare_model *m, struct pare_strs files,
                     struct pare_inputs *in, struct pare_err *err)
{
    PARE_TRY(init_inputs(c, m, in, err));
    for (int i = 0; i < files.n; i++)
        PARE_TRY(read_one(c, in, files.v[i], err));
    return 0;
}

int pare_inputs_read_set(struct pare_cli *c, const struct pare_model *m, const char *dir,
                         struct pare_inputs *in, struct pare_err *err)
{
    PARE_TRY(init_inputs(c, m, in, err));
    for (int i = 0; i < in->n; i++) {
        const char *path = pare_sprintf(c->arena, "%s/input_%d.pb", dir, i), *name;
        struct pare_tensor t;

        if (!path)
            return pare_no_memory(err, "for the inputs");
        if (in->given[i])
            continue;
        PARE_TRY(pare_pb_read(c->arena, path, &t, &name, err));
        PARE_TRY(set_input(c, in, i, &t, path, err));
    }
    return 0;
}

/* ---- random inputs --------------------------------------------------------- */

static void fill_random(struct pare_rng *r, float *tmp, int64_t n, enum pare_dtype d)
{
    for (int64_t i = 0; i < n; i++)
        switch (d) {
        case PARE_F32:
        case PARE_F64:
        case PARE_F16:
        case PARE_BF16: tmp[i] = (float)pare_rng_normal(r); break;
        case PARE_U8: tmp[i] = (float)pare_rng_below(r, 256); break;
        case PARE_I8: tmp[i] = (float)pare_rng_below(r, 256) - 128; break;
        default: tmp[i] = (float)pare_rng_below(r, 2); break;
        }
}

int pare_inputs_fill(struct pare_cli *c, struct pare_inputs *in, uint64_t seed,
                     struct pare_err *err)
{
    enum { CHUNK = 1024 };
    float tmp[CHUNK];
    struct pare_rng r;

    pare_rng_init(&r, seed);
    for (int i = 0; i < in->n; i++) {
        struct pare_tensor *t = &in->t[i];
        size_t size = pare_dtype_size(t->dtype);
        int64_t n;

        if (in->given[i])
            continue;
        if (t->dtype == PARE_STR)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "input '%s' is a string tensor: specify it with --input",
                             in->io[i].name);
        PARE_TRY(pare_tensor_alloc(c->arena, t, err));
        PARE_TRY(pare_tensor_size(t, &n, NULL, err));
        for (int64_t at = 0; at < n; at += CHUNK) {
            int64_t len = n - at < CHUNK ? n - at : CHUNK;

            fill_random(&r, tmp, len, t->dtype);
            PARE_TRY(pare_convert(t->dtype, (char *)t->data + (size_t)at * size, PARE_F32, tmp, len,
                                  err));
        }
    }
    return 0;
}

void pare_inputs_print_notes(const struct pare_inputs *in)
{
    for (int i = 0; i < in->n_notes; i++) {
        pare_put_clean(stderr, in->note[i]);
        fputc('\n', stderr);
    }
}
