/* search_sensitivity.c - sensitivity: prune layers in proportion to what each one can lose.
 *
 * Each round prunes every part alone to 0.1, 0.2, ... 0.9 of what is left of it; p is the first
 * sparsity at which the accuracy drops by more than acc_drop_threshold, or the last one.  Then all
 * parts are pruned by k * p of what is left of them, with the k for which the model loses
 * sparsity_per_iter of the resource.  Without fine-tuning, the same sparsity for all is a candidate
 * as well.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "search.h"

#include "../base/arena.h"

#define LEVELS 9
#define MOST_ROUNDS 1000

struct opts {
    struct pare_search_opts common; /* first */
    double sparsity_per_iter, acc_drop_threshold;
    int64_t finetune_steps;
    const char *checkpoint_dir;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_SEARCH_OPTS,
    PARE_FLOAT("sparsity_per_iter", offsetof(struct opts, sparsity_per_iter),
               "fraction of the resource to remove in each round", 0.1, 1e-3, 0.95),
    PARE_FLOAT("acc_drop_threshold", offsetof(struct opts, acc_drop_threshold),
               "drop of the performance that ends the analysis of a layer", 0.05, 0, 1e6),
    PARE_INT("finetune_steps", offsetof(struct opts, finetune_steps),
             "steps of fine-tuning after each round; 0: none", 0, 0, 1e9),
    PARE_TEXT("checkpoint_dir", offsetof(struct opts, checkpoint_dir), "FOLDER",
              "write the weights and masks of each round here, under NNI's names", NULL),
    PARE_OPT_END
};
/* clang-format on */

struct rounds {
    struct pare_search *s;
    const struct opts *o;
    double *now, *next, *proportion; /* by part */
    double gone;
    int number;
};

/* The first sparsity that costs too much, of a part alone. */
static int analyze(struct rounds *r, int part, double base, struct pare_err *err)
{
    struct pare_search *s = r->s;
    double p;

    for (int k = 1; k <= LEVELS; k++) {
        double level = k / (double)(LEVELS + 1);

        memset(r->next, 0, (size_t)s->n * sizeof(*r->next));
        r->next[part] = r->now[part] + (1 - r->now[part]) * level;
        r->proportion[part] = level;
        PARE_TRY(pare_candidate_score(s, r->next, &p, err));
        if (pare_search_worse(s, p, base) > r->o->acc_drop_threshold)
            break;
    }
    return 0;
}

/* NNI's names: Iter_2_finetune_acc_0.91230_sparsity_0.2000.pth and ..._mask.pth. */
static int write_checkpoint(struct rounds *r, double performance, struct pare_err *err)
{
    struct pare_search *s = r->s;
    struct pare_compression *c;
    struct pare_export e = { .size = sizeof(e) };
    const char *name;
    int rc;

    if (!r->o->checkpoint_dir || !s->history.writes)
        return 0;
    mkdir(r->o->checkpoint_dir, 0777); /* writing reports that it is missing */
    name = pare_sprintf(s->arena, "%s/Iter_%d_finetune_acc_%.5f_sparsity_%.4f",
                        r->o->checkpoint_dir, r->number, performance, r->gone);
    e.model = name ? pare_sprintf(s->arena, "%s.pth", name) : NULL;
    e.masks = name ? pare_sprintf(s->arena, "%s_mask.pth", name) : NULL;
    if (!e.model || !e.masks)
        return pare_no_memory(err, "for a search");
    PARE_TRY(pare_candidate_open(s, r->now, &c, err));
    rc = c ? pare_compression_export(c, &e, err) : 0;
    pare_compression_free(c);
    return rc;
}

static int one_round(struct rounds *r, struct pare_err *err)
{
    struct pare_search *s = r->s;
    double base, aim = fmin(r->gone + r->o->sparsity_per_iter, s->target), p;
    bool reached;

    memset(r->next, 0, (size_t)s->n * sizeof(*r->next));
    PARE_TRY(pare_candidate_score(s, r->next, &base, err));
    for (int i = 0; i < s->n; i++)
        PARE_TRY(analyze(r, i, base, err));
    PARE_TRY(pare_search_reach(s, r->now, r->proportion, aim, r->next, &reached, err));
    memcpy(r->now, r->next, (size_t)s->n * sizeof(*r->now));
    PARE_TRY(pare_candidate_apply(s, r->now, err));
    if (r->o->finetune_steps)
        PARE_TRY(pare_search_tune(s, s->model, r->o->finetune_steps, err));
    PARE_TRY(pare_search_gone(s, r->now, &p, err));
    if (p <= r->gone && !reached)
        return pare_fail(err, PARE_ECONFIG,
                         "no layer can be pruned further at %.1f%% of the resource removed, "
                         "%.1f%% are asked for",
                         100 * p, 100 * s->target);
    r->gone = p;
    r->number++;
    PARE_TRY(pare_candidate_score(s, r->now, &s->best_performance, err));
    return write_checkpoint(r, s->best_performance, err);
}

/* The same sparsity for all: the result if the proportions are not better than that. */
static int try_uniform(struct rounds *r, struct pare_err *err)
{
    struct pare_search *s = r->s;
    bool reached;
    double p;

    for (int i = 0; i < s->n; i++)
        r->proportion[i] = 1;
    PARE_TRY(pare_search_reach(s, r->now, r->proportion, s->target, r->next, &reached, err));
    if (!reached)
        return pare_fail(err, PARE_ECONFIG,
                         "sparsity is %g, but these layers are a smaller part of the model",
                         s->target);
    return pare_candidate_try(s, r->next, &p, err);
}

static int run(struct pare_search *s, struct pare_err *err)
{
    double uniform;
    size_t n = (size_t)s->n + 1;
    struct rounds r = { .s = s,
                        .o = (const struct opts *)s->o,
                        .now = pare_alloc(s->arena, n, sizeof(double)),
                        .next = pare_alloc(s->arena, n, sizeof(double)),
                        .proportion = pare_alloc(s->arena, n, sizeof(double)) };

    if (!r.now || !r.next || !r.proportion)
        return pare_no_memory(err, "for a search");
    PARE_TRY(pare_search_gone(s, r.now, &r.gone, err));
    PARE_TRY(try_uniform(&r, err));
    uniform = s->best_performance;
    s->most = (int64_t)ceil(s->target / r.o->sparsity_per_iter) * (s->n * LEVELS + 2);
    while (r.gone < s->target - 1e-3 && r.number < MOST_ROUNDS)
        PARE_TRY(one_round(&r, err));
    if (!r.o->finetune_steps && pare_search_better(s, uniform, s->best_performance)) {
        s->best_performance = uniform;
        return 0;
    }
    memcpy(s->best, r.now, (size_t)s->n * sizeof(*s->best));
    if (r.o->finetune_steps) { /* else the original's weights are the same */
        s->found = s->model;
        s->model = NULL;
    }
    return 0;
}

const struct pare_search_kind pare_search_sensitivity = {
    .algorithm = PARE_SEARCH_ALGORITHM(
        "sensitivity", "Prune layers in proportion to the sparsity at which the accuracy drops.",
        opts, struct opts),
    .run = run,
};
