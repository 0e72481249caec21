/* tune.c - choose the fastest kernel for each layer: from a list, from the cache, or by a race.
 *
 * In a tuned plan, the kernels with .candidate that can run the same nodes race (tune_race.c).  The
 * winner is stored under a key of everything that the time depends on (tune_key.c), so layers that
 * are alike race once, and later plans read it from a file (tune_cache.h).  Training plans follow
 * the rules: races of their passes gained nothing on average (1.01 of the rules' time on five
 * networks, 0.91 to 1.12).
 */
#include "tune.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../../base/cpu_cache.h"
#include "../../base/clock.h"
#include "kernels_hash.h"
#include "tune_cache.h"
#include "tune_measure.h"

struct pare_tuner {
    struct pare_arena *arena;
    struct pare_tune_cache list, cache;         /* contents of the files */
    struct pare_tune_cache new_list, new_cache; /* choices that the files lack */
    const char *choices, *folder;
    bool measure, cold;         /* time candidates; see struct pare_tune_race */
    double left;                /* seconds for races */
    pare_progress_fn *progress; /* called before each race; NULL: none */
    void *user;
    double *shared; /* if not NULL: `left` of several plans */
};

/* ---- one step ------------------------------------------------------------------------- */

static const struct pare_kernel *candidate_named(const struct pare_tune_race *c, const char *name)
{
    for (int i = 0; i < c->n && name; i++)
        if (!strcmp(c->candidate[i].s.kernel->name, name))
            return c->candidate[i].s.kernel;
    return NULL;
}

/* The choice of this plan or of the cache; NULL: none, or it cannot run the nodes. */
static const struct pare_kernel *known_choice(const struct pare_tune_race *c, const char *key)
{
    const struct pare_tuner *t = c->p->tuner;
    const char *name = pare_tune_cache_get(&t->new_list, key);

    return candidate_named(c, name ? name : pare_tune_cache_get(&t->cache, key));
}

static int report(const struct pare_plan *p, struct pare_err *err)
{
    const struct pare_tuner *t = p->tuner;
    struct pare_progress now = { "tune", p->tuned.layers - 1, 0, PARE_TUNE_LIMIT - t->left };

    if (!t->progress || t->progress(t->user, &now))
        return 0;
    return pare_fail(err, PARE_ECANCEL, "tuning was canceled");
}

static int run_race(struct pare_tune_race *c, const char *key, const struct pare_kernel **k,
                    struct pare_err *err)
{
    struct pare_tuner *t = c->p->tuner;
    double start = pare_now();

    PARE_TRY(report(c->p, err));
    c->cold = t->cold;
    c->seconds = t->left;
    PARE_TRY(pare_tune_race_run(c, k, err));
    t->left -= pare_now() - start;
    /* Without time left the race was cut short, and a later plan can do better. */
    return t->left > 0 ? pare_tune_cache_set(&t->new_cache, key, (*k)->name, err) : 0;
}

/* By the list, the cache, a race, or the rules, in this order. */
static int decide(struct pare_tune_race *c, const char *key, const struct pare_kernel **k,
                  struct pare_err *err)
{
    struct pare_tuner *t = c->p->tuner;
    const char *listed = pare_tune_cache_get(&t->list, key);
    const struct pare_kernel *known;

    c->p->tuned.layers++;
    *k = c->rule;
    if (listed) {
        c->p->tuned.listed++;
        *k = candidate_named(c, listed);
        if (!*k && !pare_has_onednn && pare_is_onednn_kernel(listed))
            return pare_fail(err, PARE_ECONFIG,
                             "%s: kernel '%s' is listed for node '%s', but this build has no "
                             "oneDNN: remove that line, or use a build with oneDNN",
                             t->choices, listed, c->node->name);
        return *k ? 0
                  : pare_fail(err, PARE_ECONFIG,
                              "%s: kernel '%s' is listed for node '%s' but cannot run it",
                              t->choices, listed, c->node->name);
    }
    if (!t->measure)
        return 0;
    known = known_choice(c, key);
    if (known) {
        c->p->tuned.cached++;
        *k = known;
    } else if (t->left > 0) {
        PARE_TRY(run_race(c, key, k, err));
    }
    return pare_tune_cache_set(&t->new_list, key, (*k)->name, err);
}

