/* cost_profile.c - assignments to measure, their times, and the functions fitted to them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost_samples.h"
#include "cost_subject.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/rng.h"

#define BUILD_SHARE 0.5 /* of the time limit for building models */
#define MOST_MODELS 96
#define MOST_BYTES 1e9 /* of all models */
#define LEAST_ROUNDS 3
#define MOST_ROUNDS 32

struct profile {
    const struct pare_model *m;
    const struct pare_cost_opts *o;
    struct pare_cost_table *t;
    struct pare_arena *arena;
    struct pare_cost_subject *s;
    int n, cap, rounds;
    int **order; /* by group: a shuffled list of its choices */
    struct pare_rng rng;
    double start;
};

static bool is_late(const struct profile *p, double share)
{
    return pare_now() - p->start > share * (p->o->seconds > 0 ? p->o->seconds : 60);
}

static int tell(const struct profile *p, const char *what, int done, int total,
                struct pare_err *err)
{
    struct pare_progress x = { what, done, total, pare_now() - p->start };

    if (p->o->progress && !p->o->progress(p->o->user, &x))
        return pare_fail(err, PARE_ECANCEL, "canceled");
    return 0;
}

/* ---- assignments ----------------------------------------------------------------------------- */

static int new_orders(struct profile *p, struct pare_err *err)
{
    p->order = pare_alloc(p->arena, (size_t)p->t->n_groups + 1, sizeof(*p->order));
    if (!p->order)
        return pare_no_memory(err, "for assignments");
    for (int g = 0; g < p->t->n_groups; g++) {
        p->order[g] = pare_alloc(p->arena, PARE_COST_CHOICES, sizeof(int));
        if (!p->order[g])
            return pare_no_memory(err, "for assignments");
        for (int i = 0; i < p->t->group[g].n_choices; i++)
            p->order[g][i] = i;
    }
    return 0;
}

/* Every choice of a group occurs once before one occurs again. */
static int draw(struct profile *p, int g, int round)
{
    int n = p->t->group[g].n_choices;

    if (round % n == 0)
        for (int i = n - 1; i > 0; i--) {
            int k = (int)pare_rng_below(&p->rng, (uint64_t)i + 1), swap = p->order[g][i];

            p->order[g][i] = p->order[g][k];
            p->order[g][k] = swap;
        }
    return p->order[g][round % n];
}

/* Round 0: the model as it is; 1: the least counts; then all choices in turn. */
static void set_counts(struct profile *p, int round, int64_t *count)
{
    for (int g = 0; g < p->t->n_groups; g++) {
        const struct pare_cost_group *x = &p->t->group[g];

        count[g] = round == 0   ? x->full
                   : round == 1 ? x->choice[0]
                                : x->choice[draw(p, g, round - 2)];
    }
}

enum kind { FLOAT, INT8, MIXED };

static int add_subject(struct profile *p, const int64_t *count, enum kind kind,
                       struct pare_err *err)
{
    const struct pare_cost_table *t = p->t;
    struct pare_cost_subject *s = &p->s[p->n];

    *s = (struct pare_cost_subject){ .mixed = kind == MIXED };
    s->count = pare_alloc(p->arena, (size_t)t->n_groups + 1, sizeof(*s->count));
    s->format = pare_alloc(p->arena, (size_t)t->n_layers + 1, sizeof(*s->format));
    if (!s->count || !s->format)
        return pare_no_memory(err, "for assignments");
    memcpy(s->count, count, (size_t)t->n_groups * sizeof(*count));
    for (int i = 0; i < t->n_layers; i++)
        s->format[i] = kind == FLOAT  ? PARE_COST_F32
                       : kind == INT8 ? PARE_COST_INT8
                                      : (enum pare_cost_format)pare_rng_below(&p->rng, 2);
    p->n++;
    return pare_cost_subject_open(p->m, t, p->o, s, err);
}

