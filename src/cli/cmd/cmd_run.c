/* cmd_run.c - pare run: run a model on inputs from files or on random inputs. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "../cli.h"
#include "../job/session.h"
#include "../../base/arena.h"
#include "../../io/npy.h"
#include "../../io/npz.h"
#include "../../io/tensor_pb.h"
#include "../../tensor/compare.h"
#include "../../tensor/tensor.h"

struct run {
    struct pare_strs input, shape;
    const char *output, *check, *choices, *precision;
    int64_t seed, batch, threads;
    double rtol, atol;
    bool reference, json, tune;
};

static const struct pare_opt run_opts[] = {
    PARE_TEXTS("input", offsetof(struct run, input), "FILE",
               "read an input from FILE: x.npy, name=x.npy, x.npz or x.pb (default: random)"),
    PARE_TEXT("output", offsetof(struct run, output), "FILE",
              "write the outputs to FILE: .npz, or for a single output .npy or .pb", NULL),
    PARE_TEXT("check", offsetof(struct run, check), "FILE",
              "compare with the outputs in FILE: an ONNX test data set, .npz or .npy", NULL),
    PARE_FLOAT("rtol", offsetof(struct run, rtol), "relative tolerance of --check", 1e-3, 0,
               PARE_NO_MAX),
    PARE_FLOAT("atol", offsetof(struct run, atol), "absolute tolerance of --check", 1e-5, 0,
               PARE_NO_MAX),
    PARE_INT("seed", offsetof(struct run, seed), "seed of the random inputs", 0, 0, 9e15),
    PARE_INT("batch", offsetof(struct run, batch),
             "batch size, if the model leaves it free; 0 means 1", 0, 0, 1 << 20),
    PARE_TEXTS("shape", offsetof(struct run, shape), "NAME=N,N,...",
               "shape of an input, such as x=1,3,224,224, or size of a free dimension: batch=8"),
    PARE_INT("threads", offsetof(struct run, threads), "number of threads; 0: all cores", 0, 0,
             1024),
    PARE_FLAG("reference", offsetof(struct run, reference),
              "use only the reference kernels, which are slow", 0),
    PARE_PRECISION_OPT(struct run),
    PARE_TUNE_OPTS(struct run, 0),
    PARE_FLAG("json", offsetof(struct run, json), "print the result as JSON", 0),
    PARE_OPT_END
};

static bool is_dir(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* ---- outputs --------------------------------------------------------------- */

struct summary {
    double min, mean, max;
    int64_t argmax, nans; /* argmax -1: not a vector */
};

static struct summary summarize(const struct pare_tensor *t)
{
    struct summary s = { INFINITY, 0, -INFINITY, -1, 0 };
    int64_t n = pare_numel(t), best = 0, counted = 0;

    for (int64_t i = 0; i < n && t->dtype != PARE_STR; i++) {
        double v = pare_get(t, i);

        if (isnan(v)) {
            s.nans++;
            continue;
        }
        counted++;
        s.mean += v;
        s.min = v < s.min ? v : s.min;
        best = v > s.max ? i : best;
        s.max = v > s.max ? v : s.max;
    }
    s.mean = counted ? s.mean / (double)counted : NAN;
    if (counted && n > 1 && t->rank && t->dim[t->rank - 1] == n)
        s.argmax = best;
    if (!counted)
        s.min = s.max = NAN;
    return s;
}

static const char *number(struct pare_arena *a, double v)
{
    return isnan(v) ? "-" : pare_sprintf(a, "%.6g", v);
}

static void print_table(struct pare_cli *c, const struct pare_session *s)
{
    struct pare_table *t = pare_table_new(c->arena, "lllrrrrr");
    bool any_max = false, any_nan = false;
    char shape[PARE_SHAPE_TEXT];

    for (int i = 0; i < s->n_out; i++) {
        struct summary y = summarize(&s->out[i]);

        any_max |= y.argmax >= 0;
        any_nan |= y.nans > 0;
    }
    pare_table_row(t, "output", "type", "shape", "min", "mean", "max", any_max ? "argmax" : "",
                   any_nan ? "NaNs" : "");
    for (int i = 0; i < s->n_out; i++) {
        const struct pare_tensor *o = &s->out[i];
        struct summary y = summarize(o);

        pare_table_row(t, s->io[i].name, pare_dtype_name(o->dtype),
                       pare_shape_text(o, shape, sizeof(shape)), number(c->arena, y.min),
                       number(c->arena, y.mean), number(c->arena, y.max),
                       y.argmax < 0 ? "" : pare_sprintf(c->arena, "%lld", (long long)y.argmax),
                       any_nan ? pare_sprintf(c->arena, "%lld", (long long)y.nans) : "");
    }
    pare_table_print(t, stdout);
}

