/* tune_race.c - run the candidates of a tuning race in turn until one has won. */
#include "tune_measure.h"

#include "../../base/clock.h"

#define NEVER PARE_TUNE_NEVER
#define LEAST 3     /* runs of each candidate */
#define MOST 12     /* runs while candidates are close or times vary */
#define ENOUGH 0.02 /* seconds that one candidate runs at most */
#define LONG 0.005  /* a run of this many seconds counts the first time and is repeated once */
#define CLOSE 1.1   /* candidates are close if their best times differ by no more */
#define STEADY 1.1  /* times vary if the best two of a candidate differ by more */
#define LOST 1.5    /* a candidate that takes this many times the best time is out */
#define HOPELESS 2  /* the same after a short first run */
#define BETTER 0.97 /* a candidate must take less than this part of the rules' time */

/* A step with the group's layouts. */
static const struct pare_step *step_of(const struct pare_tune_race *c, int group)
{
    for (int i = 0; i < c->n && c->group[group].whole; i++)
        if (c->candidate[i].group == group)
            return &c->candidate[i].s;
    return &c->group[group].s;
}

/* Add the conversions of inputs, and of a result in a layout that differs from other groups': its
 * consumers most likely need the machine's blocks. */
static int add_conversions(struct pare_tune_race *c, int group, struct pare_err *err)
{
    const struct pare_step *s = step_of(c, group);
    double *extra = &c->group[group].extra;
    int block = c->p->backend.block;
    bool differ = false;

    for (int k = 0; k < s->n_in; k++)
        if (!pare_plan_has_layout(c->p, s->in[k], s->in_block[k]))
            PARE_TRY(pare_tune_candidate_reorder(c, s->in[k],
                                                 (int[2]){ pare_layout_of(&c->p->view, s->in[k]),
                                                           s->in_block[k] },
                                                 extra, err));
    for (int i = 0; i < c->n_groups; i++)
        differ |= step_of(c, i)->out_block[0] != s->out_block[0];
    if (differ && s->out_block[0] != block && s->out[0]->t.rank > 2)
        PARE_TRY(pare_tune_candidate_reorder(c, s->out[0], (int[2]){ s->out_block[0], block },
                                             extra, err));
    return 0;
}

/* ---- the leaders ------------------------------------------------------------------------ */

/* May another program have delayed it? */
static bool is_unsure(const struct pare_tune_candidate *r)
{
    return r->uneven || (r->next < r->warm ? r->next : r->warm) > STEADY * r->best;
}

/* The fastest candidate of a group for this pass, or NULL. */
static struct pare_tune_candidate *leader(struct pare_tune_race *c, int group, int pass)
{
    struct pare_tune_candidate *best = NULL;

    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i];

        if (r->group == group && r->pass == pass && !r->out && (!best || r->best < best->best))
            best = r;
    }
    return best;
}

/* Seconds of the group's fastest candidates in sum, or NEVER. */
static double total(struct pare_tune_race *c, int group)
{
    const struct pare_tune_group *g = &c->group[group];
    double sum = g->extra;

    if (g->out)
        return NEVER;
    for (int w = g->whole ? -1 : 0; w < (g->whole ? 0 : PARE_PASSES); w++) {
        const struct pare_tune_candidate *r = leader(c, group, w);

        if (w >= 0 && !(c->wanted >> w & 1))
            continue;
        sum += r ? r->best : NEVER;
    }
    return sum < NEVER ? sum : NEVER;
}

/* The fastest group; -1: none. */
static int first_group(struct pare_tune_race *c)
{
    int best = -1;

    for (int g = 0; g < c->n_groups; g++)
        if (total(c, g) < NEVER && (best < 0 || total(c, g) < total(c, best)))
            best = g;
    return best;
}

static void drop_group(struct pare_tune_race *c, int group)
{
    c->group[group].out = true;
    for (int i = 0; i < c->n; i++)
        c->candidate[i].out |= c->candidate[i].group == group;
}

/* The same for the passes that have run so far. */
static double total_so_far(struct pare_tune_race *c, int group)
{
    double sum = c->group[group].extra;

    for (int w = -1; w < PARE_PASSES; w++) {
        const struct pare_tune_candidate *r = leader(c, group, w);

        sum += r && r->best < NEVER ? r->best : 0;
    }
    return sum;
}

/* Drop groups that take `lost` times the best group's time; with `sure`, only if their times are
 * reliable. */
static void sift_groups(struct pare_tune_race *c, double lost, bool sure)
{
    int best = first_group(c);

    for (int g = 0; g < c->n_groups && best >= 0; g++) {
        bool unsure = false;

        for (int i = 0; i < c->n && sure; i++)
            unsure |= c->candidate[i].group == g && !c->candidate[i].out &&
                      c->candidate[i].runs <= LEAST && is_unsure(&c->candidate[i]);
        if (!c->group[g].out && g != best && total_so_far(c, g) > lost * total(c, best) && !unsure)
            drop_group(c, g);
    }
}

