/* recipe.c - parse a recipe: a model, data, and a list of steps, each a call of a command. */
#include "recipe.h"

#include <string.h>

#include "../../base/arena.h"
#include "../../base/options.h"

#define AT(field) offsetof(struct pare_recipe, field)

const struct pare_opt pare_recipe_keys[] = {
    { "model", "model to compress", PARE_OPT_STR, AT(model), 0, PARE_NO_MIN, PARE_NO_MAX, NULL,
      NULL, true, "FILE" },
    PARE_TEXT("data", AT(data), "SET", "data set to train, calibrate and evaluate with", NULL),
    PARE_TEXT("valid", AT(valid), "SET", "evaluate on this set instead of the test part of data",
              NULL),
    PARE_TEXT("output", AT(output), "FILE",
              "write the result to this file (default: MODEL-small.onnx)", NULL),
    PARE_TEXT("run", AT(run), "FILE",
              "write the run record to this file (default: OUTPUT.run.json)", NULL),
    PARE_INT("seed", AT(seed), "random seed", 0, 0, 9e15),
    PARE_INT("threads", AT(threads), "number of threads; 0: all cores", 0, 0, 1024),
    PARE_FLOAT("seconds", AT(seconds),
               "measure the latency of each model for this long; 0: do not measure", 1, 0, 86400),
    PARE_FLOAT(
        "max_drop", AT(max_drop),
        "fail if the accuracy of the result is more than X percentage points below that of the "
        "model (default: warn above 5)",
        -1, 0, 100),
    PARE_FLAG("keep_steps", AT(keep_steps), "keep the model written by each step", 0),
    PARE_OPT_END
};

const struct pare_step_kind pare_step_kinds[] = {
    { "prune", "prune", NULL },
    { "finetune", "train", NULL },    /* pruned weights stay 0 */
    { "distil", "train", NULL },      /* the same; default teacher: the recipe's model */
    { "recalibrate", "train", NULL }, /* statistics of batch normalizations only */
    { "speedup", "speedup", NULL },
    { "quantize", "quantize", NULL },
    { "export", "export", NULL },
    { "evaluate", "eval", NULL },
    { "sensitivity", "analyze", "sensitivity" },
    { NULL, NULL, NULL },
};

/* ---- values as text ------------------------------------------------------------------------- */

static const char *scalar_text(struct pare_arena *a, const struct pare_json *v)
{
    switch (v->kind) {
    case PARE_JSON_STR: return v->str;
    default: return pare_json_write(a, v);
    }
}

static bool is_scalar_list(const struct pare_json *v)
{
    for (int i = 0; i < v->n; i++)
        if (v->item[i].kind == PARE_JSON_LIST || v->item[i].kind == PARE_JSON_OBJECT)
            return false;
    return v->kind == PARE_JSON_LIST;
}

/* [1, 2] becomes "1,2"; a config_list stays JSON. */
static const char *value_text(struct pare_arena *a, const struct pare_json *v)
{
    const char **text = pare_alloc(a, (size_t)v->n + 1, sizeof(*text));

    if (!is_scalar_list(v))
        return scalar_text(a, v);
    for (int i = 0; i < v->n && text; i++) {
        text[i] = scalar_text(a, &v->item[i]);
        text = text[i] ? text : NULL;
    }
    return text ? pare_join(a, text, v->n, ",") : NULL;
}

