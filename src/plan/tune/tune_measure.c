/* tune_measure.c - run and time one candidate of a tuning race.
 *
 * Each candidate gets the nodes as it would in the plan, with random inputs, in memory that is
 * freed after the race.
 */
#include "tune_measure.h"

#include <omp.h>
#include <string.h>

#include "../../base/cpu_cache.h"
#include "../../base/clock.h"
#include "../../base/rng.h"
#include "../passes.h"

#define REORDERS 3 /* runs of a layout conversion */
#define UNEVEN \
    1.3 /* threads are uneven if the busiest ran for longer than this times the least busy */

/* ---- a candidate's memory ------------------------------------------------------------ */

/* Random values, 1024 of them repeated. */
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

static struct pare_buf *new_buf(struct pare_tune_race *c, struct pare_value *v, size_t bytes)
{
    struct pare_buf *b = pare_alloc(c->data, 1, sizeof(*b));

    if (!b)
        return NULL;
    *b = (struct pare_buf){ .value = v, .t = v->t, .root = b, .bytes = bytes };
    b->t.data = bytes ? pare_alloc_raw(c->data, bytes, 1) : NULL;
    return bytes && !b->t.data ? NULL : b;
}

/* The buffer of a value in a layout. */
static struct pare_buf *find_buf(struct pare_tune_race *c, struct pare_value *v, int block)
{
    bool fixed = pare_is_fixed(v) && block == 1; /* in other layouts it is converted */
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

/* Will the plan let the step overwrite the value, since no later step reads it? */
static bool last_reader(const struct pare_tune_race *c, const struct pare_step *s,
                        const struct pare_value *v)
{
    const struct pare_consumers *u = &c->p->view.consumers[v->id];
    bool last = !(v->flags & (PARE_V_OUTPUT | PARE_V_INPUT)) && !pare_is_fixed(v);

    for (int i = 0; i < u->n && last; i++) {
        bool own = u->node[i] == s->node;

        for (int k = 0; k < s->n_fused; k++)
            own |= u->node[i] == s->fused[k];
        last = own || c->p->view.claimed[u->node[i]->id];
    }
    return last;
}

static int give_memory(struct pare_tune_race *c, struct pare_step *s, struct pare_err *err)
{
    for (int k = 0; k < s->n_in; k++) {
        s->in_buf[k] = find_buf(c, s->in[k], s->in_block[k]);
        if (!s->in_buf[k])
            return pare_no_memory(err, "for tuning");
    }
    for (int k = 0; k < s->n_out; k++) {
        s->out_buf[k] = find_buf(c, s->out[k], s->out_block[k]);
        if (!s->out_buf[k])
            return pare_no_memory(err, "for tuning");
    }
    if (s->inplace && s->in_buf[s->inplace - 1]->bytes == s->out_buf[0]->bytes &&
        last_reader(c, s, s->in[s->inplace - 1])) {
        struct pare_buf *b = new_buf(c, s->out[0], 0);

        if (!b)
            return pare_no_memory(err, "for tuning");
        *b = *s->out_buf[0];
        b->t.data = s->in_buf[s->inplace - 1]->t.data;
        s->out_buf[0] = b;
    }
    for (int i = 0; i < 2; i++)
        if (s->work_bytes[i]) {
            if (!c->work[i]) {
                c->work[i] = new_buf(c, s->out[0], c->work_bytes[i]);
                if (!c->work[i])
                    return pare_no_memory(err, "for tuning");
                memset(c->work[i]->t.data, 0,
                       c->work_bytes[i]); /* all candidates find it in memory */
            }
            s->work[i] = c->work[i];
        }
    return 0;
}

/* What the plan will do, but with the candidate's memory. */
int pare_tune_candidate_prepare(struct pare_tune_race *c, struct pare_step *s,
                                struct pare_arena *arena, struct pare_err *err)
{
    struct pare_plan *p = c->p;
    struct pare_mark m = pare_mark(p->scratch);
    struct pare_arena *own = p->backend.arena;
    int rc = give_memory(c, s, err);

    if (!rc)
        rc = pare_plan_load_constants(arena, s, err);
    p->backend.arena = arena;
    if (!rc && s->kernel->init)
        rc = s->kernel->init(s, &p->backend, err);
    p->backend.arena = own;
    pare_reset(p->scratch, m);
    return rc;
}

/* ---- running ------------------------------------------------------------------------- */

/* In the model, results of earlier layers are in the caches when a layer runs, and weights are not,
 * unless the weights of the whole model fit. */
static void drop_weights(const struct pare_tune_race *c, const struct pare_tune_candidate *r)
{
    pare_arena_visit(r->arena, pare_cache_drop);
    for (int i = 0; i < c->node->n_in; i++) {
        const struct pare_value *v = c->node->in[i];

        if (v && pare_is_fixed(v) && pare_const_raw(v))
            pare_cache_drop(pare_const_raw(v), pare_packed_size(&v->t));
    }
}

/* Seconds that the busiest thread ran, which excludes other programs, and (*least) the least busy
 * one; -1: the kernel failed.  Threads that wait for a thread that another program delays count as
 * busy: then the two differ. */
static double time_step(struct pare_tune_race *c, struct pare_step *s, double *least,
                        struct pare_err *err)
{
    int threads = c->p->backend.threads;
    struct pare_mark m = pare_mark(c->p->scratch);
    double *clock = c->clock, most = 0;
    int rc;

#pragma omp parallel num_threads(threads)
    clock[omp_get_thread_num()] = pare_thread_now();
    rc = s->kernel->run(s, &c->p->backend, err);
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

void pare_tune_candidate_run(struct pare_tune_race *c, struct pare_tune_candidate *r)
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

/* Time a layout conversion. */
int pare_tune_candidate_reorder(struct pare_tune_race *c, struct pare_value *v, const int block[2],
                                double *seconds, struct pare_err *err)
{
    struct pare_step s = { .kernel = &pare_kernel_reorder, .passes = PARE_ALL_PASSES };
    struct pare_arena *own = c->p->backend.arena;
    double t = 0;
    bool ok;
    int rc;

    c->p->backend.arena = c->data;
    ok = pare_step_lists(&s, &c->p->view, 1, 1, 0);
    c->p->backend.arena = own;
    if (!ok)
        return pare_no_memory(err, "for tuning");
    s.in[0] = s.out[0] = v;
    s.in_block[0] = block[0];
    s.out_block[0] = block[1];
    rc = pare_tune_candidate_prepare(c, &s, c->data, err);
    for (int i = 0; i < REORDERS && !rc; i++) {
        double least, now = time_step(c, &s, &least, err);

        rc = now < 0 ? err->code : 0;
        t = !i || now < t ? now : t;
    }
    pare_passes_drop(&s);
    *seconds += t;
    return rc;
}
