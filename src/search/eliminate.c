/* eliminate.c - exact minimum of a weighted sum of factors by variable elimination. */
#include "eliminate.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"

/* Additions per run over all steps.  30 steps with 40 choices and two neighbors of 40 choices need
 * 2 million. */
#define MOST_WORK ((int64_t)1 << 22)

/* ---- order --------------------------------------------------------------------------------- */

struct order {
    const struct pare_alloc_problem *p;
    uint8_t *edge; /* (n_vars, n_vars) */
    uint8_t *done; /* (n_vars) */
    int *near;     /* scratch: (n_vars) */
};

static int neighbors(const struct order *o, int v, int *near)
{
    int n = 0;

    for (int u = 0; u < o->p->n_vars; u++)
        if (!o->done[u] && u != v && o->edge[(int64_t)v * o->p->n_vars + u])
            near[n++] = u;
    return n;
}

/* Edges that the elimination of v adds; cells: of the table over v and its neighbors. */
static int64_t fill_edges(const struct order *o, int v, double *cells)
{
    int n = neighbors(o, v, o->near);
    int64_t added = 0;

    *cells = o->p->vars[v].n;
    for (int i = 0; i < n; i++) {
        *cells *= o->p->vars[o->near[i]].n;
        for (int j = 0; j < i; j++)
            added += !o->edge[(int64_t)o->near[i] * o->p->n_vars + o->near[j]];
    }
    return added;
}

/* The variable with the fewest new edges, then the smallest table, then the smallest number. */
static int next_variable(const struct order *o)
{
    int64_t least = INT64_MAX;
    double smallest = INFINITY;
    int best = -1;

    for (int v = 0; v < o->p->n_vars; v++) {
        double cells;
        int64_t added;

        if (o->done[v])
            continue;
        added = fill_edges(o, v, &cells);
        if (best < 0 || added < least || (added == least && cells < smallest)) {
            best = v;
            least = added;
            smallest = cells;
        }
    }
    return best;
}

static int add_step(struct pare_elim *e, struct order *o, struct pare_elim_step *st, int v,
                    struct pare_err *err)
{
    int n = neighbors(o, v, o->near), n_vars = o->p->n_vars;

    st->var = v;
    st->n_sep = n;
    st->sep = pare_alloc(e->s->arena, (size_t)n + 1, sizeof(*st->sep));
    if (!st->sep)
        return pare_no_memory(err, "for an elimination");
    memcpy(st->sep, o->near, (size_t)n * sizeof(*st->sep));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            o->edge[(int64_t)st->sep[i] * n_vars + st->sep[j]] = 1;
    o->done[v] = 1;
    e->width = n > e->width ? n : e->width;
    return 0;
}

static int choose_order(struct pare_elim *e, struct pare_err *err)
{
    const struct pare_alloc_state *s = e->s;
    size_t n = (size_t)s->p->n_vars;
    struct order o = { .p = s->p };

    o.edge = pare_alloc(s->arena, n * n + 1, 1);
    o.done = pare_alloc(s->arena, n + 1, 1);
    o.near = pare_alloc(s->arena, n + 1, sizeof(*o.near));
    if (!o.edge || !o.done || !o.near)
        return pare_no_memory(err, "for the order of an elimination");
    for (int f = 0; f < s->p->n_factors; f++)
        for (int i = 0; i < s->term[f].n; i++)
            for (int j = 0; j < s->term[f].n; j++)
                o.edge[(size_t)s->term[f].var[i] * n + (size_t)s->term[f].var[j]] = 1;
    for (size_t i = 0; i < n; i++)
        PARE_TRY(add_step(e, &o, &e->step[i], next_variable(&o), err));
    return 0;
}

/* ---- terms of each step ---------------------------------------------------------------------- */

/* Cells of messages, and whether all tables together are small enough. */
static bool count_cells(struct pare_elim *e)
{
    double work = 0;

    for (int i = 0; i < e->s->p->n_vars; i++) {
        struct pare_elim_step *st = &e->step[i];
        double cells = 1;

        for (int k = 0; k < st->n_sep; k++)
            cells *= e->s->p->vars[st->sep[k]].n;
        work += cells * e->s->p->vars[st->var].n;
        if (work > (double)MOST_WORK)
            return false;
        st->cells = (int64_t)cells;
    }
    return true;
}

/* Stride of variable u in a message. */
static int64_t message_stride(const struct pare_elim *e, const struct pare_elim_step *st, int u)
{
    int64_t stride = 1;

    for (int k = st->n_sep - 1; k >= 0; k--) {
        if (st->sep[k] == u)
            return stride;
        stride *= e->s->p->vars[st->sep[k]].n;
    }
    return 0;
}

