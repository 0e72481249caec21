/* tune_race.c - run the candidates of a tuning race in turn until one has won. */
#include "tune_measure.h"

#include "../../base/clock.h"

#define NEVER PARE_TUNE_NEVER
#define LEAST 3     /* runs of each candidate */
#define MOST 12     /* runs while candidates are close or times vary */
#define ENOUGH 0.02 /* seconds that one candidate runs at most */
#define LONG 0.005  /* a run of this many seconds counts the first time and is repeated once */
#define CLOSE 1.1   /* candidates are close if their times differ by no more */
#define STEADY 1.1  /* times vary if the best two of a candidate differ by more */
#define LOST 1.5    /* a candidate that takes this many times the best time is out */
#define HOPELESS 2  /* the same after a short first run */
#define BETTER 0.97 /* a candidate must take less than this part of the rules' time */

/* Add the conversions of inputs, and of a result in a layout that differs from other candidates':
 * its consumers most likely need the machine's blocks, unless its channels fill only half of one:
 * kernels for few channels (conv_planes) read any layout. */
static int add_conversions(struct pare_tune_race *c, struct pare_tune_candidate *r,
                           struct pare_err *err)
{
    const struct pare_step *s = &r->s;
    int block = c->p->backend.block;
    bool differ = false;

    for (int k = 0; k < s->n_in; k++)
        if (!pare_plan_has_layout(c->p, s->in[k], s->in_block[k]))
            PARE_TRY(pare_tune_candidate_reorder(c, s->in[k],
                                                 (int[2]){ pare_layout_of(&c->p->view, s->in[k]),
                                                           s->in_block[k] },
                                                 &r->extra, err));
    for (int i = 0; i < c->n; i++)
        differ |= c->candidate[i].s.out_block[0] != s->out_block[0];
    if (differ && s->out_block[0] != block && s->out[0]->t.rank > 2 &&
        s->out[0]->t.dim[1] > block / 2)
        PARE_TRY(pare_tune_candidate_reorder(c, s->out[0], (int[2]){ s->out_block[0], block },
                                             &r->extra, err));
    return 0;
}

/* ---- the leader ------------------------------------------------------------------------- */

/* May another program have delayed it? */
static bool is_unsure(const struct pare_tune_candidate *r)
{
    return r->uneven || (r->next < r->warm ? r->next : r->warm) > STEADY * r->best;
}

/* Seconds with layout conversions, or NEVER. */
static double time_of(const struct pare_tune_candidate *r)
{
    return r->out || r->best >= NEVER ? NEVER : r->extra + r->best;
}

/* The fastest candidate; NULL: none has run. */
static struct pare_tune_candidate *leader(struct pare_tune_race *c)
{
    struct pare_tune_candidate *best = NULL;

    for (int i = 0; i < c->n; i++)
        if (time_of(&c->candidate[i]) < (best ? time_of(best) : NEVER))
            best = &c->candidate[i];
    return best;
}

static int count_left(const struct pare_tune_race *c)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        n += !c->candidate[i].out;
    return n;
}

/* Drop candidates that take `lost` times the best time; with `sure`, only if their times are
 * reliable. */
static void drop_slow(struct pare_tune_race *c, double lost, bool sure)
{
    const struct pare_tune_candidate *best = leader(c);

    for (int i = 0; i < c->n && best; i++) {
        struct pare_tune_candidate *r = &c->candidate[i];
        bool unsure = sure && r->runs <= LEAST && is_unsure(r);

        if (r != best && r->extra + (r->best < NEVER ? r->best : 0) > lost * time_of(best))
            r->out |= !unsure;
    }
}

/* Drop slow candidates; returns whether there is still a choice.  *more: further runs would help,
 * since times vary or two are close. */
static bool sift(struct pare_tune_race *c, bool *more)
{
    const struct pare_tune_candidate *best;

    *more = false;
    drop_slow(c, LOST, true);
    best = leader(c);
    for (int i = 0; i < c->n && count_left(c) > 1; i++) {
        const struct pare_tune_candidate *r = &c->candidate[i];

        *more |= !r->out && (is_unsure(r) || (r != best && time_of(r) < CLOSE * time_of(best)));
    }
    return count_left(c) > 1;
}

/* ---- running ------------------------------------------------------------------------------ */

/* The first run, before which memory and primitives are created.  A candidate that fails is out,
 * but running out of memory is an error. */
static int first_run(struct pare_tune_race *c, struct pare_tune_candidate *r, struct pare_err *err)
{
    int rc;

    if (r->out)
        return 0;
    rc = pare_tune_candidate_prepare(c, &r->s, r->arena, err);
    if (rc == PARE_ENOMEM)
        return rc;
    r->out = rc != 0;
    if (!rc)
        pare_tune_candidate_run(c, r);
    r->warm = r->best;
    drop_slow(c, HOPELESS, false);
    if (leader(c) && time_of(leader(c)) > LONG)
        drop_slow(c, LOST, true);
    return 0;
}

/* First runs are a warm-up; they count if they were long or decided the race.  The rules' kernel
 * starts, so that conversions alone can show that another is hopeless. */
static int warm_up(struct pare_tune_race *c, struct pare_err *err)
{
    struct pare_tune_candidate *rule = pare_tune_race_find(c, c->rule);

    if (rule)
        PARE_TRY(first_run(c, rule, err));
    for (int i = 0; i < c->n; i++)
        if (&c->candidate[i] != rule)
            PARE_TRY(first_run(c, &c->candidate[i], err));
    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i];

        r->out |= r->best >= NEVER;
    }
    for (int i = 0; i < c->n && count_left(c) > 1; i++)
        if (c->candidate[i].best < LONG)
            c->candidate[i].best = NEVER;
    return 0;
}

/* In turn, so that a busy machine slows all candidates. */
static int run_all(struct pare_tune_race *c, double until, struct pare_err *err)
{
    bool more;

    PARE_TRY(warm_up(c, err));
    for (int round = 1; round <= MOST && count_left(c) > 1; round++) {
        double spent = 0, slowest = 0;

        for (int i = 0; i < c->n; i++) {
            struct pare_tune_candidate *r = &c->candidate[i];

            if (r->out)
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

static int prepare_all(struct pare_tune_race *c, struct pare_err *err)
{
    for (int i = 0; i < c->n; i++) {
        struct pare_tune_candidate *r = &c->candidate[i];

        r->best = r->next = NEVER;
        for (int k = 0; k < 2; k++)
            if (r->s.work_bytes[k] > c->work_bytes[k])
                c->work_bytes[k] = r->s.work_bytes[k];
    }
    for (int i = 0; i < c->n; i++) {
        int rc = add_conversions(c, &c->candidate[i], err);

        if (rc == PARE_ENOMEM)
            return rc;
        c->candidate[i].out |= rc != 0;
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

int pare_tune_race_run(struct pare_tune_race *c, const struct pare_kernel **k, struct pare_err *err)
{
    const struct pare_tune_candidate *best, *rule = pare_tune_race_find(c, c->rule);
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
    best = leader(c);
    if (best && rule && time_of(best) > BETTER * time_of(rule))
        best = rule;
    if (best)
        *k = best->s.kernel;
    c->p->tuned.measured++;
    return 0;
}
