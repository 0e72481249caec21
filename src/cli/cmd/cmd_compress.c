/* cmd_compress.c - pare compress: run the steps of a recipe in turn and keep a run record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "../print/compress_print.h"
#include "../recipe/recipe_mpi.h"
#include "../recipe/run_record.h"
#include "../job/compress_options.h"
#include "../job/model_intake.h"
#include "../job/train_job.h"
#include "../output_paths.h"
#include "../../base/arena.h"
#include "../../base/clock.h"
#include "../../io/file.h"
#include "../../onnx/model.h"
#include "../../train/train_options.h"

/* State of one call. */
struct job {
    struct pare_cli *c;
    const struct pare_compress_call *o;
    struct pare_recipe r;
    const char *folder;   /* for the steps' files */
    json_t *run, *old;    /* run record; record of the run to resume, or NULL */
    json_t *first, *last; /* output of inspect for the model before and after */
    const char *at;       /* the model that the next step reads */
    char at_sha[PARE_SHA256_TEXT];
};

/* ---- setup ---------------------------------------------------------------------------------- */

static int read_recipe(struct job *j, struct pare_err *err)
{
    struct pare_arena *a = j->c->arena;
    const char *path = j->c->arg[0], *text;
    const void *bytes;
    size_t len;

    if (j->o->preset) {
        if (!j->o->data)
            return pare_misuse(j->c, err, "--preset needs --data, to calibrate and evaluate with");
        text = pare_recipe_preset(a, j->o->preset, path, j->o->data);
        return text ? pare_recipe_parse(a, "preset", text, strlen(text), &j->r, err)
                    : pare_no_memory(err, "for the recipe");
    }
    if (!pare_ends_with(path, ".json"))
        return pare_misuse(
            j->c, err,
            "'%s' is not a recipe (*.json); to compress a model without one, give --preset or "
            "--budget",
            path);
    PARE_TRY(
        pare_at(err, pare_file_read_most(a, path, PARE_JSON_BYTES, &bytes, &len, err), "%s", path));
    return pare_recipe_parse(a, path, bytes, len, &j->r, err);
}

static const char *without_suffix(struct pare_arena *a, const char *path)
{
    return pare_strndup(a, path, strlen(path) - (pare_ends_with(path, ".onnx") ? 5 : 0));
}

/* Put the command line's overrides into the recipe's text, for the run record. */
static int update_text(struct job *j, struct pare_err *err)
{
    const struct pare_compress_call *o = j->o;
    json_t *all = json_loads(j->r.text, 0, NULL);

    if (o->data)
        json_object_set_new(all, "data", pare_json_text(o->data));
    if (o->valid)
        json_object_set_new(all, "valid", pare_json_text(o->valid));
    if (o->output)
        json_object_set_new(all, "output", pare_json_text(o->output));
    if (o->seed >= 0)
        json_object_set_new(all, "seed", json_integer(o->seed));
    if (o->threads >= 0)
        json_object_set_new(all, "threads", json_integer(o->threads));
    for (int i = 0; i < j->c->n_given; i++)
        json_object_set_new(all, j->c->given[i].name, pare_json_text(j->c->given[i].text));
    j->r.text = pare_json_dump(j->c->arena, all, false);
    json_decref(all);
    return j->r.text ? 0 : pare_no_memory(err, "for the recipe");
}

/* Options of the command line override the recipe's. */
static int apply_options(struct job *j, struct pare_err *err)
{
    const struct pare_compress_call *o = j->o;
    struct pare_arena *a = j->c->arena;
    struct pare_recipe *r = &j->r;
    const char *base;

    for (int i = 0; i < j->c->n_given; i++)
        PARE_TRY(pare_recipe_option(a, r, j->c->given[i].name, j->c->given[i].text, err));
    r->data = o->data ? o->data : r->data;
    r->valid = o->valid ? o->valid : r->valid;
    r->seed = o->seed >= 0 ? o->seed : r->seed;
    r->threads = o->threads >= 0 ? o->threads : r->threads;
    r->seconds = o->seconds >= 0 ? o->seconds : r->seconds;
    r->max_drop = o->max_drop >= 0 ? o->max_drop : r->max_drop;
    r->keep_steps |= o->keep_steps;
    r->keep_training_mode = j->c->keep_training_mode;
    r->dist = j->c->dist;
    r->output = o->output ? o->output : r->output;
    if (!r->output)
        r->output = pare_default_output(a, r->model, "small");
    base = r->output ? without_suffix(a, r->output) : NULL;
    if (!base)
        return pare_no_memory(err, "for the recipe");
    r->run = o->run ? o->run : r->run;
    if (!r->run)
        r->run = pare_sprintf(a, "%s.run.json", base);
    j->folder = pare_sprintf(a, "%s.steps", base);
    return r->run && j->folder ? update_text(j, err) : pare_no_memory(err, "for the recipe");
}

