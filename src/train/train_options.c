/* train_options.c - training options: from "name=value" settings to the structs that start a
 * training. */
#include "train_options.h"

#include <string.h>

#include "../base/arena.h"
#include "../data/source.h"

#define AT(field) offsetof(struct pare_train_options_conf, field)
#define DEFAULT_LOSS "cross_entropy"

static const struct pare_opt train_opts[] = {
    PARE_INT(
        "epochs", AT(epochs),
        "number of passes over the data (default: 10 in train; otherwise what the algorithm needs)",
        10, 0, 1e9),
    PARE_FLOAT(
        "lr", AT(lr),
        "learning rate (default: 0.003 for adam and adamw, 0.0005 with attention and in quantize; "
        "0.001 for rmsprop, 0.01 for sgd)",
        0, 0, 1e9),
    PARE_TEXT("optimizer", AT(optimizer), "NAME", "optimizer", "adam"),
    PARE_TEXT("schedule", AT(schedule), "NAME", "learning-rate schedule (default: cosine)", NULL),
    PARE_TEXT("loss", AT(loss), "NAME", "loss function to minimize; auto: that of the task",
              "auto"),
    PARE_TEXT("task", AT(task), "NAME",
              "classification, multi-label, regression, segmentation, embedding; auto: derived "
              "from labels, outputs and loss",
              "auto"),
    PARE_TEXT("metric", AT(metric), "NAME",
              "metric that selects the best epoch; auto: that of the task", "auto"),
    PARE_INT(
        "warmup", AT(warmup),
        "steps of linear learning-rate warm-up (default: with cosine 20, at most a tenth of the "
        "training; with other schedules 0)",
        -1, 0, 1e12),
    PARE_FLOAT("warmup_factor", AT(warmup_factor),
               "fraction of the learning rate at which the warm-up starts", 0, 0, 1),
    PARE_TEXT("teacher", AT(teacher), "MODEL",
              "model to distill from; self: the model itself, before it is changed", NULL),
    PARE_TEXTS("distill_layers", AT(distill_layers), "NAMES",
               "layers that follow the teacher's: NAME, or STUDENT=TEACHER"),
    PARE_TEXTS("freeze", AT(freeze), "NAME",
               "weights not to train: names, or prefixes followed by *"),
    PARE_FLOAT("clip_norm", AT(clip_norm), "limit of the gradients' norm (0 = off)", 0, 0,
               PARE_NO_MAX),
    PARE_FLOAT("clip_value", AT(clip_value), "limit of each gradient's magnitude (0 = off)", 0, 0,
               PARE_NO_MAX),
    PARE_INT("patience", AT(patience),
             "stop after N epochs without a better validation result (0 = never)", 0, 0, 1e9),
    PARE_FLAG("last", AT(last),
              "end with the weights of the last epoch (default: those that validated best)", 0),
    PARE_FLOAT(
        "max_drop", AT(max_drop),
        "fail if the accuracy drops by more than X percentage points (default: warn above 5)", -1,
        0, 100),
    PARE_TEXT("checkpoint", AT(checkpoint), "FILE",
              "write a checkpoint to this .safetensors file after each epoch", NULL),
    PARE_INT("checkpoint_steps", AT(checkpoint_steps),
             "also write it every N steps (0 = only after epochs)", 0, 0, 1e12),
    PARE_FLAG("resume", AT(resume), "resume from the checkpoint if it exists", 0),
    PARE_FLAG("sync_bn", AT(sync_bn),
              "with several processes, compute BatchNormalization over the whole batch", 0),
    PARE_INT("recalibrate", AT(recalibrate),
             "batches to re-estimate the statistics of batch normalizations with, for train "
             "--bn-only and for prune without fine-tuning (0 = off)",
             100, 0, 1e9),
    PARE_FLOAT("ema", AT(ema),
               "validate and keep an exponential moving average of the weights with this decay, "
               "0.999 for example (0 = off)",
               0, 0, 0.999999),
    PARE_FLOAT("mixup", AT(mixup),
               "mix pairs of items and their labels, by shares from Beta(X, X) (0 = off)", 0, 0,
               100),
    PARE_INT("seed", AT(seed), "seed of shuffling, augmentation and Dropout", 0, 0, 9e15),
    PARE_INT("threads", AT(threads), "threads to use (0 = all cores)", 0, 0, 1024),
    PARE_CHOICE(
        "precision", AT(precision),
        "operands of products and convolutions, forward and backward: float32, or bfloat16, "
        "faster with AVX512_BF16; parameters and sums are float32",
        "f32", "f32|bf16"),
    PARE_OPT_END
};

