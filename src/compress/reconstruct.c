/* reconstruct.c - reconstruction: a compressed model is trained to have the original's outputs, on
 * items without labels. */
#include "reconstruct.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/options.h"
#include "../tensor/tensor.h"
#include "../train/batch_runner.h"
#include "../train/recalibrate.h"
#include "hold_zeros.h"

#define COMPARISONS 4
#define WARMUP 20 /* a part of the steps */
#define STATISTICS_BATCH 64
#define HELD_BATCHES 64 /* items by which pare_held_out_compare() may exceed its part */
#define BETTER 0.999    /* cost, relative to the best before */

struct run {
    struct pare_reconstruct *r;
    struct pare_arena *a;
    struct pare_trainer *t;
    struct pare_loader *l;
    struct pare_loader_pos start; /* of the first batch */
    int64_t before, after;        /* batches before the held-out items; the first after them */
    int64_t batches, next;        /* that are used, again and again; the loader's next */
    struct pare_tensor *best;     /* of parameters, then of running statistics */
    double seconds;               /* when it began */
};

/* ---- the loss -------------------------------------------------------------------------------- */

/* The outputs of the original on the first batch: their mean squares; 0: not of floats. */
static int output_power(const struct run *s, double *power, int *n, struct pare_err *err)
{
    struct pare_loader_opts lo = { .train = true, .batch = PARE_RECONSTRUCT_BATCH, .seed = 1 };
    struct pare_batch_runner b = { .threads = s->r->threads };
    struct pare_tensor out[PARE_DATA_OUTPUTS];
    const struct pare_batch *batch = NULL;
    struct pare_loader *l = NULL;
    int rc = pare_batch_runner_init(&b, s->r->teacher, &lo, s->a, err);

    *n = 0;
    if (!rc)
        rc = pare_loader_new(s->r->data, &lo, &l, err);
    if (!rc)
        rc = pare_loader_next(l, &batch, err);
    if (!rc && batch)
        rc = pare_batch_runner_run(&b, batch, out, n, err);
    for (int i = 0; i < *n && !rc; i++) {
        int64_t size = out[i].dtype == PARE_F32 ? pare_numel(&out[i]) : 0;

        power[i] = 0;
        for (int64_t k = 0; k < size; k++)
            power[i] += (double)pare_f32(&out[i])[k] * (double)pare_f32(&out[i])[k] / (double)size;
    }
    pare_loader_free(l);
    pare_batch_runner_free(&b);
    return rc;
}

/* The outputs that are compared by their mean squares, as layers that follow the original's. */
static int add_links(const struct run *s, bool classes, struct pare_trainer_opts *o,
                     struct pare_err *err)
{
    struct pare_distill_link *link = pare_alloc(s->a, PARE_DATA_OUTPUTS, sizeof(*link));
    double power[PARE_DATA_OUTPUTS];
    int n;

    if (!link)
        return pare_no_memory(err, "to reconstruct the outputs");
    PARE_TRY(output_power(s, power, &n, err));
    for (int i = classes; i < n && i < s->r->model->n_out; i++)
        if (power[i] > 0 && isfinite(power[i]))
            link[o->n_links++] = (struct pare_distill_link){
                .student = s->r->model->graph->out[i]->name,
                .teacher = s->r->teacher->graph->out[i]->name,
                .conf = { .lambda = 1 / power[i], .method = "mse", .temperature = 1 }
            };
    o->link = link;
    return classes || o->n_links
               ? 0
               : pare_fail(err, PARE_EUNSUPPORTED,
                           "reconstruction needs an output of floats that is not 0");
}

