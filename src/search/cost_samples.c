/* cost_samples.c - measured times by key, channel counts and format; interpolation between them. */
#include "cost_samples.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"

#define MOST_TERMS 8
#define RIDGE 1e-6 /* of the mean of the diagonal */

struct pare_cost_curve *pare_cost_samples_find(const struct pare_cost_samples *c, const char *key,
                                               const char *format)
{
    struct pare_cost_curve *x = pare_map_get(&c->keys, key);

    /* The formats of a key follow each other in a list of the map's entry: few. */
    if (x && !strcmp(x->format, format))
        return x;
    for (int i = 0; x && i < c->n; i++)
        if (!strcmp(c->curve[i]->key, key) && !strcmp(c->curve[i]->format, format))
            return c->curve[i];
    return NULL;
}

static struct pare_cost_curve *add_curve(struct pare_cost_samples *c, const char *key,
                                         const char *format, struct pare_err *err)
{
    struct pare_cost_curve *x = pare_alloc(c->arena, 1, sizeof(*x)), **list;

    list = pare_grow(c->arena, c->curve, c->n, &c->cap, sizeof(*list));
    if (!x || !list) {
        pare_no_memory(err, "for times of layers");
        return NULL;
    }
    c->curve = list;
    x->key = pare_strdup(c->arena, key);
    x->format = pare_strdup(c->arena, format);
    if (!x->key || !x->format) {
        pare_no_memory(err, "for times of layers");
        return NULL;
    }
    c->curve[c->n++] = x;
    if (!pare_map_get(&c->keys, key) && pare_map_set(&c->keys, c->arena, x->key, x, err))
        return NULL;
    return x;
}

int pare_cost_samples_add(struct pare_cost_samples *c, const char *key, const char *format,
                          const struct pare_cost_sample *s, struct pare_err *err)
{
    struct pare_cost_curve *x = pare_cost_samples_find(c, key, format);
    struct pare_cost_sample *list;

    if (!x)
        x = add_curve(c, key, format, err);
    if (!x)
        return err->code;
    x->fitted = false;
    for (int i = 0; i < x->n; i++)
        if (x->s[i].cin == s->cin && x->s[i].cout == s->cout) {
            x->s[i].us += s->us;
            x->s[i].n += s->n;
            return 0;
        }
    list = pare_grow(c->arena, x->s, x->n, &x->cap, sizeof(*list));
    if (!list)
        return pare_no_memory(err, "for times of layers");
    x->s = list;
    x->s[x->n++] = *s;
    return 0;
}

/* ---- least squares --------------------------------------------------------------------------- */

static void eliminate(double m[MOST_TERMS][MOST_TERMS + 1], int k, double *w)
{
    for (int i = 0; i < k; i++) {
        int best = i;

        for (int r = i + 1; r < k; r++)
            if (fabs(m[r][i]) > fabs(m[best][i]))
                best = r;
        for (int j = 0; j <= k; j++) {
            double swap = m[i][j];

            m[i][j] = m[best][j];
            m[best][j] = swap;
        }
        for (int r = 0; r < k; r++) {
            double f = r == i || !(fabs(m[i][i]) > 0) ? 0 : m[r][i] / m[i][i];

            for (int j = i; f != 0 && j <= k; j++)
                m[r][j] -= f * m[i][j];
        }
    }
    for (int i = 0; i < k; i++)
        w[i] = fabs(m[i][i]) > 0 ? m[i][k] / m[i][i] : 0;
}

/* Solve for the terms of `use`; the others are 0. */
static void solve_some(const double *x, const double *y, const double *weight, int n, int k,
                       const bool *use, double *w)
{
    double m[MOST_TERMS][MOST_TERMS + 1] = { { 0 } }, trace = 0;

    for (int s = 0; s < n; s++)
        for (int i = 0; i < k; i++) {
            for (int j = 0; j < k && use[i]; j++)
                m[i][j] += use[j] ? weight[s] * x[s * k + i] * x[s * k + j] : 0;
            m[i][k] += use[i] ? weight[s] * x[s * k + i] * y[s] : 0;
        }
    for (int i = 0; i < k; i++)
        trace += m[i][i];
    for (int i = 0; i < k; i++)
        m[i][i] += RIDGE * trace / k;
    eliminate(m, k, w);
}

void pare_cost_solve(const double *x, const double *y, const double *weight, int n, int k,
                     double *w)
{
    static const bool all[MOST_TERMS] = { true, true, true, true, true, true, true, true };

    solve_some(x, y, weight, n, k, all, w);
}

