/* speedup_job.c - shrink a masked model, write it, measure and print the difference. */
#include "speedup_job.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "../print/screen.h"
#include "../../base/arena.h"
#include "../../plan/plan.h"
#include "../../base/clock.h"
#include "../../onnx/metadata.h"
#include "../../speedup/speedup.h"
#include "../../tensor/tensor.h"

#define WARM_UP 2
#define MAX_RUNS 1000

/* ---- measuring ----------------------------------------------------------------------------- */

struct race {
    struct pare_plan *plan[2];
    struct pare_tensor *in, *out;
    double t[2][MAX_RUNS];
};

static int run_one(struct race *r, int i, double *t, struct pare_err *err)
{
    double start = pare_now();

    PARE_TRY(pare_plan_execute(r->plan[i], r->in, r->out, err));
    *t = pare_now() - start;
    return 0;
}

/* Run both models alternately, so that other load on the machine affects both. */
static int run_alternately(struct pare_speedup_job *s, struct race *r, struct pare_err *err)
{
    double start = pare_now(), ignored;
    struct pare_cpu_share share;

    for (int i = 0; i < 2 * WARM_UP && (i % 2 || pare_now() - start < s->seconds); i++)
        PARE_TRY(run_one(r, i % 2, &ignored, err));
    share = pare_cpu_share_start();
    start = pare_now();
    while (s->runs < MAX_RUNS && (s->runs < 3 || pare_now() - start < 2 * s->seconds)) {
        for (int i = 0; i < 2; i++)
            PARE_TRY(run_one(r, i, &r->t[i][s->runs], err));
        s->runs++;
    }
    s->share = pare_cpu_share_since(&share);
    s->time = pare_latency_of(r->t[0], s->runs);
    s->time_left = pare_latency_of(r->t[1], s->runs);
    return 0;
}

/* Inputs of the shapes that the models were compared with. */
static int make_inputs(struct pare_cli *c, const struct pare_speedup_job *s,
                       struct pare_sample *sample, struct pare_err *err)
{
    sample->n = pare_model_inputs(s->masked, &sample->io);
    sample->in = pare_alloc(c->arena, (size_t)sample->n + 1, sizeof(*sample->in));
    sample->given = pare_alloc(c->arena, (size_t)sample->n + 1, sizeof(*sample->given));
    if (!sample->in || !sample->given)
        return pare_no_memory(err, "to measure");
    for (int i = 0; i < sample->n; i++) {
        sample->in[i] = s->r.in[i];
        sample->given[i] = s->opts.in && s->opts.in[i].data;
        if (sample->given[i])
            sample->in[i].data = s->opts.in[i].data;
        else
            PARE_TRY(pare_tensor_alloc(c->arena, &sample->in[i], err));
    }
    return 0;
}

static int measure(struct pare_cli *c, struct pare_speedup_job *s, const struct pare_model *smaller,
                   const struct pare_speedup_graphs *g, struct pare_err *err)
{
    struct race *r = pare_alloc(c->arena, 1, sizeof(*r));
    struct pare_sample sample = { .arena = c->arena };
    struct pare_plan_opts po = { .threads = s->opts.threads };
    struct pare_plan_build build = { .opts = &po, .microbatch = PARE_MICROBATCH_AUTO };
    const struct pare_io *io;
    int rc;

    if (!r)
        return pare_no_memory(err, "to measure");
    r->out = pare_alloc(c->arena, (size_t)pare_model_outputs(s->masked, &io) + 1, sizeof(*r->out));
    if (!r->out)
        return pare_no_memory(err, "to measure");
    PARE_TRY(make_inputs(c, s, &sample, err));
    po.in = r->in = sample.in;
    build.shaped = g->before;
    rc = pare_plan_build(s->masked, &build, &r->plan[0], err);
    if (!rc)
        rc = pare_sample_fill(&sample, r->plan[0]->graph, s->opts.seed, err);
    build.shaped = g->after;
    if (!rc)
        rc = pare_plan_build(smaller, &build, &r->plan[1], err);
    if (!rc)
        rc = run_alternately(s, r, err);
    pare_plan_free(r->plan[0]);
    pare_plan_free(r->plan[1]);
    return rc;
}

/* ---- shrinking and writing ----------------------------------------------------------------- */