/* How many rounds of assignments cover all pairs of counts, within the limits. */
static int wanted_rounds(const struct profile *p)
{
    int most = 2;

    for (int i = 0; i < p->t->n_layers; i++) {
        const struct pare_cost_layer *l = &p->t->layer[i];
        int n = (l->in_group < 0 ? 1 : p->t->group[l->in_group].n_choices) *
                (l->out_group < 0 ? 1 : p->t->group[l->out_group].n_choices);

        most = n > most ? n : most;
    }
    return most + 2;
}

static int build(struct profile *p, struct pare_err *err)
{
    int64_t *count = pare_alloc(p->arena, (size_t)p->t->n_groups + 1, sizeof(*count));
    int rounds = wanted_rounds(p);
    int most = p->o->models > 0 && p->o->models < MOST_MODELS ? p->o->models : MOST_MODELS;
    bool f32 = p->t->formats & 1u << PARE_COST_F32, int8 = p->t->formats & 1u << PARE_COST_INT8;
    double bytes = 0;

    if (!count)
        return pare_no_memory(err, "for assignments");
    for (int r = 0; r < rounds && p->n < most && bytes < MOST_BYTES; r++) {
        if (r >= 2 && is_late(p, BUILD_SHARE))
            break;
        PARE_TRY(tell(p, "build model", p->n, most, err));
        set_counts(p, r, count);
        if (f32)
            PARE_TRY(add_subject(p, count, FLOAT, err));
        if (int8 && p->n < most)
            PARE_TRY(add_subject(p, count, INT8, err));
        if (f32 && int8 && p->n < most)
            PARE_TRY(add_subject(p, count, MIXED, err));
        bytes += 4 * p->s[p->n - 1].bytes;
    }
    return 0;
}

/* Rounds over all models, so that other load affects all of them. */
static int measure(struct profile *p, struct pare_err *err)
{
    int most = p->o->timer ? 1 : MOST_ROUNDS;

    for (p->rounds = 0; p->rounds < most; p->rounds++) {
        if (p->rounds >= LEAST_ROUNDS && is_late(p, 1))
            break;
        PARE_TRY(tell(p, "measure round", p->rounds, most, err));
        for (int i = 0; i < p->n; i++)
            PARE_TRY(pare_cost_subject_round(&p->s[i], p->o, err));
    }
    for (int i = 0; i < p->n; i++)
        pare_cost_subject_sum(p->t, &p->s[i]);
    return 0;
}

/* ---- fitting --------------------------------------------------------------------------------- */

/* Is the layer removed, with all that its group computes or reads? */
static bool is_removed(const struct pare_cost_table *t, const struct pare_cost_subject *s, int i)
{
    const struct pare_cost_layer *l = &t->layer[i];

    return pare_cost_axis_count(&l->in, s->count) < 1 ||
           pare_cost_axis_count(&l->out, s->count) < 1;
}

/* Is a layer removed that is joined with this one, so that steps without weights after it moved? */
static bool lost_neighbor(const struct pare_cost_table *t, const struct pare_cost_subject *s, int i)
{
    const struct pare_cost_layer *l = &t->layer[i];
    bool lost = false;

    for (int k = 0; k < l->n_next; k++)
        lost |= is_removed(t, s, l->next[k]);
    for (int k = 0; k < l->n_prev; k++)
        lost |= is_removed(t, s, l->prev[k]);
    return lost;
}

static int add_samples(const struct profile *p, const struct pare_cost_subject *s,
                       struct pare_err *err)
{
    for (int i = 0; i < p->t->n_layers; i++) {
        const struct pare_cost_layer *l = &p->t->layer[i];
        const char *format = pare_cost_format_names[s->format[i]];
        struct pare_cost_sample x = { pare_cost_axis_count(&l->in, s->count),
                                      pare_cost_axis_count(&l->out, s->count), s->layer_us[i], 1 };

        if (is_removed(p->t, s, i))
            continue;
        PARE_TRY(pare_cost_samples_add(p->t->samples, l->key, format, &x, err));
        if (lost_neighbor(p->t, s, i))
            continue;
        x.us = s->layer_us[p->t->n_layers + i];
        x.cin = 1;
        PARE_TRY(pare_cost_samples_add(p->t->samples, l->light_key, format, &x, err));
    }
    return 0;
}

