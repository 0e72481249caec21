/* output_trial.c - compare the outputs of the quantized model with those of the float model on
 * calibration data: error and cosine. */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "probe.h"
#include "quant_check.h"

#define MOST 4194304  /* elements of an output that are kept */
#define BATCHES 2     /* of a comparison, */
#define LEAST_ITEMS 8 /* at least with these items */

struct recorder {
    struct pare_probe probe;
    struct pare_arena *a;
    float *kept; /* (n of room) elements of the float model's output */
    int64_t n, at, room;
    int64_t *length; /* (runs) kept elements of each run: their number may depend on the data */
    int runs, cap, run;
    int unequal;                     /* runs with another number of elements, not compared */
    double missed;                   /* x^2 of these */
    bool second;                     /* compares instead of recording */
    double signal, noise, dot, norm; /* of float x and quantized y: x^2, (x - y)^2, x y, y^2 */
};

struct pare_output_trial {
    struct pare_compression *c;
    struct pare_arena *a;
    struct recorder *r;
    int n;
    bool (*was)[PARE_QUANT_SITES]; /* (layers) quantization points before the float pass */
};

/* ---- recording ------------------------------------------------------------------------------- */

static int keep(struct recorder *r, const float *x, int64_t n, struct pare_err *err)
{
    r->length = pare_grow(r->a, r->length, r->runs, &r->cap, sizeof(*r->length));
    if (!r->length)
        return pare_no_memory(err, "to keep outputs");
    r->length[r->runs++] = n;
    if (n < 1)
        return 0;
    if (r->n + n > r->room) { /* the length of an output may depend on the data */
        int64_t room = 2 * r->room > r->n + n ? 2 * r->room : r->n + n;
        float *more = pare_alloc_raw(r->a, (size_t)room, sizeof(*more));

        if (!more)
            return pare_no_memory(err, "to keep outputs");
        if (r->n)
            memcpy(more, r->kept, (size_t)r->n * sizeof(*more));
        r->kept = more;
        r->room = room;
    }
    memcpy(r->kept + r->n, x, (size_t)n * sizeof(*x));
    r->n += n;
    return 0;
}

/* Compare with the same run of the float model. */
static void compare(struct recorder *r, const float *y, int64_t all)
{
    int64_t n = r->run < r->runs ? r->length[r->run++] : 0, left = MOST - r->at;
    bool same = n == (all < left ? all : left);

    r->unequal += !same;
    for (int64_t i = 0; i < n; i++) {
        double u = (double)r->kept[r->at + i], v = same ? (double)y[i] : 0;

        if (!same && isfinite(u))
            r->missed += u * u;
        if (!same || !isfinite(u) || !isfinite(v))
            continue;
        r->signal += u * u;
        r->noise += (u - v) * (u - v);
        r->dot += u * v;
        r->norm += v * v;
    }
    r->at += n;
}

static int record(void *user, const struct pare_tensor *x, float *y, struct pare_err *err)
{
    struct recorder *r = user;
    int64_t all = pare_numel(x), left = MOST - r->n;

    if (r->second)
        compare(r, y, all);
    return r->second ? 0 : keep(r, y, all < left ? all : left, err);
}

/* A value can be several outputs of the model. */
static bool is_recorded(const struct pare_output_trial *t, const struct pare_value *v)
{
    for (int i = 0; i < t->n; i++)
        if (v->maker->attr == &t->r[i].probe)
            return true;
    return false;
}

static int insert_all(struct pare_output_trial *t, struct pare_err *err)
{
    struct pare_graph *g = t->c->model->graph;
    const struct pare_io *io;
    int n = pare_model_outputs(t->c->model, &io);

    t->r = pare_alloc(t->a, (size_t)n + 1, sizeof(*t->r));
    if (!t->r)
        return pare_no_memory(err, "to compare outputs");
    for (int i = 0; i < n && i < g->n_out; i++) {
        struct recorder *r = &t->r[t->n];

        if (io[i].dtype != PARE_F32 || !g->out[i]->maker || is_recorded(t, g->out[i]))
            continue;
        *r = (struct recorder){ .probe = { "recorded", record, r }, .a = t->a };
        PARE_TRY(pare_probe_insert(g, &r->probe, g->out[i], err));
        t->n++;
    }
    return pare_graph_order(g, err);
}

