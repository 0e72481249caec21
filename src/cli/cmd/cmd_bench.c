/* cmd_bench.c - pare bench: compare latency and memory of models.
 *
 * Models run alternately (a, b, a, b, ...), so that other load on the machine affects all of them.
 * The result is the median with the 10th and 90th percentile.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../cli.h"
#include "../job/data_inputs.h"
#include "../print/progress_line.h"
#include "../print/screen.h"
#include "../job/session.h"
#include "../job/table_job.h"
#include "../print/latency.h"
#include "../../base/arena.h"
#include "../../plan/batch/microbatch.h"
#include "../../train/train_options.h"

#define WARM_UP 3
#define MAX_RUNS 1000000
#define PROFILE_RUNS 10

struct bench {
    int64_t threads, batch, repeat, seed;
    double seconds;
    struct pare_strs shape;
    bool reference, json, verbose, tune;
    const char *choices, *data, *precision, *table;
};

static const struct pare_opt bench_opts[] = {
    PARE_INT("threads", offsetof(struct bench, threads), "number of threads; 0: all cores", 0, 0,
             1024),
    PARE_INT("batch", offsetof(struct bench, batch),
             "batch size, if the model leaves it free; 0 means 1", 0, 0, 1 << 20),
    PARE_TEXT("data", offsetof(struct bench, data), "SET",
              "run the first items of this data set instead of random inputs", NULL),
    PARE_TEXTS("shape", offsetof(struct bench, shape), "NAME=N,N,...",
               "shape of an input, such as x=1,3,224,224, or size of a free dimension: batch=8"),
    PARE_FLOAT("seconds", offsetof(struct bench, seconds), "measure each model for this long", 2, 0,
               86400),
    PARE_INT("repeat", offsetof(struct bench, repeat),
             "run each model N times instead; 0: use --seconds", 0, 0, MAX_RUNS),
    PARE_INT("seed", offsetof(struct bench, seed), "seed of the random inputs", 0, 0, 9e15),
    PARE_FLAG("reference", offsetof(struct bench, reference),
              "use only the reference kernels, which are slow", 0),
    PARE_PRECISION_OPT(struct bench),
    PARE_TUNE_OPTS(struct bench, 1),
    PARE_TEXT("table", offsetof(struct bench, table), "FILE",
              "write times of layers for 'pare compress --table', of MODEL with fewer channels and "
              "in int8; --seconds is the whole time (default: 60)",
              NULL),
    PARE_FLAG("verbose", offsetof(struct bench, verbose), "print the time of each step of the plan",
              0),
    PARE_FLAG("json", offsetof(struct bench, json), "print the result as JSON", 0),
    PARE_OPT_END
};

struct entry {
    struct pare_session s;
    double *t;     /* seconds of each run; sorted at the end */
    int64_t batch; /* items per run */
    struct pare_latency time;
};

struct contest {
    struct pare_cli *c;
    const struct bench *o;
    struct entry *e;
    int n, runs, cap; /* models; runs of each so far; capacity of `t` */
    double share;     /* of the processor that the measuring thread had */
    double memory;    /* peak of the process in bytes; 0: unknown */
};

/* ---- measuring ------------------------------------------------------------- */

static int cmd_bench_prepare(struct contest *b, struct entry *e, const char *path,
                             struct pare_err *err)
{
    struct pare_shape_args args = { b->o->batch, b->o->shape, false, false };
    struct pare_plan_opts opts = { .threads = (int)b->o->threads,
                                   .reference = b->o->reference,
                                   .precision = pare_precision_of(b->o->precision),
                                   .tune = b->o->tune,
                                   .choices = b->o->choices,
                                   .cache = pare_cache_folder(b->c->arena) };

    PARE_TRY(pare_session_open(b->c, path, &e->s, err));
    if (b->o->data)
        PARE_TRY(pare_inputs_from_data(b->c, e->s.model, b->o->data, b->o->batch, &e->s.in, err));
    PARE_TRY(pare_inputs_shape(b->c, e->s.model, &args, &e->s.in, err));
    PARE_TRY(pare_session_plan(b->c, &e->s, &opts, (uint64_t)b->o->seed, err));
    e->batch = e->s.in.n && e->s.in.t[0].rank ? e->s.in.t[0].dim[0] : 1;
    for (int i = 0; i < WARM_UP; i++)
        PARE_TRY(pare_session_run(&e->s, err));
    return 0;
}