static bool is_text_list(const struct pare_opt *opts, const char *name)
{
    const struct pare_opt *o = pare_opt_find(opts, name);

    return o && o->type == PARE_OPT_STRS;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int find_kind(const struct pare_json *j, const char *name, struct pare_recipe_step *s,
                     struct pare_err *err)
{
    const char *names[16];
    char hint[PARE_HINT_TEXT];
    int n = 0;

    for (const struct pare_step_kind *k = pare_step_kinds; k->name; k++) {
        const struct pare_command *cmd = pare_find_command(k->command);

        if (!cmd)
            continue;
        if (!strcmp(k->name, name)) {
            s->name = k->name;
            s->cmd = cmd;
            s->word = k->word;
            return 0;
        }
        names[n++] = k->name;
    }
    return pare_fail(err, PARE_ECONFIG, "line %d: unknown step '%s'%s", j->line, name,
                     pare_cli_hint(name, names, n, "; 'pare help compress' lists them", hint,
                                   sizeof(hint)));
}

int pare_recipe_step_parse(struct pare_arena *a, const struct pare_json *j,
                           struct pare_recipe_step *s, struct pare_err *err)
{
    const struct pare_json *kind = pare_json_get(j, "step");
    int cap = 0;

    if (j->kind != PARE_JSON_OBJECT || !kind || kind->kind != PARE_JSON_STR)
        return pare_fail(
            err, PARE_ECONFIG,
            "line %d: expected an object that names its step: {\"step\": \"prune\", ...}", j->line);
    PARE_TRY(find_kind(kind, kind->str, s, err));
    s->line = j->line;
    for (int i = 0; i < j->n; i++) {
        const struct pare_json *v = &j->item[i];
        bool each = is_scalar_list(v) && is_text_list(s->cmd->opts, v->key);

        if (v == kind || v->kind == PARE_JSON_NULL)
            continue;
        for (int k = 0; k < (each ? v->n : 1); k++) {
            s->given = pare_grow(a, s->given, s->n_given, &cap, sizeof(*s->given));
            if (!s->given)
                return pare_no_memory(err, "for the recipe");
            s->given[s->n_given] = (struct pare_given){ v->key,
                                                        value_text(a, each ? &v->item[k] : v) };
            if (!s->given[s->n_given++].text)
                return pare_no_memory(err, "for the recipe");
        }
    }
    return 0;
}

/* A quantized model has integer weights: it can be evaluated and exported, not changed. */
static int check_order(const struct pare_recipe *r, int i, struct pare_err *err)
{
    const struct pare_recipe_step *s = &r->step[i];
    bool reads = !strcmp(s->cmd->name, "eval") || !strcmp(s->cmd->name, "export");

    for (int k = 0; k < i && !reads; k++)
        if (!strcmp(r->step[k].cmd->name, "quantize"))
            return pare_fail(err, PARE_ECONFIG,
                             "line %d: step %d (%s) cannot follow step %d (quantize), whose model "
                             "can only be evaluated and exported",
                             s->line, i + 1, s->name, k + 1);
    return 0;
}

int pare_recipe_step_add(struct pare_arena *a, struct pare_recipe_steps *list,
                         const struct pare_recipe_step *s, struct pare_err *err)
{
    if (list->n >= 99)
        return pare_fail(err, PARE_ELIMIT,
                         "\"steps\" has more than 99 steps, counting each round of a repeat");
    list->step = pare_grow(a, list->step, list->n, &list->cap, sizeof(*list->step));
    if (!list->step)
        return pare_no_memory(err, "for the recipe");
    list->step[list->n++] = *s;
    return 0;
}

static int parse_steps(struct pare_arena *a, const struct pare_json *j, struct pare_recipe *r,
                       struct pare_err *err)
{
    struct pare_recipe_steps list = { 0 };
    bool masked = false;

    if (!j || j->kind != PARE_JSON_LIST || !j->n)
        return pare_fail(err, PARE_ECONFIG, "\"steps\" is %s, expected a list of at least one step",
                         !j                          ? "missing"
                         : j->kind == PARE_JSON_LIST ? "empty"
                                                     : pare_json_kind_name(j->kind));
    for (int i = 0; i < j->n; i++) {
        const struct pare_json *v = &j->item[i];
        struct pare_recipe_step s = { 0 };

        if (pare_json_get(v, "repeat")) {
            PARE_TRY(pare_recipe_repeat(a, v, r, &list, err));
            continue;
        }
        PARE_TRY(pare_recipe_step_parse(a, v, &s, err));
        PARE_TRY(pare_recipe_step_add(a, &list, &s, err));
    }
    r->step = list.step;
    for (; r->n_steps < list.n; r->n_steps++) {
        struct pare_recipe_step *s = &r->step[r->n_steps];

        PARE_TRY(check_order(r, r->n_steps, err));
        if (!strcmp(s->cmd->name, "prune") || !strcmp(s->cmd->name, "speedup"))
            masked = !strcmp(s->cmd->name, "prune");
        s->keep_zeros = masked &&
                        (!strcmp(s->cmd->name, "train") || !strcmp(s->cmd->name, "quantize"));
    }
    return 0;
}

/* ---- the recipe ----------------------------------------------------------------------------- */

/* Keys are those of the recipe or options of its data set. */
static int setting_of(struct pare_arena *a, const struct pare_json *v, struct pare_recipe *r,
                      struct pare_setting *set, int *n, struct pare_err *err)
{
    const struct pare_opt *o = pare_opt_find(pare_recipe_keys, v->key);
    const struct pare_opt *data = o ? NULL : pare_recipe_data_key(v->key);
    const char *text = value_text(a, v);
    struct pare_setting ignored;
    char hint[PARE_HINT_TEXT];

    if (!text)
        return pare_no_memory(err, "for the recipe");
    if (data) {
        PARE_TRY(pare_at(err, pare_opt_parse(data, text, &ignored, a, err), "line %d", v->line));
        return pare_recipe_option(a, r, data->name, text, err);
    }
    if (!o)
        return pare_fail(err, PARE_ECONFIG, "line %d: unknown key '%s'%s", v->line, v->key,
                         pare_recipe_key_hint(v->key, hint, sizeof(hint)));
    return pare_at(err, pare_opt_parse(o, text, &set[(*n)++], a, err), "line %d", v->line);
}

static int parse(struct pare_arena *a, const struct pare_json *root, struct pare_recipe *r,
                 struct pare_err *err)
{
    struct pare_setting *set;
    int n = 0;

    if (root->kind != PARE_JSON_OBJECT)
        return pare_fail(err, PARE_ECONFIG, "expected a JSON object, found %s",
                         pare_json_kind_name(root->kind));
    set = pare_alloc(a, (size_t)root->n + 1, sizeof(*set));
    if (!set)
        return pare_no_memory(err, "for the recipe");
    for (int i = 0; i < root->n; i++) {
        const struct pare_json *v = &root->item[i];

        if (strcmp(v->key, "steps") != 0 && v->kind != PARE_JSON_NULL)
            PARE_TRY(setting_of(a, v, r, set, &n, err));
    }
    PARE_TRY(pare_opts_apply(pare_recipe_keys, set, n, r, a, err));
    return parse_steps(a, pare_json_get(root, "steps"), r, err);
}

int pare_recipe_parse(struct pare_arena *a, const char *path, const char *text, size_t len,
                      struct pare_recipe *r, struct pare_err *err)
{
    struct pare_json root;

    *r = (struct pare_recipe){ .path = path };
    PARE_TRY(pare_at(err, pare_json_parse(a, text, len, &root, err), "%s", path));
    PARE_TRY(pare_at(err, parse(a, &root, r, err), "%s", path));
    r->text = pare_json_write(a, &root);
    return r->text ? 0 : pare_no_memory(err, "for the recipe");
}

/* The steps of a preset as JSON objects.  Texts of numbers become numbers. */
static const char *preset_steps(struct pare_arena *a, const struct pare_compress_preset *t)
{
    const char *text = "";

    if (t->pruner)
        text = pare_sprintf(a,
                            "{\"step\": \"prune\", \"pruner\": \"%s\", \"sparsity\": %g, "
                            "\"dependency-aware\": %s}, {\"step\": \"speedup\"}, "
                            "{\"step\": \"distil\"",
                            t->pruner, t->sparsity, t->dependency_aware ? "true" : "false");
    for (int i = 0; i < t->n_distill && text; i++) {
        bool number = t->distill[i].text[0] >= '0' && t->distill[i].text[0] <= '9';

        text = pare_sprintf(a, number ? "%s, \"%s\": %s" : "%s, \"%s\": \"%s\"", text,
                            t->distill[i].name, t->distill[i].text);
    }
    return text ? pare_sprintf(a, "%s%s{\"step\": \"quantize\", \"preset\": \"%s\"}", text,
                               t->pruner ? "}, " : "", t->quantize)
                : NULL;
}

const char *pare_recipe_preset(struct pare_arena *a, const char *preset, const char *model,
                               const char *data)
{
    const struct pare_compress_preset *t = pare_compress_preset(preset);
    const char *m = pare_json_quoted(a, model), *d = pare_json_quoted(a, data);
    const char *steps = t ? preset_steps(a, t) : NULL;

    return m && d && steps
               ? pare_sprintf(a, "{\"model\": %s, \"data\": %s, \"steps\": [%s]}", m, d, steps)
               : NULL;
}

/* ---- a step as a call of its command -------------------------------------------------------- */

bool pare_step_writes(const struct pare_recipe_step *s)
{
    return pare_opt_find(s->cmd->opts, "output") != NULL;
}

struct binding {
    const struct pare_recipe *r;
    const struct pare_recipe_step *s;
    struct pare_arena *arena;
    struct pare_given *given;
    int n;
};

static bool is_given(const struct binding *b, const char *name)
{
    for (int i = 0; i < b->s->n_given; i++) {
        const char *x = b->s->given[i].name, *y = name;

        while (*x && (*x == '_' ? '-' : *x) == *y)
            x++, y++;
        if (!*x && !*y)
            return true;
    }
    return false;
}

/* Add an option that the step does not set itself, if its command has it. */
static int add_default(struct binding *b, const char *name, const char *text, struct pare_err *err)
{
    const struct pare_opt *o;

    if (!text || is_given(b, name))
        return 0;
    PARE_TRY(pare_cli_option(b->s->cmd, b->arena, name, &o, err));
    /* Options of groups are for training, which needs data. */
    if (o && (b->r->data || pare_opt_find(b->s->cmd->opts, name)))
        b->given[b->n++] = (struct pare_given){ name, text };
    return 0;
}

/* Options of the data set, where the command's data set has them. */
static int add_data_options(struct binding *b, struct pare_err *err)
{
    for (int i = 0; i < b->r->n_options; i++)
        if (!pare_opt_find(b->s->cmd->opts, b->r->option[i].name))
            PARE_TRY(add_default(b, b->r->option[i].name, b->r->option[i].text, err));
    return 0;
}

#define MOST_ADDED (16 + PARE_RECIPE_DATA_KEYS)

static int add_defaults(struct binding *b, const struct pare_step_files *f, struct pare_err *err)
{
    const struct pare_recipe *r = b->r;
    struct pare_arena *a = b->arena;
    bool eval = !strcmp(b->s->cmd->name, "eval");

    PARE_TRY(add_default(b, "data", eval && r->valid ? r->valid : r->data, err));
    PARE_TRY(add_default(b, "valid", r->valid, err));
    PARE_TRY(add_data_options(b, err));
    PARE_TRY(add_default(b, "seed", pare_sprintf(a, "%lld", (long long)r->seed), err));
    PARE_TRY(add_default(b, "threads", pare_sprintf(a, "%lld", (long long)r->threads), err));
    PARE_TRY(add_default(b, "output", f->output, err));
    PARE_TRY(add_default(b, "checkpoint", f->checkpoint, err));
    PARE_TRY(add_default(b, "resume", f->resume ? "true" : NULL, err));
    PARE_TRY(add_default(b, "keep-zeros", b->s->keep_zeros ? "true" : NULL, err));
    PARE_TRY(add_default(b, "bn-only", strcmp(b->s->name, "recalibrate") ? NULL : "true", err));
    if (!strcmp(b->s->name, "distil") || (r->no_labels && !strcmp(b->s->cmd->name, "train")))
        PARE_TRY(add_default(b, "teacher", r->model, err));
    /* All models are measured at the end. */
    if (!strcmp(b->s->cmd->name, "speedup") || is_given(b, "speedup"))
        PARE_TRY(add_default(b, "no-bench", "true", err));
    PARE_TRY(add_default(b, "quiet", f->quiet ? "true" : NULL, err));
    return add_default(b, "json", "true", err);
}

int pare_recipe_call(const struct pare_recipe *r, int i, const struct pare_step_files *f,
                     struct pare_arena *a, struct pare_call *k, struct pare_err *err)
{
    struct binding b = { .r = r, .s = &r->step[i], .arena = a };
    const char **arg = pare_alloc(a, 2, sizeof(*arg));

    b.given = pare_alloc(a, (size_t)b.s->n_given + MOST_ADDED, sizeof(*b.given));
    if (!b.given || !arg)
        return pare_no_memory(err, "for a step");
    for (; b.n < b.s->n_given; b.n++)
        b.given[b.n] = b.s->given[b.n];
    PARE_TRY(add_defaults(&b, f, err));
    arg[0] = b.s->word ? b.s->word : f->model;
    arg[1] = f->model;
    *k = (struct pare_call){
        b.s->cmd, b.given, b.n, arg, b.s->word ? 2 : 1, r->keep_training_mode
    };
    return 0;
}

int pare_recipe_bind(const struct pare_recipe *r, int i, const struct pare_step_files *f,
                     struct pare_cli *c, struct pare_err *err)
{
    struct pare_call k;

    PARE_TRY(pare_recipe_call(r, i, f, c->arena, &k, err));
    return pare_cli_fill(&k, c, err);
}
