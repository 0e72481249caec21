/* official.c - run the official ONNX operator cases, each in its own process.
 *
 * A case is a folder <dir>/<suite>/<case>/ with model.onnx and test_data_set_*, which hold
 * input_<i>.pb and output_<i>.pb.  A child process loads the model, runs it, compares, and sends
 * the result through a pipe, so that a crash or a hang only fails its case.
 *
 * With --pass the results are compared with a committed list: a listed case that fails and an
 * unlisted case that passes both fail the run.
 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/map.h"
#include "io/tensor_pb.h"
#include "onnx/build.h"
#include "onnx/edit.h"
#include "plan/plan.h"
#include "tensor/compare.h"

#ifndef OFFICIAL_DIR
#define OFFICIAL_DIR "."
#endif
#define MAX_IO 64
#define MAX_KERNELS 64
#define SECONDS 60

static const char *const suites[] = { "node", "simple", "pytorch-converted", "pytorch-operator" };

/* The tolerances of ONNX's own backend test. */
static const struct pare_tolerance tolerance = { 1e-3, 1e-7 };

enum status { OK, FAIL, UNSUPPORTED, CRASH, N_STATUS };
static const char *const status_name[] = { "ok", "FAIL", "unsupported", "CRASH" };

struct result {
    enum status status;
    char why[600];
};

struct run {
    const char *dir, *only, *pass, *write;
    bool reference, each, verbose;
    int raise; /* the opset to raise models to; 0: leave them as they are */
    struct pare_arena *arena;
    struct pare_map listed;     /* the pass list */
    int count[N_STATUS], wrong; /* wrong: differs from the list */
    int seen;                   /* cases run that are listed */
    FILE *out;                  /* --write */
};

static const char usage[] =
    "usage: official [options] [SUITE...]\n"
    "\n"
    "Runs the official ONNX cases of the suites (all: node simple pytorch-converted\n"
    "pytorch-operator) and prints those that do not pass.\n"
    "\n"
    "  --dir DIR       where the suites are (" OFFICIAL_DIR ")\n"
    "  --only PATTERN  only cases whose suite/case contains PATTERN, or matches it when it\n"
    "                  has a * or ?\n"
    "  --reference     plain-C kernels only\n"
    "  --each          once for each fast kernel, with no other, wherever it can run, and in\n"
    "                  parts\n"
    "  --raise N       raise the opset of each model to N first, if it is 7 or more\n"
    "  --pass FILE     compare with the list of cases that pass\n"
    "  --write FILE    write that list\n"
    "  -v              print the cases that pass, too\n";

/* ---- one case, in the child -------------------------------------------------- */

/* One data set of a case: inputs and expected outputs. */
struct data {
    struct pare_tensor in[MAX_IO], got[MAX_IO], want[MAX_IO];
    int n_in, n_out;
};

/* Without the file's name at the start of the message: the case is printed anyway. */
static void result_of(struct result *r, int rc, const char *path, const struct pare_err *err)
{
    size_t n = strlen(path);
    const char *why = err->msg;

    if (!strncmp(why, path, n) && strstr(why, "model.onnx: "))
        why = strstr(why, "model.onnx: ") + strlen("model.onnx: ");
    r->status = !rc ? OK : rc == PARE_EUNSUPPORTED ? UNSUPPORTED : FAIL;
    snprintf(r->why, sizeof(r->why), "%s", rc ? why : "");
}

/* The next length-delimited field of a protobuf message; false at its end. */
static bool next_field(const uint8_t *data, size_t len, size_t *at, unsigned *field,
                       const uint8_t **sub, size_t *size)
{
    while (*at < len) {
        unsigned tag = data[(*at)++];
        uint64_t v = 0;

        for (int shift = 0; *at < len && shift < 64; shift += 7) {
            v |= (uint64_t)(data[*at] & 127) << shift;
            if (!(data[(*at)++] & 128))
                break;
        }
        if ((tag & 7) != 2)
            continue;
        if (v > len - *at)
            return false;
        *field = tag >> 3;
        *sub = data + *at;
        *size = (size_t)v;
        *at += *size;
        return true;
    }
    return false;
}

/* A SequenceProto: tensors are field 3. */
static int parse_sequence(struct pare_arena *a, const uint8_t *data, size_t len,
                          struct pare_tensor *t, struct pare_err *err)
{
    const uint8_t *sub = NULL;
    const char *name;
    unsigned field = 0;
    size_t size = 0;
    int64_t n = 0;