int64_t pare_check_batches(const struct pare_compression *c)
{
    int64_t size = c->batch ? c->batch : c->data->opts.batch, n = BATCHES;

    if (size > 0 && size * n < LEAST_ITEMS)
        n = (LEAST_ITEMS + size - 1) / size;
    return !c->first_batch && c->quant->observed && n > c->quant->observed ? c->quant->observed : n;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* A trial with its probes; its owner ends it, also after an error. */
static int new_trial(struct pare_compression *c, struct pare_output_trial **trial,
                     struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_output_trial *t = a ? pare_alloc(a, 1, sizeof(*t)) : NULL;

    if (!t) {
        pare_arena_free(a);
        return pare_no_memory(err, "to compare outputs");
    }
    *t = (struct pare_output_trial){ .c = c, .a = a };
    t->was = pare_alloc(a, (size_t)c->n_layers + 1, sizeof(*t->was));
    *trial = t;
    return t->was ? insert_all(t, err) : pare_no_memory(err, "to compare outputs");
}

int pare_output_trial_begin(struct pare_compression *c, struct pare_output_trial **trial,
                            struct pare_err *err)
{
    struct pare_output_trial *t = NULL;
    int rc = new_trial(c, &t, err);

    *trial = NULL;
    if (!rc && t->n)
        rc = pare_float_pass(c, pare_check_batches(c), err);
    if (rc || !t->n)
        pare_output_trial_end(t);
    else
        *trial = t;
    return rc;
}

static void begin_pass(struct pare_output_trial *t)
{
    for (int i = 0; i < t->n; i++) {
        struct recorder *r = &t->r[i];

        r->second = true;
        r->at = 0;
        r->run = r->unequal = 0;
        r->signal = r->noise = r->dot = r->norm = r->missed = 0;
    }
}

static int end_pass(const struct pare_output_trial *t, struct pare_output_error *e,
                    struct pare_err *err)
{
    double noise = 0, cosine = 0, cost = 0;
    int compared = 0;

    *e = (struct pare_output_error){ NAN, NAN, 0, 0, 0 };
    for (int i = 0; i < t->n; i++) {
        const struct recorder *r = &t->r[i];
        double v[] = { r->signal, r->noise, r->dot, r->norm, r->missed, r->unequal, (double)r->n };
        double all;

        PARE_TRY(pare_dist_merge(t->c->dist, PARE_MERGE_SUM, PARE_F64, v, 7, err));
        all = v[0] + v[4];
        cost += all > 0 ? (v[1] + v[4]) / all : v[1] > 0;
        e->unequal = r->unequal > e->unequal ? r->unequal : e->unequal;
        e->runs = r->runs;
        if (v[6] == 0 || (v[5] > 0 && v[0] == 0 && v[3] == 0))
            continue; /* nothing was compared */
        noise += v[0] > 0 ? v[1] / v[0] : v[1] > 0;
        cosine += v[0] > 0 && v[3] > 0 ? v[2] / sqrt(v[0] * v[3]) : v[0] == v[3];
        compared++;
    }
    e->cost = cost / t->n;
    if (compared) {
        e->noise = noise / compared;
        e->cosine = cosine / compared;
    }
    return 0;
}

int pare_output_trial_run(struct pare_output_trial *t, struct pare_output_error *e,
                          struct pare_err *err)
{
    begin_pass(t);
    PARE_TRY(pare_compression_forward_once(t->c, pare_check_batches(t->c), err));
    return end_pass(t, e, err);
}

void pare_output_trial_end(struct pare_output_trial *t)
{
    if (!t)
        return;
    pare_probes_remove(t->c->model->graph);
    pare_arena_free(t->a);
}

/* ---- many passes over few items -------------------------------------------------------------- */

struct passes {
    struct pare_output_trial *t;
    pare_trial_fn *next;
    void *user;
    int done; /* passes; the first is the float model's */
};

static int next_pass(void *user, bool *more, struct pare_err *err)
{
    struct passes *p = user;
    struct pare_output_error e;

    *more = true;
    if (!p->done++) {
        pare_quant_disable(p->t->c, p->t->was);
        return 0;
    }
    if (p->done == 2)
        pare_quant_enable(p->t->c, p->t->was);
    else
        PARE_TRY(end_pass(p->t, &e, err));
    begin_pass(p->t);
    return p->next(p->user, p->done == 2 ? NULL : &e, more, err);
}

int pare_output_trials(struct pare_compression *c, int64_t items, int most, pare_trial_fn *next,
                       void *user, struct pare_err *err)
{
    struct pare_output_trial *t = NULL;
    struct passes p = { .next = next, .user = user };
    int rc = new_trial(c, &t, err);

    p.t = t;
    if (!rc && t->n)
        rc = pare_compression_repeat(c, items, most + 1, next_pass, &p, err);
    if (p.done == 1) /* the float pass failed */
        pare_quant_enable(c, t->was);
    pare_output_trial_end(t);
    return rc;
}
