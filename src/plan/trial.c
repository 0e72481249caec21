/* trial.c - kernels that could run the same nodes, tried in turn.
 *
 * Each gets the nodes as it would in the plan, with random inputs and in memory that is given back
 * afterwards, so that nothing of those that lose stays.
 */
#include "trial.h"

#include <omp.h>
#include <string.h>

#include "../base/cache.h"
#include "../base/clock.h"
#include "../base/rng.h"

#define NEVER 1e30  /* seconds */
#define LEAST 3     /* runs of each rival, ... */
#define MOST 12     /* ... more while they are close or times vary, at most so many, ... */
#define ENOUGH 0.02 /* ... or until one has run for so many seconds */
#define LONG 0.05   /* a run of so many seconds needs one repetition */
#define CLOSE 1.1   /* rivals are close, when their best times differ by no more, ... */
#define STEADY 1.1  /* ... and times vary, when the best two of a rival do by more, ... */
#define UNEVEN 1.3  /* ... or a thread runs for longer than this times another's time */
#define LOST 1.5    /* one that takes so many times the best one's time need not run again */
#define BETTER 0.97 /* the rules' own choice is left for a rival that takes less than this of it */

static int no_memory(struct pare_err *err)
{
    return pare_fail(err, PARE_ENOMEM, "no memory to try kernels");
}

/* ---- who takes part ----------------------------------------------------------------- */

static bool same_work(const struct pare_step *a, const struct pare_step *b)
{
    bool same = a->n_fused == b->n_fused && a->n_out == b->n_out;

    for (int i = 0; same && i < a->n_fused; i++)
        same = a->fused[i] == b->fused[i];
    for (int i = 0; same && i < a->n_out; i++)
        same = a->out[i] == b->out[i];
    return same;
}

void pare_rival_drop(struct pare_step *s)
{
    if (s->kernel && s->kernel->quit && s->state)
        s->kernel->quit(s);
    s->state = NULL;
}

bool pare_rival_matches(struct pare_plan *p, const struct pare_kernel *k, struct pare_node *n,
                        struct pare_arena *arena, struct pare_step *s)
{
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_arena *own = p->backend.arena;
    bool any = p->view.any, yes;

    *s = (struct pare_step){ .node = n };
    p->backend.arena = arena;
    p->view.any = true;
    yes = k->match(&p->view, n, s);
    p->view.any = any;
    p->backend.arena = own;
    pare_rewind(p->scratch, m);
    s->kernel = yes ? k : NULL;
    s->any = yes;
    return yes;
}

int pare_contest_gather(struct pare_contest *c, const struct pare_step *s, struct pare_err *err)
{
    c->node = s->node;
    c->rule = s->kernel;
    for (int i = 0; pare_kernels[i] && c->n < PARE_RIVALS; i++) {
        struct pare_rival *r = &c->rival[c->n];

        if (!pare_kernels[i]->rival || !pare_plan_uses(c->p, pare_kernels[i]))
            continue;
        *r = (struct pare_rival){ .arena = pare_arena_new(1 << 12), .best = NEVER, .next = NEVER };
        if (!r->arena)
            return no_memory(err);
        c->n++;
        if (pare_rival_matches(c->p, pare_kernels[i], s->node, r->arena, &r->s) &&
            same_work(s, &r->s) && r->s.n_in <= PARE_STEP_IN && r->s.n_out <= 2)
            continue;
        if (pare_arena_failed(r->arena) || pare_arena_failed(c->p->scratch))
            return no_memory(err);
        pare_rival_drop(&r->s);
        pare_arena_free(r->arena);
        c->n--;
    }
    return 0;
}

/* ---- a rival's memory ---------------------------------------------------------------- */

/* Random numbers, the same few over and over. */
static void fill(void *data, size_t bytes, enum pare_dtype type)
{
    float number[1024];
    unsigned char *to = data;
    struct pare_rng rng;

    if (type != PARE_F32 && type != PARE_U8 && type != PARE_I8) {
        memset(data, 0, bytes);
        return;
    }
    pare_rng_init(&rng, 1);
    for (int i = 0; i < 1024; i++) {
        uint32_t bits = (uint32_t)pare_rng_next(&rng);

        number[i] = (float)(2 * pare_rng_uniform(&rng) - 1);
        if (type != PARE_F32)
            memcpy(&number[i], &bits, sizeof(bits));
    }
    for (size_t n = sizeof(number); bytes; to += n, bytes -= n) {
        n = bytes < n ? bytes : n;
        memcpy(to, number, n);
    }
}