/* Size of a model's file, with external data. */
static double file_size(struct pare_arena *a, const char *path)
{
    const char *external = pare_sprintf(a, "%s.data", path);
    struct stat st;
    double sum = stat(path, &st) ? 0 : (double)st.st_size;

    return sum + (!external || stat(external, &st) ? 0 : (double)st.st_size);
}

/* The file is written last: a measurement that fails, or that a timeout ends, leaves none. */
static int measure_and_save(struct pare_cli *c, struct pare_speedup_job *s,
                            const struct pare_model *smaller, const struct pare_speedup_graphs *g,
                            struct pare_err *err)
{
    struct pare_metadata f;

    PARE_TRY(pare_model_metadata(s->masked, c->arena, &f, err));
    s->bytes = (double)f.bytes;
    if (s->seconds > 0)
        PARE_TRY(measure(c, s, smaller, g, err));
    PARE_TRY(pare_model_save(smaller, s->output, NULL, err));
    s->bytes_left = file_size(c->arena, s->output);
    return 0;
}

/* ---- a run that removes nothing -------------------------------------------------------------- */

/* The second weight of a recurrent layer is not a layer of the report. */
static bool in_report(const struct pare_speedup_report *r, const char *name)
{
    for (int i = 0; i < r->n_layers; i++)
        if (!strcmp(r->layer[i].name, name))
            return true;
    return false;
}

static bool lost_channels(const struct pare_speedup_report *r, const char *name)
{
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_speedup_layer *l = &r->layer[i];

        if (!strcmp(l->name, name) && (l->gone || l->out_left < l->out || l->in_left < l->in))
            return true;
    }
    return false;
}

/* The first layer with the reason that most layers have; NULL: none has one. */
static const struct pare_speedup_layer *usual_reason(const struct pare_speedup_report *r,
                                                     int64_t *empty)
{
    const struct pare_speedup_layer *best = NULL;
    int most = 0;

    *empty = 0;
    for (int i = 0; i < r->n_layers; i++) {
        int n = 0;

        *empty += r->layer[i].empty;
        for (int k = 0; r->layer[i].why && k < r->n_layers; k++)
            n += r->layer[k].why && !strcmp(r->layer[k].why, r->layer[i].why);
        if (n > most) {
            most = n;
            best = &r->layer[i];
        }
    }
    return best;
}

/* Whether the channels of any layer are known. */
static bool has_channels(const struct pare_speedup_report *r)
{
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].out >= 0)
            return true;
    return false;
}

/* What to do if masked channels are kept because of other layers, or of the graph. */
static const char *remedy(const struct pare_speedup_job *s, const struct pare_speedup_layer *l)
{
    if (!l->coupled)
        return "prune other layers";
    if (!s->compression)
        return "prune those layers, too, for example with 'pare prune --speedup'";
    if (pare_compression_layers(s->compression) > 1 && !s->dependency_aware)
        return "prune those layers, too, or use mode dependency_aware";
    return "prune those layers, too";
}

/* Share of the weights that the compression masked. */
static double masked_share(const struct pare_speedup_job *s)
{
    double all = 0;

    for (int i = 0; i < pare_compression_layers(s->compression); i++) {
        const struct pare_tensor *w = pare_layer_weight(pare_compression_layer(s->compression, i));

        all += w ? (double)pare_numel(w) : 0;
    }
    return all > 0 ? (double)pare_compression_zeros(s->compression) / all : 0;
}

static bool was_pruned(const struct pare_speedup_job *s, const char *name)
{
    for (int i = 0; i < pare_compression_layers(s->compression); i++)
        if (!strcmp(pare_layer_name(pare_compression_layer(s->compression, i)), name))
            return true;
    return false;
}

/* Share of the channels of those layers that are masked as a whole. */
static double masked_channels(const struct pare_speedup_job *s)
{
    double empty = 0, all = 0;

    for (int i = 0; i < s->r.n_layers; i++) {
        const struct pare_speedup_layer *l = &s->r.layer[i];

        if (l->out <= 0 || !was_pruned(s, l->name))
            continue;
        empty += (double)l->empty;
        all += (double)l->out;
    }
    return all > 0 ? empty / all : 0;
}

/* Is the result what was asked for?  Removing channels that a pruner masked removes at least their
 * weights. */
static bool is_little(const struct pare_speedup_job *s, int64_t removed)
{
    return (double)removed < 0.01 * (double)s->r.params ||
           (s->compression && 10 * removed < pare_compression_zeros(s->compression));
}