static const char *step_file(struct job *j, int i, const char *more)
{
    return pare_sprintf(j->c->arena, "%s/%02d-%s%s", j->folder, i + 1, j->r.step[i].name, more);
}

static int at_step(struct job *j, int i, int rc, struct pare_err *err)
{
    return pare_at(err, rc, "%s: step %d (%s)", j->r.path, i + 1, j->r.step[i].name);
}

/* Reject keys that the recipe sets itself. */
static int check_keys(const struct pare_recipe_step *s, struct pare_err *err)
{
    static const char *const own[] = { "json", "quiet", "resume", "checkpoint", NULL };

    for (int i = 0; i < s->n_given; i++)
        for (int k = 0; own[k]; k++)
            if (!strcmp(s->given[i].name, own[k]))
                return pare_fail(err, PARE_ECONFIG, "line %d: '%s' cannot be set in a recipe",
                                 s->line, own[k]);
    return 0;
}

/* A plugin is executable code and a recipe may come from anywhere, so plugins must be allowed on
 * the command line. */
static int check_plugins(const struct job *j, const struct pare_recipe_step *s,
                         struct pare_err *err)
{
    for (int i = 0; i < s->n_given; i++) {
        bool allowed = strcmp(s->given[i].name, "plugin") != 0;

        for (int k = 0; k < j->o->plugin.n; k++)
            allowed |= !strcmp(s->given[i].text, j->o->plugin.v[k]);
        if (!allowed)
            return pare_fail(err, PARE_ECONFIG,
                             "line %d: loads the plugin '%.200s', which is executable code; if you "
                             "trust it, add --plugin %.200s to the command",
                             s->line, s->given[i].text, s->given[i].text);
    }
    return 0;
}

/* Check a step as it will run, but on the model that the recipe starts with. */
static int check_step(struct job *j, int i, struct pare_err *err)
{
    const struct pare_recipe_step *s = &j->r.step[i];
    struct pare_step_files f = { .model = j->r.model, .output = step_file(j, i, ".onnx") };
    struct pare_cli c = { .arena = pare_arena_new(1 << 16), .in_recipe = true, .host = j->c->host };
    int rc;

    if (!c.arena || !f.output)
        return pare_no_memory(err, "for the recipe");
    rc = check_keys(s, err);
    if (!rc)
        rc = check_plugins(j, s, err);
    if (!rc)
        rc = pare_at(err, pare_recipe_bind(&j->r, i, &f, &c, err), "line %d", s->line);
    if (!rc && s->cmd->check)
        rc = s->cmd->check(&c, err);
    pare_arena_free(c.arena);
    return at_step(j, i, rc, err);
}