void pare_cost_solve_positive(const double *x, const double *y, const double *weight, int n, int k,
                              double *w)
{
    bool use[MOST_TERMS] = { true, true, true, true, true, true, true, true };
    int worst;

    do {
        solve_some(x, y, weight, n, k, use, w);
        worst = -1;
        for (int i = 0; i < k; i++)
            if (w[i] < 0 && (worst < 0 || w[i] < w[worst]))
                worst = i;
        if (worst >= 0)
            use[worst] = false;
    } while (worst >= 0);
}

/* ---- curves ---------------------------------------------------------------------------------- */

static double mean_of(const struct pare_cost_sample *s)
{
    return s->us / s->n;
}

static void terms_of(const struct pare_cost_curve *c, int64_t cin, int64_t cout, double x[4])
{
    double i = (double)cin / c->scale_in, o = (double)cout / c->scale_out;

    x[0] = 1;
    x[1] = i;
    x[2] = o;
    x[3] = i * o;
}

/* Fit by relative errors, without negative terms. */
static void fit_curve(struct pare_cost_curve *c, struct pare_arena *a)
{
    double *x = pare_alloc(a, (size_t)c->n * 4 + 1, sizeof(*x));
    double *y = pare_alloc(a, (size_t)c->n + 1, sizeof(*y));
    double *weight = pare_alloc(a, (size_t)c->n + 1, sizeof(*weight));

    c->fitted = true;
    c->scale_in = c->scale_out = 1;
    memset(c->base, 0, sizeof(c->base));
    for (int i = 0; i < c->n; i++) {
        c->scale_in = fmax(c->scale_in, (double)c->s[i].cin);
        c->scale_out = fmax(c->scale_out, (double)c->s[i].cout);
    }
    if (!x || !y || !weight)
        return; /* then samples are interpolated alone */
    for (int i = 0; i < c->n; i++) {
        terms_of(c, c->s[i].cin, c->s[i].cout, &x[4 * i]);
        y[i] = mean_of(&c->s[i]);
        weight[i] = y[i] > 0 ? 1 / (y[i] * y[i]) : 1;
    }
    if (c->n > 1)
        pare_cost_solve_positive(x, y, weight, c->n, 4, c->base);
    else if (c->n) /* half of it constant */
        c->base[0] = c->base[3] = y[0] / 2;
}

static void fit_line(struct pare_cost_curve *c, struct pare_arena *a)
{
    double *x = pare_alloc(a, (size_t)c->n * 2 + 1, sizeof(*x));
    double *y = pare_alloc(a, (size_t)c->n + 1, sizeof(*y));
    double *weight = pare_alloc(a, (size_t)c->n + 1, sizeof(*weight));

    memset(c->line, 0, sizeof(c->line));
    for (int i = 0; x && y && weight && i < c->n; i++) {
        x[2 * i] = 1;
        x[2 * i + 1] = (double)c->s[i].cout / c->scale_out;
        y[i] = mean_of(&c->s[i]);
        weight[i] = c->s[i].n;
    }
    if (x && y && weight)
        pare_cost_solve_positive(x, y, weight, c->n, 2, c->line);
}

void pare_cost_samples_fit(struct pare_cost_samples *c)
{
    for (int i = 0; i < c->n; i++)
        if (!c->curve[i]->fitted) {
            fit_curve(c->curve[i], c->arena);
            fit_line(c->curve[i], c->arena);
        }
}

double pare_cost_curve_line(const struct pare_cost_curve *c, int64_t cout)
{
    return c->line[0] + c->line[1] * (double)cout / c->scale_out;
}

static double base_at(const struct pare_cost_curve *c, int64_t cin, int64_t cout)
{
    double x[4], sum = 0;

    terms_of(c, cin, cout, x);
    for (int i = 0; i < 4; i++)
        sum += c->base[i] * x[i];
    return fmax(sum, 1e-3);
}

double pare_cost_curve_at(const struct pare_cost_curve *c, int64_t cin, int64_t cout)
{
    double sum = 0, weights = 0;

    if (!c || !c->n)
        return 0;
    cin = cin < 1 ? 1 : cin;
    cout = cout < 1 ? 1 : cout;
    for (int i = 0; i < c->n; i++) {
        const struct pare_cost_sample *s = &c->s[i];
        double us = mean_of(s), di, d_out, w;

        if (s->cin == cin && s->cout == cout)
            return us;
        di = log2((double)cin / fmax((double)s->cin, 1));
        d_out = log2((double)cout / fmax((double)s->cout, 1));
        w = 1 / fmax(pow(di * di + d_out * d_out, 2), 1e-12);
        sum += w * log(fmax(us, 1e-3) / base_at(c, s->cin, s->cout));
        weights += w;
    }
    return base_at(c, cin, cout) * exp(sum / weights);
}