static const struct pare_opt eval_opts[] = {
    PARE_TEXT("loss", AT(loss), "NAME", "loss function to evaluate; auto: that of the task",
              "auto"),
    PARE_TEXT("task", AT(task), "NAME",
              "classification, multi-label, regression, segmentation, embedding; auto: derived "
              "from labels, outputs and loss",
              "auto"),
    PARE_TEXT("metric", AT(metric), "NAME", "metric to name first; auto: that of the task", "auto"),
    PARE_INT("threads", AT(threads), "threads to use (0 = all cores)", 0, 0, 1024), PARE_OPT_END
};

/* Task, metric and loss, which recipes share between their steps. */
const struct pare_opt pare_goal_options[] = {
    PARE_TEXT("loss", AT(loss), "NAME", "loss function; auto: that of the task", "auto"),
    PARE_TEXT("task", AT(task), "NAME",
              "classification, multi-label, regression, segmentation, embedding; auto: derived "
              "from labels, outputs and loss",
              "auto"),
    PARE_TEXT("metric", AT(metric), "NAME", "metric to name first; auto: that of the task", "auto"),
    PARE_OPT_END
};

/* ---- option groups ------------------------------------------------------------------------- */

struct list {
    struct pare_arena *arena;
    struct pare_option_group *part;
    int n, cap;
};

static int add(struct list *l, struct pare_option_group p, struct pare_err *err)
{
    struct pare_option_group *list = pare_grow(l->arena, l->part, l->n, &l->cap, sizeof(*list));

    if (!list)
        return pare_no_memory(err, "for the options");
    l->part = list;
    list[l->n++] = p;
    return 0;
}

static int add_losses(struct list *l, struct pare_err *err)
{
    for (int i = 0; pare_losses[i]; i++)
        PARE_TRY(add(l,
                     (struct pare_option_group){ "loss", pare_losses[i]->name, pare_losses[i]->opts,
                                                 NULL },
                     err));
    return 0;
}

int pare_train_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                             struct pare_err *err)
{
    struct list l = { .arena = a };

    PARE_TRY(add(&l, (struct pare_option_group){ "training", NULL, train_opts, NULL }, err));
    for (int i = 0; pare_optimizers[i]; i++)
        PARE_TRY(add(&l,
                     (struct pare_option_group){ "optimizer", pare_optimizers[i]->name,
                                                 pare_optimizers[i]->opts, NULL },
                     err));
    for (int i = 0; pare_schedules[i]; i++)
        PARE_TRY(add(&l,
                     (struct pare_option_group){ "schedule", pare_schedules[i]->name,
                                                 pare_schedules[i]->opts, NULL },
                     err));
    PARE_TRY(add_losses(&l, err));
    PARE_TRY(
        add(&l, (struct pare_option_group){ "teacher", NULL, pare_distill_soft_opts, NULL }, err));
    PARE_TRY(add(&l, (struct pare_option_group){ "distill", "layers", pare_distill_how_opts, NULL },
                 err));
    PARE_TRY(add(&l, (struct pare_option_group){ "data", NULL, pare_data_options, NULL }, err));
    *part = l.part;
    *n = l.n;
    return 0;
}

int pare_eval_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                            struct pare_err *err)
{
    struct list l = { .arena = a };

    PARE_TRY(add(&l, (struct pare_option_group){ "evaluation", NULL, eval_opts, NULL }, err));
    PARE_TRY(add_losses(&l, err));
    PARE_TRY(add(&l, (struct pare_option_group){ "data", NULL, pare_data_options, NULL }, err));
    *part = l.part;
    *n = l.n;
    return 0;
}

/* ---- choosing and filling -------------------------------------------------------------------- */

struct setup {
    struct pare_train_options *s;
    struct pare_option_group *part;
    int n_parts;
    struct pare_arena *arena;
    struct pare_distill_how how;
    bool teacher; /* there is one, whatever the option says */
};