static int make_folder(const char *path, struct pare_err *err)
{
    if (mkdir(path, 0777) && errno != EEXIST)
        return pare_fail(err, PARE_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

static int check_files(struct job *j, const struct pare_model *m, struct pare_err *err)
{
    struct pare_cli c = { .arena = j->c->arena, .arg = &j->r.model, .n_args = 1 };
    const char *out[] = { j->r.output, j->r.run }, *in[] = { j->r.path, j->r.data, j->r.valid };

    for (int i = 0; i < 2; i++) {
        PARE_TRY(pare_output_path_check(&c, out[i], err));
        PARE_TRY(pare_at(err, pare_model_target(m, out[i], err), "%s", out[i]));
        for (int k = 0; k < 3; k++)
            if (in[k] && pare_same_path(in[k], out[i]))
                return pare_fail(err, PARE_EIO, "%s: would overwrite the %s; choose another name",
                                 out[i], k ? "data" : "recipe");
    }
    if (pare_same_path(j->r.run, j->r.output))
        return pare_fail(err, PARE_EIO,
                         "%s: is named both as the output model and as the run record", j->r.run);
    return make_folder(j->folder, err);
}

static int cmd_compress_check(struct job *j, struct pare_err *err)
{
    struct pare_err ignored;
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_at(err, pare_model_load(j->r.model, &m, err), "%s", j->r.path));
    rc = check_files(j, m, err);
    if (!rc && j->r.data) /* steps must know whether there are labels, and report errors better */
        pare_recipe_check_labels(j->c, &j->r, m, true, &ignored);
    for (int i = 0; i < j->r.n_steps && !rc; i++)
        rc = check_step(j, i, err);
    if (!rc && j->r.data)
        rc = pare_recipe_check_labels(j->c, &j->r, m, j->o->quiet, err);
    pare_model_free(m);
    return rc;
}

/* ---- one step ------------------------------------------------------------------------------- */

/* Hash everything that determines a step's result. */
static void hash_step(const struct job *j, int i, char text[PARE_SHA256_TEXT])
{
    const struct pare_recipe *r = &j->r;
    const struct pare_recipe_step *s = &r->step[i];
    const char *part[] = { pare_version(), s->name, r->model, r->data, r->valid, j->at_sha };
    int64_t number[] = { r->seed, r->threads, s->keep_zeros };
    const struct pare_given *list[] = { r->option, s->given };
    int n[] = { r->n_options, s->n_given };
    struct pare_sha256 h;

    pare_sha256_init(&h);
    for (size_t k = 0; k < sizeof(part) / sizeof(*part); k++)
        pare_sha256_add(&h, part[k] ? part[k] : "", part[k] ? strlen(part[k]) + 1 : 1);
    pare_sha256_add(&h, number, sizeof(number));
    pare_record_hash_data(&h, r->data);
    pare_record_hash_data(&h, r->valid);
    for (int l = 0; l < 2; l++)
        for (int k = 0; k < n[l]; k++) {
            pare_sha256_add(&h, list[l][k].name, strlen(list[l][k].name) + 1);
            pare_sha256_add(&h, list[l][k].text, strlen(list[l][k].text) + 1);
        }
    pare_sha256_text(&h, text);
}

static const char *given_output(const struct pare_recipe_step *s)
{
    for (int i = 0; i < s->n_given; i++)
        if (!strcmp(s->given[i].name, "output"))
            return s->given[i].text;
    return NULL;
}

/* The earlier run's entry for this step, if its hash is the same and its model is unchanged and
 * where this step would write it (a record cannot name other files); else NULL. */
static json_t *finished_step(struct job *j, int i, const char *asked)
{
    const char *output = given_output(&j->r.step[i]);
    json_t *s = json_array_get(json_object_get(j->old, "steps"), (size_t)i);
    const char *then = json_string_value(json_object_get(s, "asked"));
    json_t *m = json_object_get(s, "model");
    const char *path = json_string_value(json_object_get(m, "path"));
    const char *sha = json_string_value(json_object_get(m, "sha256"));
    char now[PARE_SHA256_TEXT];
    struct pare_err ignored;

    if (!then || strcmp(then, asked) != 0)
        return NULL;
    if (!pare_step_writes(&j->r.step[i]))
        return m ? NULL : s;
    output = output ? output : step_file(j, i, ".onnx");
    if (!output || !path || strcmp(path, output) || !sha ||
        pare_model_sha256(path, now, &ignored) || strcmp(now, sha))
        return NULL;
    return s;
}

static json_t *options_json(const struct pare_recipe_step *s)
{
    json_t *o = json_object();

    for (int i = 0; i < s->n_given; i++)
        json_object_set_new(o, s->given[i].name, pare_json_text(s->given[i].text));
    return o;
}

/* Run the step's command; its result is *result. */
static int run_command(struct job *j, int i, const char *asked, const char *output, json_t **result,
                       struct pare_err *err)
{
    const struct pare_recipe_step *s = &j->r.step[i];
    struct pare_cli c = { .arena = pare_arena_new(1 << 16),
                          .result = result,
                          .in_recipe = true,
                          .host = j->c->host };
    const char *tag = pare_sprintf(j->c->arena, "-%.8s.checkpoint.safetensors", asked);
    const char *journal = pare_sprintf(j->c->arena, "-%.8s.history.json", asked);
    struct pare_step_files f = { .model = j->at, .output = output, .quiet = j->o->quiet };
    struct pare_call k;
    int rc;

    if (!c.arena || !tag || !journal)
        return pare_no_memory(err, "for the recipe");
    f.checkpoint = step_file(j, i, tag);
    c.journal = step_file(j, i, journal);
    f.resume = j->o->resume && f.checkpoint && !access(f.checkpoint, F_OK);
    rc = pare_recipe_call(&j->r, i, &f, c.arena, &k, err);
    if (!rc)
        rc = pare_cli_fill(&k, &c, err);
    if (!rc)
        rc = pare_recipe_mpi(j->r.dist, &k, &c.dist, err);
    if (!rc)
        rc = s->cmd->run(&c, err);
    if (rc) { /* interrupted training also has a result */
        json_decref(*result);
        *result = NULL;
    }
    if (!rc && f.checkpoint)
        unlink(f.checkpoint);
    if (!rc && c.journal)
        unlink(c.journal);
    pare_arena_free(c.arena);
    return rc;
}

static int save_record(struct job *j, struct pare_err *err)
{
    return pare_record_save(j->c->arena, j->run, j->r.run, err);
}

/* Run a step and make its entry of the run record. */
static int run_step(struct job *j, int i, const char *asked, json_t **step, struct pare_err *err)
{
    const struct pare_recipe_step *s = &j->r.step[i];
    const char *given = given_output(s), *output = given ? given : step_file(j, i, ".onnx");
    json_t *result = NULL, *facts = NULL;
    double start = pare_now();

    if (!output)
        return pare_no_memory(err, "for the recipe");
    PARE_TRY(run_command(j, i, asked, output, &result, err));
    *step = json_pack("{s:s, s:s, s:o, s:s, s:f, s:o}", "step", s->name, "command", s->cmd->name,
                      "options", options_json(s), "asked", asked, "took_seconds",
                      pare_now() - start, "result", result ? result : json_object());
    if (!*step)
        return pare_no_memory(err, "for the recipe");
    if (!pare_step_writes(s))
        return 0;
    PARE_TRY(pare_record_model(&j->r, j->c->arena, output, &facts, NULL, err));
    json_object_set_new(*step, "model", facts);
    return 0;
}

static int run_or_skip_step(struct job *j, int i, struct pare_err *err)
{
    char asked[PARE_SHA256_TEXT];
    json_t *step, *facts;
    bool before;
    int rc = 0;

    hash_step(j, i, asked);
    step = json_incref(finished_step(j, i, asked));
    before = step != NULL;
    if (!j->o->json && !j->o->quiet)
        pare_compress_begin(&j->r, i, before);
    if (!before)
        rc = run_step(j, i, asked, &step, err);
    if (rc) {
        json_decref(step);
        return at_step(j, i, rc, err);
    }
    json_array_append_new(json_object_get(j->run, "steps"), step);
    facts = pare_recipe_next(&j->r, i, j->run);
    if (facts) {
        j->at = json_string_value(json_object_get(facts, "path"));
        snprintf(j->at_sha, sizeof(j->at_sha), "%s",
                 json_string_value(json_object_get(facts, "sha256")));
    }
    if (!j->o->json && !j->o->quiet)
        pare_compress_end(step, json_object_get(j->run, "input"));
    return save_record(j, err);
}

/* ---- the recipe ----------------------------------------------------------------------------- */

static int begin_record(struct job *j, struct pare_err *err)
{
    const struct pare_recipe *r = &j->r;
    json_t *facts, *recipe = json_loads(r->text, 0, NULL);
    char sha[PARE_SHA256_TEXT];
    struct pare_sha256 h;

    if (j->o->resume) {
        j->old = pare_json_read(r->run);
        if (!j->old && !j->o->quiet)
            fprintf(stderr, "%s: does not exist, starting from the beginning\n", r->run);
    }
    pare_sha256_init(&h);
    pare_sha256_add(&h, r->text, strlen(r->text));
    pare_sha256_text(&h, sha);
    PARE_TRY(pare_record_model(r, j->c->arena, r->model, &facts, &j->first, err));
    j->at = r->model;
    snprintf(j->at_sha, sizeof(j->at_sha), "%s",
             json_string_value(json_object_get(facts, "sha256")));
    j->run = json_pack("{s:s, s:b, s:o?, s:s, s:s?, s:s?, s:I, s:I, s:i, s:{s:s, s:s}, s:o, s:[]}",
                       "format", "pare run 1", "finished", false, "recipe", recipe, "recipe_sha256",
                       sha, "data", r->data, "valid", r->valid, "seed", (json_int_t)r->seed,
                       "threads", (json_int_t)r->threads, "processes", pare_dist_size(r->dist),
                       "versions", "pare", pare_version(), "compiler", PARE_COMPILER, "input",
                       facts, "steps");
    return j->run ? 0 : pare_no_memory(err, "for the recipe");
}

/* Write the last step's model, with its provenance in the metadata. */
static int write_output(struct job *j, struct pare_err *err)
{
    const char *in = json_string_value(json_object_get(json_object_get(j->run, "input"), "sha256"));
    const char *sha = json_string_value(json_object_get(j->run, "recipe_sha256"));
    struct pare_load_opts how = { .keep_training_mode = j->c->keep_training_mode };
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_model_load_with(j->at, &how, &m, err));
    rc = pare_model_note(m, "pare.version", pare_version(), err);
    if (!rc)
        rc = pare_model_note(m, "pare.recipe", j->r.text, err);
    if (!rc)
        rc = pare_model_note(m, "pare.recipe_sha256", sha, err);
    if (!rc)
        rc = pare_model_note(m, "pare.input_sha256", in, err);
    if (!rc)
        rc = pare_model_save(m, j->r.output, NULL, err);
    pare_model_free(m);
    return rc;
}