static int64_t factor_stride(const struct pare_alloc_term *t, int u)
{
    for (int k = 0; k < t->n; k++)
        if (t->var[k] == u)
            return t->stride[k];
    return 0;
}

/* step_of[v]: the step that eliminates v. */
static int64_t term_stride(const struct pare_elim *e, const int *step_of, int term, int u)
{
    int n = e->s->p->n_factors;

    return term < n ? factor_stride(&e->s->term[term], u)
                    : message_stride(e, &e->step[step_of[term - n]], u);
}

/* The step of the variable that is eliminated first, or -1 for a constant. */
static int first_step(const int *step_of, const int *var, int n)
{
    int first = -1;

    for (int k = 0; k < n; k++)
        if (first < 0 || step_of[var[k]] < first)
            first = step_of[var[k]];
    return first;
}

static int home(const struct pare_elim *e, const int *step_of, int term)
{
    int n = e->s->p->n_factors;
    const struct pare_elim_step *st;

    if (term < n)
        return first_step(step_of, e->s->term[term].var, e->s->term[term].n);
    st = &e->step[step_of[term - n]];
    return first_step(step_of, st->sep, st->n_sep);
}

static int add_terms(struct pare_elim *e, const int *step_of, struct pare_err *err)
{
    int n_vars = e->s->p->n_vars, n_terms = e->s->p->n_factors + n_vars;
    struct pare_arena *a = e->s->arena;

    for (int t = 0; t < n_terms; t++)
        if (home(e, step_of, t) >= 0)
            e->step[home(e, step_of, t)].n_terms++;
    for (int i = 0; i < n_vars; i++) {
        struct pare_elim_step *st = &e->step[i];
        size_t n = (size_t)st->n_terms;

        st->term = pare_alloc(a, n + 1, sizeof(*st->term));
        st->stride = pare_alloc(a, n * (size_t)(st->n_sep + 1) + 1, sizeof(*st->stride));
        if (!st->term || !st->stride)
            return pare_no_memory(err, "for an elimination");
        st->n_terms = 0;
    }
    for (int t = 0; t < n_terms; t++) {
        int at = home(e, step_of, t);
        struct pare_elim_step *st;

        if (at < 0)
            continue;
        st = &e->step[at];
        for (int k = 0; k <= st->n_sep; k++)
            st->stride[st->n_terms * (st->n_sep + 1) + k] = term_stride(e, step_of, t,
                                                                        k < st->n_sep ? st->sep[k]
                                                                                      : st->var);
        st->term[st->n_terms++] = t;
    }
    return 0;
}

int pare_elim_init(struct pare_elim *e, const struct pare_alloc_state *s, struct pare_err *err)
{
    size_t n = (size_t)s->p->n_vars;
    int *step_of;

    *e = (struct pare_elim){ .s = s };
    e->step = pare_alloc(s->arena, n + 1, sizeof(*e->step));
    step_of = pare_alloc(s->arena, n + 1, sizeof(*step_of));
    e->base = pare_alloc(s->arena, n + (size_t)s->p->n_factors + 1, sizeof(*e->base));
    e->pos = pare_alloc(s->arena, n + 1, sizeof(*e->pos));
    e->sum = pare_alloc(s->arena, (size_t)s->most + 1, sizeof(*e->sum));
    if (!e->step || !step_of || !e->base || !e->pos || !e->sum)
        return pare_no_memory(err, "for an elimination");
    PARE_TRY(choose_order(e, err));
    for (int i = 0; i < s->p->n_vars; i++)
        step_of[e->step[i].var] = i;
    e->exact = count_cells(e);
    return e->exact ? add_terms(e, step_of, err) : 0;
}

/* ---- messages --------------------------------------------------------------------------- */

int pare_elim_tables_init(const struct pare_elim *e, struct pare_elim_tables *t,
                          struct pare_err *err)
{
    const struct pare_alloc_state *s = e->s;
    int n = s->p->n_factors;

    t->table = pare_alloc(s->arena, (size_t)(n + s->p->n_vars) + 1, sizeof(*t->table));
    for (int f = 0; t->table && f < n; f++) {
        t->table[f] = pare_alloc_raw(s->arena, (size_t)s->term[f].cells, sizeof(double));
        if (!t->table[f])
            t->table = NULL;
    }
    for (int i = 0; t->table && i < s->p->n_vars; i++) {
        double *m = pare_alloc_raw(s->arena, (size_t)e->step[i].cells, sizeof(double));

        t->table[n + e->step[i].var] = m;
        if (!m)
            t->table = NULL;
    }
    return t->table ? 0 : pare_no_memory(err, "for the tables of an elimination");
}

