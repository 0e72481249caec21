/* train.c - the training loop.
 *
 * Several processes run it in step: each has its part of every batch, all have the same weights
 * after each step, and only the first one writes files.
 *
 * A checkpoint contains everything that determines the next step: parameters, running statistics,
 * the optimizer's state, the random generator, the loader's position, counters and the best
 * parameters so far.  A run that was killed and resumed computes the same values as one that was
 * not.
 */
#include "train.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "../base/clock.h"
#include "checkpoint.h"
#include "ema.h"
#include "mixup.h"
#include "param_layout.h"

struct run {
    struct pare_trainer *t;
    const struct pare_data *valid;
    const struct pare_train_conf *c;
    struct pare_arena *arena; /* for the whole run */
    struct pare_loader *loader;
    struct pare_lr lr;
    int64_t epoch;
    int64_t waited; /* epochs since the best */
    double best;    /* value of the metric */
    double best_loss;
    int64_t best_epoch;           /* -1: none yet */
    struct pare_tensor *kept;     /* the best parameters and statistics; NULL: not kept */
    double loss_sum, seen, right; /* sums over the epoch so far */
    bool classes;                 /* items have one label each, so there is an accuracy */
    bool stopping;                /* some process has asked to stop */
    struct pare_ema *ema;         /* NULL: none */
    struct pare_mixup *mixup;     /* NULL: none */
};

/* Has the limit of updates been reached? */
static bool at_max_steps(const struct run *r)
{
    return r->c->max_steps && r->t->optim->step >= r->c->max_steps;
}

static bool stop_requested(const struct run *r)
{
    return r->c->stop && *r->c->stop;
}

/* Several processes must stop after the same step, so there it is a vote. */
static bool stopped(const struct run *r)
{
    return r->t->o.dist ? r->stopping : stop_requested(r);
}

/* ---- parameters and running statistics, under one numbering -------------------------- */

static int n_all(const struct run *r)
{
    return r->t->n_params + r->t->n_state;
}

static const char *all_name(const struct run *r, int i)
{
    return i < r->t->n_params ? r->t->param[i].name : r->t->state[i - r->t->n_params].name;
}

static const struct pare_tensor *all_value(const struct run *r, int i)
{
    return i < r->t->n_params ? &r->t->param[i].value : &r->t->state[i - r->t->n_params].t;
}

/* Save or restore the best parameters.  The model has the masked product; values and masks are
 * saved separately. */
static int copy_all(const struct run *r, bool back, struct pare_err *err)
{
    for (int i = 0; i < n_all(r); i++) {
        const struct pare_tensor *v = all_value(r, i);
        size_t bytes = (size_t)pare_numel(v) * sizeof(float);

        if (back)
            memcpy(v->data, r->kept[i].data, bytes);
        else
            memcpy(r->kept[i].data, v->data, bytes);
    }
    if (back)
        pare_trainer_refresh(r->t);
    return r->t->o.hooks.keep ? r->t->o.hooks.keep(r->t->o.hooks.user, back, err) : 0;
}

static int make_kept(struct run *r, struct pare_err *err)
{
    r->kept = pare_alloc(r->arena, (size_t)n_all(r), sizeof(*r->kept));
    if (!r->kept)
        return pare_no_memory(err, "to keep the best parameters");
    for (int i = 0; i < n_all(r); i++) {
        const struct pare_tensor *v = all_value(r, i);

        PARE_TRY(pare_tensor_new(r->arena, &r->kept[i], PARE_F32, v->rank, v->dim, err));
    }
    return copy_all(r, false, err);
}

/* ---- checkpoints ----------------------------------------------------------------------- */

static const char *precision_of(const struct run *r)
{
    return r->t->o.precision == PARE_PRECISION_BF16 ? "bf16" : "f32";
}