/* Remove the steps' models; the run record keeps their hashes. */
static void remove_steps(struct job *j)
{
    for (int i = 0; i < j->r.n_steps; i++) {
        const char *path = step_file(j, i, ".onnx");

        if (path)
            unlink(path);
        path = step_file(j, i, ".onnx.data");
        if (path)
            unlink(path);
    }
    rmdir(j->folder);
}

/* A preset that loses more accuracy than it says has the exit code of a missed bound. */
static int check_preset(struct job *j, struct pare_err *err)
{
    const struct pare_compress_preset *p = j->o->preset ? pare_compress_preset(j->o->preset) : NULL;
    const json_t *was = json_object_get(json_object_get(j->run, "input"), "accuracy");
    const json_t *is = json_object_get(json_object_get(j->run, "output"), "accuracy");
    double drop = 100 * (json_number_value(was) - json_number_value(is));

    if (!p || !(p->max_drop > 0) || j->r.max_drop >= 0 || !json_is_number(was) ||
        !json_is_number(is) || drop <= p->max_drop)
        return 0;
    j->c->missed = true;
    return pare_fail(err, PARE_ECONFIG,
                     "%s is written, but its accuracy drops by %.2f points, and preset %s is for "
                     "at most %g",
                     j->r.output, drop, p->name, p->max_drop);
}

