/* run_record.c - the run record (run.json): hashes, sizes, accuracy and latency of each step. */
#include "run_record.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "recipe_mpi.h"
#include "../../base/arena.h"
#include "../../onnx/model.h"

int pare_call(const struct pare_recipe *r, const struct pare_call *k, json_t **result,
              struct pare_err *err)
{
    struct pare_cli c = { .in_recipe = true, .arena = pare_arena_new(1 << 16), .result = result };
    int rc = c.arena ? pare_cli_fill(k, &c, err) : pare_fail(err, PARE_ENOMEM, "no memory");

    *result = NULL;
    if (!rc)
        rc = pare_recipe_mpi(r->dist, k, &c.dist, err);
    if (!rc)
        rc = k->cmd->run(&c, err);
    if (rc) {
        json_decref(*result);
        *result = NULL;
    }
    if (!rc && !*result)
        rc = pare_fail(err, PARE_EUNSUPPORTED, "'pare %s' returned no result", k->cmd->name);
    pare_arena_free(c.arena);
    return rc;
}

/* ---- hashes --------------------------------------------------------------------------------- */

static int hash_file(struct pare_sha256 *s, const char *path, struct pare_err *err)
{
    FILE *f = fopen(path, "rb");
    char buf[1 << 15];
    size_t n;
    int rc = 0;

    if (!f)
        return pare_fail(err, PARE_EIO, "%s: %s", path, strerror(errno));
    while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
        pare_sha256_add(s, buf, n);
    if (ferror(f))
        rc = pare_fail(err, PARE_EIO, "%s: cannot read: %s", path, strerror(errno));
    fclose(f);
    return rc;
}

int pare_model_sha256(const char *path, char text[PARE_SHA256_TEXT], struct pare_err *err)
{
    struct pare_model *m;
    struct pare_sha256 s;
    int rc;

    PARE_TRY(pare_model_load(path, &m, err));
    pare_sha256_init(&s);
    rc = hash_file(&s, path, err);
    for (const struct pare_model *k = m; k; k = k->base)
        for (const struct pare_pages *p = k->pages; p; p = p->next)
            if (p->name)
                pare_sha256_add(&s, p->data, p->len);
    pare_model_free(m);
    pare_sha256_text(&s, text);
    return rc;
}

void pare_record_hash_data(struct pare_sha256 *h, const char *path)
{
    struct stat s;
    int64_t facts[3];

    if (!path || stat(path, &s))
        return;
    facts[0] = (int64_t)s.st_size;
    facts[1] = (int64_t)s.st_mtim.tv_sec;
    facts[2] = (int64_t)s.st_mtim.tv_nsec;
    pare_sha256_add(h, facts, sizeof(facts));
}

/* ---- models --------------------------------------------------------------------------------- */

static double numel(const json_t *layer)
{
    const json_t *shape = json_object_get(json_object_get(layer, "weight"), "shape");
    double n = 1;

    for (size_t i = 0; i < json_array_size(shape); i++)
        n *= (double)json_integer_value(json_array_get(shape, i));
    return n;
}

/* Fraction of zeros in all weights of layers. */
static double zeros(const json_t *inspected)
{
    const json_t *l;
    double all = 0, none = 0;
    size_t i;

    json_array_foreach(json_object_get(inspected, "layers"), i, l)
    {
        none += numel(l) * json_real_value(json_object_get(l, "zeros"));
        all += numel(l);
    }
    return all > 0 ? none / all : 0;
}

static int evaluate(const struct pare_recipe *r, struct pare_arena *a, const char *path,
                    json_t *facts, struct pare_err *err)
{
    static const char *const keys[][2] = {
        { "accuracy", "top1" },       { "top5", "top5" },
        { "loss", "loss" },           { "items", "items" },
        { "snr_db", "snr_db" },       { "cosine", "cosine" },
        { "same_top1", "same_top1" }, { "max_difference", "max_difference" },
        { "task", "task" },           { "metrics", "metrics" },
        { "runs", "runs" },           { "unequal_runs", "unequal_runs" },
    };
    struct pare_given *g = pare_alloc(a, (size_t)r->n_options + 4, sizeof(*g));
    struct pare_call k = { pare_find_command("eval"), g, 0, &path, 1, r->keep_training_mode };
    json_t *e;

    if (!g)
        return pare_no_memory(err, "for the options");
    g[k.n_given++] = (struct pare_given){ "data", r->valid ? r->valid : r->data };
    g[k.n_given++] = (struct pare_given){ "threads",
                                          pare_sprintf(a, "%lld", (long long)r->threads) };
    g[k.n_given++] = (struct pare_given){ "json", "true" };
    if (r->no_labels)
        g[k.n_given++] = (struct pare_given){ "against", r->model };
    for (int i = 0; i < r->n_options; i++)
        g[k.n_given++] = r->option[i];
    if (!g[1].text)
        return pare_no_memory(err, "for the options");
    PARE_TRY(pare_call(r, &k, &e, err));
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (json_object_get(e, keys[i][1]))
            json_object_set(facts, keys[i][0], json_object_get(e, keys[i][1]));
    json_decref(e);
    return 0;
}

