/* tune_candidates.c - who takes part in a trial of kernels. */
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

static void give_back(struct pare_step *s, struct pare_arena *a)
{
    pare_passes_drop(s);
    pare_arena_free(a);
}

/* What the kernel makes of it; *s->kernel is NULL when it cannot.  An arena of its own. */
static int ask(struct pare_tune_race *c, struct pare_ask *a, struct pare_step *s,
               struct pare_err *err)
{
    bool yes;

    a->arena = pare_arena_new(1 << 12);
    if (!a->arena)
        return pare_no_memory(err, "to try kernels");
    yes = pare_passes_match(c->p, a, s);
    if (yes && s->n_in <= PARE_STEP_IN && s->n_out <= 2)
        return 0;
    if (yes)
        pare_passes_drop(s);
    yes = pare_arena_failed(a->arena) || pare_arena_failed(c->p->scratch);
    s->kernel = NULL;
    pare_arena_free(a->arena);
    return yes ? pare_no_memory(err, "to try kernels") : 0;
}

static struct pare_tune_candidate *add_rival(struct pare_tune_race *c, int group, int way)
{
    struct pare_tune_candidate *r = &c->rival[c->n++];

    *r = (struct pare_tune_candidate){ .group = group, .way = way };
    return r;
}

/* A way in the layouts of a group. */
static int add_way(struct pare_tune_race *c, const struct pare_kernel *k, int group, int way,
                   struct pare_err *err)
{
    struct pare_ask a = { .k = k, .node = c->node, .ways = 1u << way };
    struct pare_tune_candidate *r;
    struct pare_step s;

    a.beside = &c->group[group].s;
    if (!(c->wanted & a.ways) || c->n == PARE_TUNE_CANDIDATES)
        return 0;
    PARE_TRY(ask(c, &a, &s, err));
    if (!s.kernel)
        return 0;
    r = add_rival(c, group, way);
    r->s = s;
    r->arena = a.arena;
    return 0;
}

/* A group of these layouts, perhaps a new one; -1: there are too many.  The step is the group's,
 * or given back. */
static int find_group(struct pare_tune_race *c, struct pare_step *s, struct pare_arena *arena)
{
    int g = 0;

    for (bool found = false; g < c->n_groups; g++) {
        s->layout_from = &c->group[g].s;
        found = !c->group[g].whole && pare_step_layouts_match(s);
        s->layout_from = NULL;
        if (found) {
            give_back(s, arena);
            return g;
        }
    }
    if (g == PARE_GROUPS) {
        give_back(s, arena);
        return -1;
    }
    c->group[g] = (struct pare_group){ .s = *s, .arena = arena };
    c->n_groups++;
    return g;
}

/* A kernel with the layouts that it takes by itself. */
static int add_kernel(struct pare_tune_race *c, const struct pare_kernel *k,
                      const struct pare_step *like, struct pare_err *err)
{
    struct pare_ask a = { .k = k, .node = c->node, .ways = PARE_ALL_PASSES };
    struct pare_step s;
    int g;

    PARE_TRY(ask(c, &a, &s, err));
    if (!s.kernel)
        return 0;
    if (!same_work(like, &s)) {
        give_back(&s, a.arena);
        return 0;
    }
    if (c->p->train && s.pass_independent) {
        g = find_group(c, &s, a.arena);
        return g < 0 ? 0 : add_way(c, k, g, 0, err);
    }
    if (c->n_groups == PARE_GROUPS || c->n == PARE_TUNE_CANDIDATES) {
        give_back(&s, a.arena);
        return 0;
    }
    c->group[c->n_groups] = (struct pare_group){ .whole = true };
    add_rival(c, c->n_groups++, -1)->s = s;
    c->rival[c->n - 1].arena = a.arena;
    return 0;
}

static bool takes_part(const struct pare_tune_race *c, const struct pare_kernel *k)
{
    return k->candidate && pare_plan_uses(c->p, k);
}

static bool goes_forward(const struct pare_tune_race *c, const struct pare_kernel *k, int group)
{
    for (int i = 0; i < c->n; i++)
        if (c->rival[i].group == group && c->rival[i].way == 0 && c->rival[i].s.kernel == k)
            return true;
    return false;
}

int pare_tune_race_gather(struct pare_tune_race *c, const struct pare_step *s, struct pare_err *err)
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

                PARE_TRY(add_way(c, pare_kernels[i], g, w, err));
                if (c->n > before)
                    c->rival[before].guest = !goes_forward(c, pare_kernels[i], g);
            }
    return 0;
}

bool pare_tune_race_open(const struct pare_tune_race *c)
{
    for (int i = 1; i < c->n; i++)
        if (c->rival[i].s.kernel != c->rival[0].s.kernel)
            return true;
    return false;
}

static bool has(const struct pare_tune_race *c, int group, int way, const struct pare_kernel *k)
{
    for (int i = 0; i < c->n; i++)
        if (c->rival[i].group == group && c->rival[i].s.kernel == k &&
            (c->rival[i].way == way || c->rival[i].way < 0))
            return true;
    return false;
}

int pare_tune_race_find(const struct pare_tune_race *c, const struct pare_passes *w)
{
    for (int g = 0; g < c->n_groups; g++) {
        bool all = true;

        for (int i = 0; i < PARE_PASSES; i++)
            if (c->wanted >> i & 1)
                all &= w->k[i] && has(c, g, i, w->k[i]);
        if (all)
            return g;
    }
    return -1;
}

void pare_tune_race_end(struct pare_tune_race *c)
{
    for (int i = 0; i < c->n; i++)
        give_back(&c->rival[i].s, c->rival[i].arena);
    for (int i = 0; i < c->n_groups; i++)
        if (!c->group[i].whole)
            give_back(&c->group[i].s, c->group[i].arena);
    pare_arena_free(c->data);
}