static int write_result(struct job *j, struct pare_err *err)
{
    json_t *facts;

    PARE_TRY(pare_record_check_drop(&j->r, j->run, j->folder, err));
    PARE_TRY(write_output(j, err));
    PARE_TRY(pare_record_model(&j->r, j->c->arena, j->r.output, &facts, &j->last, err));
    json_object_set_new(j->run, "output", facts);
    if (j->r.seconds > 0)
        PARE_TRY(pare_record_latency(&j->r, j->c->arena, j->run, err));
    PARE_TRY(pare_record_layers(j->first, j->last, j->run, err));
    json_object_set_new(j->run, "finished", json_true());
    PARE_TRY(save_record(j, err));
    if (!j->r.keep_steps)
        remove_steps(j);
    PARE_TRY(j->o->json ? pare_json_result(j->c, json_incref(j->run), err)
                        : pare_compress_print(j->c->arena, &j->r, j->run, err));
    return check_preset(j, err);
}

/* Is the run to resume already finished, with the same recipe, input, data and output? */
static bool is_finished(struct job *j)
{
    json_t *old = json_object_get(j->old, "output");
    const char *was = json_string_value(json_object_get(old, "sha256"));
    const char *recipe = json_string_value(json_object_get(j->old, "recipe_sha256"));
    const char *in = json_string_value(json_object_get(json_object_get(j->old, "input"), "sha256"));
    const char *first = json_string_value(
        json_object_get(json_array_get(json_object_get(j->old, "steps"), 0), "asked"));
    char now[PARE_SHA256_TEXT], asked[PARE_SHA256_TEXT];
    struct pare_err ignored;

    hash_step(j, 0, asked); /* before the first step, whose model is the input */
    return was && recipe && in && first && !strcmp(first, asked) &&
           json_is_true(json_object_get(j->old, "finished")) && !strcmp(in, j->at_sha) &&
           !strcmp(recipe, json_string_value(json_object_get(j->run, "recipe_sha256"))) &&
           !pare_model_sha256(j->r.output, now, &ignored) && !strcmp(now, was);
}