/* Add the conversions after layers whose consumers have another format: their number and their
 * elements, by format of the layer. */
static void count_borders(const struct pare_cost_table *t, const struct pare_cost_subject *s,
                          double x[4])
{
    memset(x, 0, 4 * sizeof(*x));
    for (int i = 0; i < t->n_layers; i++)
        for (int k = 0; k < t->layer[i].n_next; k++)
            if (s->format[t->layer[i].next[k]] != s->format[i]) {
                x[s->format[i]] += t->layer[i].positions *
                                   (double)pare_cost_axis_count(&t->layer[i].out, s->count);
                x[2 + s->format[i]] += 1000; /* of the order of the elements */
                break;
            }
}

/* Conversions at borders: what mixed models take in addition. */
static int fit_border(const struct profile *p, struct pare_err *err)
{
    double *x = pare_alloc(p->arena, (size_t)p->n * 4 + 4, sizeof(*x));
    double *y = pare_alloc(p->arena, (size_t)p->n + 1, sizeof(*y));
    double *w = pare_alloc(p->arena, (size_t)p->n + 1, sizeof(*w)), fit[4] = { 0 };
    int n = 0;

    if (!x || !y || !w)
        return pare_no_memory(err, "for assignments");
    for (int i = 0; i < p->n; i++) {
        const struct pare_cost_subject *s = &p->s[i];
        double sum = 0, known = pare_cost_sum(p->t, s->count, s->format);

        for (int k = 0; k < 2 * p->t->n_layers; k++)
            sum += s->layer_us[k];
        count_borders(p->t, s, &x[4 * n]);
        y[n] = sum - known;
        w[n] = sum > 0 ? 1 / (sum * sum) : 1;
        n += s->mixed;
    }
    pare_cost_solve_positive(x, y, w, n, 4, fit);
    for (int f = 0; f < PARE_COST_FORMATS; f++) {
        p->t->border[f] = fit[f];
        p->t->border_us[f] = 1000 * fit[2 + f];
    }
    return 0;
}

/* The same by key of layers, where they were measured. */
static int add_borders(const struct profile *p, const struct pare_cost_subject *s,
                       struct pare_err *err)
{
    const struct pare_cost_table *t = p->t;

