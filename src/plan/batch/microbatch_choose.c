/* microbatch_choose.c - choose the size of micro-batches: by a list, by the cache, by tuning, by
 * rules. */
#include "microbatch.h"
#include "../tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/clock.h"

#define MOST 5     /* runs of each candidate */
#define ENOUGH 0.2 /* seconds for each candidate; ends the runs after two */
/* Seconds after which no other candidate is built: on 15 float32 networks the rules were right
 * within 5 %. */
#define LONG 0.25
#define LONG_8BIT 2       /* the same with int8 weights, where rules are less reliable */
#define BETTER 0.97       /* a candidate must take less than this part of the rules' time */
#define LARGEST (1 << 20) /* batch whose divisors are tried */
#define NAME "parts_of_"

/* ---- the batch ------------------------------------------------------------------------------ */

static int64_t batch_of(const struct pare_plan *p)
{
    return p->graph->in[0]->t.dim[0];
}

/* Could axis 0 of all inputs and outputs be the batch?  pare_batch_independent() decides later. */
static bool has_batch(const struct pare_plan *p)
{
    const struct pare_graph *g = p->graph;
    int64_t batch = g->n_in && g->in[0]->t.rank > 0 ? batch_of(p) : 0;

    for (int i = 0; i < g->n_in; i++)
        if (g->in[i]->t.rank < 1 || g->in[i]->t.dim[0] != batch)
            return false;
    for (int i = 0; i < g->n_out && batch > 1; i++)
        if (g->out[i]->t.dtype == PARE_NONE || g->out[i]->t.rank < 1 ||
            g->out[i]->t.dim[0] % batch || g->out[i]->t.dtype == PARE_STR)
            return false;
    return batch > 1 && batch <= LARGEST && g->n_out > 0;
}

/* ---- the race ---------------------------------------------------------------------------- */

struct candidate {
    struct pare_microbatch *made;
    double best;
};

struct race {
    struct pare_plan *p;
    struct pare_tensor *in, *out;
};

/* Values in [-1, 1]; integers are 0, since they may be indices. */
static int make_inputs(struct race *t, struct pare_err *err)
{
    const struct pare_graph *g = t->p->graph;
    struct pare_arena *a = t->p->scratch;

    t->in = pare_alloc(a, (size_t)g->n_in, sizeof(*t->in));
    t->out = pare_alloc(a, (size_t)g->n_out, sizeof(*t->out));
    if (!t->in || !t->out)
        return pare_no_memory(err, "for micro-batches");
    for (int i = 0; i < g->n_in; i++) {
        const struct pare_tensor *v = &g->in[i]->t;

        PARE_TRY(pare_tensor_new(a, &t->in[i], v->dtype, v->rank, v->dim, err));
        for (int64_t k = 0; v->dtype == PARE_F32 && k < pare_numel(v); k++)
            pare_f32_mut(&t->in[i])[k] = (float)(k % 255 - 127) / 128;
    }
    for (int i = 0; i < g->n_out; i++) {
        const struct pare_tensor *v = &g->out[i]->t;

        PARE_TRY(pare_tensor_new(a, &t->out[i], v->dtype, v->rank, v->dim, err));
    }
    return 0;
}

/* Time one micro-batch on each thread and extrapolate.  With one thread, CPU time excludes other
 * programs. */
static int run_candidate(struct race *t, struct candidate *w, struct pare_err *err)
{
    struct pare_microbatch *s = w->made;
    int64_t parts = s->batch / s->items, turns = (parts + s->n - 1) / s->n;
    bool alone = t->p->backend.threads == 1;
    double start = alone ? pare_thread_now() : pare_now(), seconds;

    if (parts == 1)
        PARE_TRY(pare_plan_execute(s->plan[0], t->in, t->out, err));
    else
        PARE_TRY(pare_microbatch_parts(s, 0, s->n, t->in, t->out, err));
    seconds = ((alone ? pare_thread_now() : pare_now()) - start) * (double)turns;
    if (w->best <= 0 || seconds < w->best)
        w->best = seconds;
    t->p->tuned.runs++;
    return 0;
}

/* Alternate, so that a busy machine slows both. */
static int run_both(struct race *t, struct candidate w[2], struct pare_err *err)
{
    double start = pare_now();

    for (int r = 0; r < MOST && (r < 2 || pare_now() - start < 2 * ENOUGH); r++)
        for (int i = 0; i < 2; i++)
            PARE_TRY(run_candidate(t, &w[i], err));
    return 0;
}

/* The rules' size, the next smaller one and the next larger one. */
static int list_candidates(const struct pare_plan *p, int64_t items[3])
{
    int64_t batch = batch_of(p), rule = pare_microbatch_rule(p), less = rule - 1, more = rule + 1;
    int n = 0;

    while (less > 0 && !pare_microbatch_fits(p, less))
        less--;
    while (more < batch && !pare_microbatch_fits(p, more))
        more++;
    items[n++] = rule;
    if (less > 0)
        items[n++] = less;
    if (more <= batch)
        items[n++] = more;
    return n;
}

/* Race the best so far against the next candidate, so that at most two copies of the weights exist.
 */
static int keep_faster(struct race *t, struct candidate w[2], bool by_rule, struct pare_err *err)
{
    int rc = w[0].made && w[1].made ? run_both(t, w, err) : 0;
    bool better = !w[0].made || (w[1].made && w[1].best < (by_rule ? BETTER : 1) * w[0].best);

    if (better && !rc) {
        struct candidate old = w[0];

        w[0] = w[1];
        w[1] = old;
    }
    pare_microbatch_free(w[1].made);
    w[1] = (struct candidate){ NULL, 0 };
    return rc;
}