/* Grow the arrays of all models, which have the same number of runs. */
static int make_room(struct contest *b, struct pare_err *err)
{
    int more = b->cap ? 2 * b->cap : 256;

    if (b->runs < b->cap)
        return 0;
    for (int i = 0; i < b->n; i++) {
        double *t = pare_alloc(b->c->arena, (size_t)more, sizeof(*t));

        if (!t)
            return pare_no_memory(err, "for the times");
        if (b->runs)
            memcpy(t, b->e[i].t, (size_t)b->runs * sizeof(*t));
        b->e[i].t = t;
    }
    b->cap = more;
    return 0;
}

static bool is_done(const struct contest *b, double elapsed)
{
    if (b->o->repeat)
        return b->runs >= b->o->repeat;
    return b->runs >= MAX_RUNS || (b->runs >= 3 && elapsed >= b->o->seconds * b->n);
}

/* Update the progress line; how many runs there will be is known only of --repeat. */
static void show_progress(const struct contest *b, double elapsed, struct pare_progress_line *line)
{
    struct pare_progress p = { .what = "measure run",
                               .done = b->runs,
                               .total = b->o->repeat,
                               .seconds = elapsed };
    double all = b->o->seconds * b->n;

    if (!p.total && all > elapsed) /* at this rate */
        p.total = (int64_t)((double)b->runs / elapsed * all + 0.5);
    pare_progress_line_show(line, &p);
}

static int measure(struct contest *b, struct pare_err *err)
{
    struct pare_cpu_share share = pare_cpu_share_start();
    struct pare_progress_line line;
    double start = pare_now();

    pare_progress_line_start(&line, false);
    while (!is_done(b, pare_now() - start)) {
        PARE_TRY(make_room(b, err));
        for (int i = 0; i < b->n; i++) {
            double t = pare_now();

            PARE_TRY(pare_session_run(&b->e[i].s, err));
            b->e[i].t[b->runs] = pare_now() - t;
        }
        b->runs++;
        show_progress(b, pare_now() - start, &line);
    }
    pare_progress_line_end(&line);
    b->share = pare_cpu_share_since(&share);
    return 0;
}

static void summarize(struct contest *b)
{
    for (int i = 0; i < b->n; i++) {
        struct entry *e = &b->e[i];

        e->time = pare_latency_of(e->t, b->runs);
    }
}

/* Peak memory of the process in bytes; 0: unknown. */
static double peak_memory(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    double kb = 0;

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "VmHWM:", 6))
            kb = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kb * 1024;
}

/* ---- reporting ------------------------------------------------------------- */

static void print_method(const struct contest *b)
{
    const struct pare_plan *p = b->e[0].s.plan;
    char mem[PARE_NUM_TEXT], text[256];

    snprintf(text, sizeof(text),
             "median of %d%s runs after %d warm-up runs, 10th to 90th percentile; %d thread%s, %s "
             "inputs;",
             b->runs, b->n > 1 ? " alternating" : "", WARM_UP, p->backend.threads,
             p->backend.threads == 1 ? "" : "s", b->o->data ? b->o->data : "random");
    printf("\n");
    pare_put_paragraph(stdout, text);
    printf("peak memory of the process: %s\n", pare_bytes_text(b->memory, mem, sizeof(mem)));
}

static void print_table(const struct contest *b)
{
    struct pare_table *t = pare_table_new(b->c->arena, "lrrrlrrrr");
    char med[PARE_NUM_TEXT], lo[PARE_NUM_TEXT], hi[PARE_NUM_TEXT], plan[PARE_NUM_TEXT],
        mem[PARE_NUM_TEXT], rate[PARE_NUM_TEXT];

    pare_table_row(t, "model", "batch", "time", "spread", "", "items/s", "plan", "memory",
                   b->n > 1 ? "speed" : "");
    for (int i = 0; i < b->n; i++) {
        const struct entry *e = &b->e[i];

        pare_table_row(t, e->s.path, pare_sprintf(b->c->arena, "%lld", (long long)e->batch),
                       pare_time_text(e->time.median, med, sizeof(med)),
                       pare_time_text(e->time.p10, lo, sizeof(lo)),
                       pare_sprintf(b->c->arena, ".. %s",
                                    pare_time_text(e->time.p90, hi, sizeof(hi))),
                       pare_count_text((double)e->batch / e->time.median, rate, sizeof(rate)),
                       pare_time_text(e->s.plan_seconds, plan, sizeof(plan)),
                       pare_bytes_text((double)e->s.plan->memory_bytes, mem, sizeof(mem)),
                       b->n > 1 ? pare_sprintf(b->c->arena, "%.2fx",
                                               b->e[0].time.median / e->time.median)
                                : "");
    }
    pare_table_print(t, stdout);
    print_method(b);
    pare_busy_print(b->share);
}

