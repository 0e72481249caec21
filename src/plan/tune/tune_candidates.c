/* tune_candidates.c - find the kernels that can run the same nodes: the candidates of a tuning
 * race. */
#include "tune_measure.h"

#include "../passes.h"

static bool same_work(const struct pare_step *a, const struct pare_step *b)
{
    bool same = a->n_fused == b->n_fused && a->n_out == b->n_out;

    for (int i = 0; same && i < a->n_fused; i++)
        same = a->fused[i] == b->fused[i];
    for (int i = 0; same && i < a->n_out; i++)
        same = a->out[i] == b->out[i];
    return same;
}

static void drop_step(struct pare_step *s, struct pare_arena *a)
{
    pare_passes_drop(s);
    pare_arena_free(a);
}

/* Add a kernel if it can do what `like` does, in the layouts that it prefers. */
static int add_kernel(struct pare_tune_race *c, const struct pare_kernel *k,
                      const struct pare_step *like, struct pare_err *err)
{
    struct pare_pass_query a = { .k = k, .node = c->node, .passes = PARE_ALL_PASSES };
    struct pare_step s;
    bool yes;

    a.arena = pare_arena_new(1 << 12);
    if (!a.arena)
        return pare_no_memory(err, "for tuning");
    yes = pare_passes_match(c->p, &a, &s);
    if (yes && s.n_in <= PARE_STEP_IN && s.n_out <= 2 && same_work(like, &s)) {
        c->candidate[c->n++] = (struct pare_tune_candidate){ .s = s, .arena = a.arena };
        return 0;
    }
    if (yes)
        pare_passes_drop(&s);
    yes = pare_arena_failed(a.arena) || pare_arena_failed(c->p->scratch);
    pare_arena_free(a.arena);
    return yes ? pare_no_memory(err, "for tuning") : 0;
}

int pare_tune_race_collect(struct pare_tune_race *c, const struct pare_step *s,
                           struct pare_err *err)
{
    c->node = s->node;
    for (int i = 0; pare_kernels[i] && c->n < PARE_TUNE_CANDIDATES; i++)
        if (pare_kernels[i]->candidate && pare_plan_allows(c->p, pare_kernels[i]))
            PARE_TRY(add_kernel(c, pare_kernels[i], s, err));
    return 0;
}

struct pare_tune_candidate *pare_tune_race_find(struct pare_tune_race *c,
                                                const struct pare_kernel *k)
{
    for (int i = 0; i < c->n; i++)
        if (c->candidate[i].s.kernel == k)
            return &c->candidate[i];
    return NULL;
}

void pare_tune_race_end(struct pare_tune_race *c)
{
    for (int i = 0; i < c->n; i++)
        drop_step(&c->candidate[i].s, c->candidate[i].arena);
    pare_arena_free(c->data);
}
