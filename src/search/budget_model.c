/* budget_model.c - the real model of an assignment: channels removed and the rest repaired, trained
 * with the original as teacher, rounded. */
#include <stdio.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../compress/config.h"
#include "../compress/wrap.h"

static const char *common_settings(const struct pare_budget_search *s, struct pare_arena *a,
                                   const char *more)
{
    return pare_sprintf(a, "seed=%llu threads=%d %s%s", (unsigned long long)s->o->seed,
                        s->o->threads, more, s->o->train ? s->o->train : "");
}

/* ---- channels -------------------------------------------------------------------------------- */

/* One rule for each group that loses channels. */
static int channel_rules(const struct pare_budget_search *s, const struct pare_assignment *x,
                         struct pare_arena *a, struct pare_rule **rule, int *n,
                         struct pare_err *err)
{
    const struct pare_cost_table *t = s->table;

    *n = 0;
    *rule = pare_alloc(a, (size_t)t->n_groups + 1, sizeof(**rule));
    for (int g = 0; g < t->n_groups && *rule; g++) {
        const struct pare_cost_group *group = &t->group[g];
        const char **name = pare_alloc(a, (size_t)group->n_layers + 1, sizeof(*name));
        double gone = (double)(group->full - x->count[g]) / (double)group->full;

        if (x->count[g] >= group->full)
            continue;
        for (int k = 0; k < group->n_layers && name; k++)
            name[k] = t->layer[group->layer[k]].name;
        (*rule)[*n] = (struct pare_rule){ .op_names = name,
                                          .keys = pare_sprintf(a, "sparsity=%.9f", gone + 1e-9) };
        if (!name || !(*rule)[*n].keys)
            return pare_no_memory(err, "for a configuration");
        (*n)++;
    }
    return *rule ? 0 : pare_no_memory(err, "for a configuration");
}

/* *out is a new model; with all channels a copy. */
static int remove_channels(struct pare_budget_search *s, const struct pare_assignment *x,
                           struct pare_arena *a, struct pare_model **out, struct pare_err *err)
{
    struct pare_speedup_opts shrink = { .threads = s->o->threads, .seed = s->o->seed };
    struct pare_prune_opts p = { .pruner = "obs",
                                 .settings = "mode=dependency_aware scale=fisher price=none",
                                 .tuning = { s->rest, NULL, common_settings(s, a, ""), NULL },
                                 .speedup = true,
                                 .shrink = &shrink,
                                 .progress = s->o->progress,
                                 .user = s->o->user };
    struct pare_model *copy;
    struct pare_rule *rule;
    int rc;

    PARE_TRY(channel_rules(s, x, a, &rule, &p.n_rules, err));
    PARE_TRY(pare_model_duplicate(s->model, &copy, err));
    if (!p.n_rules) {
        *out = copy;
        return 0;
    }
    p.rule = rule;
    rc = pare_prune(copy, &p, out, NULL, err);
    pare_model_free(copy);
    return rc;
}

/* ---- training -------------------------------------------------------------------------------- */

static int distill(struct pare_budget_search *s, struct pare_model *small, int64_t epochs,
                   struct pare_arena *a, struct pare_err *err)
{
    char number[32];
    struct pare_given given[] = { { "epochs", number },
                                  { "optimizer", "adam" },
                                  { "schedule", "cosine" } };
    struct pare_training_opts to = { .data = s->rest,
                                     .given = given,
                                     .n_given = sizeof(given) / sizeof(*given),
                                     .settings = common_settings(s, a, ""),
                                     .teacher = s->model,
                                     .progress = s->o->progress,
                                     .user = s->o->user };
    struct pare_training *training;
    int rc;

    snprintf(number, sizeof(number), "%lld", (long long)epochs);
    PARE_TRY(pare_training_new(small, &to, &training, err));
    rc = pare_training_run(training, NULL, NULL, err);
    pare_training_free(training);
    return rc;
}

/* ---- formats --------------------------------------------------------------------------------- */

static int quantize(struct pare_budget_search *s, const struct pare_assignment *x,
                    struct pare_model *m, struct pare_arena *a, struct pare_model **out,
                    struct pare_err *err)
{
    struct pare_quantize_opts q = { .preset = "int8",
                                    .tuning = { s->rest, NULL, common_settings(s, a, ""), NULL },
                                    .fold = true,
                                    .progress = s->o->progress,
                                    .user = s->o->user };
    struct pare_model *folded;
    struct pare_rules rules;
    struct pare_graph *g;
    bool mixed = false;
    int rc;

    for (int i = 0; i < s->table->n_layers; i++)
        mixed |= x->format[i] == PARE_COST_F32 && s->table->layer[i].formats & 1u << PARE_COST_INT8;
    if (!mixed)
        return pare_quantize(m, &q, out, NULL, err);
    PARE_TRY(pare_model_fold(m, &folded, err));
    rc = pare_model_shapes(folded, a, &g, err);
    if (!rc)
        rc = pare_cost_rules(s->table, x->format, g, a, &rules, err);
    if (!rc) {
        q.preset = NULL;
        q.quantizer = "ptq";
        q.rule = rules.rule;
        q.n_rules = rules.n;
        rc = pare_quantize(folded, &q, out, NULL, err);
    }
    pare_model_free(folded);
    return rc;
}

static int build(struct pare_budget_search *s, const struct pare_assignment *x, int64_t epochs,
                 struct pare_arena *a, struct pare_model **out, struct pare_err *err)
{
    struct pare_model *small;
    bool any = false;
    int rc;

    PARE_TRY(remove_channels(s, x, a, &small, err));
    rc = epochs > 0 ? distill(s, small, epochs, a, err) : 0;
    for (int i = 0; i < s->table->n_layers; i++)
        any |= x->format[i] != PARE_COST_F32;
    if (!any && !rc) {
        *out = small;
        return 0;
    }
    if (!rc)
        rc = quantize(s, x, small, a, out, err);
    pare_model_free(small);
    return rc;
}

int pare_budget_build(struct pare_budget_search *s, const struct pare_assignment *x, int64_t epochs,
                      struct pare_model **out, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    int rc;

    *out = NULL;
    if (!a)
        return pare_no_memory(err, "for a model");
    rc = build(s, x, epochs, a, out, err);
    pare_arena_free(a);
    return rc;
}
