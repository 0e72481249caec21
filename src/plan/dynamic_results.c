/* dynamic_results.c - memory of results whose shapes depend on data, freed after their last use.
 *
 * Such results are allocated when their step runs, so they have no place in the plan's block.  Each
 * of these steps has an arena of its own, which is emptied after the last step that reads one of
 * its results.  Outputs and observed values live until the next run, and so do sequences and
 * optionals with all that goes into them, since their elements may be shared.
 */
#include "plan.h"

#include "../base/arena.h"
#include "../tensor/tensor.h"

#define ARENA_BLOCK 4096 /* bytes; a larger result has a block of its size */

struct pare_dynamic_results {
    struct pare_arena **arena; /* by step; NULL: its shapes are known */
    int *dies;                 /* by step: the last step that reads its results; -1: they stay */
    int *next, *first; /* first[i]: a step whose results die with step i, next[]: another; -1 */
    int n;
};

/* Operators on sequences and optionals, and those with a body, may return what they read. */
static bool may_share(const struct pare_step *s)
{
    return s->node->op->flags & (PARE_OP_PASSES | PARE_OP_ALLOCS) ||
           pare_node_body(s->node, 0, NULL);
}

static bool is_kept(const struct pare_step *s)
{
    for (int k = 0; k < s->n_out; k++)
        if (s->out[k]->flags & PARE_V_OUTPUT)
            return true;
    return may_share(s);
}

/* maker[id]: the step that produces a value, -1: no dynamic step. */
static void find_deaths(const struct pare_plan *p, struct pare_dynamic_results *d, int *maker)
{
    for (int i = 0; i < p->graph->n_values; i++)
        maker[i] = -1;
    for (int i = 0; i < p->n_steps; i++) {
        const struct pare_step *s = p->step[i];

        for (int k = 0; k < s->n_in; k++) {
            int from = s->in[k]->id < p->graph->n_values ? maker[s->in[k]->id] : -1;

            if (from >= 0 && d->dies[from] >= 0)
                d->dies[from] = s->kernel == &pare_kernel_dynamic && may_share(s) ? -1 : i;
        }
        d->dies[i] = -1;
        if (s->kernel != &pare_kernel_dynamic)
            continue;
        d->dies[i] = is_kept(s) ? -1 : i;
        for (int k = 0; k < s->n_out; k++)
            maker[s->out[k]->id] = i;
    }
}

static void list_deaths(struct pare_dynamic_results *d)
{
    for (int i = 0; i < d->n; i++)
        d->first[i] = -1;
    for (int i = 0; i < d->n; i++)
        if (d->dies[i] >= 0) {
            d->next[i] = d->first[d->dies[i]];
            d->first[d->dies[i]] = i;
        }
}

static bool any_dynamic(const struct pare_plan *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i]->kernel == &pare_kernel_dynamic)
            return true;
    return false;
}

int pare_plan_add_dynamic(struct pare_plan *p, struct pare_err *err)
{
    struct pare_mark m = pare_mark(p->scratch);
    size_t n = (size_t)p->n_steps + 1;
    struct pare_dynamic_results *d;
    int *maker;

    if (!any_dynamic(p))
        return 0;
    d = pare_alloc(p->arena, 1, sizeof(*d));
    maker = pare_alloc(p->scratch, (size_t)p->graph->n_values + 1, sizeof(*maker));
    if (!d || !maker)
        return pare_no_memory(err, "for the plan");
    d->arena = pare_alloc(p->arena, n, sizeof(struct pare_arena *));
    d->dies = pare_alloc(p->arena, n, sizeof(*d->dies));
    d->next = pare_alloc(p->arena, n, sizeof(*d->next));
    d->first = pare_alloc(p->arena, n, sizeof(*d->first));
    if (!d->arena || !d->dies || !d->next || !d->first)
        return pare_no_memory(err, "for the plan");
    d->n = p->n_steps;
    p->results = d;
    for (int i = 0; i < d->n; i++)
        if (p->step[i]->kernel == &pare_kernel_dynamic) {
            d->arena[i] = pare_arena_new(ARENA_BLOCK);
            if (!d->arena[i])
                return pare_no_memory(err, "for the plan");
        }
    find_deaths(p, d, maker);
    list_deaths(d);
    pare_reset(p->scratch, m);
    return 0;
}

static void release(const struct pare_plan *p, int i)
{
    const struct pare_step *s = p->step[i];

    for (int k = 0; k < s->n_out; k++)
        s->out[k]->t.data = NULL;
    pare_reset(p->results->arena[i], (struct pare_mark){ NULL, 0 });
}

void pare_plan_dynamic_start(const struct pare_plan *p)
{
    for (int i = 0; p->results && i < p->results->n; i++)
        if (p->results->arena[i])
            release(p, i);
}

void pare_plan_dynamic_before(struct pare_plan *p, int i)
{
    if (p->results)
        p->ctx.results = p->results->arena[i] ? p->results->arena[i] : p->dynamic;
}

void pare_plan_dynamic_after(const struct pare_plan *p, int i)
{
    for (int k = p->results ? p->results->first[i] : -1; k >= 0; k = p->results->next[k])
        release(p, k);
}

void pare_plan_dynamic_free(struct pare_plan *p)
{
    for (int i = 0; p->results && i < p->results->n; i++)
        pare_arena_free(p->results->arena[i]);
    p->results = NULL;
}