static json_t *json_output(const char *name, const struct pare_tensor *t)
{
    struct summary y = summarize(t);
    json_t *j = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:I}", "name", pare_json_text(name),
                          "dtype", pare_dtype_name(t->dtype), "shape", pare_json_dims(t), "min",
                          pare_json_real(y.min), "mean", pare_json_real(y.mean), "max",
                          pare_json_real(y.max), "nans", (json_int_t)y.nans);

    if (j && y.argmax >= 0)
        json_object_set_new(j, "argmax", json_integer(y.argmax));
    return j;
}

/* ---- files ----------------------------------------------------------------- */

static int write_outputs(struct pare_cli *c, const struct pare_session *s, const char *path,
                         struct pare_err *err)
{
    struct pare_named *list = pare_alloc(c->arena, (size_t)s->n_out, sizeof(*list));

    if (!list)
        return pare_no_memory(err, "for the outputs");
    if (pare_ends_with(path, ".npy"))
        return pare_npy_write(path, &s->out[0], err);
    if (pare_ends_with(path, ".pb"))
        return pare_pb_write(path, &s->out[0], s->io[0].name, err);
    for (int i = 0; i < s->n_out; i++)
        list[i] = (struct pare_named){ s->io[i].name, s->out[i] };
    return pare_npz_write(path, list, s->n_out, err);
}

/* Read expected output i from a test data set, a .npz or a .npy file. */
static int read_expected(struct pare_cli *c, const struct pare_session *s, const char *from, int i,
                         struct pare_tensor *t, struct pare_err *err)
{
    struct pare_named *list;
    const char *name;
    int n;

    if (is_dir(from)) {
        const char *path = pare_sprintf(c->arena, "%s/output_%d.pb", from, i);

        return path ? pare_pb_read(c->arena, path, t, &name, err)
                    : pare_no_memory(err, "for a path");
    }
    if (pare_ends_with(from, ".npy"))
        return pare_npy_read(c->arena, from, t, err);
    PARE_TRY(pare_npz_read(c->arena, from, &list, &n, err));
    for (int k = 0; k < n; k++)
        if (!strcmp(list[k].name, s->io[i].name) || (n == 1 && s->n_out == 1)) {
            *t = list[k].t;
            return 0;
        }
    return pare_fail(err, PARE_EFORMAT, "%s: does not contain output '%s'", from, s->io[i].name);
}

static double max_difference(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double most = 0;

    for (int64_t i = 0, n = pare_numel(b); i < n && b->dtype != PARE_STR; i++) {
        double d = fabs(pare_get(a, i) - pare_get(b, i));

        most = d > most ? d : most;
    }
    return most;
}

static int check_outputs(struct pare_cli *c, const struct pare_session *s, double *most,
                         struct pare_err *err)
{
    const struct run *o = c->opts;
    struct pare_tolerance tol = { o->rtol, o->atol };

    *most = 0;
    for (int i = 0; i < s->n_out; i++) {
        struct pare_tensor want;
        double d;

        PARE_TRY(read_expected(c, s, o->check, i, &want, err));
        PARE_TRY(pare_at(err, pare_tensor_compare(&s->out[i], &want, tol, err), "%s: output '%s'",
                         s->path, s->io[i].name));
        d = max_difference(&s->out[i], &want);
        *most = d > *most ? d : *most;
    }
    return 0;
}

/* ---- the command ----------------------------------------------------------- */