static struct pare_buf *new_buf(struct pare_contest *c, struct pare_value *v, size_t bytes)
{
    struct pare_buf *b = pare_alloc(c->data, 1, sizeof(*b));

    if (!b)
        return NULL;
    *b = (struct pare_buf){ .value = v, .t = v->t, .root = b, .bytes = bytes };
    b->t.data = bytes ? pare_alloc_raw(c->data, bytes, 1) : NULL;
    return bytes && !b->t.data ? NULL : b;
}

/* A value in a layout. */
static struct pare_buf *find_buf(struct pare_contest *c, struct pare_value *v, int block)
{
    bool fixed = pare_is_fixed(v) && block == 1; /* in another layout it is converted */
    struct pare_buf *b;
    size_t bytes;

    for (int i = 0; i < c->n_bufs; i++)
        if (c->buf[i]->value == v && c->buf[i]->block == block)
            return c->buf[i];
    bytes = (size_t)pare_block_numel(&v->t, block) * pare_dtype_size(v->t.dtype);
    b = c->n_bufs < (int)(sizeof(c->buf) / sizeof(*c->buf)) ? new_buf(c, v, fixed ? 0 : bytes)
                                                            : NULL;
    if (!b)
        return NULL;
    b->block = block;
    b->bytes = bytes;
    b->fixed = fixed;
    if (b->t.data)
        fill(b->t.data, bytes, v->t.dtype);
    c->buf[c->n_bufs++] = b;
    return b;
}

/* Gradients, where they are wanted: all are assigned, as most are. */
static int give_gradients(struct pare_contest *c, struct pare_step *s, struct pare_err *err)
{
    s->first = pare_alloc(c->data, (size_t)s->n_in, sizeof(*s->first));
    if (!s->first)
        return no_memory(err);
    for (int k = 0; k < s->n_in + s->n_out; k++) {
        struct pare_buf *b = k < s->n_in ? s->in_buf[k] : s->out_buf[k - s->n_in];

        if (k < s->n_in)
            s->first[k] = true;
        if (b->grad || !c->p->learns[b->value->id])
            continue;
        b->grad = new_buf(c, b->value, b->bytes);
        if (!b->grad)
            return no_memory(err);
        b->grad->block = b->block;
        b->grad->is_grad = true;
        fill(b->grad->t.data, b->bytes, PARE_F32);
    }
    return 0;
}

/* Is this step the last to read the value, so that the plan will let it write there? */
static bool last_reader(const struct pare_contest *c, const struct pare_step *s,
                        const struct pare_value *v)
{
    const struct pare_uses *u = &c->p->view.use[v->id];
    bool last = !(v->flags & (PARE_V_OUTPUT | PARE_V_INPUT)) && !pare_is_fixed(v);

    for (int i = 0; i < u->n && last; i++) {
        bool own = u->node[i] == s->node;

        for (int k = 0; k < s->n_fused; k++)
            own |= u->node[i] == s->fused[k];
        last = own || c->p->view.taken[u->node[i]->id];
    }
    return last;
}

static int give_memory(struct pare_contest *c, struct pare_step *s, struct pare_err *err)
{
    for (int k = 0; k < s->n_in; k++) {
        s->in_buf[k] = find_buf(c, s->in[k], s->in_block[k]);
        if (!s->in_buf[k])
            return no_memory(err);
    }
    for (int k = 0; k < s->n_out; k++) {
        s->out_buf[k] = find_buf(c, s->out[k], s->out_block[k]);
        if (!s->out_buf[k])
            return no_memory(err);
    }
    if (c->p->train)
        PARE_TRY(give_gradients(c, s, err));
    else if (s->inplace && s->in_buf[s->inplace - 1]->bytes == s->out_buf[0]->bytes &&
             last_reader(c, s, s->in[s->inplace - 1])) {
        struct pare_buf *b = new_buf(c, s->out[0], 0);

        if (!b)
            return no_memory(err);
        *b = *s->out_buf[0];
        b->t.data = s->in_buf[s->inplace - 1]->t.data;
        s->out_buf[0] = b;
    }
    for (int i = 0; i < 2; i++)
        if (s->work_bytes[i]) {
            s->work[i] = new_buf(c, s->out[0], s->work_bytes[i]);
            if (!s->work[i])
                return no_memory(err);
        }
    return 0;
}

/* As the plan will do it, but with the rival's own memory. */
static int prepare(struct pare_contest *c, struct pare_step *s, struct pare_arena *arena,
                   struct pare_err *err)
{
    struct pare_plan *p = c->p;
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_arena *own = p->backend.arena;
    int rc = give_memory(c, s, err);