/* Measure each step in a few more runs. */
static int profile(struct contest *b, struct entry *e, struct pare_plan_stat **stat, int *n,
                   struct pare_err *err)
{
    pare_plan_profile(e->s.plan, true);
    for (int i = 0; i < PROFILE_RUNS; i++)
        PARE_TRY(pare_session_run(&e->s, err));
    *n = pare_plan_stats(e->s.plan, b->c->arena, stat);
    pare_plan_profile(e->s.plan, false);
    return 0;
}

/* Print how the kernels were chosen. */
static void print_tuning(const struct pare_plan *p)
{
    const struct pare_tuned *t = &p->tuned;
    int steps = pare_plan_inner(p)->n_steps;
    char time[PARE_NUM_TEXT];

    printf("\n%d step%s, %d of them reorders", steps, steps == 1 ? "" : "s", p->n_reorders);
    if (t->layers)
        printf("; %d with a choice of kernels (*): %d measured in %s, %d listed, %d cached or "
               "repeated,\n%d different from the default rules",
               t->layers, t->measured, pare_time_text(t->seconds, time, sizeof(time)), t->listed,
               t->cached, t->changed);
    printf("\n");
    if (p->microbatch && p->microbatch->items < p->microbatch->batch)
        printf("the batch runs in micro-batches of %lld, %d in parallel; times are of one thread\n",
               (long long)p->microbatch->items, p->microbatch->n);
}

static int print_steps(struct contest *b, struct entry *e, struct pare_err *err)
{
    struct pare_table *t = pare_table_new(b->c->arena, "lllrr");
    char time[PARE_NUM_TEXT], share[PARE_NUM_TEXT];
    struct pare_plan_stat *stat;
    double sum = 0;
    int n;

    PARE_TRY(profile(b, e, &stat, &n, err));
    for (int i = 0; i < n; i++)
        sum += stat[i].seconds;
    printf("\n");
    pare_put_clean(stdout, e->s.path);
    printf("\n");
    pare_table_row(t, "node", "type", "kernel", "time", "");
    for (int i = 0; i < n; i++)
        pare_table_row(t, stat[i].node,
                       stat[i].n_fused
                           ? pare_sprintf(b->c->arena, "%s + %d", stat[i].type, stat[i].n_fused)
                           : stat[i].type,
                       stat[i].tuned ? pare_sprintf(b->c->arena, "%s *", stat[i].kernel)
                                     : stat[i].kernel,
                       pare_time_text(stat[i].seconds / PROFILE_RUNS, time, sizeof(time)),
                       pare_percent_text(stat[i].seconds, sum, share, sizeof(share)));
    pare_table_print(t, stdout);
    print_tuning(e->s.plan);
    return 0;
}

static json_t *json_steps(struct contest *b, struct entry *e, struct pare_err *err)
{
    json_t *a = json_array();
    struct pare_plan_stat *stat;
    int n;

    if (profile(b, e, &stat, &n, err)) {
        json_decref(a);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_pack("{s:o, s:o, s:i, s:s, s:b, s:f}", "node",
                                           pare_json_text(stat[i].node), "type",
                                           pare_json_text(stat[i].type), "fused", stat[i].n_fused,
                                           "kernel", stat[i].kernel, "tuned", stat[i].tuned,
                                           "seconds", stat[i].seconds / PROFILE_RUNS));
    return a;
}

static json_t *json_tuning(const struct pare_plan *p)
{
    const struct pare_tuned *t = &p->tuned;

    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "layers", t->layers, "timed",
                     t->measured, "listed", t->listed, "known", t->cached, "changed", t->changed,
                     "runs", t->runs, "seconds", t->seconds);
}