    for (size_t at = 0; next_field(data, len, &at, &field, &sub, &size);)
        n += field == 3;
    PARE_TRY(pare_sequence_new(a, t, n, err));
    n = 0;
    for (size_t at = 0; next_field(data, len, &at, &field, &sub, &size);)
        if (field == 3)
            PARE_TRY(
                pare_tensor_parse(sub, size, a, (struct pare_tensor *)t->data + n++, &name, err));
    return 0;
}

/* An OptionalProto: a tensor is field 3, a sequence field 5. */
static int parse_optional(struct pare_arena *a, const uint8_t *data, size_t len,
                          struct pare_tensor *t, struct pare_err *err)
{
    const uint8_t *sub = NULL;
    const char *name;
    unsigned field = 0;
    size_t size = 0;

    pare_set_absent(t);
    for (size_t at = 0; next_field(data, len, &at, &field, &sub, &size);) {
        if (field == 3)
            return pare_tensor_parse(sub, size, a, t, &name, err);
        if (field == 5)
            return parse_sequence(a, sub, size, t, err);
    }
    return 0;
}

static int read_other(struct pare_arena *a, const char *path, const Onnx__TypeProto *type,
                      struct pare_tensor *t, struct pare_err *err)
{
    uint8_t *data = pare_alloc(a, 1 << 20, 1);
    FILE *f = fopen(path, "rb");
    size_t len = f && data ? fread(data, 1, 1 << 20, f) : 0;

    if (f)
        fclose(f);
    return type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE
               ? parse_sequence(a, data, len, t, err)
               : parse_optional(a, data, len, t, err);
}

/* Read <dir>/<kind>_0.pb, <kind>_1.pb, ...; the model's declarations `info` give their types. */
static int read_tensors(struct pare_arena *a, const char *dir, const char *kind,
                        Onnx__ValueInfoProto **info, size_t n_info, struct pare_tensor *t, int *n,
                        struct pare_err *err)
{
    const char *name, *path;