    for (int i = 0; i < t->n_layers; i++) {
        const struct pare_cost_layer *l = &t->layer[i];
        unsigned bits = pare_cost_at_border(t, i, s->format);
        int64_t cin = pare_cost_axis_count(&l->in, s->count);
        struct pare_cost_sample x = { 1, pare_cost_axis_count(&l->out, s->count), 0, 1 };

        if (!bits || is_removed(t, s, i) || lost_neighbor(t, s, i))
            continue;
        x.us = fmax(s->layer_us[i] + s->layer_us[t->n_layers + i] -
                        pare_cost_time(t, i, cin, x.cout, s->format[i]),
                    0);
        PARE_TRY(pare_cost_samples_add(t->samples, l->key,
                                       pare_cost_border_name(s->format[i], bits), &x, err));
    }
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* fixed and alpha by least squares on the measured totals. */
static int fit_total(const struct profile *p, struct pare_err *err)
{
    double *x = pare_alloc(p->arena, (size_t)p->n * 2 + 1, sizeof(*x));
    double *y = pare_alloc(p->arena, (size_t)p->n + 1, sizeof(*y));
    double *w = pare_alloc(p->arena, (size_t)p->n + 1, sizeof(*w)), fit[2] = { 0, 1 };
    struct pare_cost_table *t = p->t;

    if (!x || !y || !w)
        return pare_no_memory(err, "for assignments");
    for (int i = 0; i < p->n; i++) {
        x[2 * i] = 1;
        x[2 * i + 1] = pare_cost_sum(t, p->s[i].count, p->s[i].format);
        y[i] = p->s[i].total_us;
        w[i] = y[i] > 0 ? 1 / (y[i] * y[i]) : 1;
    }
    pare_cost_solve_positive(x, y, w, p->n, 2, fit);
    t->fixed = fit[0];
    t->alpha = fit[1];
    for (int i = 0; i < p->n; i++)
        w[i] = fabs(pare_cost_predict(t, p->s[i].count, p->s[i].format).us / y[i] - 1);
    qsort(w, (size_t)p->n, sizeof(*w), by_size);
    t->error_median = w[p->n / 2];
    t->error_worst = w[p->n - 1];
    return 0;
}

static int fit_bytes(const struct profile *p, struct pare_err *err)
{
    struct pare_cost_file *f = pare_alloc(p->arena, (size_t)p->n + 1, sizeof(*f));

    if (!f)
        return pare_no_memory(err, "for assignments");
    for (int i = 0; i < p->n; i++)
        f[i] = (struct pare_cost_file){ p->s[i].count, p->s[i].format, p->s[i].bytes };
    return pare_cost_fit_bytes(p->t, f, p->n, err);
}

/* The largest and the least model in all formats. */
static int build_few(struct profile *p, struct pare_err *err)
{
    int64_t *count = pare_alloc(p->arena, (size_t)p->t->n_groups + 1, sizeof(*count));

    p->s = pare_alloc(p->arena, MOST_MODELS + 3, sizeof(*p->s));
    if (!count || !p->s)
        return pare_no_memory(err, "for assignments");
    for (int r = 0; r < 2; r++) {
        set_counts(p, r, count);
        for (int kind = FLOAT; kind <= MIXED; kind++)
            if (p->t->formats & 1u << PARE_COST_INT8 || kind == FLOAT)
                PARE_TRY(add_subject(p, count, (enum kind)kind, err));
    }
    return fit_bytes(p, err);
}

static int work(struct profile *p, struct pare_err *err)
{
    p->s = pare_alloc(p->arena, MOST_MODELS + 3, sizeof(*p->s));
    if (!p->s)
        return pare_no_memory(err, "for assignments");
    PARE_TRY(new_orders(p, err));
    PARE_TRY(build(p, err));
    PARE_TRY(measure(p, err));
    for (int i = 0; i < p->n; i++)
        if (!p->s[i].mixed)
            PARE_TRY(add_samples(p, &p->s[i], err));
    pare_cost_samples_fit(p->t->samples);
    PARE_TRY(fit_border(p, err));
    for (int i = 0; i < p->n; i++)
        if (p->s[i].mixed)
            PARE_TRY(add_borders(p, &p->s[i], err));
    pare_cost_samples_fit(p->t->samples);
    PARE_TRY(fit_bytes(p, err));
    p->t->models = p->n;
    p->t->rounds = p->rounds;
    return fit_total(p, err);
}

static int run(const struct pare_model *m, const struct pare_cost_opts *o,
               struct pare_cost_table *t, bool sizes, struct pare_err *err)
{
    struct profile p = { .m = m, .o = o, .t = t, .start = pare_now() };
    int rc;

    p.arena = pare_arena_new(1 << 16);
    pare_rng_init(&p.rng, o->seed + 1);
    rc = !p.arena ? pare_no_memory(err, "for assignments")
         : sizes  ? build_few(&p, err)
                  : work(&p, err);
    for (int i = 0; i < p.n; i++)
        pare_cost_subject_close(&p.s[i]);
    pare_arena_free(p.arena);
    return rc;
}

int pare_cost_profile(const struct pare_model *m, const struct pare_cost_opts *o,
                      struct pare_cost_table *t, struct pare_err *err)
{
    return run(m, o, t, false, err);
}

int pare_cost_profile_sizes(const struct pare_model *m, const struct pare_cost_opts *o,
                            struct pare_cost_table *t, struct pare_err *err)
{
    return run(m, o, t, true, err);
}