/* Select an option group; its options go to *into, or to new memory. */
static int choose(struct setup *u, const char *kind, const char *name, size_t size, void **into,
                  struct pare_err *err)
{
    if (!*into)
        *into = pare_alloc(u->arena, 1, size + 1);
    if (!*into)
        return pare_no_memory(err, "for the options");
    for (int i = 0; i < u->n_parts; i++)
        if (!strcmp(u->part[i].kind, kind) && (!name || !strcmp(u->part[i].name, name)))
            u->part[i].into = *into;
    return 0;
}

/* Without --loss it is cross-entropy, until the data's labels are known. */
static int choose_loss(struct setup *u, const struct pare_given *g, int n, struct pare_err *err)
{
    struct pare_train_options *s = u->s;
    struct pare_trainer_opts *t = &s->trainer;
    bool any = !strcmp(s->c.loss, "auto");
    void *conf = NULL, *data = &u->s->data;

    PARE_TRY(pare_find_loss(any ? DEFAULT_LOSS : s->c.loss, &t->loss, err));
    PARE_TRY(choose(u, "loss", t->loss->name, t->loss->conf_size, &conf, err));
    t->loss_conf = conf;
    s->arena = u->arena;
    s->goal = (struct pare_goal_opts){ strcmp(s->c.task, "auto") ? s->c.task : NULL,
                                       strcmp(s->c.metric, "auto") ? s->c.metric : NULL,
                                       any ? NULL : t->loss };
    for (int i = 0; i < n && any; i++)
        for (int k = 0; k < u->n_parts; k++)
            if (u->part[k].into == conf && pare_option_group_find(&u->part[k], g[i].name))
                s->loss_option = g[i].name;
    t->threads = (int)u->s->c.threads;
    return choose(u, "data", NULL, 0, &data, err);
}

static int choose_training(struct setup *u, struct pare_err *err)
{
    struct pare_train_options *s = u->s;
    void *optim = NULL, *schedule = NULL, *soft = &s->trainer.soft, *how = &u->how;

    PARE_TRY(pare_find_optimizer(s->c.optimizer, &s->trainer.optimizer, err));
    PARE_TRY(pare_find_schedule(s->c.schedule ? s->c.schedule : "cosine", &s->train.schedule, err));
    PARE_TRY(choose(u, "optimizer", s->trainer.optimizer->name, s->trainer.optimizer->conf_size,
                    &optim, err));
    PARE_TRY(choose(u, "schedule", s->train.schedule->name, s->train.schedule->conf_size, &schedule,
                    err));
    if (s->c.teacher || u->teacher)
        PARE_TRY(choose(u, "teacher", NULL, 0, &soft, err));
    if (s->c.distill_layers.n && !s->c.teacher && !u->teacher)
        return pare_fail(err, PARE_ECONFIG,
                         "distill-layers needs a teacher: set the model to distill from");
    if (s->c.distill_layers.n)
        PARE_TRY(choose(u, "distill", NULL, 0, &how, err));
    s->trainer.optimizer_conf = optim;
    s->train.schedule_conf = schedule;
    return 0;
}

static void copy_conf(struct pare_train_options *s)
{
    const struct pare_train_options_conf *c = &s->c;

    s->trainer.seed = (uint64_t)c->seed;
    s->trainer.clip_norm = c->clip_norm;
    s->trainer.clip_value = c->clip_value;
    s->trainer.sync_bn = c->sync_bn;
    if (c->precision && !strcmp(c->precision, "bf16"))
        s->trainer.precision = PARE_PRECISION_BF16;
    s->trainer.freeze = c->freeze.v;
    s->trainer.n_freeze = c->freeze.n;
    s->train.epochs = c->epochs;
    s->train.lr = c->lr > 0 ? c->lr : s->trainer.optimizer->lr;
    s->train.warmup = c->warmup;
    s->train.warmup_factor = c->warmup_factor;
    s->train.patience = c->patience;
    s->train.keep_best = !c->last;
    s->train.checkpoint = c->checkpoint;
    s->train.checkpoint_steps = c->checkpoint_steps;
    s->train.resume = c->resume;
    s->train.seed = (uint64_t)c->seed;
    s->train.ema = c->ema;
    s->train.mixup = c->mixup;
}

static int make_links(struct setup *u, struct pare_err *err)
{
    struct pare_trainer_opts *t = &u->s->trainer;
    struct pare_distill_link *link = NULL;

    PARE_TRY(pare_distill_links(u->s->c.distill_layers, &u->how, u->arena, &link, err));
    t->link = link;
    t->n_links = u->s->c.distill_layers.n;
    return 0;
}