static int save_numbers(struct pare_checkpoint *k, const struct run *r, struct pare_err *err)
{
    struct pare_loader_pos at = pare_loader_tell(r->loader);

    PARE_TRY(pare_checkpoint_set(k, "optimizer", r->t->o.optimizer->name, err));
    PARE_TRY(pare_checkpoint_set(k, "precision", precision_of(r), err));
    PARE_TRY(pare_checkpoint_set_float(k, "ema", r->c->ema, err));
    PARE_TRY(pare_checkpoint_set_float(k, "mixup", r->c->mixup, err));
    PARE_TRY(pare_checkpoint_set_int(k, "epoch", r->epoch, err));
    PARE_TRY(pare_checkpoint_set_int(k, "step", r->t->optim->step, err));
    PARE_TRY(pare_checkpoint_set_int(k, "born", r->t->optim->born, err));
    PARE_TRY(pare_checkpoint_set_int(k, "schedule_start", r->t->schedule_start, err));
    PARE_TRY(pare_checkpoint_set_int(k, "loader_seed", (int64_t)at.seed, err));
    PARE_TRY(pare_checkpoint_set_int(k, "loader_epoch", at.epoch, err));
    PARE_TRY(pare_checkpoint_set_int(k, "loader_at", at.at, err));
    PARE_TRY(pare_checkpoint_set_int(k, "loader_n", at.n, err));
    PARE_TRY(pare_checkpoint_set_int(k, "loader_batch", at.batch, err));
    PARE_TRY(pare_checkpoint_set_int(k, "waited", r->waited, err));
    PARE_TRY(pare_checkpoint_set_int(k, "best_epoch", r->best_epoch, err));
    PARE_TRY(pare_checkpoint_set_float(k, "best", r->best, err));
    PARE_TRY(pare_checkpoint_set_float(k, "best_loss", r->best_loss, err));
    PARE_TRY(pare_checkpoint_set_float(k, "loss_sum", r->loss_sum, err));
    PARE_TRY(pare_checkpoint_set_float(k, "seen", r->seen, err));
    return pare_checkpoint_set_float(k, "right", r->right, err);
}

static int save_tensors(struct pare_checkpoint *k, struct run *r, struct pare_err *err)
{
    struct pare_named *slot;
    int n;

    for (int i = 0; i < n_all(r); i++) {
        PARE_TRY(pare_checkpoint_add(k, "weight", all_name(r, i), all_value(r, i), err));
        if (r->kept)
            PARE_TRY(pare_checkpoint_add(k, "best", all_name(r, i), &r->kept[i], err));
    }
    PARE_TRY(pare_ema_save(r->ema, k, err));
    PARE_TRY(pare_optim_state(r->t->optim, k->arena, &slot, &n, err));
    for (int i = 0; i < n; i++)
        PARE_TRY(pare_checkpoint_add(k, "optim", slot[i].name, &slot[i].t, err));
    if (r->t->o.hooks.save)
        PARE_TRY(r->t->o.hooks.save(r->t->o.hooks.user, k, err));
    return pare_checkpoint_add_rng(k, "train", &r->t->rng, err);
}

static int save(struct run *r, struct pare_err *err)
{
    struct pare_checkpoint k = { .arena = pare_arena_new(1 << 16) };
    int rc;

    if (!r->c->checkpoint || (r->c->only_stopped && !stopped(r)) || pare_dist_rank(r->t->o.dist)) {
        pare_arena_free(k.arena);
        return 0;
    }
    if (!k.arena)
        return pare_no_memory(err, "for a checkpoint");
    rc = save_numbers(&k, r, err);
    if (!rc)
        rc = save_tensors(&k, r, err);
    if (!rc)
        rc = pare_checkpoint_write(&k, r->c->checkpoint, err);
    pare_arena_free(k.arena);
    return rc;
}