static int print_json(struct contest *b, struct pare_err *err)
{
    json_t *models = json_array();

    for (int i = 0; i < b->n; i++) {
        struct entry *e = &b->e[i];
        json_t *j = json_pack("{s:o, s:I, s:f, s:f, s:f, s:o, s:f, s:I, s:o}", "file",
                              pare_json_text(e->s.path), "batch", (json_int_t)e->batch,
                              "median_seconds", e->time.median, "p10_seconds", e->time.p10,
                              "p90_seconds", e->time.p90, "items_per_second",
                              pare_json_real((double)e->batch / e->time.median), "plan_seconds",
                              e->s.plan_seconds, "activation_bytes",
                              (json_int_t)e->s.plan->memory_bytes, "speed",
                              pare_json_real(b->e[0].time.median / e->time.median));

        if (j && b->o->verbose) {
            json_object_set_new(j, "steps", json_steps(b, e, err));
            json_object_set_new(j, "reorders", json_integer(e->s.plan->n_reorders));
            json_object_set_new(j, "tuning", json_tuning(e->s.plan));
            json_object_set_new(j, "part",
                                json_integer(e->s.plan->microbatch
                                                 ? (json_int_t)e->s.plan->microbatch->items
                                                 : (json_int_t)e->batch));
        }
        pare_session_json_precision(&e->s, b->o->precision, j);
        json_array_append_new(models, j);
    }
    return pare_json_result(b->c,
                            json_pack("{s:o, s:i, s:i, s:i, s:I, s:o}", "models", models, "runs",
                                      b->runs, "warm_up", WARM_UP, "threads",
                                      b->e[0].s.plan->backend.threads, "process_peak_bytes",
                                      (json_int_t)b->memory, "cpu_share", pare_json_real(b->share)),
                            err);
}

static int print_result(struct contest *b, struct pare_err *err)
{
    summarize(b);
    b->memory = peak_memory();
    for (int i = 0; i < b->n; i++)
        PARE_TRY(pare_session_measure_bf16(&b->e[i].s, err));
    if (b->o->json)
        return print_json(b, err);
    print_table(b);
    for (int i = 0; i < b->n; i++)
        pare_session_print_precision(&b->e[i].s, b->o->precision);
    for (int i = 0; i < b->n && b->o->verbose; i++)
        PARE_TRY(print_steps(b, &b->e[i], err));
    return 0;
}

/* ---- the command ----------------------------------------------------------- */

static int write_table(struct pare_cli *c, struct pare_err *err)
{
    const struct bench *o = c->opts;
    struct pare_table_job j = { .model = c->arg[0],
                                .table = o->table,
                                .batch = o->batch,
                                .threads = (int)o->threads,
                                .seconds = pare_cli_is_set(c, "seconds") ? o->seconds : 0,
                                .seed = (uint64_t)o->seed,
                                .json = o->json };

    if (c->n_args > 1 || o->data || o->shape.n || o->reference || o->repeat)
        return pare_misuse(c, err,
                           "--table takes one model, and neither --data, --shape, --reference nor "
                           "--repeat");
    return pare_table_job_run(c, &j, err);
}

static int cmd_bench_run(struct pare_cli *c, struct pare_err *err)
{
    struct contest b = { .c = c, .o = c->opts };
    int rc = 0;

    if (!b.o->data && c->n_given)
        return pare_misuse(c, err, "--%s needs --data", c->given[0].name);
    if (b.o->table)
        return write_table(c, err);
    b.e = pare_alloc(c->arena, (size_t)c->n_args, sizeof(*b.e));
    if (!b.e)
        return pare_no_memory(err, "for %d models", c->n_args);
    for (b.n = 0; b.n < c->n_args && !rc; b.n++) {
        rc = cmd_bench_prepare(&b, &b.e[b.n], c->arg[b.n], err);
        if (!c->result)
            pare_inputs_print_notes(&b.e[b.n].s.in);
    }
    if (!rc)
        rc = measure(&b, err);
    if (!rc)
        rc = print_result(&b, err);
    for (int i = 0; i < b.n; i++)
        pare_session_close(&b.e[i].s);
    return rc;
}

const struct pare_command pare_command_bench = {
    .name = "bench",
    .doc = "Measure and compare latency and memory of models.",
    .usage = "[options] MODEL...",
    .more = "Models run alternately, so that other load on the machine affects all of them.\n"
            "'speed' is relative to the first model; 'memory' is what the plan needs in\n"
            "addition to the weights; 'plan' is the time to compile the model.",
    .example = "pare bench before.onnx after.onnx --threads 1\n"
               "pare bench model.onnx --table times.jsonl",
    .first = (const char *const[]){ "threads", "batch", "shape", "seconds", "verbose", NULL },
    .opts = bench_opts,
    .size = sizeof(struct bench),
    .min_args = 1,
    .max_args = -1,
    .writes = (const char *const[]){ "choices", "table", NULL },
    .run = cmd_bench_run,
    .groups = pare_data_option_groups,
};