/* Fill the first group first: it names the loss, optimizer and schedule. */
static int make(struct setup *u, bool training, const struct pare_given *g, int n,
                struct pare_err *err)
{
    u->part[0].into = &u->s->c;
    PARE_TRY(pare_option_group_fill(&u->part[0], g, n, u->arena, err));
    PARE_TRY(choose_loss(u, g, n, err));
    if (training)
        PARE_TRY(choose_training(u, err));
    PARE_TRY(pare_option_groups_check(u->part, u->n_parts, g, n, err));
    for (int i = 1; i < u->n_parts; i++)
        if (u->part[i].into)
            PARE_TRY(pare_option_group_fill(&u->part[i], g, n, u->arena, err));
    if (training)
        copy_conf(u->s);
    return training ? make_links(u, err) : 0;
}

int pare_train_options_make(const struct pare_given *g, int n, bool teacher, struct pare_arena *a,
                            struct pare_train_options **s, struct pare_err *err)
{
    struct setup u = { .arena = a, .s = pare_alloc(a, 1, sizeof(*u.s)), .teacher = teacher };

    *s = u.s;
    if (!u.s)
        return pare_no_memory(err, "for the options");
    PARE_TRY(pare_train_option_groups(a, &u.part, &u.n_parts, err));
    return make(&u, true, g, n, err);
}

int pare_train_options_eval(const struct pare_given *g, int n, struct pare_arena *a,
                            struct pare_train_options **s, struct pare_err *err)
{
    struct setup u = { .arena = a, .s = pare_alloc(a, 1, sizeof(*u.s)) };

    *s = u.s;
    if (!u.s)
        return pare_no_memory(err, "for the options");
    PARE_TRY(pare_eval_option_groups(a, &u.part, &u.n_parts, err));
    return make(&u, false, g, n, err);
}

int pare_data_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                            struct pare_err *err)
{
    struct list l = { .arena = a };

    PARE_TRY(add(&l, (struct pare_option_group){ "data", NULL, pare_data_options, NULL }, err));
    *part = l.part;
    *n = l.n;
    return 0;
}

int pare_recipe_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                              struct pare_err *err)
{
    struct list l = { .arena = a };

    PARE_TRY(add(&l, (struct pare_option_group){ "task", NULL, pare_goal_options, NULL }, err));
    PARE_TRY(add(&l, (struct pare_option_group){ "data", NULL, pare_data_options, NULL }, err));
    *part = l.part;
    *n = l.n;
    return 0;
}

/* ---- the learning rate --------------------------------------------------------------------- */

/* Does a node multiply two values that both depend on the inputs? */
static bool has_attention(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        if (n->op && n->op->flags & PARE_OP_PRODUCT && n->n_in >= 2 &&
            !(n->in[0]->flags & PARE_V_CONST) && !(n->in[1]->flags & PARE_V_CONST))
            return true;
    }
    return false;
}

void pare_train_options_rate(struct pare_train_options *s, const struct pare_model *m,
                             bool quantized)
{
    if (!(s->c.lr > 0) && (quantized || has_attention(m->graph)))
        s->train.lr = s->trainer.optimizer->low_lr;
}

/* ---- data sets ---------------------------------------------------------------------------- */

/* Do the items fit the model's inputs? */
static int items_fit(const struct pare_model *m, const struct pare_data *data, struct pare_err *err)
{
    const struct pare_io *in, *out;
    int n_in = pare_model_inputs(m, &in), outputs = pare_model_outputs(m, &out);

    if (n_in != 1 && !data->n_inputs)
        return pare_fail(
            err, PARE_EUNSUPPORTED,
            "has %d inputs, a data set provides one; use a .npz file with an array for "
            "each input, named as the input",
            n_in);
    if (!outputs)
        return pare_fail(err, PARE_EUNSUPPORTED, "has no output");
    for (int i = 0; i < n_in && data->n_inputs; i++) {
        struct pare_tensor shape;
        int k = pare_input_find(data, in, n_in, i, err);

        if (k < 0)
            return err->code;
        PARE_TRY(pare_input_shape(data, k, in, i, &shape, err));
    }
    return pare_data_check(data, &in[0], err);
}