int pare_tune_step(struct pare_plan *p, struct pare_step *s, const struct pare_kernel **k,
                   struct pare_err *err)
{
    struct pare_tune_race c = { .p = p, .rule = *k };
    char key[PARE_TUNE_KEY];
    double start = pare_now();
    bool zeros = false;
    int rc;

    if (!p->tuner || !s->kernel->candidate)
        return 0;
    rc = pare_tune_race_collect(&c, s, err);
    for (int i = 0; i < c.n && !rc; i++)
        zeros |= c.candidate[i].s.kernel->sparsity_dependent;
    s->tuned = !rc && c.n > 1;
    if (s->tuned && pare_tune_race_find(&c, c.rule) &&
        pare_tune_key(p, s, zeros, p->tuner->cold, key)) {
        rc = decide(&c, key, k, err);
        p->tuned.changed += !rc && *k != c.rule;
    }
    pare_tune_race_end(&c);
    p->tuned.seconds += pare_now() - start;
    return rc;
}

/* ---- the plan's tuner ------------------------------------------------------------------ */

static bool is_cold(const struct pare_plan *p)
{
    size_t sum = 0, bytes;
    struct pare_err err;

    for (int i = 0; i < p->graph->n_values; i++) {
        const struct pare_value *v = p->graph->value[i];

        if (pare_is_fixed(v) && !pare_tensor_size(&v->t, NULL, &bytes, &err))
            sum += bytes;
    }
    return sum > pare_cache_bytes() / 2;
}

const char *pare_tune_known(const struct pare_plan *p, const char *key, bool *listed)
{
    const struct pare_tuner *t = p->tuner;
    const char *name = pare_tune_cache_get(&t->list, key);

    *listed = name != NULL;
    return name || !t->measure ? name : pare_tune_cache_get(&t->cache, key);
}

int pare_tune_note(struct pare_plan *p, const char *key, const char *name, struct pare_err *err)
{
    PARE_TRY(pare_tune_cache_set(&p->tuner->new_cache, key, name, err));
    return pare_tune_cache_set(&p->tuner->new_list, key, name, err);
}

int pare_tune_start(struct pare_plan *p, const struct pare_plan_opts *o, double *left,
                    struct pare_err *err)
{
    struct pare_arena *a;
    struct pare_tuner *t;

    if (p->train || o->reference || (!o->tune && !o->choices))
        return 0;
    a = pare_arena_new(1 << 16);
    t = a ? pare_alloc(a, 1, sizeof(*t)) : NULL;
    if (!t) {
        pare_arena_free(a);
        return pare_no_memory(err, "for tuning");
    }
    *t = (struct pare_tuner){ .arena = a,
                              .list.arena = a,
                              .cache.arena = a,
                              .new_list.arena = a,
                              .new_cache.arena = a,
                              .choices = o->choices,
                              .folder = o->cache,
                              .measure = o->tune,
                              .cold = is_cold(p),
                              .left = left ? *left : PARE_TUNE_LIMIT,
                              .shared = left,
                              .progress = o->progress,
                              .user = o->user };
    p->tuner = t;
    if (t->choices && !t->measure && access(t->choices, F_OK))
        return pare_fail(err, PARE_EIO, "%s: %s", t->choices, strerror(errno));
    if (t->choices)
        PARE_TRY(pare_tune_cache_read(&t->list, t->choices, true, err));
    if (t->folder && t->measure) {
        const char *file = pare_tune_cache_file(a, t->folder, pare_kernels_hash, false);

        return file ? pare_tune_cache_read(&t->cache, file, false, err)
                    : pare_no_memory(err, "for tuning");
    }
    return 0;
}

int pare_tune_end(struct pare_plan *p, struct pare_err *err)
{
    struct pare_tuner *t = p->tuner;
    struct pare_err ignored;

    if (!t)
        return 0;
    if (t->folder && t->new_cache.n) {
        const char *file = pare_tune_cache_file(t->arena, t->folder, pare_kernels_hash, true);

        if (file) /* errors do not matter: it is a cache */
            (void)pare_tune_cache_save(&t->new_cache, file, false, &ignored);
    }
    if (t->choices && t->new_list.n)
        PARE_TRY(pare_tune_cache_save(&t->new_list, t->choices, true, err));
    if (t->shared)
        *t->shared = t->left;
    pare_tune_free(p);
    return 0;
}

void pare_tune_free(struct pare_plan *p)
{
    if (p->tuner)
        pare_arena_free(p->tuner->arena);
    p->tuner = NULL;
}