static int load_numbers(const struct pare_checkpoint *k, struct run *r, struct pare_err *err)
{
    struct pare_loader_pos at;
    int64_t seed;

    PARE_TRY(pare_checkpoint_get_int(k, "epoch", &r->epoch, err));
    PARE_TRY(pare_checkpoint_get_int(k, "step", &r->t->optim->step, err));
    PARE_TRY(pare_checkpoint_get_int(k, "born", &r->t->optim->born, err));
    PARE_TRY(pare_checkpoint_get_int(k, "schedule_start", &r->t->schedule_start, err));
    PARE_TRY(pare_checkpoint_get_int(k, "loader_seed", &seed, err));
    PARE_TRY(pare_checkpoint_get_int(k, "loader_epoch", &at.epoch, err));
    PARE_TRY(pare_checkpoint_get_int(k, "loader_at", &at.at, err));
    PARE_TRY(pare_checkpoint_get_int(k, "loader_n", &at.n, err));
    PARE_TRY(pare_checkpoint_get_int(k, "loader_batch", &at.batch, err));
    PARE_TRY(pare_checkpoint_get_int(k, "waited", &r->waited, err));
    PARE_TRY(pare_checkpoint_get_int(k, "best_epoch", &r->best_epoch, err));
    PARE_TRY(pare_checkpoint_get_float(k, "best", &r->best, err));
    PARE_TRY(pare_checkpoint_get_float(k, "best_loss", &r->best_loss, err));
    PARE_TRY(pare_checkpoint_get_float(k, "loss_sum", &r->loss_sum, err));
    PARE_TRY(pare_checkpoint_get_float(k, "seen", &r->seen, err));
    PARE_TRY(pare_checkpoint_get_float(k, "right", &r->right, err));
    at.seed = (uint64_t)seed;
    return pare_loader_seek(r->loader, &at, err);
}

static int load_tensors(struct pare_checkpoint *k, struct run *r, struct pare_err *err)
{
    struct pare_named *slot;
    int n;

    for (int i = 0; i < n_all(r); i++) {
        PARE_TRY(pare_checkpoint_load(k, "weight", all_name(r, i), all_value(r, i), err));
        if (r->kept)
            PARE_TRY(pare_checkpoint_load(k, "best", all_name(r, i), &r->kept[i], err));
    }
    PARE_TRY(pare_ema_load(r->ema, k, err));
    PARE_TRY(pare_optim_state(r->t->optim, k->arena, &slot, &n, err));
    for (int i = 0; i < n; i++)
        PARE_TRY(pare_checkpoint_load(k, "optim", slot[i].name, &slot[i].t, err));
    pare_trainer_refresh(r->t); /* first: a compression may change the model's copy */
    if (r->t->o.hooks.load)
        PARE_TRY(r->t->o.hooks.load(r->t->o.hooks.user, k, err));
    return pare_checkpoint_load_rng(k, "train", &r->t->rng, err);
}

/* A setting that a resumed training must have in common with the checkpoint. */
static int check_setting(const struct pare_checkpoint *k, const char *key, const char *now,
                         struct pare_err *err)
{
    const char *of = pare_checkpoint_get(k, key);

    if (!of || !strcmp(of, now))
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "the checkpoint is of a training with %s '%.64s', this one uses '%s'; "
                     "set the same %s, or start from the beginning",
                     key, of, now, key);
}

/* The same for a number; a checkpoint of an earlier version has none, which is 0. */
static int check_number(const struct pare_checkpoint *k, const char *key, double now,
                        struct pare_err *err)
{
    double of = 0;

    if (pare_checkpoint_get(k, key))
        PARE_TRY(pare_checkpoint_get_float(k, key, &of, err));
    if (of == now)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "the checkpoint is of a training with %s %g, this one has %g; set the same, "
                     "or start from the beginning",
                     key, of, now);
}

/* The optimizer's state is of no use to another one; another precision computes other bits. */
static int check_settings(const struct pare_checkpoint *k, const struct run *r,
                          struct pare_err *err)
{
    PARE_TRY(check_setting(k, "optimizer", r->t->o.optimizer->name, err));
    PARE_TRY(check_setting(k, "precision", precision_of(r), err));
    PARE_TRY(check_number(k, "ema", r->c->ema, err));
    return check_number(k, "mixup", r->c->mixup, err);
}

static int load(struct run *r, struct pare_err *err)
{
    struct pare_checkpoint k = { .arena = pare_arena_new(1 << 16) };
    int rc;

    if (!k.arena)
        return pare_no_memory(err, "for a checkpoint");
    rc = pare_checkpoint_read(&k, r->c->checkpoint, err);
    if (!rc) /* pare_checkpoint_read() names the file itself */
        rc = pare_at(err, check_settings(&k, r, err), "%s", r->c->checkpoint);
    if (!rc)
        rc = pare_at(err, load_tensors(&k, r, err), "%s", r->c->checkpoint);
    if (!rc)
        rc = pare_at(err, load_numbers(&k, r, err), "%s", r->c->checkpoint);
    pare_arena_free(k.arena);
    return rc;
}