static int check_options(struct pare_cli *c, const struct pare_session *s, struct pare_err *err)
{
    const struct run *o = c->opts;
    const char *to = o->output;

    if (to && !pare_ends_with(to, ".npz") && !pare_ends_with(to, ".npy") &&
        !pare_ends_with(to, ".pb"))
        return pare_misuse(c, err, "--output '%s': expected a .npz, .npy or .pb file", to);
    if (to && !pare_ends_with(to, ".npz") && s->n_out != 1)
        return pare_misuse(
            c, err, "--output '%s': holds one tensor, but the model has %d outputs; use .npz", to,
            s->n_out);
    if (o->check && access(o->check, F_OK))
        return pare_fail(err, PARE_EIO, "%s: %s", o->check, strerror(errno));
    if (o->check && !is_dir(o->check) && !pare_ends_with(o->check, ".npz") &&
        !pare_ends_with(o->check, ".npy"))
        return pare_misuse(c, err, "--check '%s': expected a folder, or a .npz or .npy file",
                           o->check);
    return 0;
}

static int cmd_run_prepare(struct pare_cli *c, struct pare_session *s, struct pare_err *err)
{
    const struct run *o = c->opts;
    struct pare_shape_args args = { o->batch, o->shape, false, false };
    struct pare_plan_opts opts = { .threads = (int)o->threads,
                                   .reference = o->reference,
                                   .precision = pare_precision_of(o->precision),
                                   .tune = o->tune,
                                   .choices = o->choices,
                                   .cache = pare_cache_folder(c->arena) };

    PARE_TRY(check_options(c, s, err));
    PARE_TRY(pare_inputs_read(c, s->model, o->input, &s->in, err));
    if (o->check && is_dir(o->check))
        PARE_TRY(pare_inputs_read_set(c, s->model, o->check, &s->in, err));
    PARE_TRY(pare_inputs_shape(c, s->model, &args, &s->in, err));
    pare_inputs_print_notes(&s->in);
    return pare_session_plan(c, s, &opts, (uint64_t)o->seed, err);
}

static int print_result(struct pare_cli *c, const struct pare_session *s, struct pare_err *err)
{
    const struct run *o = c->opts;
    json_t *outputs = o->json ? json_array() : NULL, *j;
    double most = 0;

    for (int i = 0; i < s->n_out && o->json; i++)
        json_array_append_new(outputs, json_output(s->io[i].name, &s->out[i]));
    if (!o->json) {
        print_table(c, s);
        pare_session_print_precision(s, o->precision);
    }
    if (o->output)
        PARE_TRY(write_outputs(c, s, o->output, err));
    if (o->check && check_outputs(c, s, &most, err)) {
        json_decref(outputs);
        return err->code;
    }
    if (o->check && !o->json)
        printf("matches %s; largest difference %.3g\n", o->check, most);
    if (!o->json)
        return 0;
    j = json_pack("{s:o, s:o}", "file", pare_json_text(s->path), "outputs", outputs);
    if (o->check)
        json_object_set_new(j, "largest_difference", pare_json_real(most));
    pare_session_json_precision(s, o->precision, j);
    return pare_json_print(j, err);
}

static int cmd_run_run(struct pare_cli *c, struct pare_err *err)
{
    struct pare_session s;
    int rc = pare_session_open(c, c->arg[0], &s, err);

    if (!rc)
        rc = cmd_run_prepare(c, &s, err);
    if (!rc)
        rc = pare_session_measure_bf16(&s, err);
    if (!rc)
        rc = pare_session_run(&s, err);
    if (!rc)
        rc = print_result(c, &s, err);
    pare_session_close(&s);
    return rc;
}

const struct pare_command pare_command_run = {
    .name = "run",
    .doc = "Run a model on inputs from files or on random inputs.",
    .usage = "[options] MODEL",
    .more = "Inputs that are not given are random: floats from the normal distribution, bytes\n"
            "over their whole range, other integers 0 or 1.  --check reads both inputs and\n"
            "expected outputs from an ONNX test data set (a folder with input_0.pb,\n"
            "output_0.pb, ...), or only the outputs from a .npz or .npy file.",
    .example = "pare run model.onnx\n"
               "pare run model.onnx --input x=x.npy -o out.npz",
    .first = (const char *const[]){ "input", "output", "check", "shape", "threads", NULL },
    .opts = run_opts,
    .size = sizeof(struct run),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "choices", NULL },
    .run = cmd_run_run,
};
