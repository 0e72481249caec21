/* searches.c - the list of searches, and pare_search_run(): open, search, hand over to pruning. */
#include <math.h>
#include <string.h>

#include "search.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/sha256.h"
#include "../compress/wrap.h"
#include "../prune/dependency_groups.h"
#include "../prune/prune_state.h"

#define SEARCH(name) extern const struct pare_search_kind pare_search_##name;
#include "searches.def"
#undef SEARCH

const struct pare_algorithm *const pare_searches[] = {
#define SEARCH(name) &pare_search_##name.algorithm,
#include "searches.def"
#undef SEARCH
    NULL
};

/* ---- options --------------------------------------------------------------------------------- */

static const struct pare_search_kind *kind_of(const struct pare_prune_job *j)
{
    for (int i = 0; pare_searches[i]; i++)
        if (!strcmp(pare_searches[i]->name, j->o.pruner))
            return (const struct pare_search_kind *)pare_searches[i]; /* its first member */
    return NULL;
}

const char *pare_search_base(const struct pare_prune_job *j)
{
    for (int i = j->n_given - 1; i >= 0; i--)
        if (pare_same_option_name(j->given[i].name, "base_algo"))
            return j->given[i].text;
    return "l1";
}

/* Fill the options of the search; *rest: those of the base pruner. */
static int read_options(const struct pare_prune_job *j, struct pare_arena *a,
                        struct pare_search_opts **o, struct pare_given **rest, int *n,
                        struct pare_err *err)
{
    const struct pare_algorithm *k = &kind_of(j)->algorithm;
    struct pare_option_group own = { "pruner", k->name, k->opts, NULL };
    struct pare_given *all;
    int n_all;

    PARE_TRY(pare_given_join(j->given, j->n_given, j->o.settings, a, &all, &n_all, err));
    *o = own.into = pare_alloc(a, 1, k->opts_size);
    *rest = pare_alloc(a, (size_t)n_all + 1, sizeof(**rest));
    if (!*o || !*rest)
        return pare_no_memory(err, "for the options");
    PARE_TRY(pare_option_group_fill(&own, all, n_all, a, err));
    *n = 0;
    for (int i = 0; i < n_all; i++)
        if (!pare_option_group_find(&own, all[i].name))
            (*rest)[(*n)++] = all[i];
    return 0;
}

static int check_base(const struct pare_prune_job *j, const char *base, struct pare_err *err)
{
    const struct pare_algorithm *p;

    PARE_TRY(pare_find_pruner(j->o.registry, base, &p, err));
    if (pare_is_search(p) || p->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS | PARE_USES_BASE))
        return pare_fail(err, PARE_ECONFIG,
                         "base_algo is '%s', which needs training or data to score weights; use "
                         "level, l1, l2, fpgm or another pruner that needs only weights",
                         base);
    return 0;
}