/* ---- an epoch ---------------------------------------------------------------------------- */

/* The schedule ends with its phase of the training, or with the training. */
static double lr_of(const struct run *r, int64_t step)
{
    int64_t phase = r->c->phase_steps, start = step < phase ? 0 : phase;
    struct pare_lr lr = r->lr;

    start = r->t->schedule_start > start ? r->t->schedule_start : start;
    lr.total_steps = (step < phase ? phase : lr.total_steps) - start;
    return pare_lr(&lr, step > start ? step - start : 0);
}

static struct pare_train_status progress(const struct run *r, double start)
{
    double seen = r->seen > 0 ? r->seen : 1;

    return (struct pare_train_status){
        .epoch = r->epoch,
        .epochs = r->c->epochs,
        .batch = pare_loader_tell(r->loader).at,
        .batches = pare_loader_batches(r->loader),
        .items = (int64_t)r->seen,
        .loss = r->loss_sum / seen,
        .top1 = r->classes ? r->right / seen : -1,
        .lr = lr_of(r, r->t->optim->step > 0 ? r->t->optim->step - 1 : 0),
        .seconds = pare_now() - start,
    };
}

static int one_step(struct run *r, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_score s = { 0 };

    pare_dist_batch(r->t->o.dist, b->own, b->whole);
    r->t->stop = stop_requested(r);
    if (r->mixup)
        PARE_TRY(pare_mixup_batch(r->mixup, b, r->t->optim->step, err));
    r->t->mixup = r->mixup;
    PARE_TRY(pare_trainer_gradient(r->t, r->mixup ? r->mixup->in : b->in, &b->y, &s, err));
    r->stopping = r->t->stop;
    PARE_TRY(pare_trainer_update(r->t, lr_of(r, r->t->optim->step), err));
    pare_ema_update(r->ema);
    r->loss_sum += s.loss * (double)s.n;
    r->seen += (double)s.n;
    r->right += (double)s.top1;
    return 0;
}

/* Run batches until the epoch ends (*ended) or a stop is requested. */
static int run_batches(struct run *r, double start, bool *ended, struct pare_err *err)
{
    const struct pare_batch *b;

    *ended = false;
    while (!stopped(r)) {
        int rc;

        if (at_max_steps(r)) {
            *ended = true;
            return 0;
        }

        PARE_TRY(pare_loader_next(r->loader, &b, err));
        if (!b) {
            *ended = true;
            return 0;
        }
        rc = one_step(r, b, err);
        if (rc)
            return pare_at(err, rc, "epoch %lld, step %lld", (long long)r->epoch + 1,
                           (long long)r->t->optim->step + 1);
        if (r->c->on_batch) {
            struct pare_train_status p = progress(r, start);

            r->c->on_batch(r->c->user, &p);
        }
        if (r->c->checkpoint_steps && r->t->optim->step % r->c->checkpoint_steps == 0) {
            pare_trainer_block_params(r->t, false);
            PARE_TRY(save(r, err));
            pare_trainer_block_params(r->t, !r->ema && pare_params_may_block(r->t));
        }
    }
    return 0;
}

/* The same with parameters in the kernels' layout meanwhile. */
static int batches(struct run *r, double start, bool *ended, struct pare_err *err)
{
    int rc;

    pare_trainer_block_params(r->t, !r->ema && pare_params_may_block(r->t));
    rc = run_batches(r, start, ended, err);
    pare_trainer_block_params(r->t, false);
    return rc;
}