    if (!rc)
        rc = pare_plan_load(arena, s, err);
    p->backend.arena = arena;
    if (!rc && s->kernel->init)
        rc = s->kernel->init(s, &p->backend, err);
    p->backend.arena = own;
    pare_reset(p->scratch, m);
    return rc;
}

/* ---- running ------------------------------------------------------------------------- */

/* Results of earlier layers are in the caches when a layer runs; weights are not, unless all of the
 * model's fit. */
static void drop_weights(const struct pare_contest *c, const struct pare_rival *r)
{
    pare_arena_visit(r->arena, pare_cache_drop);
    for (int i = 0; i < c->node->n_in; i++) {
        const struct pare_value *v = c->node->in[i];

        if (v && pare_is_fixed(v) && pare_const_raw(v))
            pare_cache_drop(pare_const_raw(v), pare_packed_size(&v->t));
    }
}

/* A training plan's way back, where a gradient is wanted. */
static int run_back(struct pare_contest *c, struct pare_step *s, struct pare_err *err)
{
    bool wanted = false;

    for (int k = 0; k < s->n_in && c->p->train; k++)
        wanted |= s->in_buf[k]->grad != NULL;
    return wanted ? s->kernel->back(s, &c->p->backend, err) : 0;
}

/* Seconds that the busiest thread ran, so that what other programs take of the machine does not
 * count, and the one with the least to do; -1 when the kernel fails.  Threads that wait for one
 * that another program keeps from running seem busy, too: then these two differ. */
static double time_step(struct pare_contest *c, struct pare_step *s, double *least,
                        struct pare_err *err)
{
    int threads = c->p->backend.threads;
    struct pare_mark m = pare_mark(c->p->scratch);
    double *clock = c->clock, most = 0;
    int rc;

#pragma omp parallel num_threads(threads)
    clock[omp_get_thread_num()] = pare_thread_now();
    rc = s->kernel->run(s, &c->p->backend, err);
    if (!rc)
        rc = run_back(c, s, err);
    pare_rewind(c->p->scratch, m);
    if (rc)
        return -1;
#pragma omp parallel num_threads(threads)
    clock[omp_get_thread_num()] = pare_thread_now() - clock[omp_get_thread_num()];
    *least = clock[0];
    for (int i = 0; i < threads; i++) {
        most = clock[i] > most ? clock[i] : most;
        *least = clock[i] < *least ? clock[i] : *least;
    }
    c->p->tuned.runs++;
    return most;
}

static void run_once(struct pare_contest *c, struct pare_rival *r)
{
    struct pare_err err;
    double t, least = 0;

    if (c->cold)
        drop_weights(c, r);
    t = time_step(c, &r->s, &least, &err);
    if (t < 0) {
        r->out = true;
        return;
    }
    r->spent += least;
    r->runs++;
    if (t < r->best) {
        r->next = r->best;
        r->best = t;
        r->uneven = t > UNEVEN * least;
    } else if (t < r->next) {
        r->next = t;
    }
}

/* From one layout to another. */
static int time_reorder(struct pare_contest *c, struct pare_value *v, int from, int to,
                        double *seconds, struct pare_err *err)
{
    struct pare_step s = { .kernel = &pare_kernel_reorder };
    struct pare_arena *own = c->p->backend.arena;
    double t = 0;
    bool ok;
    int rc;

    c->p->backend.arena = c->data;
    ok = pare_step_lists(&s, &c->p->view, 1, 1, 0);
    c->p->backend.arena = own;
    if (!ok)
        return no_memory(err);
    s.in[0] = s.out[0] = v;
    s.in_block[0] = from;
    s.out_block[0] = to;
    rc = prepare(c, &s, c->data, err);
    for (int i = 0; i < LEAST && !rc; i++) {
        double least, now = time_step(c, &s, &least, err);

        rc = now < 0 ? err->code : 0;
        t = !i || now < t ? now : t;
    }
    pare_rival_drop(&s);
    *seconds += t;
    return rc;
}

/* Layouts that differ from those of the inputs, and a result in one that others do not make: those
 * behind are most likely to want the machine's blocks. */
static int conversions(struct pare_contest *c, struct pare_rival *r, struct pare_err *err)
{
    int block = c->p->backend.block;
    bool differ = false;

    for (int k = 0; k < r->s.n_in; k++)
        if (!pare_plan_has(c->p, r->s.in[k], r->s.in_block[k]))
            PARE_TRY(time_reorder(c, r->s.in[k], pare_layout_of(&c->p->view, r->s.in[k]),
                                  r->s.in_block[k], &r->extra, err));
    for (int i = 0; i < c->n; i++)
        differ |= c->rival[i].s.out_block[0] != r->s.out_block[0];
    if (differ && r->s.out_block[0] != block && r->s.out[0]->t.rank > 2)
        PARE_TRY(time_reorder(c, r->s.out[0], r->s.out_block[0], block, &r->extra, err));
    return 0;
}

