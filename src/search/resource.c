/* resource.c - parameters or multiply-accumulates that a candidate really removes, by speedup. */
#include <math.h>
#include <string.h>

#include "search.h"

#include "../base/arena.h"

#define MOST 0.95 /* of what is left of a layer, in one step */
#define ROUNDS 14 /* of bisection */
#define NEAR 1e-3 /* fraction of the resource that is near enough */

static double masked(const struct pare_search *s, const double *sparsity)
{
    double all = 0, gone = 0;

    for (int i = 0; i < s->n; i++) {
        all += s->weight[i];
        gone += s->weight[i] * sparsity[i];
    }
    return all > 0 ? gone / all : 0;
}

/* s->model without its zero channels. */
static int count(struct pare_search *s, double *left, struct pare_err *err)
{
    struct pare_speedup_opts o = { .size = sizeof(o),
                                   .unverified = true,
                                   .threads = (int)s->job->tune.options->c.threads };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_speedup_report r;
    struct pare_model *small;
    bool macs = !strcmp(s->o->resource, "macs");
    int rc;

    if (!a)
        return pare_no_memory(err, "for a search");
    rc = pare_speedup(s->model, &o, a, &small, &r, err);
    if (!rc) {
        *left = macs ? r.macs_left : (double)r.params_left;
        if (!(s->total > 0))
            s->total = macs ? r.macs : (double)r.params;
        pare_model_free(small);
    }
    pare_arena_free(a);
    return rc;
}

int pare_search_gone(struct pare_search *s, const double *sparsity, double *gone,
                     struct pare_err *err)
{
    struct pare_mark m = pare_mark(s->arena); /* this is called often */
    struct pare_compression *c;
    double left = 0;
    int rc;

    if (!s->channels) {
        *gone = masked(s, sparsity);
        return 0;
    }
    PARE_TRY(pare_candidate_open(s, sparsity, &c, err));
    rc = count(s, &left, err);
    pare_candidate_close(c);
    pare_reset(s->arena, m);
    if (!rc)
        *gone = s->total > 0 ? 1 - left / s->total : 0;
    return rc;
}

static void scale(const struct pare_search *s, const double *from, const double *step, double k,
                  double *to)
{
    for (int i = 0; i < s->n; i++)
        to[i] = from[i] + (1 - from[i]) * fmin(MOST, k * step[i]);
}

int pare_search_reach(struct pare_search *s, const double *from, const double *step, double aim,
                      double *to, bool *reached, struct pare_err *err)
{
    double most = 0, low = 0, high, gone;

    for (int i = 0; i < s->n; i++)
        most = fmax(most, step[i]);
    high = most > 0 ? MOST / most : 0;
    scale(s, from, step, high, to);
    PARE_TRY(pare_search_gone(s, to, &gone, err));
    *reached = gone >= aim - NEAR;
    for (int i = 0; i < ROUNDS && *reached && fabs(gone - aim) > NEAR; i++) {
        double k = (low + high) / 2;

        scale(s, from, step, k, to);
        PARE_TRY(pare_search_gone(s, to, &gone, err));
        if (gone >= aim - NEAR)
            high = k;
        else
            low = k;
    }
    scale(s, from, step, high, to);
    return 0;
}