    for (*n = 0; *n < MAX_IO; ++*n) {
        const Onnx__TypeProto *type = (size_t)*n < n_info ? info[*n]->type : NULL;

        path = pare_sprintf(a, "%s/%s_%d.pb", dir, kind, *n);
        if (!path || access(path, F_OK))
            break;
        if (type && type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            PARE_TRY(read_other(a, path, type, &t[*n], err));
        else
            PARE_TRY(pare_pb_read(a, path, &t[*n], &name, err));
    }
    return 0;
}

/* Some bfloat16 data is stored as uint16, as in NumPy. */
static void fix_bfloat16(struct pare_tensor *t, const struct pare_io *io, int n)
{
    for (int i = 0; i < n; i++)
        if (io[i].dtype == PARE_BF16 && t[i].dtype == PARE_U16)
            t[i].dtype = PARE_BF16;
}

/* Compare two values of any kind. */
static int compare_value(const struct pare_tensor *got, const struct pare_tensor *want,
                         struct pare_err *err)
{
    if (pare_is_tensor(got) && pare_is_tensor(want))
        return pare_tensor_compare(got, want, tolerance, err);
    if (got->dtype != want->dtype || (got->dtype == PARE_SEQUENCE && got->dim[0] != want->dim[0]))
        return pare_fail(err, PARE_ESHAPE, "is %s of %lld, expected %s of %lld",
                         pare_dtype_name(got->dtype), (long long)got->dim[0],
                         pare_dtype_name(want->dtype), (long long)want->dim[0]);
    for (int64_t i = 0; got->dtype == PARE_SEQUENCE && i < got->dim[0]; i++)
        PARE_TRY(pare_at(err,
                         pare_tensor_compare(&pare_elements(got)[i], &pare_elements(want)[i],
                                             tolerance, err),
                         "element %lld", (long long)i));
    return 0;
}

static int compare(const struct pare_model *m, const struct data *d, struct pare_err *err)
{
    for (int i = 0; i < d->n_out; i++)
        PARE_TRY(pare_at(err, compare_value(&d->got[i], &d->want[i], err), "output '%s'",
                         m->out[i].name));
    return 0;
}

/* Run twice, because a run may corrupt what the next one needs. */
static int run_plan(const struct pare_model *m, struct data *d, struct pare_plan *plan,
                    struct pare_err *err)
{
    for (int i = 0; i < 2; i++) {
        PARE_TRY(pare_plan_execute(plan, d->in, d->got, err));
        PARE_TRY(pare_at(err, compare(m, d, err), "run %d", i + 1));
    }
    return 0;
}

/* Run with kernel k only; nothing is run if it matches no node. */
static int run_only(const struct pare_model *m, struct data *d, int k, struct pare_err *err)
{
    const char *without[MAX_KERNELS];
    struct pare_plan_opts opts = { .threads = 1, .in = d->in };
    struct pare_plan *plan = NULL;
    int n = 0, rc;
    bool used = false;

    for (int i = 0; pare_kernels[i]; i++)
        if (i != k)
            without[n++] = pare_kernels[i]->name;
    without[n] = NULL;
    rc = pare_plan_build(m, &(struct pare_plan_build){ .opts = &opts, .without = without }, &plan,
                         err);
    for (int i = 0; !rc && i < plan->n_steps; i++)
        used |= plan->step[i]->kernel == pare_kernels[k];
    if (used)
        rc = run_plan(m, d, plan, err);
    pare_plan_free(plan);
    return pare_at(err, rc, "only %s", pare_kernels[k]->name);
}

/* Run with weights as sparse blocks of `rows` rows, even without zeros. */
static int run_sparse(const struct pare_model *m, struct data *d, int rows, struct pare_err *err)
{
    struct pare_plan_opts opts = { .threads = 1, .in = d->in };
    struct pare_plan *plan = NULL;
    int rc = pare_plan_build(m, &(struct pare_plan_build){ .opts = &opts, .sparse_rows = rows },
                             &plan, err);

    if (!rc)
        rc = run_plan(m, d, plan, err);
    pare_plan_free(plan);
    return pare_at(err, rc, "blocks of %d rows", rows);
}

/* Run one index of axis 0 at a time, if the model is batch-independent. */
static int run_parts(const struct pare_model *m, struct data *d, struct pare_err *err)
{
    struct pare_plan_opts opts = { .threads = 2, .in = d->in };
    struct pare_plan *plan = NULL;
    int rc = pare_plan_build(m, &(struct pare_plan_build){ .opts = &opts, .microbatch = 1 }, &plan,
                             err);

    if (rc == PARE_EUNSUPPORTED)
        return 0;
    if (!rc)
        rc = run_plan(m, d, plan, err);
    pare_plan_free(plan);
    return pare_at(err, rc, "in parts");
}

static int run_all(const struct run *r, const struct pare_model *m, struct data *d,
                   struct pare_err *err)
{
    struct pare_plan_opts opts = { .threads = 1, .reference = r->reference, .in = d->in };
    struct pare_plan *plan = NULL;
    int rc = pare_plan_make(m, &opts, &plan, err);

    if (!rc)
        rc = run_plan(m, d, plan, err);
    pare_plan_free(plan);
    for (int k = 0; r->each && !rc && pare_kernels[k]; k++)
        rc = run_only(m, d, k, err);
    for (int rows = 1; r->each && !rc && rows <= 8; rows += rows == 1 ? 3 : 4)
        rc = run_sparse(m, d, rows, err);
    return r->each && !rc ? run_parts(m, d, err) : rc;
}

static int run_set(const struct run *r, const struct pare_model *m, const char *dir,
                   struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct data *d = a ? pare_alloc(a, 1, sizeof(*d)) : NULL;
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;
    int rc = d ? 0 : pare_fail(err, PARE_ENOMEM, "no memory");

    if (!rc)
        rc = read_tensors(a, dir, "input", g->input, g->n_input, d->in, &d->n_in, err);
    if (!rc)
        rc = read_tensors(a, dir, "output", g->output, g->n_output, d->want, &d->n_out, err);
    if (!rc && (d->n_in != m->n_in || d->n_out != m->n_out || !d->n_out))
        rc = pare_fail(err, PARE_EFORMAT,
                       "the model has %d inputs and %d outputs, the data %d and %d", m->n_in,
                       m->n_out, d->n_in, d->n_out);
    if (!rc) {
        fix_bfloat16(d->in, m->in, m->n_in);
        fix_bfloat16(d->want, m->out, m->n_out);
        rc = run_all(r, m, d, err);
    }
    pare_arena_free(a);
    return rc;
}

/* Replace the model by one of a higher opset. */
static int raise_opset(const struct run *r, struct pare_model **m, struct pare_err *err)
{
    struct pare_model *old = *m;
    struct pare_edit *e;
    int64_t version;
    int rc;

    PARE_TRY(pare_edit_new(old, &e, err));
    version = pare_edit_version(e);
    pare_edit_free(e);
    if (version < PARE_OPSET_OLDEST || version > r->raise)
        return 0;
    rc = pare_model_raise_opset(old, r->raise, m, err);
    pare_model_free(old);
    return rc;
}

static void run_case(const struct run *r, const char *path, struct result *res)
{
    const char *name = pare_sprintf(r->arena, "%s/model.onnx", path);
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };
    int rc = name ? 0 : pare_fail(&err, PARE_ENOMEM, "no memory"), set = 0;