static bool has_8bit(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        const struct pare_value *v = g->value[i];

        if (pare_is_fixed(v) && v->t.rank > 1 && (v->t.dtype == PARE_I8 || v->t.dtype == PARE_U8))
            return true;
    }
    return false;
}

static int run_race(struct pare_plan *p, const struct pare_plan_opts *o, struct pare_err *err)
{
    double start = pare_now();
    struct race t = { .p = p };
    struct candidate best[2] = { { NULL, 0 } };
    int64_t items[3];
    int n = list_candidates(p, items), rc;
    double left = PARE_TUNE_LIMIT, most = has_8bit(p->graph) ? LONG_8BIT : LONG;
    struct pare_mark m = pare_mark(p->scratch);

    rc = make_inputs(&t, err);
    for (int i = 0; i < n && !rc && (!i || pare_now() - start < most); i++) {
        rc = pare_microbatch_new(p, o, items[i], &left, &best[1].made, err);
        if (!rc)
            rc = keep_faster(&t, best, best[0].made && best[0].made->items == items[0], err);
    }
    pare_reset(p->scratch, m);
    if (rc)
        pare_microbatch_free(best[0].made);
    else
        p->microbatch = best[0].made;
    return rc;
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* "whole" or "parts_of_4"; 0: neither, or not a divisor of the batch. */
static int64_t items_named(const char *name, int64_t batch)
{
    char *end;
    long long items;

    if (!strcmp(name, "whole"))
        return batch;
    if (strncmp(name, NAME, strlen(NAME)) != 0)
        return 0;
    items = strtoll(name + strlen(NAME), &end, 10);
    return *end || items < 1 || items >= batch || batch % items ? 0 : items;
}

static int record(struct pare_plan *p, const char *key, struct pare_err *err)
{
    char name[64] = "whole";

    if (p->microbatch && p->microbatch->items < p->microbatch->batch)
        snprintf(name, sizeof(name), NAME "%lld", (long long)p->microbatch->items);
    return pare_tune_note(p, key, name, err);
}

/* By the list, the cache, a race, or the rules, in this order. */
static int decide(struct pare_plan *p, const struct pare_plan_opts *o, struct pare_err *err)
{
    int64_t items = pare_microbatch_rule(p);
    char key[PARE_TUNE_KEY];
    const char *name;
    double start;
    bool listed, tries = p->tuner && pare_tune_batch_key(p, key);

    if (tries) {
        name = pare_tune_known(p, key, &listed);
        if (name && items_named(name, batch_of(p))) {
            items = items_named(name, batch_of(p));
            tries = false;
        } else if (name && listed) {
            return pare_fail(err, PARE_ECONFIG,
                             "%s: '%s' is listed for a batch of %lld, which it does not divide",
                             o->choices, name, (long long)batch_of(p));
        }
    }
    if (tries && o->tune && pare_microbatch_pays(p)) {
        start = pare_now();
        PARE_TRY(run_race(p, o, err));
        p->tuned.seconds = pare_now() - start;
        return p->microbatch ? record(p, key, err) : 0;
    }
    return items < batch_of(p) ? pare_microbatch_new(p, o, items, NULL, &p->microbatch, err) : 0;
}

/* Totals of the inner plans, and memory for the outputs of the whole batch. */
static int add_totals(struct pare_plan *p, struct pare_err *err)
{
    const struct pare_microbatch *s = p->microbatch;
    struct pare_tuned all = p->tuned;

    p->tuned = s->plan[0]->tuned;
    p->tuned.runs += all.runs;
    if (all.seconds > 0) /* includes the tuning of the inner plans */
        p->tuned.seconds = all.seconds;
    p->n_reorders = s->plan[0]->n_reorders;
    for (int i = 0; i < s->n; i++) {
        p->memory_bytes += s->plan[i]->memory_bytes;
        p->needed_bytes += s->plan[i]->needed_bytes;
    }
    for (int i = 0; i < p->graph->n_out && s->items < s->batch; i++) {
        struct pare_tensor *t = &p->graph->out[i]->t;
        size_t bytes;

        PARE_TRY(pare_tensor_alloc(p->arena, t, err));
        PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
        p->memory_bytes += bytes;
        p->needed_bytes += bytes;
    }
    return 0;
}

/* Micro-batches of the caller's size. */
static int force_items(struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                       struct pare_err *err)
{
    if (has_batch(p) && items < batch_of(p) && batch_of(p) % items == 0)
        PARE_TRY(pare_microbatch_new(p, o, items, NULL, &p->microbatch, err));
    return p->microbatch ? add_totals(p, err)
                         : pare_fail(err, PARE_EUNSUPPORTED,
                                     "the batch cannot be run in micro-batches of %lld items",
                                     (long long)items);
}

int pare_microbatch_make(struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                         struct pare_err *err)
{
    if (items > 0)
        return force_items(p, o, items, err);
    if (!has_batch(p))
        return 0;
    PARE_TRY(pare_tune_start(p, o, NULL, err));
    PARE_TRY(decide(p, o, err));
    PARE_TRY(pare_tune_end(p, err));
    return p->microbatch ? add_totals(p, err) : 0;
}