static void weigh(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                  struct pare_elim_tables *t)
{
    for (int f = 0; f < s->p->n_factors; f++) {
        const struct pare_alloc_factor *a = &s->p->factors[f];
        int64_t cells = s->term[f].cells;
        double *out = t->table[f];

        memset(out, 0, (size_t)cells * sizeof(*out));
        for (int64_t i = 0; a->error && i < cells; i++)
            out[i] = isinf(a->error[i]) ? INFINITY : w->error * a->error[i];
        for (int b = 0; b < s->p->n_budgets; b++)
            for (int64_t i = 0; a->cost[b] && w->cost[b] != 0 && i < cells; i++)
                out[i] += w->cost[b] * a->cost[b][i];
    }
}

/* sum[c] of all choices of the step's variable, with the terms at e->base. */
static void sum_terms(const struct pare_elim *e, const struct pare_elim_step *st,
                      const struct pare_elim_tables *t, double *sum)
{
    int n = e->s->p->vars[st->var].n;

    memset(sum, 0, (size_t)n * sizeof(*sum));
    for (int k = 0; k < st->n_terms; k++) {
        const double *x = t->table[st->term[k]] + e->base[k];
        int64_t stride = st->stride[k * (st->n_sep + 1) + st->n_sep];

        for (int c = 0; c < n; c++)
            sum[c] += x[c * stride];
    }
}

/* Move e->base and e->pos to the next cell of the message. */
static void advance(const struct pare_elim *e, const struct pare_elim_step *st)
{
    for (int j = st->n_sep - 1; j >= 0; j--) {
        int n = e->s->p->vars[st->sep[j]].n;
        int by = ++e->pos[j] < n ? 1 : 1 - n;

        for (int k = 0; k < st->n_terms; k++)
            e->base[k] += by * st->stride[k * (st->n_sep + 1) + j];
        if (by == 1)
            return;
        e->pos[j] = 0;
    }
}

static void send_message(const struct pare_elim *e, const struct pare_elim_step *st,
                         struct pare_elim_tables *t)
{
    double *out = t->table[e->s->p->n_factors + st->var];
    int n = e->s->p->vars[st->var].n;

    memset(e->base, 0, (size_t)st->n_terms * sizeof(*e->base));
    memset(e->pos, 0, (size_t)st->n_sep * sizeof(*e->pos));
    for (int64_t i = 0; i < st->cells; i++) {
        double least = INFINITY;

        sum_terms(e, st, t, e->sum);
        for (int c = 0; c < n; c++)
            least = e->sum[c] < least ? e->sum[c] : least;
        out[i] = least;
        advance(e, st);
    }
}

void pare_elim_run(const struct pare_elim *e, const struct pare_alloc_weights *w,
                   struct pare_elim_tables *t)
{
    const struct pare_alloc_state *s = e->s;

    weigh(s, w, t);
    t->least = 0;
    for (int f = 0; f < s->p->n_factors; f++)
        if (!s->term[f].n)
            t->least += t->table[f][0];
    for (int i = 0; i < s->p->n_vars; i++) {
        send_message(e, &e->step[i], t);
        if (!e->step[i].n_sep)
            t->least += t->table[s->p->n_factors + e->step[i].var][0];
    }
}

int64_t pare_elim_cell(const struct pare_elim *e, const struct pare_elim_step *st,
                       const int *choice)
{
    int64_t cell = 0;

    for (int k = 0; k < st->n_sep; k++)
        cell = cell * e->s->p->vars[st->sep[k]].n + choice[st->sep[k]];
    return cell;
}

void pare_elim_sums(const struct pare_elim *e, const struct pare_elim_step *st,
                    const struct pare_elim_tables *t, const int *choice, double *sum)
{
    for (int k = 0; k < st->n_terms; k++) {
        e->base[k] = 0;
        for (int j = 0; j < st->n_sep; j++)
            e->base[k] += choice[st->sep[j]] * st->stride[k * (st->n_sep + 1) + j];
    }
    sum_terms(e, st, t, sum);
}

void pare_elim_best(const struct pare_elim *e, const struct pare_elim_tables *t, int *choice)
{
    for (int i = e->s->p->n_vars - 1; i >= 0; i--) {
        const struct pare_elim_step *st = &e->step[i];
        int best = 0;

        pare_elim_sums(e, st, t, choice, e->sum);
        for (int c = 1; c < e->s->p->vars[st->var].n; c++)
            if (e->sum[c] < e->sum[best])
                best = c;
        choice[st->var] = best;
    }
}
