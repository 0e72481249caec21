/* search_annealing.c - simulated_annealing: NNI's random walk over sparsities of layers.
 *
 * Each step perturbs the current sparsities by at most T / T0 * perturbation_magnitude, evaluates
 * them, and accepts them if they are better, else with probability exp(-difference / T).
 *
 * NNI's temperatures are 100 to 20, but accuracies are in [0, 1], so it accepts everything: with
 * nni=true this is a random walk of about 17 draws that remembers the best one.  The default
 *   - derives T0 from the differences of the first perturbations, ends at T0 / 100, and cools after
 *     every candidate instead of every accepted one, so that the number of candidates is known;
 *   - starts with the same sparsity for all, so that the result is not worse on the held-out items;
 *   - lets a small layer have a higher sparsity than a large one;
 *   - scales the sparsities to what speedup really removes, instead of what is masked.
 */
#include <math.h>
#include <string.h>

#include "search.h"
#include "sparsity_vector.h"

#include "../base/arena.h"

#define FIRST 5     /* perturbations that T0 is derived from */
#define HOTTEST 100 /* T0 / the last temperature */
#define ATTEMPTS 20 /* to perturb */
#define STUCK 1000  /* candidates without an accepted one after which a search ends */

struct opts {
    struct pare_search_opts common; /* first */
    struct pare_annealing annealing;
};

static const struct pare_opt opts[] = { PARE_SEARCH_OPTS,
                                        PARE_ANNEALING_OPTS(offsetof(struct opts, annealing)),
                                        PARE_OPT_END };

int pare_annealing_check(const struct pare_annealing *o, struct pare_err *err)
{
    if (o->stop_temperature >= o->start_temperature)
        return pare_fail(err, PARE_ECONFIG,
                         "stop_temperature is %g, must be less than start_temperature, %g",
                         o->stop_temperature, o->start_temperature);
    return 0;
}

static int check(const void *given, struct pare_err *err)
{
    return pare_annealing_check(&((const struct opts *)given)->annealing, err);
}

struct walk {
    struct pare_search *s;
    const struct pare_annealing *o;
    struct pare_sparsity_space space;
    double *now, *next; /* sparsities by part */
    double *zero, *raw; /* for scaling */
    double performance; /* of `now` */
    double t, first, last;
    bool fixed;
};

static void move(struct walk *w, double performance)
{
    double *old = w->now;

    w->now = w->next;
    w->next = old;
    w->performance = performance;
}

/* Scale `v` to the target by what is really removed. */
static int reach(struct walk *w, double *v, bool *reached, struct pare_err *err)
{
    struct pare_search *s = w->s;

    *reached = true;
    if (w->o->nni)
        return 0;
    memcpy(w->raw, v, (size_t)s->n * sizeof(*v));
    return pare_search_reach(s, w->zero, w->raw, s->target, v, reached, err);
}

static int perturb(struct walk *w, double most, struct pare_err *err)
{
    bool reached = false;

    for (int i = 0; i < ATTEMPTS && !reached; i++) {
        pare_sparsity_perturb(&w->space, &w->s->rng, most, w->now, w->next);
        PARE_TRY(reach(w, w->next, &reached, err));
    }
    if (!reached)
        memcpy(w->next, w->now, (size_t)w->s->n * sizeof(*w->next));
    return 0;
}

static int allocate(struct walk *w, struct pare_err *err)
{
    struct pare_search *s = w->s;
    size_t n = (size_t)s->n + 1;

    w->space = (struct pare_sparsity_space){ s->weight, s->n, s->target,
                                             pare_alloc(s->arena, n, sizeof(int)), w->o->nni };
    w->now = pare_alloc(s->arena, n, sizeof(double));
    w->next = pare_alloc(s->arena, n, sizeof(double));
    w->zero = pare_alloc(s->arena, n, sizeof(double));
    w->raw = pare_alloc(s->arena, n, sizeof(double));
    return w->space.order && w->now && w->next && w->zero && w->raw
               ? 0
               : pare_no_memory(err, "for a search");
}

static int start(struct walk *w, struct pare_err *err)
{
    struct pare_search *s = w->s;
    bool reached = true;
    double none;

    PARE_TRY(allocate(w, err));
    pare_sparsity_order(&w->space);
    if (w->o->nni) {
        pare_sparsity_draw(&w->space, &s->rng, w->now);
    } else {
        PARE_TRY(pare_search_gone(s, w->zero, &none, err)); /* counts the original */
        for (int i = 0; i < s->n; i++)
            w->now[i] = s->target;
        PARE_TRY(reach(w, w->now, &reached, err));
    }
    if (!reached)
        return pare_fail(err, PARE_ECONFIG,
                         "sparsity is %g, but these layers are a smaller part of the model",
                         s->target);
    w->t = w->first = w->o->start_temperature;
    w->last = w->o->stop_temperature;
    s->most = s->tried + 1 + (w->fixed ? 0 : FIRST) +
              (int64_t)ceil(log(w->fixed ? w->first / w->last : HOTTEST) /
                            -log(w->o->cool_down_rate));
    return pare_candidate_try(s, w->now, &w->performance, err);
}

/* Perturb the start a few times; continue from the best. */
static int find_temperature(struct walk *w, struct pare_err *err)
{
    double sum = 0, base = w->performance, p;

    for (int i = 0; i < FIRST; i++) {
        PARE_TRY(perturb(w, w->o->perturbation_magnitude, err));
        PARE_TRY(pare_candidate_try(w->s, w->next, &p, err));
        sum += fabs(p - base) / FIRST;
    }
    memcpy(w->now, w->s->best, (size_t)w->s->n * sizeof(*w->now));
    w->performance = w->s->best_performance;
    w->t = w->first = pare_annealing_temperature(sum);
    w->last = w->first / HOTTEST;
    return 0;
}

int pare_annealing_run(struct pare_search *s, const struct pare_annealing *o, struct pare_err *err)
{
    struct walk w = { .s = s, .o = o, .fixed = o->nni || !strcmp(o->temperature, "fixed") };
    int64_t refused = 0;

    PARE_TRY(start(&w, err));
    if (!w.fixed)
        PARE_TRY(find_temperature(&w, err));
    while (w.t >= w.last && refused < STUCK) {
        bool accepted;
        double p;

        PARE_TRY(perturb(&w, w.t / w.first * o->perturbation_magnitude, err));
        PARE_TRY(pare_candidate_try(s, w.next, &p, err));
        accepted = pare_annealing_accepts(pare_search_worse(s, p, w.performance), w.t,
                                          pare_rng_uniform(&s->rng));
        if (accepted)
            move(&w, p);
        refused = accepted ? 0 : refused + 1;
        if (accepted || !o->nni)
            w.t *= o->cool_down_rate;
    }
    return 0;
}

static int run(struct pare_search *s, struct pare_err *err)
{
    return pare_annealing_run(s, &((const struct opts *)s->o)->annealing, err);
}

const struct pare_search_kind pare_search_annealing = {
    .algorithm = PARE_SEARCH_ALGORITHM(
        "simulated_annealing",
        "Search the sparsity of each layer by simulated annealing on held-out items.", opts,
        struct opts),
    .check = check,
    .run = run,
};