static int open_trainer(struct run *s, bool classes, struct pare_err *err)
{
    const struct pare_reconstruct *r = s->r;
    struct pare_trainer_opts o = { .threads = r->threads,
                                   .seed = r->seed,
                                   .freeze = r->freeze,
                                   .n_freeze = r->n_freeze,
                                   .teacher = r->teacher,
                                   .hooks = r->hooks,
                                   .dist = r->dist };
    void *conf;

    PARE_TRY(pare_find_loss(classes ? "cross_entropy" : "mse", &o.loss, err));
    PARE_TRY(pare_find_optimizer("adam", &o.optimizer, err));
    conf = pare_alloc(s->a, 1, o.optimizer->conf_size + 1);
    o.loss_conf = pare_alloc(s->a, 1, o.loss->conf_size + 1);
    o.optimizer_conf = conf;
    if (!conf || !o.loss_conf)
        return pare_no_memory(err, "to reconstruct the outputs");
    PARE_TRY(pare_opts_apply(o.optimizer->opts, NULL, 0, conf, s->a, err));
    PARE_TRY(pare_opts_apply(pare_distill_soft_opts, NULL, 0, &o.soft, s->a, err));
    o.soft.beta = classes;
    PARE_TRY(add_links(s, classes, &o, err));
    PARE_TRY(pare_trainer_new(r->model, &o, &s->t, err));
    return r->keep_zeros ? pare_hold_zeros(s->t, err) : 0;
}

/* ---- the best -------------------------------------------------------------------------------- */

/* Parameter i of the model, or a running statistic: what the model computes with. */
static float *model_memory(const struct pare_trainer *t, int i, size_t *bytes)
{
    const struct pare_optim_param *p = &t->param[i];
    const struct pare_tensor *v = i < t->n_params ? &p->value : &t->state[i - t->n_params].t;

    *bytes = (size_t)pare_numel(v) * sizeof(float);
    return i < t->n_params && p->out ? p->out : v->data;
}

static int copy_all(const struct run *s, bool back, struct pare_err *err)
{
    const struct pare_hooks *h = &s->r->hooks;

    for (int i = 0; i < s->t->n_params + s->t->n_state; i++) {
        size_t bytes;
        float *m = model_memory(s->t, i, &bytes);

        memcpy(back ? m : s->best[i].data, back ? s->best[i].data : m, bytes);
    }
    return h->keep ? h->keep(h->user, back, err) : 0;
}

static int make_best(struct run *s, struct pare_err *err)
{
    const struct pare_trainer *t = s->t;
    int n = t->n_params + t->n_state;

    s->best = pare_alloc(s->a, (size_t)n + 1, sizeof(*s->best));
    if (!s->best)
        return pare_no_memory(err, "to reconstruct the outputs");
    for (int i = 0; i < n; i++) {
        const struct pare_tensor *v = i < t->n_params ? &t->param[i].value
                                                      : &t->state[i - t->n_params].t;

        PARE_TRY(pare_tensor_new(s->a, &s->best[i], PARE_F32, v->rank, v->dim, err));
    }
    return copy_all(s, false, err);
}

