/* budget_resume.c - the journal of a search: what it belongs to, and the expected errors in it. */
#include <stdio.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../base/map.h"
#include "../data/data.h"

/* Everything that results depend on, except the data's contents. */
int pare_budget_resume(struct pare_budget_search *s, struct pare_err *err)
{
    const struct pare_compress_budget_opts *o = s->o;
    struct pare_mark mark = pare_mark(s->arena);
    char text[1024];
    void *bytes;
    size_t len;
    uint64_t key[2];

    s->journal.arena = s->arena;
    if (!o->work)
        return pare_journal_open(&s->journal, NULL, 0, false, err);
    PARE_TRY(pare_model_pack(s->model, s->arena, &bytes, &len, err));
    key[0] = pare_hash(bytes, len);
    pare_rewind(s->arena, mark);
    snprintf(text, sizeof(text),
             "%.200s|%g|%g|%g|%.60s|%.40s|%lld|%.200s|%lld|%d|%llu|%.300s|%lld|%.20s|%g",
             o->budget ? o->budget : "", o->max_drop, o->class_drop, o->confidence,
             o->methods ? o->methods : "", o->solver ? o->solver : "", (long long)o->finetune,
             o->train ? o->train : "", (long long)o->batch, o->threads, (unsigned long long)o->seed,
             o->table ? o->table : "", (long long)o->data->n, o->sensitivity ? o->sensitivity : "",
             o->search_seconds);
    key[1] = pare_hash(text, strlen(text));
    return pare_journal_open(&s->journal, o->work, pare_hash(key, sizeof(key)), o->resume, err);
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
