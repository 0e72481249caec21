/* tune.c - the fastest of the kernels that can run a layer, found by trying.
 *
 * When a plan is tuned, the kernels of kernels.def that are rivals and can run the same nodes each
 * get them, with random inputs and in memory that is given back afterwards, and run in turn.  What
 * was found is kept by what the time depends on (tune_key.c): layers that are alike are tried once,
 * and files have it for later plans (choices.h).
 */
#include "tune.h"

#include <errno.h>
#include <omp.h>
#include <string.h>
#include <unistd.h>

#include "../base/cache.h"
#include "../base/clock.h"
#include "../base/rng.h"
#include "choices.h"

#define NEVER 1e30 /* seconds */
#define RIVALS 8
#define BUFS (RIVALS * (PARE_STEP_IN + 2))
#define LEAST 3     /* runs of each rival, ... */
#define MOST 12     /* ... more while they are close or times vary, at most so many, ... */
#define ENOUGH 0.02 /* ... or until one has run for so many seconds */
#define LONG 0.05   /* a run of so many seconds needs one repetition */
#define CLOSE 1.1   /* rivals are close, when their best times differ by no more, ... */
#define STEADY 1.1  /* ... and times vary, when the best two of a rival do by more, ... */
#define UNEVEN 1.3  /* ... or a thread runs for longer than this times another's time */
#define LOST 1.5    /* one that takes so many times the best one's time need not run again */
#define BETTER 0.97 /* the rules' own choice is left for a rival that takes less than this of it */
#define LIMIT 3     /* seconds for a plan; the rules decide on what is left then */

struct pare_tuner {
    struct pare_arena *arena;
    struct pare_choices list, cache;         /* as the files had them */
    struct pare_choices new_list, new_cache; /* what they do not have */
    const char *choices, *folder;
    bool measure, cold;        /* weights are not in the caches when a layer runs */
    double left;               /* seconds for trials */
    struct pare_tensor *saved; /* the graph's values as they are, by id */
};

/* A kernel that could run the nodes. */
struct rival {
    struct pare_step s;
    struct pare_arena *arena; /* what match() and init() take */
    bool out;                 /* cannot, or lost already */
    int runs;
    double best, next; /* seconds of the fastest run and of the second */
    bool uneven;       /* in the fastest run, some threads had more to do than others */
    double spent;      /* seconds that each thread ran, all in all */
    double extra;      /* conversions that it needs around it */
};

struct contest {
    struct pare_plan *p;
    struct pare_node *node;
    const struct pare_kernel *rule; /* the choice without trials */
    struct rival rival[RIVALS];
    int n;
    struct pare_arena *data;
    double *clock;              /* by thread */
    struct pare_buf *buf[BUFS]; /* inputs and results: all rivals use the same */
    int n_bufs;
};

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

static void drop_step(struct pare_step *s)
{
    if (s->kernel && s->kernel->quit && s->state)
        s->kernel->quit(s);
    s->state = NULL;
}

/* Does it say that it can, whatever it expects of its speed?  Its lists come from `arena`. */
static bool matches(struct pare_plan *p, const struct pare_kernel *k, struct pare_node *n,
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
    return yes;
}