static int compare(struct run *s, int64_t step, struct pare_err *err)
{
    struct pare_reconstruct *r = s->r;
    struct pare_recalibrate_opts o = { .batches = r->recalibrate,
                                       .batch = STATISTICS_BATCH,
                                       .seed = r->seed,
                                       .progress = r->progress,
                                       .user = r->user };
    struct pare_output_distance d;
    int64_t done;

    PARE_TRY(pare_recalibrate(s->t, r->data, &o, &done, err));
    PARE_TRY(pare_held_out_compare(r->held, r->model, &d, err));
    if (!(pare_output_cost(&d) < BETTER * r->cost))
        return 0;
    r->cost = pare_output_cost(&d);
    r->kept_step = step;
    return copy_all(s, false, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Batches of the order of held_out.h, except for those with held-out items. */
static int open_loader(struct run *s, struct pare_err *err)
{
    const struct pare_reconstruct *r = s->r;
    struct pare_loader_opts lo = { .train = true,
                                   .same = true,
                                   .batch = r->batch > 0 ? r->batch : PARE_RECONSTRUCT_BATCH,
                                   .seed = 1,
                                   .rank = pare_dist_rank(r->dist),
                                   .ranks = pare_dist_size(r->dist) };
    int64_t n = r->data->n, last = r->held->fitted + r->held->items, size;
    const struct pare_io *io;

    lo.batch = lo.batch < r->held->fitted ? lo.batch : r->held->fitted;
    lo.n_inputs = pare_model_inputs(r->model, &io);
    if (lo.n_inputs > 0)
        lo.input = io;
    PARE_TRY(pare_loader_new(r->data, &lo, &s->l, err));
    s->start = pare_loader_tell(s->l);
    size = s->start.batch;
    s->before = (last <= n ? r->held->fitted : n) / size;
    s->before = s->before > 0 ? s->before : 1;
    s->after = (last + HELD_BATCHES + size - 1) / size;
    s->batches = s->before + (n / size > s->after ? n / size - s->after : 0);
    if (r->items > 0 && r->items / size < s->batches)
        s->batches = r->items < size ? 1 : r->items / size;
    return 0;
}

static double rate_of(const struct pare_reconstruct *r, int64_t step)
{
    int64_t rise = r->steps / WARMUP;

    if (step < rise)
        return r->rate * (double)(step + 1) / (double)(rise + 1);
    return r->rate * 0.5 *
           (1 + cos(3.14159265358979323846 * (double)(step - rise) / (double)(r->steps - rise)));
}

static int one_step(struct run *s, int64_t step, struct pare_err *err)
{
    const struct pare_tensor none = { 0 };
    int64_t at = step % s->batches;
    struct pare_loader_pos pos = s->start;
    const struct pare_batch *b;
    struct pare_score score;

    pos.epoch = step / s->batches; /* other augmentation */
    pos.at = at < s->before ? at : s->after + at - s->before;
    if (pos.at != s->next || !at)
        PARE_TRY(pare_loader_seek(s->l, &pos, err));
    s->next = pos.at + 1;
    PARE_TRY(pare_loader_next(s->l, &b, err));
    if (!b)
        return pare_fail(err, PARE_EIO, "the data ended before its last batch");
    pare_dist_batch(s->r->dist, b->own, b->whole);
    PARE_TRY(pare_trainer_gradient(s->t, b->in, &none, &score, err));
    return pare_trainer_update(s->t, rate_of(s->r, step), err);
}

static int steps(struct run *s, struct pare_err *err)
{
    struct pare_reconstruct *r = s->r;

    for (int64_t i = 0; i < r->steps; i++) {
        struct pare_progress now = { "reconstruct", i, r->steps, pare_now() - s->seconds };
        int rc;

        if (r->progress && !r->progress(r->user, &now))
            return pare_fail(err, PARE_ECANCEL, "the reconstruction was canceled");
        rc = one_step(s, i, err);
        if (rc == PARE_ELIMIT) /* the loss is not finite */
            return 0;
        if (rc)
            return rc;
        if ((i + 1) * COMPARISONS / r->steps > i * COMPARISONS / r->steps)
            PARE_TRY(compare(s, i + 1, err));
    }
    return 0;
}

static int run(struct run *s, struct pare_err *err)
{
    struct pare_output_distance d;
    struct pare_err ignored;
    int rc;

    if (s->r->model->n_in > PARE_DATA_INPUTS || s->r->model->n_out > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_EUNSUPPORTED, "the model has too many inputs or outputs");
    PARE_TRY(pare_held_out_compare(s->r->held, s->r->model, &d, err));
    s->r->cost = pare_output_cost(&d);
    PARE_TRY(open_trainer(s, !isnan(d.divergence), err));
    PARE_TRY(make_best(s, err));
    rc = open_loader(s, err);
    if (!rc)
        rc = steps(s, err);
    if (rc)
        copy_all(s, true, &ignored);
    else
        rc = copy_all(s, true, err);
    return rc;
}

int pare_reconstruct(struct pare_reconstruct *r, struct pare_err *err)
{
    struct run s = { .r = r, .a = pare_arena_new(1 << 16), .seconds = pare_now() };
    int rc;

    r->kept_step = 0;
    rc = s.a ? run(&s, err) : pare_no_memory(err, "to reconstruct the outputs");
    pare_loader_free(s.l);
    pare_trainer_free(s.t);
    pare_arena_free(s.a);
    return pare_at(err, rc, "reconstruction");
}
