/* tune_candidates.c - find the kernels that can run the same nodes: the candidates of a tuning
 * race. */
#include "tune_measure.h"

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

/* Match a kernel in an arena of its own; s->kernel is NULL if it does not match. */
static int match_candidate(struct pare_tune_race *c, struct pare_pass_query *a, struct pare_step *s,
                           struct pare_err *err)
{
    bool yes;

    a->arena = pare_arena_new(1 << 12);
    if (!a->arena)
        return pare_no_memory(err, "for tuning");
    yes = pare_passes_match(c->p, a, s);
    if (yes && s->n_in <= PARE_STEP_IN && s->n_out <= 2)
        return 0;
    if (yes)
        pare_passes_drop(s);
    yes = pare_arena_failed(a->arena) || pare_arena_failed(c->p->scratch);
    s->kernel = NULL;
    pare_arena_free(a->arena);
    return yes ? pare_no_memory(err, "for tuning") : 0;
}

static struct pare_tune_candidate *add_candidate(struct pare_tune_race *c, int group, int pass)
{
    struct pare_tune_candidate *r = &c->candidate[c->n++];

    *r = (struct pare_tune_candidate){ .group = group, .pass = pass };
    return r;
}

/* Add a candidate for one pass, in the layouts of a group. */
static int add_pass(struct pare_tune_race *c, const struct pare_kernel *k, int group, int pass,
                    struct pare_err *err)
{
    struct pare_pass_query a = { .k = k, .node = c->node, .passes = 1u << pass };
    struct pare_tune_candidate *r;
    struct pare_step s;

    a.layout_from = &c->group[group].s;
    if (!(c->wanted & a.passes) || c->n == PARE_TUNE_CANDIDATES)
        return 0;
    PARE_TRY(match_candidate(c, &a, &s, err));
    if (!s.kernel)
        return 0;
    r = add_candidate(c, group, pass);
    r->s = s;
    r->arena = a.arena;
    return 0;
}

/* The group of these layouts, created if needed; -1: there are too many.  Takes ownership of the
 * step. */
static int find_group(struct pare_tune_race *c, struct pare_step *s, struct pare_arena *arena)
{
    int g = 0;

    for (bool found = false; g < c->n_groups; g++) {
        s->layout_from = &c->group[g].s;
        found = !c->group[g].whole && pare_step_layouts_match(s);
        s->layout_from = NULL;
        if (found) {
            drop_step(s, arena);
            return g;
        }
    }
    if (g == PARE_TUNE_GROUPS) {
        drop_step(s, arena);
        return -1;
    }
    c->group[g] = (struct pare_tune_group){ .s = *s, .arena = arena };
    c->n_groups++;
    return g;
}

/* Add a kernel with the layouts that it prefers. */
static int add_kernel(struct pare_tune_race *c, const struct pare_kernel *k,
                      const struct pare_step *like, struct pare_err *err)
{
    struct pare_pass_query a = { .k = k, .node = c->node, .passes = PARE_ALL_PASSES };
    struct pare_step s;
    int g;

    PARE_TRY(match_candidate(c, &a, &s, err));
    if (!s.kernel)
        return 0;
    if (!same_work(like, &s)) {
        drop_step(&s, a.arena);
        return 0;
    }
    if (c->p->train && s.pass_independent) {
        g = find_group(c, &s, a.arena);
        return g < 0 ? 0 : add_pass(c, k, g, 0, err);
    }
    if (c->n_groups == PARE_TUNE_GROUPS || c->n == PARE_TUNE_CANDIDATES) {
        drop_step(&s, a.arena);
        return 0;
    }
    c->group[c->n_groups] = (struct pare_tune_group){ .whole = true };
    add_candidate(c, c->n_groups++, -1)->s = s;
    c->candidate[c->n - 1].arena = a.arena;
    return 0;
}

static bool takes_part(const struct pare_tune_race *c, const struct pare_kernel *k)
{
    return k->candidate && pare_plan_allows(c->p, k);
}

static bool runs_forward(const struct pare_tune_race *c, const struct pare_kernel *k, int group)
{
    for (int i = 0; i < c->n; i++)
        if (c->candidate[i].group == group && c->candidate[i].pass == 0 &&
            c->candidate[i].s.kernel == k)
            return true;
    return false;
}

int pare_tune_race_collect(struct pare_tune_race *c, const struct pare_step *s,
                           struct pare_err *err)
{
    c->node = s->node;
    c->wanted = pare_passes_wanted(c->p, s);
    for (int i = 0; pare_kernels[i]; i++)
        if (takes_part(c, pare_kernels[i]))
            PARE_TRY(add_kernel(c, pare_kernels[i], s, err));
    for (int g = 0; g < c->n_groups; g++)
        for (int i = 0; pare_kernels[i] && !c->group[g].whole; i++)
            for (int w = 1; w < PARE_PASSES && takes_part(c, pare_kernels[i]); w++) {
                int before = c->n;

                PARE_TRY(add_pass(c, pare_kernels[i], g, w, err));
                if (c->n > before)
                    c->candidate[before].guest = !runs_forward(c, pare_kernels[i], g);
            }
    return 0;
}

bool pare_tune_race_has_choice(const struct pare_tune_race *c)
{
    for (int i = 1; i < c->n; i++)
        if (c->candidate[i].s.kernel != c->candidate[0].s.kernel)
            return true;
    return false;
}

static bool group_has(const struct pare_tune_race *c, int group, int pass,
                      const struct pare_kernel *k)
{
    for (int i = 0; i < c->n; i++)
        if (c->candidate[i].group == group && c->candidate[i].s.kernel == k &&
            (c->candidate[i].pass == pass || c->candidate[i].pass < 0))
            return true;
    return false;
}

int pare_tune_race_find(const struct pare_tune_race *c, const struct pare_passes *w)
{
    for (int g = 0; g < c->n_groups; g++) {
        bool all = true;

        for (int i = 0; i < PARE_PASSES; i++)
            if (c->wanted >> i & 1)
                all &= w->k[i] && group_has(c, g, i, w->k[i]);
        if (all)
            return g;
    }
    return -1;
}

void pare_tune_race_end(struct pare_tune_race *c)
{
    for (int i = 0; i < c->n; i++)
        drop_step(&c->candidate[i].s, c->candidate[i].arena);
    for (int i = 0; i < c->n_groups; i++)
        if (!c->group[i].whole)
            drop_step(&c->group[i].s, c->group[i].arena);
    pare_arena_free(c->data);
}
