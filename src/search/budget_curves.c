/* budget_curves.c - the expected increase of the loss by the channels that each group keeps. */
#include <math.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../base/map.h"
#include "../compress/compression.h"
#include "../graph/removal_units.h"
#include "../prune/obs_curves.h"

/* Layers of all groups, for a config_list. */
static const char **group_layers(const struct pare_cost_table *t, struct pare_arena *a)
{
    const char **name;
    int n = 0;

    for (int g = 0; g < t->n_groups; g++)
        n += t->group[g].n_layers;
    name = pare_alloc(a, (size_t)n + 1, sizeof(*name));
    n = 0;
    for (int g = 0; g < t->n_groups && name; g++)
        for (int k = 0; k < t->group[g].n_layers; k++)
            name[n++] = t->layer[t->group[g].layer[k]].name;
    return name;
}

/* The group whose channels the set has; -1: none. */
static int group_of(const struct pare_cost_table *t, const struct pare_compression *c,
                    const struct pare_unit_groups *set)
{
    for (int g = 0; g < t->n_groups; g++)
        for (int k = 0; k < t->group[g].n_layers; k++)
            for (int i = 0; i < set->n_layers; i++)
                if (!strcmp(t->layer[t->group[g].layer[k]].name, c->layer[set->layer[i]].info.name))
                    return t->group[g].full == set->n ? g : -1;
    return -1;
}

/* A group of which nothing is known keeps its channels. */
int pare_budget_errors_open(struct pare_budget_search *s, struct pare_err *err)
{
    const struct pare_cost_table *t = s->table;

    s->error = pare_alloc(s->arena, (size_t)t->n_groups + 1, sizeof(*s->error));
    for (int g = 0; g < t->n_groups && s->error; g++) {
        s->error[g] = pare_alloc(s->arena, PARE_COST_CHOICES, sizeof(double));
        for (int k = 0; k < t->group[g].n_choices && s->error[g]; k++)
            s->error[g][k] = t->group[g].choice[k] == t->group[g].full ? 0 : INFINITY;
        if (!s->error[g])
            return pare_no_memory(err, "for error curves");
    }
    s->noise = pare_alloc(s->arena, (size_t)t->n_layers + 1, sizeof(*s->noise));
    if (!s->error || !s->noise)
        return pare_no_memory(err, "for error curves");
    return pare_cost_find_units(s->model, s->arena, &s->units, err);
}

/* Units that are removed last get the first ranks. */
static void take_order(struct pare_budget_search *s, const struct pare_compression *c,
                       const struct pare_obs_curve *v)
{
    const struct pare_unit_groups *set = v->set;
    const struct pare_layer *l = &c->layer[set->layer[0]];
    const struct pare_value *w = pare_map_get(&s->units.g->names, l->weight->name);

    for (int64_t i = 0; i < set->n && w; i++) {
        int64_t unit = pare_removal_unit(s->units.units, w, l->out_axis,
                                         set->unit[v->order[i] * set->n_layers]);

        if (unit >= 0)
            s->units.rank[unit] = set->n - 1 - i;
    }
}

static void take_curve(struct pare_budget_search *s, const struct pare_compression *c,
                       const struct pare_obs_curve *v)
{
    const struct pare_cost_table *t = s->table;
    int g = group_of(t, c, v->set);

    for (int k = 0; g >= 0 && v->readers && k < t->group[g].n_choices; k++)
        s->error[g][k] = v->error[v->set->n - t->group[g].choice[k]];
    if (g >= 0 && v->readers)
        take_order(s, c, v);
}

static int find_curves(struct pare_budget_search *s, struct pare_compression *c,
                       struct pare_err *err)
{
    struct pare_obs_options o = { .gram = { PARE_GRAM_ITEMS, -1 },
                                  .span = 640,
                                  .scale = "fisher",
                                  .price = "none" };
    struct pare_obs_curves v;

    PARE_TRY(pare_compression_use_data(c, s->rest, 0, err));
    pare_compression_on_progress(c, s->o->progress, s->o->user);
    PARE_TRY(pare_obs_curves(c, &o, s->arena, &v, err));
    for (int i = 0; i < v.n; i++)
        take_curve(s, c, &v.list[i]);
    return 0;
}

int pare_budget_curves(struct pare_budget_search *s, struct pare_err *err)
{
    struct pare_rule rule = { .op_names = group_layers(s->table, s->arena),
                              .keys = "sparsity=0.5" };
    struct pare_compression_opts co = { .pruner = "obs",
                                        .rule = &rule,
                                        .n_rules = 1,
                                        .seed = s->o->seed,
                                        .threads = s->o->threads };
    struct pare_compression *c = NULL;
    struct pare_model *copy;
    int rc;

    if (!s->channels || !s->table->n_groups)
        return 0;
    if (!rule.op_names)
        return pare_no_memory(err, "for error curves");
    PARE_TRY(pare_model_duplicate(s->model, &copy, err));
    rc = pare_compression_new(copy, &co, &c, err);
    if (!rc)
        rc = find_curves(s, c, err);
    pare_compression_free(c);
    pare_model_free(copy);
    return rc;
}
