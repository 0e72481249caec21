/* budget_problem.c - channels of groups and formats of layers as a problem for the solver.
 *
 * Variables are the groups, whose choices are counts, and the layers, whose choices are formats.
 * A layer is a factor of the groups of its two sides and its format; a conversion of formats is a
 * factor of two formats and the channels between them.
 */
#include <math.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"

struct build {
    const struct pare_budget_search *s;
    const struct pare_cost_table *t;
    struct pare_arena *a;
    struct pare_alloc_var *var;
    struct pare_alloc_factor *factor;
    int n_factors, cap;
    int64_t *count; /* by group: of the entry that is being computed */
    enum pare_cost_format *format;
};

static int format_var(const struct build *b, int layer)
{
    return b->t->n_groups + layer;
}

/* Choice 0 of a group is all channels; the table's choices ascend. */
static int64_t count_of(const struct pare_cost_group *g, int choice)
{
    return g->choice[g->n_choices - 1 - choice];
}

static void set_choice(struct build *b, int var, int choice)
{
    if (var < b->t->n_groups)
        b->count[var] = count_of(&b->t->group[var], choice);
    else
        b->format[var - b->t->n_groups] = (enum pare_cost_format)choice;
}

/* ---- factors --------------------------------------------------------------------------------- */

typedef void entry_fn(const struct build *b, int at, double *error, double cost[PARE_BUDGET_KINDS]);

/* A factor of some variables: every entry of its tables by fill(). */
static int add_factor(struct build *b, const int *vars, int n, int at, entry_fn *fill,
                      struct pare_err *err)
{
    struct pare_alloc_factor *f = &b->factor[b->n_factors];
    int *var = pare_alloc(b->a, PARE_FACTOR_VARS, sizeof(*var)), choice[PARE_FACTOR_VARS] = { 0 };
    double *error, *cost[PARE_BUDGET_KINDS];
    int64_t all = 1;

    for (int i = 0; i < n; i++)
        all *= b->var[vars[i]].n;
    error = pare_alloc(b->a, (size_t)all, sizeof(*error));
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        cost[k] = pare_alloc(b->a, (size_t)all, sizeof(double));
    if (!var || !error || !cost[0] || !cost[1] || !cost[2])
        return pare_no_memory(err, "for a search");
    memcpy(var, vars, (size_t)n * sizeof(*var));
    *f = (struct pare_alloc_factor){ .n_vars = n, .var = var, .error = error };
    for (int64_t e = 0; e < all; e++) {
        double price[PARE_BUDGET_KINDS] = { 0 };

        for (int i = 0; i < n; i++)
            set_choice(b, vars[i], choice[i]);
        fill(b, at, &error[e], price);
        for (int k = 0; k < PARE_BUDGET_KINDS; k++)
            cost[k][e] = price[k];
        for (int i = n - 1; i >= 0 && ++choice[i] == b->var[vars[i]].n; i--)
            choice[i] = 0;
    }
    for (int i = 0; i < n; i++)
        set_choice(b, vars[i], 0);
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        f->cost[k] = cost[k];
    b->n_factors++;
    return 0;
}

static void fill_group(const struct build *b, int g, double *error, double *cost)
{
    const struct pare_cost_group *group = &b->t->group[g];

    (void)cost;
    for (int k = 0; k < group->n_choices; k++)
        if (group->choice[k] == b->count[g])
            *error = b->s->pinned && b->s->pinned[g] >= 0 && b->s->pinned[g] != b->count[g]
                         ? INFINITY
                         : b->s->error[g][k] * (b->s->times ? b->s->times[g] : 1);
}

static void fill_layer(const struct build *b, int l, double *error, double *cost)
{
    const struct pare_cost_layer *x = &b->t->layer[l];
    int64_t in = pare_cost_axis_count(&x->in, b->count);
    int64_t out = pare_cost_axis_count(&x->out, b->count);
    enum pare_cost_format f = b->format[l];

    cost[PARE_BUDGET_LATENCY] = b->t->alpha * pare_cost_time(b->t, l, in, out, f);
    cost[PARE_BUDGET_SIZE] = pare_cost_bytes(b->t, l, in, out, f);
    cost[PARE_BUDGET_MACS] = pare_cost_macs(b->t, l, in, out);
    if (f == PARE_COST_INT8) /* rows are independent, and so are the errors of their weights */
        *error = b->s->noise[l] * (double)(in * out) / (double)(x->cin * x->cout) *
                 (b->s->times ? b->s->times[b->t->n_groups + l] : 1);
}

/* After layer l, whose k-th consumer has another format. */
static void fill_border(const struct build *b, int at, double *error, double *cost)
{
    int l = at / 1024, k = at % 1024;
    const struct pare_cost_layer *x = &b->t->layer[l];

    (void)error;
    cost[PARE_BUDGET_LATENCY] = b->t->alpha *
                                pare_cost_border(b->t, l, pare_cost_axis_count(&x->out, b->count),
                                                 b->format[l], b->format[x->next[k]]);
}

/* ---- variables of a factor ------------------------------------------------------------------- */

