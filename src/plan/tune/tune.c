/* tune.c - the fastest of the kernels that can run a layer, found by trying.
 *
 * When a plan is tuned, the kernels of kernels.def that are rivals and can run the same nodes are
 * tried (tune_measure.c).  What was found is kept by what the time depends on (tune_key.c): layers that
 * are alike are tried once, and files have it for later plans (tune_cache.h).  Training plans have a
 * line for each way of a layer (passes.h).
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
    struct pare_tune_cache list, cache;         /* as the files had them */
    struct pare_tune_cache new_list, new_cache; /* what they do not have */
    const char *choices, *folder;
    bool measure, cold; /* see struct pare_tune_race */
    double left;        /* seconds for trials, ... */
    double *shared;     /* ... of several plans together; or NULL */
};

/* ---- one step ------------------------------------------------------------------------- */

static const struct pare_kernel *rival_named(const struct pare_tune_race *c, const char *name)
{
    for (int i = 0; i < c->n && name; i++)
        if (!strcmp(c->rival[i].s.kernel->name, name))
            return c->rival[i].s.kernel;
    return NULL;
}

/* What is chosen for a step; `key` is the line without a way. */
struct choice {
    struct pare_tune_race *c;
    char key[PARE_KEY_TEXT], way_key[PARE_KEY_TEXT];
    struct pare_passes ways;
};

/* The line for a way.  Plans without gradients have only one. */
static const char *key_of(struct choice *x, int way)
{
    if (!x->c->p->train)
        return x->key;
    pare_tune_pass_key(x->key, pare_way_names[way], x->way_key);
    return x->way_key;
}

static bool is_wanted(const struct choice *x, int way)
{
    return x->c->wanted >> way & 1;
}

static int cannot(const struct choice *x, int way, const char *name, struct pare_err *err)
{
    const char *file = x->c->p->tuner->choices, *node = x->c->node->name;

    if (!x->c->p->train)
        return pare_fail(err, PARE_ECONFIG, "%s: '%s' is chosen for node '%s', which it cannot run",
                         file, name, node);
    return pare_fail(err, PARE_ECONFIG,
                     "%s: '%s' is chosen for node '%s' (%s), which it cannot run%s%s%s", file, name,
                     node, pare_way_names[way], way && x->ways.k[0] ? " beside '" : "",
                     way && x->ways.k[0] ? x->ways.k[0]->name : "", way && x->ways.k[0] ? "'" : "");
}

/* By the list, as far as it goes.  Its lines of before ways were apart stand for all of them. */
static int follow_list(struct choice *x, bool *all, struct pare_err *err)
{
    struct pare_tuner *t = x->c->p->tuner;

    *all = true;
    x->ways = (struct pare_passes){ { NULL } };
    for (int w = 0; w < PARE_PASSES; w++) {
        const char *name = is_wanted(x, w) ? pare_tune_cache_get(&t->list, key_of(x, w)) : NULL;

        if (is_wanted(x, w) && !name)
            name = pare_tune_cache_get(&t->list, x->key);
        x->ways.k[w] = rival_named(x->c, name);
        if (name && !x->ways.k[w])
            return cannot(x, w, name, err);
        *all &= !is_wanted(x, w) || name;
    }
    x->c->fixed = x->ways;
    return 0;
}

/* Without trials: what the list has not goes by the rules, or is the forward kernel's when the
 * rules' cannot be beside that. */
static int complete(struct choice *x, struct pare_err *err)
{
    struct pare_passes given = x->ways;

    for (int own = 0; own < 2; own++) {
        for (int w = 0; w < PARE_PASSES; w++)
            if (is_wanted(x, w) && !given.k[w])
                x->ways.k[w] = own && w ? x->ways.k[0] : x->c->rule.k[w];
        if (pare_tune_race_find(x->c, &x->ways) >= 0)
            return 0;
    }
    for (int w = PARE_PASSES - 1; w >= 0; w--) /* who is not the forward kernel's neighbour */
        if (given.k[w] && (given.k[w] != x->ways.k[0] || !w))
            return cannot(x, w, given.k[w]->name, err);
    return cannot(x, 0, x->ways.k[0]->name, err);
}

/* What was found before, in this plan or another. */
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
        known.k[w] = x->c->fixed.k[w] ? x->c->fixed.k[w] : rival_named(x->c, name);
    }
    if (pare_tune_race_find(x->c, &known) < 0)
        return false;
    x->ways = known;
    return true;
}

/* For later plans. */
static int note(struct choice *x, struct pare_tune_cache *to, struct pare_err *err)
{
    for (int w = 0; w < PARE_PASSES; w++)
        if (is_wanted(x, w) && !x->c->fixed.k[w])
            PARE_TRY(pare_tune_cache_set(to, key_of(x, w), x->ways.k[w]->name, err));
    return 0;
}

/* By the list; by the cache; by trying; by the rules. */
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
        return complete(x, err);
    if (is_known(x)) {
        c->p->tuned.cached++;
    } else if (t->left > 0) {
        c->cold = t->cold;
        c->seconds = t->left;
        PARE_TRY(complete(x, err)); /* can what the list has be done at all? */
        PARE_TRY(pare_tune_race_run(c, &x->ways, err));
        t->left -= pare_now() - start;
        if (t->left > 0) /* else it was in a hurry: another plan can do better */
            PARE_TRY(note(x, &t->new_cache, err));
    } else {
        PARE_TRY(complete(x, err));
    }
    return note(x, &t->new_list, err);
}

int pare_tune_step(struct pare_plan *p, struct pare_step *s, struct pare_passes *ways,
                   struct pare_err *err)
{
    struct pare_tune_race c = { .p = p, .rule = *ways };
    struct choice x = { .c = &c };
    double start = pare_now();
    bool zeros = false;
    int rc;

    if (!p->tuner || !s->kernel->candidate)
        return 0;
    rc = pare_tune_race_gather(&c, s, err);
    for (int i = 0; i < c.n && !rc; i++)
        zeros |= c.rival[i].s.kernel->sparsity_dependent;
    s->tuned = !rc && pare_tune_race_open(&c);
    if (s->tuned && pare_tune_race_find(&c, &c.rule) >= 0 &&
        pare_tune_key(p, s, zeros, p->tuner->cold, x.key)) {
        rc = decide(&x, err);
        if (!rc)
            *ways = x.ways;
        p->tuned.changed += !rc && !pare_passes_same(ways, &c.rule);
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
        return pare_no_memory(err, "to try kernels");
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
                              .shared = left };
    p->tuner = t;
    if (t->choices && !t->measure && access(t->choices, F_OK))
        return pare_fail(err, PARE_EIO, "%s: %s", t->choices, strerror(errno));
    if (t->choices)
        PARE_TRY(pare_tune_cache_read(&t->list, t->choices, true, err));
    if (t->folder && t->measure) {
        const char *file = pare_tune_cache_file(a, t->folder, false);

        return file ? pare_tune_cache_read(&t->cache, file, false, err)
                    : pare_no_memory(err, "to try kernels");
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

        if (file) /* it is only a cache */
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