int pare_search_check(const struct pare_prune_job *j, struct pare_err *err)
{
    const struct pare_search_kind *k = kind_of(j);
    struct pare_mark m = pare_mark(j->tune.arena);
    struct pare_search_opts *o;
    struct pare_given *rest;
    int n, rc;

    rc = read_options(j, j->tune.arena, &o, &rest, &n, err);
    if (!rc && k->check)
        rc = k->check(o, err);
    if (!rc)
        rc = check_base(j, o->base_algo, err);
    if (!rc && !pare_finetune_has_data(&j->tune))
        rc = pare_fail(err, PARE_ECONFIG,
                       "%s evaluates on held-out items of the training data: use --data",
                       k->algorithm.name);
    if (!rc && j->tune.data[0] && (!j->tune.data[0]->y.data || j->tune.data[0]->n < 10))
        rc = pare_fail(err, PARE_ECONFIG, "%s needs a data set with labels and at least 10 items",
                       k->algorithm.name);
    pare_reset(j->tune.arena, m);
    return rc;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static double cost_of(const struct pare_search *s, const struct pare_layer *l)
{
    return strcmp(s->o->resource, "macs") ? (double)pare_numel(&l->w)
           : l->info.macs > 0             ? l->info.macs
                                          : 0;
}

/* Layers of a dependency group get the same sparsity: the least one would count. */
static int join_parts(struct pare_compression *c, int *part, struct pare_err *err)
{
    const struct pare_dependency_groups *d;
    int n = pare_compression_layers(c);

    if (!pare_prune_by_groups(c))
        return 0;
    PARE_TRY(pare_compression_groups(c, &d, err));
    for (int i = 0; i < d->n; i++)
        for (int k = 1; k < d->list[i].n_layers; k++) {
            int x = d->list[i].layer[0], y = d->list[i].layer[k];
            int from, to;

            if (x >= n || y >= n || part[x] == part[y])
                continue;
            from = part[x] > part[y] ? part[x] : part[y];
            to = part[x] > part[y] ? part[y] : part[x];
            for (int l = 0; l < n; l++)
                part[l] = part[l] == from ? to : part[l];
        }
    return 0;
}

/* Parts 0 .. s->n - 1 in the order of their first layers. */
static int number_parts(struct pare_search *s, struct pare_compression *c, const int *part,
                        struct pare_err *err)
{
    int n = pare_compression_layers(c), *number = pare_alloc(s->arena, (size_t)n + 1, sizeof(int));
    double all = 0, gone = 0;

    s->layer = pare_alloc(s->arena, (size_t)n + 1, sizeof(*s->layer));
    s->weight = pare_alloc(s->arena, (size_t)n + 1, sizeof(*s->weight));
    s->best = pare_alloc(s->arena, (size_t)n + 1, sizeof(*s->best));
    if (!number || !s->layer || !s->weight || !s->best)
        return pare_no_memory(err, "for a search");
    for (int i = 0; i < n; i++)
        number[i] = -1;
    for (int i = 0; i < n; i++) {
        const struct pare_layer *l = pare_compression_layer(c, i);
        struct pare_search_layer *to = &s->layer[s->n_layers];

        if (l->is_second)
            continue;
        if (l->prune->goal.pattern || strcmp(l->prune->goal.granularity, "default") != 0)
            return pare_fail(err, PARE_ECONFIG,
                             "layer '%s': the config_list of a search has only sparsities, and the "
                             "granularity is that of base_algo",
                             l->info.name);
        s->channels |= pare_layer_by_channels(l);
        if (number[part[i]] < 0)
            number[part[i]] = s->n++;
        to->part = number[part[i]];
        to->name = pare_strdup(s->arena, l->info.name);
        to->type = pare_strdup(s->arena, l->info.torch);
        if (!to->name || !to->type)
            return pare_no_memory(err, "for a search");
        s->n_layers++;
        s->weight[to->part] += cost_of(s, l);
        all += cost_of(s, l);
        gone += cost_of(s, l) * fmax(l->prune->config_sparsity, 0);
    }
    s->target = all > 0 ? gone / all : 0;
    s->best[0] = NAN;
    return s->n && s->target > 0
               ? 0
               : pare_fail(err, PARE_ECONFIG, "there are no weights to search sparsities for");
}

int pare_search_layers(struct pare_search *s, struct pare_err *err)
{
    struct pare_prune_job probe = {
        .o = s->job->o,
        .given = s->given,
        .n_given = s->n_given,
        .tune = { .arena = s->arena, .model = s->model, .path = s->job->tune.path }
    };
    int rc, n, *part = NULL;

    s->n = s->n_layers = 0;
    probe.o.pruner = s->o->base_algo;
    probe.o.settings = NULL;
    rc = pare_prune_open(&probe, err);
    s->given = probe.given;
    s->n_given = probe.n_given;
    if (!rc) {
        n = pare_compression_layers(probe.compression);
        part = pare_alloc(s->arena, (size_t)n + 1, sizeof(*part));
        rc = part ? 0 : pare_no_memory(err, "for a search");
        for (int i = 0; i < n && part; i++)
            part[i] = i;
    }
    if (!rc)
        rc = join_parts(probe.compression, part, err);
    if (!rc)
        rc = number_parts(s, probe.compression, part, err);
    pare_compression_free(probe.compression);
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

static const char *add_given(struct pare_arena *a, const char *text, const struct pare_given *g,
                             int n)
{
    for (int i = 0; i < n && text; i++)
        if (!pare_same_option_name(g[i].name, "experiment_data_dir") &&
            !pare_same_option_name(g[i].name, "threads") && !pare_tuning_is_of_job(g[i].name))
            text = pare_sprintf(a, "%s, %s: %s", text, pare_json_quoted(a, g[i].name),
                                pare_json_quoted(a, g[i].text));
    return text;
}

/* What determines a search, for the folder of its history. */
static const char *identity(const struct pare_search *s, struct pare_err *err)
{
    const struct pare_prune_job *j = s->job;
    struct pare_mark m = pare_mark(s->arena);
    char sha[PARE_SHA256_TEXT];
    const char *text;
    struct pare_sha256 h;
    void *bytes;
    size_t len;

    if (pare_model_pack(s->model, s->arena, &bytes, &len, err))
        return NULL;
    pare_sha256_init(&h);
    pare_sha256_add(&h, bytes, len);
    pare_sha256_text(&h, sha);
    pare_reset(s->arena, m);
    text = pare_sprintf(s->arena,
                        "{\"search\": \"%s\", \"model_sha256\": \"%s\", \"seed\": %lld, "
                        "\"items\": %lld, \"held_out\": %lld, \"target\": %.17g",
                        j->o.pruner, sha, (long long)j->tune.options->c.seed,
                        (long long)j->tune.data[0]->n, (long long)s->held->n, s->target);
    text = add_given(s->arena, text, j->given, j->n_given);
    text = add_given(s->arena, text, j->tune.given, j->tune.n_given);
    text = text ? pare_sprintf(s->arena, "%s}\n", text) : NULL;
    if (!text)
        pare_no_memory(err, "for a search");
    return text;
}

static int open_search(struct pare_search *s, struct pare_err *err)
{
    struct pare_finetune *f = &s->job->tune;
    struct pare_search_opts *o;
    struct pare_given *rest;
    int64_t n;
    const char *id;

    s->start = pare_now();
    PARE_TRY(read_options(s->job, s->arena, &o, &rest, &s->n_given, err));
    s->o = o;
    s->given = rest;
    n = f->data[0]->n / 5 < o->eval_items ? f->data[0]->n / 5 : o->eval_items;
    PARE_TRY(pare_data_part(f->data[0], n, true, &s->held, err));
    PARE_TRY(pare_data_part(f->data[0], n, false, &s->rest, err));
    PARE_TRY(pare_model_duplicate(f->model, &s->model, err));
    PARE_TRY(pare_search_layers(s, err));
    pare_rng_init(&s->rng, (uint64_t)f->options->c.seed);
    s->history = (struct pare_history){ .arena = s->arena,
                                        .folder = o->experiment_data_dir,
                                        .writes = !pare_dist_rank(f->dist) };
    id = o->experiment_data_dir ? identity(s, err) : "";
    if (!id)
        return err->code;
    PARE_TRY(pare_history_open(&s->history, id, err));
    return pare_dist_barrier(f->dist, err);
}

/* Texts of the job outlive the search. */
static int keep_given(struct pare_arena *a, const struct pare_given *g, int n,
                      struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_given *copy = pare_alloc(a, (size_t)n + 1, sizeof(*copy));

    if (!copy)
        return pare_no_memory(err, "for a search");
    for (int i = 0; i < n; i++) {
        copy[i].name = pare_strdup(a, g[i].name);
        copy[i].text = pare_strdup(a, g[i].text);
        if (!copy[i].name || !copy[i].text)
            return pare_no_memory(err, "for a search");
    }
    j->given = copy;
    j->n_given = n;
    return 0;
}

/* The trainer belongs to the model that it was made for. */
static int replace_model(struct pare_search *s, struct pare_err *err)
{
    struct pare_prune_job *j = s->job;
    struct pare_finetune *f = &j->tune;

    if (!s->found)
        return 0;
    pare_trainer_free(f->trainer);
    f->trainer = NULL;
    f->model = j->found = s->found;
    s->found = NULL;
    return pare_trainer_new(f->model, &f->options->trainer, &f->trainer, err);
}

static int hand_over(struct pare_search *s, struct pare_err *err)
{
    struct pare_prune_job *j = s->job;
    struct pare_arena *a = j->tune.arena;
    const char *config = pare_candidate_config(s, s->best);
    struct pare_history_row best = { s->target, s->best_performance, config };

    if (!config)
        return pare_no_memory(err, "for a search");
    if (isnan(s->best[0]))
        return pare_fail(err, PARE_ECONFIG, "the search found no candidate that can be evaluated");
    PARE_TRY(pare_history_result(&s->history, &best, err));
    PARE_TRY(replace_model(s, err));
    config = pare_candidate_config_with(s, s->best, s->more ? s->more : "");
    j->o.config = config ? pare_strdup(a, config) : NULL;
    j->o.pruner = pare_strdup(a, s->pruner ? s->pruner : s->o->base_algo);
    if (!j->o.config || !j->o.pruner)
        return pare_no_memory(err, "for a search");
    j->o.rule = NULL;
    j->o.n_rules = 0;
    j->o.sparsity = -1;
    j->o.settings = NULL;
    j->searched = true;
    return s->last ? keep_given(a, s->last, s->n_last, j, err)
                   : keep_given(a, s->given, s->n_given, j, err);
}

int pare_search_run(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_search s = { .job = j, .arena = pare_arena_new(1 << 16) };
    const char *name = j->o.pruner;
    int rc;

    if (!s.arena)
        return pare_no_memory(err, "for a search");
    rc = open_search(&s, err);
    if (!rc)
        rc = kind_of(j)->run(&s, err);
    if (!rc)
        rc = hand_over(&s, err);
    pare_model_free(s.found);
    pare_model_free(s.model);
    pare_data_free(s.held);
    pare_data_free(s.rest);
    pare_arena_free(s.arena);
    return pare_at(err, rc, "search %s", name);
}
