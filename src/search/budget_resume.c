/* budget_resume.c - the journal of a search: what it belongs to, and the expected errors in it. */
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../base/map.h"
#include "../data/data.h"
#include "../tensor/tensor.h"
#include "../train/batch_runner.h"

#define ITEMS 256 /* of the data, that tell whether they are the same */

static uint64_t mix(uint64_t h, const void *bytes, size_t len)
{
    const uint64_t both[2] = { h, pare_hash(bytes, len) };

    return pare_hash(both, sizeof(both));
}

/* Adds the first items of the data, as the model receives them, and their labels. */
static int add_items(const struct pare_budget_search *s, struct pare_arena *a, uint64_t *h,
                     struct pare_err *err)
{
    struct pare_batch_runner r = { .threads = 1 };
    struct pare_loader_opts lo = { .batch = 0 };
    struct pare_loader *l = NULL;
    const struct pare_batch *b = NULL;
    int rc = pare_batch_runner_init(&r, s->model, &lo, a, err);

    if (!rc)
        rc = pare_loader_new(s->o->data, &lo, &l, err);
    for (int64_t seen = 0; !rc && seen < ITEMS; seen += pare_batch_items(b)) {
        size_t bytes;

        rc = pare_loader_next(l, &b, err);
        if (rc || !b)
            break;
        for (int k = 0; k <= b->n_in && !rc; k++) {
            const struct pare_tensor *t = k < b->n_in ? &b->in[k] : &b->y;

            if (!t->data)
                continue;
            rc = pare_tensor_size(t, NULL, &bytes, err);
            if (!rc)
                *h = mix(*h, t->data, bytes);
        }
    }
    pare_loader_free(l);
    pare_batch_runner_free(&r);
    return rc;
}

static uint64_t hash_options(const struct pare_compress_budget_opts *o)
{
    const char *text[] = { o->budget, o->methods,     o->solver, o->train,
                           o->table,  o->sensitivity, o->runner };
    const double number[] = { o->max_drop,        o->class_drop,    o->confidence,
                              o->search_seconds,  (double)o->batch, (double)o->threads,
                              (double)o->finetune };
    const uint64_t whole[] = { o->seed, (uint64_t)o->data->n };
    uint64_t h = mix(mix(0, number, sizeof(number)), whole, sizeof(whole));

    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
        h = mix(h, text[i] ? text[i] : "", text[i] ? strlen(text[i]) + 1 : 0);
    return h;
}

/* Everything that results depend on; of the data their number and the first items. */
int pare_budget_resume(struct pare_budget_search *s, struct pare_err *err)
{
    const struct pare_compress_budget_opts *o = s->o;
    struct pare_arena *a;
    uint64_t key = hash_options(o);
    void *bytes;
    size_t len;
    int rc;

    s->journal.arena = s->arena;
    if (!o->work)
        return pare_journal_open(&s->journal, NULL, 0, false, err);
    a = pare_arena_new(1 << 16);
    rc = a ? pare_model_pack(s->model, a, &bytes, &len, err)
           : pare_no_memory(err, "for the journal of a search");
    if (!rc) {
        key = mix(key, bytes, len);
        rc = add_items(s, a, &key, err);
    }
    pare_arena_free(a);
    return rc ? rc : pare_journal_open(&s->journal, o->work, key, o->resume, err);
}

/* Errors of channels and formats, as one list for the journal. */
int pare_budget_errors(struct pare_budget_search *s, struct pare_err *err)
{
    const struct pare_cost_table *t = s->table;
    size_t n = (size_t)(t->n_groups * PARE_COST_CHOICES + t->n_layers), at = 0;
    double *x;
    bool known;

    PARE_TRY(pare_budget_errors_open(s, err));
    n += (size_t)s->units.n + 1;
    s->rounded = -1;
    x = pare_alloc(s->arena, n + 1, sizeof(*x));
    if (!x)
        return pare_no_memory(err, "for a search");
    known = pare_journal_next(&s->journal, x, (int)n);
    if (!known) {
        PARE_TRY(pare_budget_curves(s, err));
        PARE_TRY(pare_budget_noise(s, err));
    }
    for (int g = 0; g < t->n_groups; g++, at += PARE_COST_CHOICES)
        memcpy(known ? s->error[g] : x + at, known ? x + at : s->error[g],
               PARE_COST_CHOICES * sizeof(*x));
    memcpy(known ? s->noise : x + at, known ? x + at : s->noise, (size_t)t->n_layers * sizeof(*x));
    at += (size_t)t->n_layers;
    for (int64_t i = 0; i < s->units.n; i++, at++)
        if (known)
            s->units.rank[i] = (int64_t)x[at];
        else
            x[at] = (double)s->units.rank[i];
    if (known)
        s->rounded = x[at];
    else
        x[at] = s->rounded;
    return known ? 0 : pare_journal_add(&s->journal, x, (int)n, err);
}