/* Options and, at the end, a 'shape' for each input whose size the data set determines. */
static struct pare_given *with_shapes(const struct pare_recipe *r, struct pare_arena *a,
                                      const struct pare_given *first, int n)
{
    struct pare_given *g = pare_alloc(a, (size_t)(n + r->shape.n), sizeof(*g));

    if (!g)
        return NULL;
    memcpy(g, first, (size_t)n * sizeof(*g));
    for (int i = 0; i < r->shape.n; i++)
        g[n + i] = (struct pare_given){ "shape", r->shape.v[i] };
    return g;
}

int pare_record_model(const struct pare_recipe *r, struct pare_arena *a, const char *path,
                      json_t **facts, json_t **inspected, struct pare_err *err)
{
    static const struct pare_given g[] = { { "weights", "true" }, { "json", "true" } };
    struct pare_call k = {
        pare_find_command("inspect"), with_shapes(r, a, g, 2), 2 + r->shape.n, &path, 1,
        r->keep_training_mode
    };
    char sha[PARE_SHA256_TEXT];
    json_t *look;
    int rc;

    *facts = NULL;
    if (!k.given)
        return pare_no_memory(err, "for the options");
    PARE_TRY(pare_model_sha256(path, sha, err));
    PARE_TRY(pare_call(r, &k, &look, err));
    *facts = json_pack("{s:o, s:s, s:O, s:O, s:O, s:f, s:i}", "path", pare_json_text(path),
                       "sha256", sha, "bytes", json_object_get(look, "bytes"), "parameters",
                       json_object_get(look, "parameters"), "macs", json_object_get(look, "macs"),
                       "zeros", zeros(look), "layers",
                       (int)json_array_size(json_object_get(look, "layers")));
    rc = *facts ? 0 : pare_no_memory(err, "for the record");
    if (!rc && r->data)
        rc = evaluate(r, a, path, *facts, err);
    if (inspected && !rc)
        *inspected = look;
    else
        json_decref(look);
    return rc;
}

/* ---- latency -------------------------------------------------------------------------------- */

struct models {
    const char *path[101];
    json_t *facts[101];
    int n;
};

static void add_model(struct models *m, json_t *facts)
{
    const char *path = json_string_value(json_object_get(facts, "path"));

    if (path && m->n < 101) {
        m->path[m->n] = path;
        m->facts[m->n++] = facts;
    }
}

static int measure(const struct pare_recipe *r, const struct models *m, struct pare_call *k,
                   json_t *run, struct pare_err *err)
{
    json_t *b;

    PARE_TRY(pare_call(r, k, &b, err));
    for (int i = 0; i < m->n; i++) {
        json_t *one = json_array_get(json_object_get(b, "models"), (size_t)i);

        json_object_set(m->facts[i], "seconds", json_object_get(one, "median_seconds"));
        json_object_set(m->facts[i], "p10_seconds", json_object_get(one, "p10_seconds"));
        json_object_set(m->facts[i], "p90_seconds", json_object_get(one, "p90_seconds"));
    }
    json_object_set_new(run, "latency", b);
    return 0;
}

int pare_record_latency(const struct pare_recipe *r, struct pare_arena *a, json_t *run,
                        struct pare_err *err)
{
    const struct pare_given g[] = {
        { "threads", pare_sprintf(a, "%lld", (long long)r->threads) },
        { "seconds", pare_sprintf(a, "%.17g", r->seconds) },
        { "seed", pare_sprintf(a, "%lld", (long long)r->seed) },
        { "json", "true" },
    };
    struct pare_call k = { .cmd = pare_find_command("bench"),
                           .given = with_shapes(r, a, g, 4),
                           .n_given = 4 + r->shape.n,
                           .keep_training_mode = r->keep_training_mode };
    const json_t *steps = json_object_get(run, "steps");
    struct models m = { .n = 0 };