/* Is there another group, or another candidate for the same pass? */
static bool contested(struct pare_tune_race *c, const struct pare_tune_candidate *r)
{
    int groups = 0, candidates = 0;

    for (int g = 0; g < c->n_groups; g++)
        groups += !c->group[g].out;
    for (int i = 0; i < c->n; i++)
        candidates += !c->candidate[i].out && c->candidate[i].group == r->group &&
                      c->candidate[i].pass == r->pass;
    return groups > 1 || candidates > 1;
}

/* Drop slow candidates; returns whether there is still a choice.  *more: further runs would help,
 * since times vary or two are close. */
static bool sift(struct pare_tune_race *c, bool *more)
{
    bool open = false;
    int best;

    *more = false;
    sift_groups(c, LOST, true);
    best = first_group(c);
    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i], *lead = leader(c, r->group, r->pass);

        if (r->out)
            continue;
        r->out = r->best > LOST * lead->best && (r->runs > LEAST || !is_unsure(r));
        *more |= !r->out && r != lead && r->best < CLOSE * lead->best;
    }
    for (int i = 0; i < c->n; i++)
        if (!c->candidate[i].out && contested(c, &c->candidate[i])) {
            open = true;
            *more |= is_unsure(&c->candidate[i]);
        }
    for (int g = 0; g < c->n_groups && best >= 0; g++)
        *more |= g != best && total(c, g) < CLOSE * total(c, best);
    return open;
}

/* The first run, before which memory and primitives are created.  A candidate that fails is out,
 * but running out of memory is an error. */
static int first_run(struct pare_tune_race *c, struct pare_tune_candidate *r, struct pare_err *err)
{
    int rc = pare_tune_candidate_prepare(c, &r->s, r->arena, err);

    if (rc == PARE_ENOMEM)
        return rc;
    r->out = rc != 0;
    if (!rc)
        pare_tune_candidate_run(c, r);
    r->warm = r->best;
    return 0;
}

/* First runs of the group's candidates for these passes that are guests, or that are not. */
static int warm_passes(struct pare_tune_race *c, int group, unsigned passes, bool guests,
                       struct pare_err *err)
{
    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i];

        if (r->group == group && !r->out && r->guest == guests &&
            passes & (r->pass < 0 ? PARE_PASS_FORWARD : 1u << r->pass))
            PARE_TRY(first_run(c, r, err));
    }
    return 0;
}

/* Is the group far slower than the best one on the passes that have run?  The other passes take
 * about as long, so it cannot win. */
static bool is_hopeless(struct pare_tune_race *c, int group)
{
    int best = first_group(c), passes = 0, gone = 0;
    double sum = 0;

    for (int w = 0; w < PARE_PASSES; w++) {
        const struct pare_tune_candidate *r = leader(c, group, w);

        passes += (c->wanted >> w & 1) != 0;
        gone += r && r->best < NEVER;
        sum += r && r->best < NEVER ? r->best : 0;
    }
    return gone && best >= 0 &&
           c->group[group].extra + sum * passes / gone > HOPELESS * total(c, best);
}

static int warm_group(struct pare_tune_race *c, int group, struct pare_err *err)
{
    for (int w = 0; w < PARE_PASSES && !c->group[group].out; w++) {
        PARE_TRY(warm_passes(c, group, 1u << w, false, err));
        if (is_hopeless(c, group))
            drop_group(c, group);
    }
    sift_groups(c, HOPELESS, false);
    if (first_group(c) >= 0 && total(c, first_group(c)) > LONG)
        sift_groups(c, LOST, true);
    return warm_passes(c, group, PARE_PASS_BACKWARD_DATA | PARE_PASS_BACKWARD_WEIGHTS, true, err);
}

/* First runs are a warm-up; they count if they were long or decided the race.  The rules' group
 * starts, so that hopeless ones can stop early. */
static int warm_up(struct pare_tune_race *c, struct pare_err *err)
{
    int rule = pare_tune_race_find(c, &c->rule);

    if (rule >= 0)
        PARE_TRY(warm_group(c, rule, err));
    for (int g = 0; g < c->n_groups; g++)
        if (g != rule)
            PARE_TRY(warm_group(c, g, err));
    for (int g = 0; g < c->n_groups; g++)
        if (total(c, g) >= NEVER) /* no candidate can run some pass */
            drop_group(c, g);
    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i], *lead = leader(c, r->group, r->pass);

        r->out |= lead && r->best > HOPELESS * lead->best;
        r->out |= lead && r->best > LOST * lead->best && lead->best > LONG && !is_unsure(r);
    }
    for (int i = 0; i < c->n; i++)
        if (c->candidate[i].best < LONG && contested(c, &c->candidate[i]))
            c->candidate[i].best = NEVER;
    return 0;
}