static int gather(struct contest *c, const struct pare_step *s, struct pare_err *err)
{
    c->node = s->node;
    c->rule = s->kernel;
    for (int i = 0; pare_kernels[i] && c->n < RIVALS; i++) {
        struct rival *r = &c->rival[c->n];

        if (!pare_kernels[i]->rival || !pare_plan_uses(c->p, pare_kernels[i]))
            continue;
        *r = (struct rival){ .arena = pare_arena_new(1 << 12), .best = NEVER, .next = NEVER };
        if (!r->arena)
            return no_memory(err);
        c->n++;
        if (matches(c->p, pare_kernels[i], s->node, r->arena, &r->s) && same_work(s, &r->s) &&
            r->s.n_in <= PARE_STEP_IN && r->s.n_out <= 2)
            continue;
        if (pare_arena_failed(r->arena) || pare_arena_failed(c->p->scratch))
            return no_memory(err);
        drop_step(&r->s);
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

static struct pare_buf *new_buf(struct contest *c, struct pare_value *v, size_t bytes)
{
    struct pare_buf *b = pare_alloc(c->data, 1, sizeof(*b));

    if (!b)
        return NULL;
    *b = (struct pare_buf){ .value = v, .t = v->t, .root = b, .bytes = bytes };
    b->t.data = bytes ? pare_alloc_raw(c->data, bytes, 1) : NULL;
    return bytes && !b->t.data ? NULL : b;
}

/* A value in a layout. */
static struct pare_buf *find_buf(struct contest *c, struct pare_value *v, int block)
{
    bool fixed = pare_is_fixed(v);
    struct pare_buf *b;
    size_t bytes;

    for (int i = 0; i < c->n_bufs; i++)
        if (c->buf[i]->value == v && c->buf[i]->block == block)
            return c->buf[i];
    bytes = (size_t)pare_block_numel(&v->t, block) * pare_dtype_size(v->t.dtype);
    b = c->n_bufs < BUFS ? new_buf(c, v, fixed ? 0 : bytes) : NULL;
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

/* Is this step the last to read the value, so that the plan will let it write there? */
static bool last_reader(const struct contest *c, const struct pare_step *s,
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

static int give_memory(struct contest *c, struct pare_step *s, struct pare_err *err)
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
    if (s->inplace && s->in_buf[s->inplace - 1]->bytes == s->out_buf[0]->bytes &&
        last_reader(c, s, s->in[s->inplace - 1])) {
        struct pare_buf *b = new_buf(c, s->out[0], 0);

        if (!b)
            return no_memory(err);
        *b = *s->out_buf[0];
        b->t.data = s->in_buf[s->inplace - 1]->t.data;
        s->out_buf[0] = b;
    }
    if (s->work_bytes[0]) {
        s->work[0] = new_buf(c, s->out[0], s->work_bytes[0]);
        if (!s->work[0])
            return no_memory(err);
    }
    return 0;
}

/* As the plan will do it, but with the rival's own memory. */
static int prepare(struct contest *c, struct pare_step *s, struct pare_arena *arena,
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
static void drop_weights(const struct contest *c, const struct rival *r)
{
    pare_arena_visit(r->arena, pare_cache_drop);
    for (int i = 0; i < c->node->n_in; i++) {
        const struct pare_value *v = c->node->in[i];

        if (v && pare_is_const(v) && pare_const_raw(v))
            pare_cache_drop(pare_const_raw(v), pare_packed_size(&v->t));
    }
}

/* Seconds that the busiest thread ran, so that what other programs take of the machine does not
 * count, and the one with the least to do; -1 when the kernel fails.  Threads that wait for one that
 * another program keeps from running seem busy, too: then these two differ. */
static double time_step(struct contest *c, struct pare_step *s, double *least, struct pare_err *err)
{
    int threads = c->p->backend.threads;
    double *clock = c->clock, most = 0;

#pragma omp parallel num_threads(threads)
    clock[omp_get_thread_num()] = pare_thread_now();
    if (s->kernel->run(s, &c->p->backend, err))
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

static void run_once(struct contest *c, struct rival *r)
{
    struct pare_err err;
    double t, least = 0;

    if (c->p->tuner->cold)
        drop_weights(c, r);
    t = time_step(c, &r->s, &least, &err);
    r->out |= t < 0;
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
static int time_reorder(struct contest *c, struct pare_value *v, int from, int to, double *seconds,
                        struct pare_err *err)
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
    drop_step(&s);
    *seconds += t;
    return rc;
}

/* Layouts that differ from those of the inputs, and a result in one that others do not make: those
 * behind are most likely to want the machine's blocks. */
static int conversions(struct contest *c, struct rival *r, struct pare_err *err)
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
static struct rival *leader(struct contest *c)
{
    struct rival *best = NULL;

    for (int i = 0; i < c->n; i++) {
        struct rival *r = &c->rival[i];

        if (!r->out && (!best || r->best + r->extra < best->best + best->extra))
            best = r;
    }
    return best;
}

/* Those that are far behind are out; returns how many are left, and whether more runs would tell
 * more: the machine was busy with something else, or two are close. */
static int sift(struct contest *c, bool *more)
{
    const struct rival *best = leader(c);
    int left = 0;

    *more = false;
    for (int i = 0; i < c->n && best; i++) {
        struct rival *r = &c->rival[i];
        double t = r->best + r->extra, least = best->best + best->extra;
        bool unsure;

        unsure = r->uneven || r->next > STEADY * r->best;
        r->out |= t > LOST * least && (r->runs > LEAST || !unsure);
        left += !r->out;
        *more |= !r->out && (unsure || (r != best && t < CLOSE * least));
    }
    return left;
}

/* In turn, so that what slows the machine for a while slows all. */
static void run_all(struct contest *c, double until)
{
    bool more;

    for (int i = 0; i < c->n; i++) { /* the first run warms up, and counts when it was long */
        struct rival *r = &c->rival[i];

        if (!r->out)
            run_once(c, r);
        if (r->best < LONG)
            r->best = NEVER;
    }
    for (int round = 1; round <= MOST; round++) {
        double spent = 0, slowest = 0;

        for (int i = 0; i < c->n; i++) {
            struct rival *r = &c->rival[i];

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

/* ---- choosing ------------------------------------------------------------------------ */

/* Who was out for a reason of its own is out; but memory must not run out unseen. */
static int prepare_all(struct contest *c, struct pare_err *err)
{
    c->data = pare_arena_new(1 << 16);
    c->clock = c->data ? pare_alloc(c->data, (size_t)c->p->backend.threads, sizeof(double)) : NULL;
    if (!c->clock)
        return no_memory(err);
    for (int i = 0; i < c->n; i++) {
        struct rival *r = &c->rival[i];
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
static void save_values(const struct pare_plan *p, bool back)
{
    for (int i = 0; i < p->graph->n_values; i++)
        if (back)
            p->graph->value[i]->t = p->tuner->saved[i];
        else
            p->tuner->saved[i] = p->graph->value[i]->t;
}

static int measure(struct contest *c, const struct pare_kernel **k, struct pare_err *err)
{
    struct pare_tuner *t = c->p->tuner;
    double start = pare_now();
    struct rival *best;
    int rc;

    save_values(c->p, false);
    rc = prepare_all(c, err);
    if (!rc)
        run_all(c, start + t->left);
    save_values(c->p, true);
    pare_plan_release(c->p, &c->rival[0].s);
    t->left -= pare_now() - start;
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

static const struct pare_kernel *rival_named(const struct contest *c, const char *name)
{
    for (int i = 0; i < c->n && name; i++)
        if (!strcmp(c->rival[i].s.kernel->name, name))
            return c->rival[i].s.kernel;
    return NULL;
}

static int follow_list(struct contest *c, const char *name, const struct pare_kernel **k,
                       struct pare_err *err)
{
    *k = rival_named(c, name);
    if (!*k)
        return pare_fail(err, PARE_ECONFIG,
                         "%s: chooses '%s' for node '%s', which can be run by '%s'%s",
                         c->p->tuner->choices, name, c->node->name, c->rule->name,
                         c->n > 1 ? " or its rivals only" : "");
    c->p->tuned.listed++;
    return 0;
}

/* By the list; by the cache; by trying; by the rules. */
static int decide(struct contest *c, const char *key, const struct pare_kernel **k,
                  struct pare_err *err)
{
    struct pare_tuner *t = c->p->tuner;
    const char *name = pare_choices_get(&t->list, key);

    *k = c->rule;
    c->p->tuned.layers++;
    if (name)
        return follow_list(c, name, k, err);
    if (!t->measure)
        return 0;
    name = pare_choices_get(&t->new_list, key);
    name = name ? name : pare_choices_get(&t->cache, key);
    if (rival_named(c, name)) {
        *k = rival_named(c, name);
        c->p->tuned.cached++;
    } else if (t->left > 0) {
        PARE_TRY(measure(c, k, err));
        PARE_TRY(pare_choices_set(&t->new_cache, key, (*k)->name, err));
    }
    return pare_choices_set(&t->new_list, key, (*k)->name, err);
}

static void end_contest(struct contest *c)
{
    for (int i = 0; i < c->n; i++) {
        drop_step(&c->rival[i].s);
        pare_arena_free(c->rival[i].arena);
    }
    pare_arena_free(c->data);
}

/* Its lists are in the plan's memory, not in a rival's. */
static int take(struct pare_plan *p, const struct pare_kernel *k, struct pare_step *s,
                struct pare_err *err)
{
    struct pare_step other;

    if (!matches(p, k, s->node, p->arena, &other))
        return pare_arena_failed(p->arena) || pare_arena_failed(p->scratch)
                   ? no_memory(err)
                   : pare_fail(err, PARE_EUNSUPPORTED, "'%s' takes node '%s' only at times",
                               k->name, s->node->name);
    drop_step(s);
    *s = other;
    p->tuned.changed++;
    return 0;
}

int pare_tune_step(struct pare_plan *p, struct pare_step *s, struct pare_err *err)
{
    struct contest c = { .p = p };
    const struct pare_kernel *k = s->kernel;
    char key[PARE_KEY_TEXT];
    double start = pare_now();
    bool zeros = false;
    int rc;

    if (!p->tuner || !k->rival)
        return 0;
    rc = gather(&c, s, err);
    for (int i = 0; i < c.n; i++)
        zeros |= c.rival[i].s.kernel->by_zeros;
    s->tuned = !rc && c.n > 1 && rival_named(&c, k->name) &&
               pare_tune_key(p, s, zeros, p->tuner->cold, key);
    if (s->tuned)
        rc = decide(&c, key, &k, err);
    end_contest(&c);
    if (!rc && k != s->kernel)
        rc = take(p, k, s, err);
    s->tuned = c.n > 1;
    p->tuned.seconds += pare_now() - start;
    return rc;
}

/* ---- the plan's tuner ------------------------------------------------------------------ */

static bool is_cold(const struct pare_plan *p)
{
    size_t sum = 0, bytes;
    struct pare_err err;

    for (int i = 0; i < p->graph->n_values; i++) {
        const struct pare_value *v = p->graph->value[i];

        if (pare_is_const(v) && !pare_tensor_size(&v->t, NULL, &bytes, &err))
            sum += bytes;
    }
    return sum > pare_cache_bytes() / 2;
}

int pare_tune_start(struct pare_plan *p, const struct pare_plan_opts *o, struct pare_err *err)
{
    struct pare_arena *a;
    struct pare_tuner *t;

    if (o->reference || (!o->tune && !o->choices))
        return 0;
    a = pare_arena_new(1 << 16);
    t = a ? pare_alloc(a, 1, sizeof(*t)) : NULL;
    if (!t) {
        pare_arena_free(a);
        return no_memory(err);
    }
    *t = (struct pare_tuner){ .arena = a,
                              .list.arena = a,
                              .cache.arena = a,
                              .new_list.arena = a,
                              .new_cache.arena = a,
                              .choices = o->choices,
                              .folder = o->cache,
                              .measure = o->tune,
                              .cold = is_cold(p),
                              .left = LIMIT };
    p->tuner = t;
    t->saved = pare_alloc(a, (size_t)p->graph->n_values, sizeof(*t->saved));
    if (!t->saved)
        return no_memory(err);
    if (t->choices && !t->measure && access(t->choices, F_OK))
        return pare_fail(err, PARE_EIO, "%s: %s", t->choices, strerror(errno));
    if (t->choices)
        PARE_TRY(pare_choices_read(&t->list, t->choices, true, err));
    if (t->folder && t->measure) {
        const char *file = pare_choices_file(a, t->folder, false);

        return file ? pare_choices_read(&t->cache, file, false, err) : no_memory(err);
    }
    return 0;
}

int pare_tune_end(struct pare_plan *p, struct pare_err *err)
{
    struct pare_tuner *t = p->tuner;
    struct pare_err ignored;

    if (!t)
        return 0;
    if (t->folder && t->new_cache.n) {
        const char *file = pare_choices_file(t->arena, t->folder, true);

        if (file) /* it is only a cache */
            (void)pare_choices_save(&t->new_cache, file, false, &ignored);
    }
    if (t->choices && t->new_list.n)
        PARE_TRY(pare_choices_save(&t->new_list, t->choices, true, err));
    pare_tune_free(p);
    return 0;
}

void pare_tune_free(struct pare_plan *p)
{
    if (p->tuner)
        pare_arena_free(p->tuner->arena);
    p->tuner = NULL;
}