static int work(struct job *j, struct pare_err *err)
{
    PARE_TRY(read_recipe(j, err));
    PARE_TRY(apply_options(j, err));
    PARE_TRY(cmd_compress_check(j, err));
    if (j->o->dry_run) {
        rmdir(j->folder);
        return pare_compress_plan(j->c, &j->r, err);
    }
    PARE_TRY(begin_record(j, err));
    PARE_TRY(pare_record_check_drop(&j->r, j->run, j->folder, err));
    if (is_finished(j)) {
        rmdir(j->folder);
        if (j->o->json)
            return pare_json_result(j->c, json_incref(j->old), err);
        return pare_compress_print(j->c->arena, &j->r, j->old, err);
    }
    for (int i = 0; i < j->r.n_steps; i++)
        PARE_TRY(run_or_skip_step(j, i, err));
    return write_result(j, err);
}

static int cmd_compress_run(struct pare_cli *c, struct pare_err *err)
{
    struct job j = { .c = c, .o = c->opts };
    int rc;

    if (pare_compress_has_budget(c))
        return pare_dist_rank(c->dist) ? 0 : pare_compress_run_budget(c, err);
    if (pare_dist_rank(c->dist))
        return pare_recipe_mpi_follow(c, err);
    rc = work(&j, err);
    if (!rc)
        rc = pare_recipe_mpi_end(c->dist, err);
    if (rc && j.folder)
        rmdir(j.folder); /* fails unless empty */
    json_decref(j.run);
    json_decref(j.old);
    json_decref(j.first);
    json_decref(j.last);
    return rc;
}

const struct pare_command pare_command_compress = {
    .name = "compress",
    .doc = "Compress to a budget, or run a recipe of several steps.",
    .usage = "[options] MODEL --budget KIND=X|--preset NAME --data SET | RECIPE.json",
    .more = "A recipe is a JSON object: \"model\", \"data\", \"valid\", \"output\", \"run\",\n"
            "\"seed\", \"threads\", \"seconds\", options of the data set (\"resize\", \"norm\"),\n"
            "and \"steps\", a list of objects with \"step\": prune, finetune, distil,\n"
            "recalibrate, speedup, quantize, export, evaluate, sensitivity; or \"repeat\".\n"
            "The other keys of a step are the options of its command: prune, train (three),\n"
            "speedup, quantize, export, eval, analyze; see 'pare help COMMAND'.\n"
            "  {\"model\": \"net.onnx\", \"data\": \"digits\", \"output\": \"small.onnx\",\n"
            "   \"steps\": [{\"step\": \"prune\", \"pruner\": \"l1\", \"sparsity\": 0.5},\n"
            "             {\"step\": \"speedup\"},\n"
            "             {\"step\": \"distil\", \"epochs\": 5},\n"
            "             {\"step\": \"quantize\", \"preset\": \"int8\"}]}\n"
            "Everything is checked before the first step runs.  The run record (run.json) is\n"
            "written after each step; after a crash or Ctrl-C, --resume continues in the step\n"
            "that was interrupted.  'pare report' turns the record into an HTML page.  Under\n"
            "mpirun, all processes execute the steps together.\n"
            "With --budget, --pareto, --preset fast, balanced or tiny, or with MODEL and\n"
            "--max-drop, the command searches: it keeps the channels and formats that cost\n"
            "the least accuracy within the budget, as measured on this machine.  If the\n"
            "budget or --max-drop is missed, the nearest model is written, and the exit\n"
            "code is 3.",
    .example = "pare compress model.onnx --preset balanced --data digits -o small.onnx\n"
               "pare compress model.onnx --budget latency=0.5 --data digits --finetune 5\n"
               "pare compress model.onnx --preset int8 --data images/ --norm imagenet\n"
               "pare compress recipe.json",
    .first = (const char *const[]){ "preset", "budget", "data", "output", "dry-run", "resume",
                                    NULL },
    .opts = pare_compress_options,
    .size = sizeof(struct pare_compress_call),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "run", NULL },
    .run = cmd_compress_run,
    .groups = pare_recipe_option_groups,
    .shared = true,
};