/* Check that all processes have the same weights: files may differ between machines. */
static int check_same(const struct run *r, struct pare_err *err)
{
    struct pare_dist *d = r->t->o.dist;
    uint64_t *hash;
    int64_t which;

    if (!d)
        return 0;
    hash = pare_alloc(r->arena, (size_t)n_all(r), sizeof(*hash));
    if (!hash)
        return pare_no_memory(err, "to compare weights");
    for (int i = 0; i < n_all(r); i++)
        hash[i] = pare_dist_hash(all_value(r, i)->data,
                                 (size_t)pare_numel(all_value(r, i)) * sizeof(float));
    PARE_TRY(pare_dist_same(d, hash, n_all(r), &which, err));
    if (which < 0)
        return 0;
    return pare_fail(err, PARE_EIO, "'%s' differs between the %d processes",
                     all_name(r, (int)which), pare_dist_size(d));
}

static bool is_better(const struct pare_metric_value *m, double than)
{
    return m->lower_is_better ? m->value < than : m->value > than;
}

/* With averages, of the model that has these. */
static int validate_now(struct run *r, struct pare_epoch *e, struct pare_err *err)
{
    struct pare_eval_opts o = {
        .threads = r->t->o.threads,
        .batch = r->c->batch,
        .loss = r->t->o.loss,
        .loss_conf = r->t->o.loss_conf,
        .task = r->c->task,
        .metric = r->c->metric,
        .dist = r->t->o.dist,
    };
    struct pare_mark m = pare_mark(r->arena);
    struct pare_metrics all;
    struct pare_eval v;
    int rc = pare_evaluate_model(r->t->model, r->valid, &o, r->arena, &v, err);

    pare_reset(r->arena, m);
    if (rc)
        return rc;
    e->validated = true;
    e->loss = v.loss;
    all = pare_eval_metrics(&v);
    e->top1 = all.top1;
    e->top5 = all.top5;
    e->metric = pare_metrics_main(&all);
    if (r->epoch < r->c->best_from)
        return 0;
    e->best = r->best_epoch < 0 || isnan(r->best) || is_better(&e->metric, r->best) ||
              (e->metric.value == r->best && v.loss < r->best_loss);
    r->waited = e->best ? 0 : r->waited + 1;
    if (e->best) {
        r->best = e->metric.value;
        r->best_loss = v.loss;
        r->best_epoch = r->epoch;
        if (r->kept)
            PARE_TRY(copy_all(r, false, err));
    }
    return 0;
}

static int validate(struct run *r, struct pare_epoch *e, struct pare_err *err)
{
    int rc;

    pare_ema_swap(r->ema);
    rc = validate_now(r, e, err);
    pare_ema_swap(r->ema);
    return rc;
}

static int one_epoch(struct run *r, struct pare_err *err)
{
    struct pare_epoch e = { 0 };
    double start = pare_now();
    bool ended;

    if (r->t->o.hooks.at_epoch && !pare_loader_tell(r->loader).at)
        PARE_TRY(r->t->o.hooks.at_epoch(r->t->o.hooks.user, r->t, r->epoch, err));
    PARE_TRY(batches(r, start, &ended, err));
    if (!ended)
        return 0;
    PARE_TRY(check_same(r, err));
    e.train = progress(r, start);
    e.train.batch = e.train.batches;
    if (r->valid && r->valid->y.data)
        PARE_TRY(validate(r, &e, err));
    r->epoch++;
    r->loss_sum = r->seen = r->right = 0;
    if (r->c->on_epoch)
        r->c->on_epoch(r->c->user, &e);
    return save(r, err);
}

/* ---- the whole training -------------------------------------------------------------------- */

/* Only the first process checks for the file: the others may see it earlier or later. */
static int is_there(const struct run *r, const char *path, bool *yes, struct pare_err *err)
{
    uint8_t there = !access(path, F_OK);

    PARE_TRY(pare_dist_broadcast(r->t->o.dist, &there, 1, err));
    *yes = there;
    return 0;
}