/* Add a variable that has a choice, once; more than fit are held at their first choice. */
static void add_var(const struct build *b, int var, int most, int *vars, int *n)
{
    bool known = b->var[var].n < 2 || *n >= most;

    for (int i = 0; i < *n && !known; i++)
        known = vars[i] == var;
    if (!known)
        vars[(*n)++] = var;
}

static int add_layer(struct build *b, int l, struct pare_err *err)
{
    const struct pare_cost_layer *x = &b->t->layer[l];
    int vars[PARE_FACTOR_VARS], n = 0;

    for (int i = 0; i < x->out.n; i++)
        add_var(b, x->out.group[i], PARE_FACTOR_VARS - 1, vars, &n);
    for (int i = 0; i < x->in.n; i++)
        add_var(b, x->in.group[i], PARE_FACTOR_VARS - 1, vars, &n);
    add_var(b, format_var(b, l), PARE_FACTOR_VARS, vars, &n);
    return add_factor(b, vars, n, l, fill_layer, err);
}

static int add_borders(struct build *b, int l, struct pare_err *err)
{
    const struct pare_cost_layer *x = &b->t->layer[l];

    for (int k = 0; k < x->n_next && k < 1024 && b->n_factors < b->cap; k++) {
        int vars[PARE_FACTOR_VARS], n = 0;

        add_var(b, format_var(b, l), PARE_FACTOR_VARS, vars, &n);
        add_var(b, format_var(b, x->next[k]), PARE_FACTOR_VARS, vars, &n);
        if (n && x->out_group >= 0)
            add_var(b, x->out_group, PARE_FACTOR_VARS, vars, &n);
        if (n)
            PARE_TRY(add_factor(b, vars, n, l * 1024 + k, fill_border, err));
    }
    return 0;
}

/* ---- the problem ----------------------------------------------------------------------------- */

static int open_build(struct build *b, struct pare_err *err)
{
    const struct pare_cost_table *t = b->t;
    int n = t->n_groups + t->n_layers;

    b->cap = t->n_groups + t->n_layers + 1;
    for (int l = 0; l < t->n_layers; l++)
        b->cap += t->layer[l].n_next;
    b->var = pare_alloc(b->a, (size_t)n + 1, sizeof(*b->var));
    b->factor = pare_alloc(b->a, (size_t)b->cap + 1, sizeof(*b->factor));
    b->count = pare_alloc(b->a, (size_t)t->n_groups + 1, sizeof(*b->count));
    b->format = pare_alloc(b->a, (size_t)t->n_layers + 1, sizeof(*b->format));
    if (!b->var || !b->factor || !b->count || !b->format)
        return pare_no_memory(err, "for a search");
    for (int g = 0; g < t->n_groups; g++) {
        b->count[g] = t->group[g].full;
        b->var[g] = (struct pare_alloc_var){ t->group[g].name,
                                             b->s->channels ? t->group[g].n_choices : 1 };
    }
    for (int l = 0; l < t->n_layers; l++) {
        bool int8 = b->s->int8 && t->layer[l].formats & 1u << PARE_COST_INT8;

        b->var[format_var(b, l)] = (struct pare_alloc_var){ t->layer[l].name, int8 ? 2 : 1 };
    }
    return 0;
}

static int solve(struct build *b, const double *limit, struct pare_assignment *x,
                 struct pare_alloc_result *r, struct pare_err *err)
{
    const struct pare_cost_table *t = b->t;
    int n = t->n_groups + t->n_layers, *choice = pare_alloc(b->a, (size_t)n + 1, sizeof(*choice));
    struct pare_alloc_problem p = { .vars = b->var, .n_vars = n, .n_budgets = PARE_BUDGET_KINDS };

    if (!choice)
        return pare_no_memory(err, "for a search");
    for (int g = 0; g < t->n_groups; g++)
        if (b->var[g].n > 1)
            PARE_TRY(add_factor(b, &g, 1, g, fill_group, err));
    for (int l = 0; l < t->n_layers; l++) {
        PARE_TRY(add_layer(b, l, err));
        PARE_TRY(add_borders(b, l, err));
    }
    p.factors = b->factor;
    p.n_factors = b->n_factors;
    p.fixed[PARE_BUDGET_LATENCY] = t->fixed;
    p.fixed[PARE_BUDGET_SIZE] = t->bytes_fixed;
    memcpy(p.limit, limit, sizeof(p.limit));
    PARE_TRY(
        pare_alloc_solve(&p, b->s->solver ? b->s->solver : b->s->o->solver, b->a, choice, r, err));
    for (int g = 0; g < t->n_groups; g++)
        x->count[g] = count_of(&t->group[g], choice[g]);
    for (int l = 0; l < t->n_layers; l++)
        x->format[l] = (enum pare_cost_format)choice[format_var(b, l)];
    return 0;
}

int pare_budget_solve(const struct pare_budget_search *s, const double limit[PARE_BUDGET_KINDS],
                      struct pare_assignment *x, struct pare_alloc_result *r, struct pare_err *err)
{
    struct build b = { .s = s, .t = s->table, .a = pare_arena_new(1 << 16) };
    int rc = b.a ? open_build(&b, err) : pare_no_memory(err, "for a search");

    if (!rc)
        rc = solve(&b, limit, x, r, err);
    pare_arena_free(b.a);
    return rc;
}