/* Without an axis for a batch there is none for labels. */
static bool is_whole(const struct pare_model *m, const struct pare_data *data, struct pare_err *err)
{
    const struct pare_io *in;
    int n = pare_model_inputs(m, &in);

    if (!n || !pare_data_is_whole(data, in, n))
        return false;
    pare_fail(err, PARE_EUNSUPPORTED,
              "the model's input '%s' has no axis for a batch, so outputs are not compared with "
              "labels, only with another model's (--against)",
              in->name);
    return true;
}

int pare_model_fits(const struct pare_model *m, const struct pare_data *data,
                    const struct pare_goal_opts *o, struct pare_err *err)
{
    struct pare_task_goal g;

    PARE_TRY(items_fit(m, data, err));
    if (data->y.data && is_whole(m, data, err))
        return err->code;
    return data->y.data ? pare_goal_find(m, data, o, &g, err) : 0;
}

int pare_model_fits_items(const struct pare_model *m, struct pare_data *data,
                          const struct pare_goal_opts *o, struct pare_err *err)
{
    struct pare_err why;
    struct pare_task_goal g;

    PARE_TRY(items_fit(m, data, err));
    if (data->y.data && is_whole(m, data, &why))
        return pare_data_drop_labels(data, why.msg, err);
    if (!data->y.data || !pare_goal_find(m, data, o, &g, &why))
        return 0;
    if (why.code == PARE_ECONFIG) { /* a task or metric that does not exist */
        *err = why;
        return err->code;
    }
    return pare_data_drop_labels(data, why.msg, err);
}

/* The task's loss in place of the default one, with its default options. */
static int take_loss(struct pare_train_options *s, struct pare_err *err)
{
    const struct pare_loss *loss = s->found.loss;
    struct pare_option_group group = { "loss", loss->name, loss->opts, NULL };

    if (loss == s->trainer.loss)
        return 0;
    if (s->loss_option)
        return pare_fail(err, PARE_ECONFIG,
                         "option '%s' belongs to %s, but %s uses %s; name the loss with --loss",
                         s->loss_option, s->trainer.loss->name, s->found.task->name, loss->name);
    group.into = pare_alloc(s->arena, 1, loss->conf_size + 1);
    if (!group.into)
        return pare_no_memory(err, "for the options");
    if (loss->opts)
        PARE_TRY(pare_option_group_fill(&group, NULL, 0, s->arena, err));
    s->trainer.loss = loss;
    s->trainer.loss_conf = group.into;
    return 0;
}

int pare_train_options_goal(struct pare_train_options *s, const struct pare_model *m,
                            const struct pare_data *data, struct pare_err *err)
{
    PARE_TRY(items_fit(m, data, err));
    if (!data->y.data)
        return 0;
    if (is_whole(m, data, err))
        return err->code;
    PARE_TRY(pare_goal_find(m, data, &s->goal, &s->found, err));
    if (s->found.loss)
        PARE_TRY(take_loss(s, err));
    s->goal.task = s->train.task = s->found.task->name;
    s->goal.loss = s->trainer.loss;
    s->train.metric = s->goal.metric;
    return 0;
}

static int check_set(struct pare_train_options *s, const struct pare_model *m,
                     struct pare_data *data, struct pare_err *err)
{
    if (s->no_labels)
        PARE_TRY(pare_at(err, pare_model_fits_items(m, data, &s->goal, err), "%s", m->path));
    return pare_at(err, pare_train_options_goal(s, m, data, err), "%s", m->path);
}

int pare_train_options_data(struct pare_train_options *s, const struct pare_model *m,
                            const char *spec, const char *valid, struct pare_data *data[2],
                            struct pare_err *err)
{
    struct pare_data_request r = { .spec = spec, .split = "train" };

    data[0] = data[1] = NULL;
    r.n_io = pare_model_inputs(m, &r.io);
    PARE_TRY(pare_data_open_for(&r, &s->data, &data[0], err));
    PARE_TRY(check_set(s, m, data[0], err));
    if (valid && !strcmp(valid, "none"))
        return 0;
    r.split = !valid && s->data.holdout > 0 ? "val" : "test";
    r.spec = valid ? valid : spec;
    if (valid || s->data.holdout > 0 || !data[0]->parts->whole)
        PARE_TRY(pare_data_open_for(&r, &s->data, &data[1], err));
    return data[1] ? check_set(s, m, data[1], err) : 0;
}
