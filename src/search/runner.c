/* runner.c - latency of models in another program, such as ONNX Runtime. */
#include "runner.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cost_table.h"
#include "runner_files.h"

#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../io/file.h"
#include "../plan/plan.h"
#include "../speedup/speedup.h"
#include "../tensor/tensor.h"

#define TIMER_SECONDS 0.3 /* of two models, for the table of times */
#define MODELS 36         /* that the table is fitted to */
#define PROFILES 5

/* ---- the command line ------------------------------------------------------------------------ */

/* A word for the shell. */
static const char *quoted(struct pare_arena *a, const char *word)
{
    size_t n = 3;
    char *to, *text;

    for (const char *p = word; *p; p++)
        n += *p == '\'' ? 4 : 1;
    text = to = pare_alloc(a, n, 1);
    if (!to)
        return NULL;
    *to++ = '\'';
    for (const char *p = word; *p; p++) {
        if (*p == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else
            *to++ = *p;
    }
    *to = '\'';
    return text;
}

/* " --shape 'x=1,3,32,32'" of all inputs. */
static const char *shape_words(const struct pare_runner *r, struct pare_arena *a,
                               struct pare_err *err)
{
    const struct pare_io *io;
    struct pare_graph *g;
    const char *all = "";

    pare_model_inputs(r->base, &io);
    if (pare_model_shapes(r->base, a, &g, err))
        return NULL;
    for (int i = 0; i < g->n_in && all; i++) {
        const struct pare_tensor *t = &g->in[i]->t;
        const char *text = pare_sprintf(a, "%s=", g->in[i]->name);

        for (int k = 0; k < t->rank && text; k++) {
            bool batch = !k && io[i].rank > 0 && io[i].dim[0] < 0 && r->batch > 0;

            text = pare_sprintf(a, "%s%s%lld", text, k ? "," : "",
                                (long long)(batch ? r->batch : t->dim[k]));
        }
        text = text ? quoted(a, text) : NULL;
        all = text ? pare_sprintf(a, "%s --shape %s", all, text) : NULL;
    }
    if (!all)
        pare_no_memory(err, "for a command line");
    return all;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int read_times(const struct pare_runner *r, const char *line, double *us, int n,
                      struct pare_err *err)
{
    FILE *f = popen(line, "r");
    char text[256];
    int have = 0, status;

    if (!f)
        return pare_fail(err, PARE_EIO, "runner '%s': cannot be started: %s", r->command,
                         strerror(errno));
    while (fgets(text, sizeof(text), f)) {
        char *end;
        double x = strtod(text, &end);

        if (have < n && end != text && *end == '\n' && isfinite(x) && x > 0)
            us[have++] = x;
        else
            have = n + 1;
    }
    status = pclose(f);
    if (status)
        return pare_fail(err, PARE_EIO, "runner '%s' failed with exit code %d", r->command,
                         WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (have != n)
        return pare_fail(err, PARE_EFORMAT,
                         "runner '%s' must print %d numbers, the microseconds of each model on a "
                         "line of its own",
                         r->command, n);
    return 0;
}

static int call(struct pare_runner *r, const struct pare_model *m, double seconds, double us[2],
                struct pare_arena *a, struct pare_err *err)
{
    const char *base = pare_sprintf(a, "%s/original.onnx", r->folder);
    const char *other = pare_sprintf(a, "%s/model.onnx", r->folder);
    const char *shapes = shape_words(r, a, err), *line, *files;

    if (!shapes)
        return err->code;
    if (!base || !other)
        return pare_no_memory(err, "for a command line");
    if (!(r->base_us > 0))
        PARE_TRY(pare_model_save(r->base, base, NULL, err));
    PARE_TRY(pare_model_save(m, other, NULL, err));
    base = quoted(a, base);
    other = quoted(a, other);
    files = base && other ? pare_sprintf(a, "%s %s", base, other) : NULL;
    line = files ? pare_sprintf(a, "%s%s%s --threads %d --seconds %g%s %s", r->command,
                                r->script ? " " : "", r->script ? r->script : "",
                                r->threads > 0 ? r->threads : omp_get_max_threads(), seconds,
                                shapes, files)
                 : NULL;
    return line ? read_times(r, line, us, 2, err) : pare_no_memory(err, "for a command line");
}

int pare_runner_race(struct pare_runner *r, const struct pare_model *m, double seconds,
                     double us[2], struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    int rc = a ? call(r, m, seconds, us, a, err) : pare_no_memory(err, "for a runner");

    pare_arena_free(a);
    if (!rc && !(r->base_us > 0))
        r->base_us = us[0];
    return rc;
}

/* ---- times of steps -------------------------------------------------------------------------- */

static int fill_inputs(const struct pare_plan *p, struct pare_arena *a, struct pare_tensor **in,
                       struct pare_err *err)
{
    const struct pare_graph *g = p->graph;
    struct pare_sample s = { .arena = a, .n = g->n_in };

    pare_model_inputs(p->model, &s.io);
    s.in = *in = pare_alloc(a, (size_t)g->n_in + 1, sizeof(**in));
    s.given = pare_alloc(a, (size_t)g->n_in + 1, sizeof(*s.given));
    if (!*in || !s.given)
        return pare_no_memory(err, "for random inputs");
    for (int i = 0; i < g->n_in; i++) {
        (*in)[i] = g->in[i]->t;
        (*in)[i].data = NULL;
        PARE_TRY(pare_tensor_alloc(a, &(*in)[i], err));
    }
    return pare_sample_fill(&s, g, 1, err);
}

/* Least times of the steps in this engine. */
static int profile(struct pare_plan *p, struct pare_arena *a, double *step_us, struct pare_err *err)
{
    const struct pare_plan *inner = pare_plan_inner(p);
    struct pare_tensor *in, *out = pare_alloc(a, (size_t)p->model->n_out + 1, sizeof(*out));

    if (!out)
        return pare_no_memory(err, "for outputs");
    PARE_TRY(fill_inputs(p, a, &in, err));
    for (int k = 0; k < PROFILES; k++) {
        pare_plan_profile(p, true);
        PARE_TRY(pare_plan_run(p, in, p->graph->n_in, out, p->model->n_out, err));
        for (int i = 0; i < inner->n_steps; i++)
            step_us[i] = fmin(k ? step_us[i] : INFINITY, inner->step[i]->seconds * 1e6);
        pare_plan_profile(p, false);
    }
    return 0;
}

int pare_runner_timer(void *user, struct pare_plan *p, double *step_us, double *total_us)
{
    struct pare_runner *r = user;
    struct pare_arena *a = pare_arena_new(1 << 14);
    int rc = a ? profile(p, a, step_us, &r->err) : pare_no_memory(&r->err, "for times");
    int n = pare_plan_inner(p)->n_steps;
    double us[2], sum = 0;

    pare_arena_free(a);
    if (!rc)
        rc = pare_runner_race(r, p->model, TIMER_SECONDS, us, &r->err);
    if (rc)
        return rc;
    *total_us = us[1] / us[0] * r->base_us;
    for (int i = 0; i < n; i++)
        sum += step_us[i];
    for (int i = 0; i < n && sum > 0; i++)
        step_us[i] *= *total_us / sum;
    return 0;
}

void pare_runner_cost_opts(struct pare_runner *r, struct pare_cost_opts *o)
{
    o->timer = pare_runner_timer;
    o->timer_user = r;
    o->models = MODELS;
}

int pare_runner_error(const struct pare_runner *r, int rc, struct pare_err *err)
{
    if (rc && r->err.code)
        *err = r->err;
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

int pare_runner_open(struct pare_runner *r, const char *command, struct pare_err *err)
{
    const char *temp = getenv("TMPDIR");
    char *folder;

    r->arena = pare_arena_new(1 << 12);
    folder = r->arena ? pare_sprintf(r->arena, "%s/pare-runner-XXXXXX", temp ? temp : "/tmp")
                      : NULL;
    if (!folder)
        return pare_no_memory(err, "for a runner");
    if (!mkdtemp(folder))
        return pare_fail(err, PARE_EIO, "%s: cannot be made: %s", folder, strerror(errno));
    r->folder = folder;
    r->command = command;
    if (strcmp(command, "ort") != 0)
        return 0;
    r->command = "node";
    r->script = pare_sprintf(r->arena, "%s/ort_runner.mjs", folder);
    if (!r->script)
        return pare_no_memory(err, "for a runner");
    PARE_TRY(pare_file_write(r->script, pare_runner_files[0].data, pare_runner_files[0].len, err));
    r->script = quoted(r->arena, r->script);
    return r->script ? 0 : pare_no_memory(err, "for a runner");
}

void pare_runner_close(struct pare_runner *r)
{
    static const char *const names[] = { "original.onnx", "original.onnx.data", "model.onnx",
                                         "model.onnx.data", "ort_runner.mjs" };

    for (size_t i = 0; r->folder && i < sizeof(names) / sizeof(*names); i++) {
        const char *path = pare_sprintf(r->arena, "%s/%s", r->folder, names[i]);

        if (path)
            unlink(path);
    }
    if (r->folder)
        rmdir(r->folder);
    pare_arena_free(r->arena);
    r->arena = NULL;
    r->folder = NULL;
}
