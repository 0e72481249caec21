/* search_auto_compress.c - auto_compress: rounds of annealing, ADMM training and speedup.
 * Liu et al., "AutoCompress: an automatic DNN structured pruning framework for ultra-high
 * compression rates", 2020.
 *
 * Each of n rounds removes the same fraction of what is left, 1 - (1 - sparsity)^(1/n): simulated
 * annealing finds the sparsities of the layers, ADMM trains toward them and prunes, and speedup
 * makes the model smaller for the next round.  The last round's ADMM and speedup are those of the
 * caller.
 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "search.h"

#include "../base/arena.h"

struct opts {
    struct pare_search_opts common; /* first */
    struct pare_annealing annealing;
    int64_t num_iterations, admm_num_iterations, admm_epochs_per_iteration;
    double row;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_SEARCH_OPTS,
    PARE_ANNEALING_OPTS(offsetof(struct opts, annealing)),
    PARE_INT("num_iterations", offsetof(struct opts, num_iterations),
             "number of rounds", 3, 1, 100),
    PARE_INT("admm_num_iterations", offsetof(struct opts, admm_num_iterations),
             "training rounds of ADMM (NNI: 30)", 5, 1, 1e6),
    PARE_INT("admm_epochs_per_iteration", offsetof(struct opts, admm_epochs_per_iteration),
             "epochs in each of them (NNI: 5)", 1, 1, 1e6),
    PARE_FLOAT("row", offsetof(struct opts, row),
               "strength of ADMM's pull toward sparse weights, rho", 1e-4, 0, 1e6),
    PARE_OPT_END
};
/* clang-format on */

static int check(const void *given, struct pare_err *err)
{
    return pare_annealing_check(&((const struct opts *)given)->annealing, err);
}

/* Options of ADMM: those of the base pruner, such as mode, and its own. */
static int admm_options(struct pare_search *s, const struct opts *o, struct pare_err *err)
{
    struct pare_given *g = pare_alloc(s->arena, (size_t)s->n_given + 4, sizeof(*g));
    bool mode = false;

    if (!g)
        return pare_no_memory(err, "for a search");
    s->n_last = 0;
    for (int i = 0; i < s->n_given; i++) {
        mode |= !strcmp(s->given[i].name, "mode");
        g[s->n_last++] = s->given[i];
    }
    if (!mode)
        g[s->n_last++] = (struct pare_given){ "mode", "dependency_aware" };
    g[s->n_last++] = (struct pare_given){
        "iterations", pare_sprintf(s->arena, "%lld", (long long)o->admm_num_iterations)
    };
    g[s->n_last++] = (struct pare_given){
        "training_epochs", pare_sprintf(s->arena, "%lld", (long long)o->admm_epochs_per_iteration)
    };
    s->last = g;
    s->pruner = "admm";
    s->more = pare_sprintf(s->arena, ", \"granularity\": \"out_channel\", \"rho\": %.9g", o->row);
    return g[s->n_last - 2].text && g[s->n_last - 1].text && s->more
               ? 0
               : pare_no_memory(err, "for a search");
}

/* "name=value name=value"; of training: without what is about the job as a whole. */
static const char *words(struct pare_arena *a, const struct pare_given *g, int n, bool training)
{
    const char *text = "";

    for (int i = 0; i < n && text; i++)
        if (!training || !pare_tuning_is_of_job(g[i].name))
            text = pare_sprintf(a, "%s%s%s=%s", text, *text ? " " : "", g[i].name, g[i].text);
    return text;
}

/* Train with ADMM, prune and shrink s->model. */
static int shrink(struct pare_search *s, struct pare_err *err)
{
    const struct pare_finetune *f = &s->job->tune;
    struct pare_speedup_opts how = { .size = sizeof(how), .threads = (int)f->options->c.threads };
    struct pare_prune_opts o = { .size = sizeof(o),
                                 .pruner = "admm",
                                 .config = pare_candidate_config_with(s, s->best, s->more),
                                 .settings = words(s->arena, s->last, s->n_last, false),
                                 .registry = s->job->o.registry,
                                 .tuning = { .data = s->rest },
                                 .speedup = true,
                                 .shrink = &how,
                                 .repair = PARE_REPAIR_OFF };
    struct pare_model *small;

    o.tuning.settings = words(s->arena, f->given, f->n_given, true);
    if (!o.config || !o.settings || !o.tuning.settings)
        return pare_no_memory(err, "for a search");
    PARE_TRY(pare_prune(s->model, &o, &small, NULL, err));
    pare_model_free(s->model);
    s->model = small;
    return 0;
}

/* The model after a round, from its file if there is one: a resumed search then continues as the
 * first one would have. */
static int next_model(struct pare_search *s, int64_t round, struct pare_err *err)
{
    const struct pare_history *h = &s->history;
    const char *path = h->folder ? pare_sprintf(s->arena, "%s/round_%lld.onnx", h->folder,
                                                (long long)round)
                                 : NULL;

    if (!h->folder)
        return shrink(s, err);
    if (!path)
        return pare_no_memory(err, "for a search");
    if (access(path, F_OK)) {
        PARE_TRY(shrink(s, err));
        if (h->writes)
            PARE_TRY(pare_model_save(s->model, path, NULL, err));
        PARE_TRY(pare_dist_barrier(s->job->tune.dist, err));
    }
    pare_model_free(s->model);
    s->model = NULL;
    return pare_model_load(path, &s->model, err);
}

static int run(struct pare_search *s, struct pare_err *err)
{
    const struct opts *o = (const struct opts *)s->o;
    double each = 1 - pow(1 - s->target, 1 / (double)o->num_iterations);

    if (!s->channels)
        return pare_fail(err, PARE_ECONFIG,
                         "base_algo is '%s', but only channels make the model smaller: use l1, l2 "
                         "or fpgm",
                         o->common.base_algo);
    for (int64_t i = 1; i <= o->num_iterations; i++) {
        s->target = each;
        PARE_TRY(pare_annealing_run(s, &o->annealing, err));
        PARE_TRY(admm_options(s, o, err));
        if (i == o->num_iterations)
            break;
        PARE_TRY(next_model(s, i, err));
        s->total = 0; /* fractions are of this model */
        PARE_TRY(pare_search_layers(s, err));
    }
    if (o->num_iterations > 1) {
        s->found = s->model;
        s->model = NULL;
    }
    return 0;
}

const struct pare_search_kind pare_search_auto_compress = {
    .algorithm = PARE_SEARCH_ALGORITHM(
        "auto_compress",
        "Rounds of simulated annealing, training with ADMM and removal of channels.", opts,
        struct opts),
    .check = check,
    .run = run,
};
