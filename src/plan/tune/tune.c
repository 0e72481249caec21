/* tune.c - choose the fastest kernel for each layer: from a list, from the cache, or by a race.
 *
 * In a tuned plan, the kernels with .candidate that can run the same nodes race (tune_race.c).  The
 * winner is stored under a key of everything that the time depends on (tune_key.c), so layers that
 * are alike race once, and later plans read it from a file (tune_cache.h).  Training plans have a
 * key for each pass of a layer (passes.h).
 */
#include "tune.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../../base/cpu_cache.h"
#include "../../base/clock.h"
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

/* The choice for a step; `key` is without the pass. */
struct choice {
    struct pare_tune_race *c;
    char key[PARE_TUNE_KEY], pass_key[PARE_TUNE_KEY];
    struct pare_passes passes;
};

/* The key of a pass; inference plans use the plain key. */
static const char *key_of(struct choice *x, int pass)
{
    if (!x->c->p->train)
        return x->key;
    pare_tune_pass_key(x->key, pare_pass_names[pass], x->pass_key);
    return x->pass_key;
}

static bool is_wanted(const struct choice *x, int pass)
{
    return x->c->wanted >> pass & 1;
}

static int fail_cannot_run(const struct choice *x, int pass, const char *name, struct pare_err *err)
{
    const char *file = x->c->p->tuner->choices, *node = x->c->node->name;

    if (!x->c->p->train)
        return pare_fail(err, PARE_ECONFIG,
                         "%s: kernel '%s' is listed for node '%s' but cannot run it", file, name,
                         node);
    return pare_fail(err, PARE_ECONFIG,
                     "%s: kernel '%s' is listed for node '%s' (%s) but cannot run it%s%s%s", file,
                     name, node, pare_pass_names[pass], pass && x->passes.k[0] ? " next to '" : "",
                     pass && x->passes.k[0] ? x->passes.k[0]->name : "",
                     pass && x->passes.k[0] ? "'" : "");
}

/* Read the choices of the list.  A line without a pass, as earlier versions wrote it, stands for
 * all passes. */
static int follow_list(struct choice *x, bool *all, struct pare_err *err)
{
    struct pare_tuner *t = x->c->p->tuner;

    *all = true;
    x->passes = (struct pare_passes){ { NULL } };
    for (int w = 0; w < PARE_PASSES; w++) {
        const char *name = is_wanted(x, w) ? pare_tune_cache_get(&t->list, key_of(x, w)) : NULL;

        if (is_wanted(x, w) && !name)
            name = pare_tune_cache_get(&t->list, x->key);
        x->passes.k[w] = candidate_named(x->c, name);
        if (name && !x->passes.k[w])
            return fail_cannot_run(x, w, name, err);
        *all &= !is_wanted(x, w) || name;
    }
    x->c->fixed = x->passes;
    return 0;
}

/* Without a race: passes that the list lacks get the rules' kernel, or the forward kernel if the
 * rules' kernel does not support its layouts. */
static int fill_by_rules(struct choice *x, struct pare_err *err)
{
    struct pare_passes given = x->passes;

    for (int own = 0; own < 2; own++) {
        for (int w = 0; w < PARE_PASSES; w++)
            if (is_wanted(x, w) && !given.k[w])
                x->passes.k[w] = own && w ? x->passes.k[0] : x->c->rule.k[w];
        if (pare_tune_race_find(x->c, &x->passes) >= 0)
            return 0;
    }
    for (int w = PARE_PASSES - 1; w >= 0; w--) /* the kernel that does not fit the forward kernel */
        if (given.k[w] && (given.k[w] != x->passes.k[0] || !w))
            return fail_cannot_run(x, w, given.k[w]->name, err);
    return fail_cannot_run(x, 0, x->passes.k[0]->name, err);
}

/* Look up choices of this plan and of the cache. */
static bool is_known(struct choice *x)
{
    struct pare_tuner *t = x->c->p->tuner;
    struct pare_passes known = { { NULL } };

    for (int w = 0; w < PARE_PASSES; w++) {
        const char *name = NULL;

        if (is_wanted(x, w) && !x->c->fixed.k[w]) {
            name = pare_tune_cache_get(&t->new_list, key_of(x, w));
            name = name ? name : pare_tune_cache_get(&t->cache, key_of(x, w));
        }
        known.k[w] = x->c->fixed.k[w] ? x->c->fixed.k[w] : candidate_named(x->c, name);
    }
    if (pare_tune_race_find(x->c, &known) < 0)
        return false;
    x->passes = known;
    return true;
}

/* Store the choices for later plans. */
static int record(struct choice *x, struct pare_tune_cache *to, struct pare_err *err)
{
    for (int w = 0; w < PARE_PASSES; w++)
        if (is_wanted(x, w) && !x->c->fixed.k[w])
            PARE_TRY(pare_tune_cache_set(to, key_of(x, w), x->passes.k[w]->name, err));
    return 0;
}

static int report(const struct pare_plan *p, struct pare_err *err)
{
    const struct pare_tuner *t = p->tuner;
    struct pare_progress now = { "tune", p->tuned.layers - 1, 0, PARE_TUNE_LIMIT - t->left };

    if (!t->progress || t->progress(t->user, &now))
        return 0;
    return pare_fail(err, PARE_ECANCEL, "tuning was canceled");
}

/* By the list, the cache, a race, or the rules, in this order. */
static int decide(struct choice *x, struct pare_err *err)
{
    struct pare_tune_race *c = x->c;
    struct pare_tuner *t = c->p->tuner;
    double start = pare_now();
    bool all;

    c->p->tuned.layers++;
    PARE_TRY(follow_list(x, &all, err));
    c->p->tuned.listed += all;
    if (all || !t->measure)
        return fill_by_rules(x, err);
    if (is_known(x)) {
        c->p->tuned.cached++;
    } else if (t->left > 0) {
        PARE_TRY(report(c->p, err));
        c->cold = t->cold;
        c->seconds = t->left;
        PARE_TRY(fill_by_rules(x, err)); /* fails if the listed kernels do not fit */
        PARE_TRY(pare_tune_race_run(c, &x->passes, err));
        t->left -= pare_now() - start;
        if (t->left > 0) /* otherwise the race was cut short, and a later plan can do better */
            PARE_TRY(record(x, &t->new_cache, err));
    } else {
        PARE_TRY(fill_by_rules(x, err));
    }
    return record(x, &t->new_list, err);
}

int pare_tune_step(struct pare_plan *p, struct pare_step *s, struct pare_passes *passes,
                   struct pare_err *err)
{
    struct pare_tune_race c = { .p = p, .rule = *passes };
    struct choice x = { .c = &c };
    double start = pare_now();
    bool zeros = false;
    int rc;

    if (!p->tuner || !s->kernel->candidate)
        return 0;
    rc = pare_tune_race_collect(&c, s, err);
    for (int i = 0; i < c.n && !rc; i++)
        zeros |= c.candidate[i].s.kernel->sparsity_dependent;
    s->tuned = !rc && pare_tune_race_has_choice(&c);
    if (s->tuned && pare_tune_race_find(&c, &c.rule) >= 0 &&
        pare_tune_key(p, s, zeros, p->tuner->cold, x.key)) {
        rc = decide(&x, err);
        if (!rc)
            *passes = x.passes;
        p->tuned.changed += !rc && !pare_passes_same(passes, &c.rule);
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

    if (o->reference || (!o->tune && !o->choices))
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
        const char *file = pare_tune_cache_file(a, t->folder, false);

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
        const char *file = pare_tune_cache_file(t->arena, t->folder, true);

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
