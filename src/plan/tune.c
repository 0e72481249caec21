/* tune.c - the fastest of the kernels that can run a layer, found by trying.
 *
 * When a plan is tuned, the kernels of kernels.def that are rivals and can run the same nodes are
 * tried (trial.c).  What was found is kept by what the time depends on (tune_key.c): layers that
 * are alike are tried once, and files have it for later plans (choices.h).
 */
#include "tune.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../base/cache.h"
#include "../base/clock.h"
#include "choices.h"
#include "trial.h"

struct pare_tuner {
    struct pare_arena *arena;
    struct pare_choices list, cache;         /* as the files had them */
    struct pare_choices new_list, new_cache; /* what they do not have */
    const char *choices, *folder;
    bool measure, cold; /* see struct pare_contest */
    double left;        /* seconds for trials, ... */
    double *shared;     /* ... of several plans together; or NULL */
};

static int no_memory(struct pare_err *err)
{
    return pare_fail(err, PARE_ENOMEM, "no memory to try kernels");
}

static const struct pare_kernel *rival_named(const struct pare_contest *c, const char *name)
{
    for (int i = 0; i < c->n && name; i++)
        if (!strcmp(c->rival[i].s.kernel->name, name))
            return c->rival[i].s.kernel;
    return NULL;
}

static int follow_list(struct pare_contest *c, const char *name, const struct pare_kernel **k,
                       struct pare_err *err)
{
    *k = rival_named(c, name);
    if (!*k)
        return pare_fail(err, PARE_ECONFIG, "%s: '%s' is chosen for node '%s', which it cannot run",
                         c->p->tuner->choices, name, c->node->name);
    c->p->tuned.listed++;
    return 0;
}

/* By the list; by the cache; by trying; by the rules. */
static int decide(struct pare_contest *c, const char *key, const struct pare_kernel **k,
                  struct pare_err *err)
{
    struct pare_tuner *t = c->p->tuner;
    const char *name = pare_choices_get(&t->list, key);
    double start = pare_now();

    *k = c->rule;
    c->p->tuned.layers++;
    if (name)
        return follow_list(c, name, k, err);
    if (!t->measure)
        return 0;
    name = pare_choices_get(&t->new_list, key);
    name = name ? name : pare_choices_get(&t->cache, key);
    if (rival_named(c, name)) {
        *k = rival_named(c, name);
        c->p->tuned.cached++;
    } else if (t->left > 0) {
        c->cold = t->cold;
        c->seconds = t->left;
        PARE_TRY(pare_contest_run(c, k, err));
        t->left -= pare_now() - start;
        if (t->left > 0) /* else it was in a hurry: another plan can do better */
            PARE_TRY(pare_choices_set(&t->new_cache, key, (*k)->name, err));
    }
    return pare_choices_set(&t->new_list, key, (*k)->name, err);
}

/* Its lists are in the plan's memory, not in a rival's. */
static int take(struct pare_plan *p, const struct pare_kernel *k, struct pare_step *s,
                struct pare_err *err)
{
    struct pare_step other;

    if (!pare_rival_matches(p, k, s->node, p->arena, &other))
        return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
                   ? no_memory(err)
                   : pare_fail(err, PARE_EUNSUPPORTED, "'%s' takes node '%s' only at times",
                               k->name, s->node->name);
    pare_rival_drop(s);
    *s = other;
    p->tuned.changed++;
    return 0;
}

int pare_tune_step(struct pare_plan *p, struct pare_step *s, struct pare_err *err)
{
    struct pare_contest c = { .p = p };
    const struct pare_kernel *k = s->kernel;
    char key[PARE_KEY_TEXT];
    double start = pare_now();
    bool zeros = false;
    int rc;

    if (!p->tuner || !k->rival)
        return 0;
    rc = pare_contest_gather(&c, s, err);
    for (int i = 0; i < c.n && !rc; i++)
        zeros |= c.rival[i].s.kernel->by_zeros;
    s->tuned = !rc && c.n > 1 && rival_named(&c, k->name) &&
               pare_tune_key(p, s, zeros, p->tuner->cold, key);
    if (s->tuned)
        rc = decide(&c, key, &k, err);
    pare_contest_end(&c);
    if (!rc && k != s->kernel)
        rc = take(p, k, s, err);
    s->tuned = c.n > 1;
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
    const char *name = pare_choices_get(&t->list, key);

    *listed = name != NULL;
    return name || !t->measure ? name : pare_choices_get(&t->cache, key);
}

int pare_tune_note(struct pare_plan *p, const char *key, const char *name, struct pare_err *err)
{
    PARE_TRY(pare_choices_set(&p->tuner->new_cache, key, name, err));
    return pare_choices_set(&p->tuner->new_list, key, name, err);
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
        return no_memory(err);
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
        PARE_TRY(pare_choices_read(&t->list, t->choices, true, err));
    if (t->folder && t->measure) {
        const char *file = pare_choices_file(a, t->folder, false);

        return file ? pare_choices_read(&t->cache, file, false, err) : no_memory(err);
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
        const char *file = pare_choices_file(t->arena, t->folder, true);

        if (file) /* it is only a cache */
            (void)pare_choices_save(&t->new_cache, file, false, &ignored);
    }
    if (t->choices && t->new_list.n)
        PARE_TRY(pare_choices_save(&t->new_list, t->choices, true, err));
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