/* Why no layer has a channel without weights, although a pruner ran. */
static const char *nothing_masked(struct pare_cli *c, struct pare_compression *p)
{
    const char *by = pare_compression_algorithm(p);
    int64_t layers = 0, masked = 0;

    for (int i = 0; i < pare_compression_layers(p); i++) {
        struct pare_pruned_layer l;

        pare_layer_pruned(pare_compression_layer(p, i), &l);
        layers += l.channels >= 0;
        masked += l.channels - l.channels_left;
    }
    if (!layers)
        return pare_sprintf(c->arena, "%s emptied no whole channel: use %sgranularity out_channel",
                            by, strcmp(by, "l1") ? "--pruner l1, or " : "");
    if (!masked)
        return pare_sprintf(c->arena,
                            "the sparsity that %s was given is less than one channel of a layer: "
                            "use a higher sparsity",
                            by);
    return pare_sprintf(c->arena,
                        "%s masked %lld channels, but neither the layers before nor those after "
                        "them can lose one: prune more layers",
                        by, (long long)masked);
}

/* Why hardly anything was removed, and what to do. */
static const char *advice(struct pare_cli *c, const struct pare_speedup_job *s)
{
    int64_t empty;
    const struct pare_speedup_layer *why = usual_reason(&s->r, &empty);
    const char *text;

    if (!has_channels(&s->r))
        text =
            "the shapes of its layers are not known: give --shape, or check the model with 'pare "
            "inspect'";
    else if (!empty && s->compression)
        text = nothing_masked(c, s->compression);
    else if (!empty)
        text = "no layer has a channel whose weights are all 0: mask channels, for example with "
               "'pare prune --pruner l1'";
    else if (!why && s->compression && 5 * masked_channels(s) < masked_share(s))
        text = pare_sprintf(c->arena,
                            "%s masks single weights and emptied few whole channels: use --pruner "
                            "l1, or granularity out_channel",
                            pare_compression_algorithm(s->compression));
    else if (!why)
        text = "few channels are masked: use a higher sparsity, or prune more layers";
    else
        text = pare_sprintf(c->arena, "masked channels are kept (%s): %s", why->why,
                            remedy(s, why));
    return text ? text : "";
}

/* Says on stderr if less than 1 %, or a tenth of what is masked, is removed; an error if layers
 * were named and none lost channels. */
static int check_removed(struct pare_cli *c, const struct pare_speedup_job *s, struct pare_err *err)
{
    int64_t removed = s->r.params - s->r.params_left;
    const char *text;
    int named = 0;
    bool lost = false;

    for (int i = 0; s->compression && i < pare_compression_layers(s->compression); i++) {
        const struct pare_layer *l = pare_compression_layer(s->compression, i);

        named += pare_layer_is_named(l) && in_report(&s->r, pare_layer_name(l));
        lost |= pare_layer_is_named(l) && lost_channels(&s->r, pare_layer_name(l));
    }
    if (named && !lost)
        return pare_fail(err, PARE_ECONFIG, "none of the %d layers of op_names lost a channel: %s",
                         named, advice(c, s));
    if (!is_little(s, removed))
        return 0;
    text = removed <= 0
               ? pare_sprintf(c->arena, "%s: nothing was removed: %s", s->output, advice(c, s))
               : pare_sprintf(c->arena,
                              "%s: hardly anything was removed, %.2g%% of the parameters: %s",
                              s->output, 100 * (double)removed / (double)s->r.params, advice(c, s));
    if (!text)
        return pare_no_memory(err, "for a line");
    pare_put_paragraph(stderr, text);
    return 0;
}

int pare_speedup_job_run(struct pare_cli *c, struct pare_speedup_job *s, struct pare_err *err)
{
    struct pare_speedup_graphs graphs;
    struct pare_model *smaller;
    double start = pare_now();
    int rc = pare_speedup_run(s->masked, &s->opts, c->arena, &smaller, &s->r, &graphs, err);

    s->took = pare_now() - start;
    if (s->line)
        pare_progress_line_end(s->line);
    if (!rc)
        rc = check_removed(c, s, err);
    if (!rc)
        rc = measure_and_save(c, s, smaller, &graphs, err);
    pare_arena_free(graphs.arena);
    pare_model_free(smaller);
    return rc;
}

/* ---- printing ------------------------------------------------------------------------------ */