static int prepare(struct run *r, struct pare_err *err)
{
    bool there = false;

    int64_t steps = pare_loader_batches(r->loader);

    r->lr = (struct pare_lr){
        .type = r->c->schedule,
        .conf = r->c->schedule_conf,
        .base = r->c->lr,
        .epoch_steps = steps > 0 ? steps : 1,
        .total_steps = r->c->max_steps ? r->c->max_steps : steps * r->c->epochs,
        .warmup = r->c->warmup,
        .warmup_factor = r->c->warmup_factor,
    };
    r->best = 0;
    r->best_epoch = -1;
    if (r->c->keep_best && r->valid && r->valid->y.data)
        PARE_TRY(make_kept(r, err));
    if (r->c->ema > 0)
        PARE_TRY(pare_ema_new(r->t, r->c->ema, r->arena, &r->ema, err));
    if (r->c->resume && r->c->checkpoint)
        PARE_TRY(is_there(r, r->c->checkpoint, &there, err));
    if (there)
        PARE_TRY(load(r, err));
    return check_same(r, err);
}

static int loop(struct run *r, struct pare_err *err)
{
    PARE_TRY(prepare(r, err));
    while (r->epoch < r->c->epochs && !stopped(r) && !at_max_steps(r)) {
        if (r->c->patience && r->waited >= r->c->patience)
            break;
        PARE_TRY(one_epoch(r, err));
    }
    if (stopped(r) && r->epoch < r->c->epochs)
        return save(r, err);
    if (r->kept && r->best_epoch >= 0)
        PARE_TRY(copy_all(r, true, err));
    else
        pare_ema_swap(r->ema);
    /* Hooks that act at the end of an epoch, for example pruners, also see the end of the last one;
     * what they change is not undone. */
    if (r->epoch >= r->c->epochs && r->t->o.hooks.at_epoch)
        PARE_TRY(r->t->o.hooks.at_epoch(r->t->o.hooks.user, r->t, r->epoch, err));
    return 0;
}

int pare_train(struct pare_trainer *t, const struct pare_data *train, const struct pare_data *valid,
               const struct pare_train_conf *c, struct pare_train_result *result,
               struct pare_err *err)
{
    struct run r = { .t = t,
                     .valid = valid,
                     .c = c,
                     .arena = pare_arena_new(1 << 16),
                     .classes = train->classes > 0 && train->y.rank == 1 &&
                                t->o.loss->labels == PARE_LABELS_CLASS };
    struct pare_loader_opts lo = { .train = true,
                                   .batch = c->batch,
                                   .seed = c->seed,
                                   .rank = pare_dist_rank(t->o.dist),
                                   .ranks = pare_dist_size(t->o.dist),
                                   .float_y = t->o.loss->labels != PARE_LABELS_CLASS };
    const struct pare_io *io;
    int rc;

    *result = (struct pare_train_result){ .best = NAN, .best_epoch = -1 };
    if (!r.arena)
        return pare_no_memory(err, "for training");
    lo.n_inputs = pare_model_inputs(t->model, &io);
    if (lo.n_inputs > 0)
        lo.input = io;
    if (lo.n_inputs > 0 && pare_data_is_whole(train, io, lo.n_inputs))
        rc = pare_fail(err, PARE_EUNSUPPORTED,
                       "the model's input '%s' has no axis for a batch: export the model with one "
                       "to train it",
                       io->name);
    else
        rc = train->y.data || t->o.teacher
                 ? pare_loader_new(train, &lo, &r.loader, err)
                 : pare_fail(
                       err, PARE_ECONFIG,
                       "'%s' has no labels to train with; give a teacher to train without them",
                       train->name);
    if (!rc && c->mixup > 0)
        rc = pare_mixup_new(c->mixup, c->seed, &r.mixup, err);
    if (!rc)
        rc = loop(&r, err);
    t->mixup = NULL;
    pare_mixup_free(r.mixup);
    *result = (struct pare_train_result){ .epochs = r.epoch,
                                          .steps = t->optim->step,
                                          .best = r.best_epoch < 0 ? NAN : r.best,
                                          .best_epoch = r.best_epoch,
                                          .stopped = stopped(&r) && r.epoch < c->epochs,
                                          .n_params = t->n_params };
    for (int i = t->n_params; i-- > 0;)
        if (t->optim->o.param[i].idle) {
            result->n_idle++;
            result->idle = t->name[i];
        }
    pare_loader_free(r.loader);
    pare_arena_free(r.arena);
    return rc;
}