/* In turn, so that a busy machine slows all candidates. */
static int run_all(struct pare_tune_race *c, double until, struct pare_err *err)
{
    bool more;

    PARE_TRY(warm_up(c, err));
    for (int round = 1; round <= MOST; round++) {
        double spent = 0, slowest = 0;

        for (int i = 0; i < c->n; i++) {
            struct pare_tune_candidate *r = &c->candidate[i];

            if (r->out || !contested(c, r))
                continue;
            pare_tune_candidate_run(c, r);
            spent = r->spent > spent ? r->spent : spent;
            slowest = r->best > slowest ? r->best : slowest;
        }
        if (!sift(c, &more) || pare_now() > until)
            return 0;
        if ((round >= LEAST || slowest > LONG) && (!more || spent > ENOUGH))
            return 0;
    }
    return 0;
}

/* ---- choosing ----------------------------------------------------------------------- */

static int prepare_all(struct pare_tune_race *c, struct pare_err *err)
{
    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i];

        r->best = r->next = NEVER;
        for (int w = 0; w < PARE_PASSES; w++)
            if (c->fixed.k[w] && (r->pass == w || r->pass < 0))
                r->out |= r->s.kernel != c->fixed.k[w];
        for (int k = 0; k < 2 && !r->out; k++)
            if (r->s.work_bytes[k] > c->work_bytes[k])
                c->work_bytes[k] = r->s.work_bytes[k];
    }
    for (int g = 0; g < c->n_groups; g++) {
        int rc = add_conversions(c, g, err);

        if (rc == PARE_ENOMEM)
            return rc;
        if (rc)
            drop_group(c, g);
    }
    return 0;
}

/* Save or restore the graph's tensors: constants that were loaded for candidates are freed with the
 * race. */
static void save_or_restore_values(struct pare_tune_race *c, bool back)
{
    const struct pare_graph *g = c->p->graph;

    for (int i = 0; i < g->n_values; i++)
        if (back)
            g->value[i]->t = c->saved[i];
        else
            c->saved[i] = g->value[i]->t;
}

/* A group's fastest candidates, and the seconds that they take in sum.  The rules' kernel wins
 * unless another is clearly faster. */
static void pick_fastest(struct pare_tune_race *c, int group, struct pare_passes *passes,
                         double *seconds)
{
    const struct pare_tune_group *g = &c->group[group];

    *seconds = g->extra;
    for (int w = 0; w < PARE_PASSES; w++) {
        const struct pare_tune_candidate *best = leader(c, group, g->whole ? -1 : w);

        passes->k[w] = NULL;
        if (!(c->wanted >> w & 1))
            continue;
        for (int i = 0; i < c->n && !g->whole; i++) {
            const struct pare_tune_candidate *r = &c->candidate[i];

            if (r->group == group && r->pass == w && r->s.kernel == c->rule.k[w] && !r->out &&
                best->best > BETTER * r->best)
                best = r;
        }
        passes->k[w] = best->s.kernel;
        *seconds += g->whole && w ? 0 : best->best;
    }
}

static void choose(struct pare_tune_race *c, struct pare_passes *passes)
{
    int best = first_group(c), rule = pare_tune_race_find(c, &c->rule);
    struct pare_passes by_rule;
    double seconds, rule_seconds;

    if (best < 0)
        return;
    pick_fastest(c, best, passes, &seconds);
    if (rule < 0 || rule == best || total(c, rule) >= NEVER)
        return;
    pick_fastest(c, rule, &by_rule, &rule_seconds);
    if (seconds > BETTER * rule_seconds)
        *passes = by_rule;
}

int pare_tune_race_run(struct pare_tune_race *c, struct pare_passes *w, struct pare_err *err)
{
    double start = pare_now();
    int rc;

    c->data = pare_arena_new(1 << 16);
    c->clock = c->data ? pare_alloc(c->data, (size_t)c->p->backend.threads, sizeof(double)) : NULL;
    c->saved = c->data ? pare_alloc(c->data, (size_t)c->p->graph->n_values, sizeof(*c->saved))
                       : NULL;
    if (!c->clock || !c->saved)
        return pare_no_memory(err, "for tuning");
    save_or_restore_values(c, false);
    rc = prepare_all(c, err);
    if (!rc)
        rc = run_all(c, start + c->seconds, err);
    save_or_restore_values(c, true);
    pare_plan_release_weights(c->p, &c->candidate[0].s);
    if (rc)
        return rc;
    choose(c, w);
    c->p->tuned.measured++;
    return 0;
}