static const char *channels(struct pare_arena *a, int64_t was, int64_t left, bool gone)
{
    if (was < 0)
        return "";
    if (gone)
        return pare_sprintf(a, "%lld to 0", (long long)was);
    if (was == left)
        return pare_sprintf(a, "%lld", (long long)was);
    return pare_sprintf(a, "%lld to %lld", (long long)was, (long long)left);
}

static int print_layers(struct pare_cli *c, const struct pare_speedup_job *s, struct pare_err *err)
{
    struct pare_table *t = pare_table_new(c->arena, "lLrrRrl");
    char was[PARE_NUM_TEXT], left[PARE_NUM_TEXT];

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "layer", "type", "inputs", "outputs", "parameters", "left", "why kept");
    for (int i = 0; i < s->r.n_layers; i++) {
        const struct pare_speedup_layer *l = &s->r.layer[i];

        if (l->in < 0)
            continue;
        pare_table_row(t, l->name, l->type, channels(c->arena, l->in, l->in_left, l->gone),
                       channels(c->arena, l->out, l->out_left, l->gone),
                       pare_count_text((double)l->params, was, sizeof(was)),
                       pare_percent_text((double)l->params_left, (double)l->params, left,
                                         sizeof(left)),
                       l->gone ? "removed: its output is unused" : l->why);
    }
    pare_table_print(t, stdout);
    printf("\n");
    return 0;
}

static int print_sums(struct pare_cli *c, const struct pare_speedup_job *s, struct pare_err *err)
{
    struct pare_table *t = pare_table_new(c->arena, "lrrr");
    char was[PARE_NUM_TEXT], left[PARE_NUM_TEXT], part[PARE_NUM_TEXT];

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "", "before", "after", "left");
    pare_table_row(t, "parameters", pare_count_text((double)s->r.params, was, sizeof(was)),
                   pare_count_text((double)s->r.params_left, left, sizeof(left)),
                   pare_percent_text((double)s->r.params_left, (double)s->r.params, part,
                                     sizeof(part)));
    pare_table_row(t, "MACs", pare_count_text(s->r.macs, was, sizeof(was)),
                   pare_count_text(s->r.macs_left, left, sizeof(left)),
                   pare_percent_text(s->r.macs_left, s->r.macs, part, sizeof(part)));
    if (s->bytes > 0)
        pare_table_row(t, "file", pare_bytes_text(s->bytes, was, sizeof(was)),
                       pare_bytes_text(s->bytes_left, left, sizeof(left)),
                       pare_percent_text(s->bytes_left, s->bytes, part, sizeof(part)));
    if (s->runs)
        pare_table_row(t, "latency", pare_time_text(s->time.median, was, sizeof(was)),
                       pare_time_text(s->time_left.median, left, sizeof(left)),
                       pare_percent_text(s->time_left.median, s->time.median, part, sizeof(part)));
    pare_table_print(t, stdout);
    return 0;
}

/* Where the models were compared. */
static void print_verified(const struct pare_speedup_report *r, struct pare_arena *a)
{
    if (r->shapes[0] && *r->shapes[0]) {
        const char *text = pare_sprintf(a, "compared at %s%s%s", r->shapes[0],
                                        r->shapes[1] ? " and " : "",
                                        r->shapes[1] ? r->shapes[1] : "");

        if (text)
            pare_put_paragraph(stdout, text);
    }
    if (r->one_size) {
        printf("free in the file, but no other size that was tried works: ");
        pare_put_clean(stdout, r->one_size);
        printf("\n");
    }
    if (r->discontinuous)
        printf("compared before %s and other discontinuous or random operators\n",
               r->discontinuous);
    if (r->agreement >= 0)
        printf("after them, %.2f%% of the outputs' elements agree\n", 100 * r->agreement);
}

int pare_speedup_job_print(struct pare_cli *c, const struct pare_speedup_job *s, bool quiet,
                           struct pare_err *err)
{
    char was[3 * PARE_NUM_TEXT], left[3 * PARE_NUM_TEXT];