    if (!k.given || !g[0].text || !g[1].text || !g[2].text)
        return pare_no_memory(err, "for the options");
    add_model(&m, json_object_get(run, "input"));
    for (size_t i = 0; i < json_array_size(steps); i++)
        add_model(&m, json_object_get(json_array_get(steps, i), "model"));
    add_model(&m, json_object_get(run, "output"));
    k.arg = m.path;
    k.n_args = m.n;
    return measure(r, &m, &k, run, err);
}

/* ---- layers --------------------------------------------------------------------------------- */

static json_t *by_name(const json_t *list, const char *name)
{
    json_t *l;
    size_t i;

    json_array_foreach(list, i, l)
    {
        const char *s = json_string_value(json_object_get(l, "name"));

        if (s && !strcmp(s, name))
            return l;
    }
    return NULL;
}

static json_t *shape_and_work(const json_t *l)
{
    return json_pack("{s:O, s:O, s:O, s:O}", "shape",
                     json_object_get(json_object_get(l, "weight"), "shape"), "parameters",
                     json_object_get(l, "parameters"), "macs", json_object_get(l, "macs"), "zeros",
                     json_object_get(l, "zeros"));
}

static bool is_int8(const json_t *layer)
{
    const char *format = json_string_value(json_object_get(layer, "format"));

    return format && !strcmp(format, "int8");
}

/* Add the steps' results for a layer. */
static void add_steps(json_t *to, const char *name, const json_t *steps)
{
    static const char *const sites[] = { "weight", "input", "output" };
    json_t *s;
    size_t i;

    json_array_foreach(steps, i, s)
    {
        const char *cmd = json_string_value(json_object_get(s, "command"));
        json_t *l = by_name(json_object_get(json_object_get(s, "result"), "layers"), name);

        if (!cmd || !l)
            continue;
        if (!strcmp(cmd, "prune")) {
            json_object_set(to, "sparsity", json_object_get(l, "sparsity"));
            json_object_set(to, "sparsity_asked", json_object_get(l, "asked"));
        } else if (!strcmp(cmd, "speedup") || !strcmp(cmd, "compress")) {
            if (json_object_get(l, "why"))
                json_object_set(to, "why", json_object_get(l, "why"));
            if (is_int8(l))
                json_object_set_new(to, "quantized",
                                    json_pack("{s:{s:i}, s:{s:i}}", "weight", "bits", 8, "input",
                                              "bits", 8));
            json_object_set(to, "channels_in", json_object_get(l, "in"));
            json_object_set(to, "channels_in_left", json_object_get(l, "in_left"));
            json_object_set(to, "channels_out", json_object_get(l, "out"));
            json_object_set(to, "channels_out_left", json_object_get(l, "out_left"));
        } else if (!strcmp(cmd, "quantize")) {
            json_t *q = json_object();

            for (size_t p = 0; p < 3; p++)
                if (json_object_get(l, sites[p]))
                    json_object_set(q, sites[p], json_object_get(l, sites[p]));
            json_object_set_new(to, "quantized", q);
        }
    }
}

int pare_record_layers(const json_t *before, const json_t *after, json_t *run, struct pare_err *err)
{
    json_t *list = json_array(), *bins, *l;
    size_t i;
    int rc = pare_weight_bins(json_string_value(json_object_get(before, "file")),
                              json_string_value(json_object_get(after, "file")), &bins, err);

    json_array_foreach(json_object_get(before, "layers"), i, l)
    {
        const char *name = json_string_value(json_object_get(l, "name"));
        json_t *then = name ? by_name(json_object_get(after, "layers"), name) : NULL;
        json_t *to = json_pack("{s:O, s:O, s:o, s:o}", "name", json_object_get(l, "name"), "type",
                               json_object_get(l, "torch_type"), "before", shape_and_work(l),
                               "after", then ? shape_and_work(then) : json_null());

        if (!to || rc) {
            json_decref(to);
            continue;
        }
        add_steps(to, name, json_object_get(run, "steps"));
        json_object_set(to, "weights", json_object_get(bins, name));
        json_array_append_new(list, to);
    }
    json_decref(bins);
    json_object_set_new(run, "layers", list);
    return rc;
}

int pare_record_save(struct pare_arena *a, const json_t *run, const char *path,
                     struct pare_err *err)
{
    struct pare_mark m = pare_mark(a);
    const char *text = pare_json_dump(a, run, true);
    int rc = text ? pare_file_write(path, text, strlen(text), err)
                  : pare_no_memory(err, "for the recipe");

    pare_reset(a, m);
    return rc;
}