/* The rival with the least time, or NULL. */
static struct pare_rival *leader(struct pare_contest *c)
{
    struct pare_rival *best = NULL;

    for (int i = 0; i < c->n; i++) {
        struct pare_rival *r = &c->rival[i];

        if (!r->out && (!best || r->best + r->extra < best->best + best->extra))
            best = r;
    }
    return best;
}

/* Those that are far behind are out; returns how many are left, and whether more runs would tell
 * more: the machine was busy with something else, or two are close. */
static int sift(struct pare_contest *c, bool *more)
{
    const struct pare_rival *best = leader(c);
    int left = 0;

    *more = false;
    for (int i = 0; i < c->n && best; i++) {
        struct pare_rival *r = &c->rival[i];
        double t = r->best + r->extra, least = best->best + best->extra;
        bool unsure = r->uneven || r->next > STEADY * r->best;

        r->out |= t > LOST * least && (r->runs > LEAST || !unsure);
        left += !r->out;
        *more |= !r->out && (unsure || (r != best && t < CLOSE * least));
    }
    return left;
}

/* In turn, so that what slows the machine for a while slows all. */
static void run_all(struct pare_contest *c, double until)
{
    bool more;

    for (int i = 0; i < c->n; i++) { /* the first run warms up, and counts when it was long */
        struct pare_rival *r = &c->rival[i];

        if (!r->out)
            run_once(c, r);
        if (r->best < LONG)
            r->best = NEVER;
    }
    for (int round = 1; round <= MOST; round++) {
        double spent = 0, slowest = 0;

        for (int i = 0; i < c->n; i++) {
            struct pare_rival *r = &c->rival[i];

            if (r->out)
                continue;
            run_once(c, r);
            spent = r->spent > spent ? r->spent : spent;
            slowest = r->best > slowest ? r->best : slowest;
        }
        if (sift(c, &more) < 2 || pare_now() > until)
            return;
        if ((round >= LEAST || slowest > LONG) && (!more || spent > ENOUGH))
            return;
    }
}

/* ---- choosing ----------------------------------------------------------------------- */

/* Who was out for a reason of its own is out; but memory must not run out unseen. */
static int prepare_all(struct pare_contest *c, struct pare_err *err)
{
    for (int i = 0; i < c->n; i++) {
        struct pare_rival *r = &c->rival[i];
        int rc = prepare(c, &r->s, r->arena, err);

        if (!rc)
            rc = conversions(c, r, err);
        if (rc == PARE_ENOMEM)
            return rc;
        r->out = rc != 0;
    }
    return 0;
}

/* The values' contents as they were: what was loaded for rivals goes with their memory. */
static void save_values(struct pare_contest *c, bool back)
{
    const struct pare_graph *g = c->p->graph;

    for (int i = 0; i < g->n_values; i++)
        if (back)
            g->value[i]->t = c->saved[i];
        else
            c->saved[i] = g->value[i]->t;
}

int pare_contest_run(struct pare_contest *c, const struct pare_kernel **k, struct pare_err *err)
{
    double start = pare_now();
    struct pare_rival *best;
    int rc;

    c->data = pare_arena_new(1 << 16);
    c->clock = c->data ? pare_alloc(c->data, (size_t)c->p->backend.threads, sizeof(double)) : NULL;
    c->saved = c->data ? pare_alloc(c->data, (size_t)c->p->graph->n_values, sizeof(*c->saved))
                       : NULL;
    if (!c->clock || !c->saved)
        return no_memory(err);
    save_values(c, false);
    rc = prepare_all(c, err);
    if (!rc)
        run_all(c, start + c->seconds);
    save_values(c, true);
    pare_plan_release(c->p, &c->rival[0].s);
    if (rc)
        return rc;
    best = leader(c);
    for (int i = 0; i < c->n && best; i++)
        if (c->rival[i].s.kernel == c->rule && !c->rival[i].out &&
            best->best + best->extra > BETTER * (c->rival[i].best + c->rival[i].extra))
            best = &c->rival[i];
    *k = best ? best->s.kernel : c->rule;
    c->p->tuned.measured++;
    return 0;
}

void pare_contest_end(struct pare_contest *c)
{
    for (int i = 0; i < c->n; i++) {
        pare_rival_drop(&c->rival[i].s);
        pare_arena_free(c->rival[i].arena);
    }
    pare_arena_free(c->data);
}