    if (!quiet)
        PARE_TRY(print_layers(c, s, err));
    PARE_TRY(print_sums(c, s, err));
    if (s->r.verified)
        printf("\nlargest difference of outputs: %.2g, relative: %.2g\n", s->r.max_abs,
               s->r.max_rel);
    if (s->r.verified && s->r.noise > 0)
        printf(
            "with other rounding errors the masked model differs from itself by %.2g, relative\n",
            s->r.noise);
    if (s->r.verified)
        print_verified(&s->r, c->arena);
    if (s->r.verified && s->data)
        printf("verified with %lld item%s of %s%s\n", (long long)s->items, s->items == 1 ? "" : "s",
               s->data,
               s->opts.n_more > 1    ? ", in three shapes"
               : s->opts.n_more == 1 ? ", in two shapes"
                                     : "");
    if (!s->r.verified)
        printf("\nnot verified\n");
    if (s->runs) {
        char text[128];

        snprintf(text, sizeof(text),
                 "latency: median of %d alternating runs of each model (10th to 90th percentile):",
                 s->runs);
        pare_put_paragraph(stdout, text);
        snprintf(text, sizeof(text), "%s, then %s", pare_latency_text(&s->time, was, sizeof(was)),
                 pare_latency_text(&s->time_left, left, sizeof(left)));
        printf("  ");
        pare_put_after(stdout, text, 2);
        printf("\n");
        pare_busy_print(s->share);
    }
    pare_put_clean(stdout, s->output);
    printf(s->r.params_left < s->r.params ? ": smaller model\n" : ": model of the same size\n");
    return 0;
}

static json_t *json_layer(const struct pare_speedup_layer *l)
{
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:b, s:o}", "name",
                     pare_json_text(l->name), "type", l->type, "in", (json_int_t)l->in, "in_left",
                     (json_int_t)l->in_left, "out", (json_int_t)l->out, "out_left",
                     (json_int_t)l->out_left, "empty", (json_int_t)l->empty, "parameters",
                     (json_int_t)l->params, "parameters_left", (json_int_t)l->params_left, "macs",
                     pare_json_whole(l->macs), "macs_left", pare_json_whole(l->macs_left), "gone",
                     l->gone, "why", l->why ? pare_json_text(l->why) : json_null());
}

json_t *pare_speedup_job_json(const struct pare_speedup_job *s)
{
    json_t *layers = json_array(), *j;

    for (int i = 0; i < s->r.n_layers; i++)
        json_array_append_new(layers, json_layer(&s->r.layer[i]));
    j = json_pack("{s:o, s:I, s:I, s:o, s:o, s:i, s:i, s:o, s:o, s:b, s:o, s:o, s:o}", "output",
                  pare_json_text(s->output), "parameters", (json_int_t)s->r.params,
                  "parameters_left", (json_int_t)s->r.params_left, "macs",
                  pare_json_whole(s->r.macs), "macs_left", pare_json_whole(s->r.macs_left), "nodes",
                  s->r.nodes, "nodes_left", s->r.nodes_left, "file_bytes",
                  pare_json_whole(s->bytes), "file_bytes_left", pare_json_whole(s->bytes_left),
                  "verified", s->r.verified, "max_abs", pare_json_real(s->r.max_abs), "max_rel",
                  pare_json_real(s->r.max_rel), "layers", layers);
    if (j && s->r.verified && s->r.shapes[0] && *s->r.shapes[0])
        json_object_set_new(j, "shapes",
                            json_pack("[o, o]", pare_json_text(s->r.shapes[0]),
                                      s->r.shapes[1] ? pare_json_text(s->r.shapes[1])
                                                     : json_null()));
    if (j && s->r.one_size)
        json_object_set_new(j, "one_size", pare_json_text(s->r.one_size));
    if (j && s->r.verified && s->r.noise > 0)
        json_object_set_new(j, "noise", pare_json_real(s->r.noise));
    if (j && s->r.verified && s->r.agreement >= 0)
        json_object_set_new(j, "agreement", pare_json_real(s->r.agreement));
    if (j && s->data && s->r.verified)
        json_object_set_new(j, "items", json_integer(s->items));
    if (j && s->data && s->r.verified)
        json_object_set_new(j, "item_shapes", json_integer(s->opts.n_more + 1));
    if (j && s->runs) {
        json_object_set_new(j, "runs", json_integer(s->runs));
        json_object_set_new(j, "seconds", pare_json_real(s->time.median));
        json_object_set_new(j, "seconds_left", pare_json_real(s->time_left.median));
        json_object_set_new(j, "p10_seconds", pare_json_real(s->time.p10));
        json_object_set_new(j, "p90_seconds", pare_json_real(s->time.p90));
        json_object_set_new(j, "p10_seconds_left", pare_json_real(s->time_left.p10));
        json_object_set_new(j, "p90_seconds_left", pare_json_real(s->time_left.p90));
        json_object_set_new(j, "cpu_share", pare_json_real(s->share));
    }
    return j;
}