    if (!rc)
        rc = pare_model_load(name, &m, &err);
    if (!rc && r->raise)
        rc = raise_opset(r, &m, &err);
    for (; !rc; set++) {
        name = pare_sprintf(r->arena, "%s/test_data_set_%d", path, set);
        if (!name || access(name, F_OK))
            break;
        rc = run_set(r, m, name, &err);
    }
    if (!rc && !set)
        rc = pare_fail(&err, PARE_EIO, "there is no test_data_set_0");
    result_of(res, rc, path, &err);
    pare_model_free(m);
}

/* ---- the parent --------------------------------------------------------------- */

static bool read_result(int fd, struct result *res)
{
    size_t at = 0;

    while (at < sizeof(*res)) {
        ssize_t n = read(fd, (char *)res + at, sizeof(*res) - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* exit(), not _exit(), so that a sanitizer reports leaks. */
static void child(const struct run *r, const char *path, int fd)
{
    struct result res;

    alarm(SECONDS);
    memset(&res, 0, sizeof(res));
    run_case(r, path, &res);
    exit(write(fd, &res, sizeof(res)) == (ssize_t)sizeof(res) ? 0 : 1);
}

static void run_apart(const struct run *r, const char *path, struct result *res)
{
    int fd[2], status = 0;
    bool got;
    pid_t pid;

    *res = (struct result){ .status = CRASH };
    fflush(NULL);
    if (pipe(fd) || (pid = fork()) < 0) {
        snprintf(res->why, sizeof(res->why), "cannot start: %s", strerror(errno));
        return;
    }
    if (!pid) {
        close(fd[0]);
        child(r, path, fd[1]);
    }
    close(fd[1]);
    got = read_result(fd[0], res);
    close(fd[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (got && WIFEXITED(status) && !WEXITSTATUS(status))
        return;
    res->status = CRASH;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(res->why, sizeof(res->why), "not finished after %d seconds", SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(res->why, sizeof(res->why), "%s", strsignal(WTERMSIG(status)));
    else
        snprintf(res->why, sizeof(res->why), "exit code %d", WEXITSTATUS(status));
}

/* How the result differs from the list; NULL: it does not. */
static const char *verdict(const struct run *r, const char *name, enum status s)
{
    bool listed = pare_map_get(&r->listed, name) != NULL;

    if (!r->pass)
        return s == FAIL || s == CRASH ? "" : NULL;
    if (s == CRASH)
        return "";
    if (listed && s != OK)
        return " [is listed]";
    return !listed && s == OK ? "passes, but is not listed: add it" : NULL;
}

static void report(struct run *r, const char *name, const struct result *res)
{
    const char *wrong = verdict(r, name, res->status);

    r->count[res->status]++;
    r->wrong += wrong != NULL;
    r->seen += pare_map_get(&r->listed, name) != NULL;
    if (r->out && res->status == OK)
        fprintf(r->out, "%s\n", name);
    if (!wrong && !r->verbose && (r->pass || res->status == OK))
        return;
    if (res->status == OK)
        printf("%-11s %s%s%s\n", status_name[OK], name, wrong ? ": " : "", wrong ? wrong : "");
    else
        printf("%-11s %s: %s%s\n", status_name[res->status], name, res->why, wrong ? wrong : "");
}

static bool wanted(const struct run *r, const char *name)
{
    if (!r->only)
        return true;
    return strpbrk(r->only, "*?[") ? !fnmatch(r->only, name, 0) : strstr(name, r->only) != NULL;
}

static int run_suite(struct run *r, const char *suite)
{
    const char *dir = pare_sprintf(r->arena, "%s/%s", r->dir, suite);
    int before[N_STATUS], n;
    struct dirent **entry;

    memcpy(before, r->count, sizeof(before));
    n = dir ? scandir(dir, &entry, NULL, alphasort) : -1;
    if (n < 0) {
        fprintf(stderr, "official: %s/%s: %s\n", r->dir, suite, strerror(errno));
        return 1;
    }
    for (int i = 0; i < n; i++) {
        const char *file = entry[i]->d_name;
        const char *name = pare_sprintf(r->arena, "%s/%s", suite, file);
        const char *path = pare_sprintf(r->arena, "%s/%s", dir, file);

        if (name && path && file[0] != '.' && wanted(r, name)) {
            struct result res;

            run_apart(r, path, &res);
            report(r, name, &res);
        }
        free(entry[i]);
    }
    free(entry);
    printf("%s:", suite);
    for (int s = 0; s < N_STATUS; s++)
        printf("%s %d %s", s ? "," : "", r->count[s] - before[s], status_name[s]);
    printf("\n");
    return 0;
}

static int read_list(struct run *r, struct pare_err *err)
{
    FILE *f = fopen(r->pass, "r");
    char line[512];
    int rc = 0;

    if (!f)
        return pare_fail(err, PARE_EIO, "%s: %s", r->pass, strerror(errno));
    while (!rc && fgets(line, sizeof(line), f)) {
        char *name;

        line[strcspn(line, "\r\n")] = '\0';
        if (!line[0] || line[0] == '#')
            continue;
        name = pare_strdup(r->arena, line);
        rc = name ? pare_map_set(&r->listed, r->arena, name, name, err)
                  : pare_fail(err, PARE_ENOMEM, "no memory");
    }
    fclose(f);
    return rc;
}

static int parse(struct run *r, int argc, char **argv)
{
    static const struct option options[] = {
        { "dir", required_argument, NULL, 'd' },   { "only", required_argument, NULL, 'o' },
        { "pass", required_argument, NULL, 'p' },  { "raise", required_argument, NULL, 'R' },
        { "write", required_argument, NULL, 'w' }, { "reference", no_argument, NULL, 'r' },
        { "verbose", no_argument, NULL, 'v' },     { "each", no_argument, NULL, 'e' },
        { "help", no_argument, NULL, 'h' },        { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "vh", options, NULL)) >= 0)
        switch (c) {
        case 'd': r->dir = optarg; break;
        case 'o': r->only = optarg; break;
        case 'p': r->pass = optarg; break;
        case 'w': r->write = optarg; break;
        case 'R': r->raise = (int)strtol(optarg, NULL, 10); break;
        case 'r': r->reference = true; break;
        case 'e': r->each = true; break;
        case 'v': r->verbose = true; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    return optind;
}

int main(int argc, char **argv)
{
    struct run r = { .dir = OFFICIAL_DIR, .arena = pare_arena_new(1 << 16) };
    struct pare_err err = { 0 };
    int first = parse(&r, argc, argv), broken = 0, passed;

    if (!r.arena || (r.pass && read_list(&r, &err))) {
        fprintf(stderr, "official: %s\n", r.arena ? err.msg : "no memory");
        return 1;
    }
    if (r.write && !(r.out = fopen(r.write, "w"))) {
        fprintf(stderr, "official: %s: %s\n", r.write, strerror(errno));
        return 1;
    }
    if (r.out)
        fputs("# The official cases that pass; see README.md.\n", r.out);
    for (int i = first; i < argc; i++)
        broken |= run_suite(&r, argv[i]);
    for (size_t i = 0; first == argc && i < sizeof(suites) / sizeof(*suites); i++)
        broken |= run_suite(&r, suites[i]);
    if (r.pass && first == argc && !r.only && (size_t)r.seen < r.listed.n) {
        printf("%zu listed cases were not found\n", r.listed.n - (size_t)r.seen);
        r.wrong += (int)r.listed.n - r.seen;
    }
    if (r.out)
        fclose(r.out);
    pare_arena_free(r.arena);
    passed = r.count[OK];
    printf("%d passed, %d failed\n", passed, r.wrong);
    return broken || r.wrong || !passed;
}
