/* trainer.c - train a model step by step: forward, loss, backward, update, hooks. */
#include "trainer.h"
#include "mixup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "param_layout.h"
#include "metric/metric.h"
#include "../base/arena.h"
#include "../tensor/tensor.h"

/* ---- parameters -------------------------------------------------------------------- */

static bool is_frozen(const struct pare_trainer_opts *o, const char *name)
{
    for (int i = 0; i < o->n_freeze; i++) {
        const char *f = o->freeze[i];
        size_t n = strlen(f);

        if (n && f[n - 1] == '*' ? !strncmp(f, name, n - 1) : !strcmp(f, name))
            return true;
    }
    return false;
}

/* A float32 initializer that is not a scalar. */
static bool is_candidate(const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 && v->t.rank >= 1;
}

static int add_param(struct pare_trainer *t, struct pare_value *v, struct pare_err *err)
{
    struct pare_optim_param *p = &t->param[t->n_params];

    PARE_TRY(pare_model_own(t->model, v, err));
    *p = (struct pare_optim_param){ .name = v->name, .value = v->t };
    t->name[t->n_params++] = v->name;
    return 0;
}

static int add_state(struct pare_trainer *t, struct pare_value *v, struct pare_err *err)
{
    for (int i = 0; i < t->n_state; i++)
        if (t->state[i].name == v->name)
            return 0;
    PARE_TRY(pare_model_own(t->model, v, err));
    t->state[t->n_state++] = (struct pare_named){ v->name, v->t };
    return 0;
}

/* Collect what the nodes of g, the main graph or a body, read of the main graph: each parameter
 * once, and running statistics. */
static int collect_from(struct pare_trainer *t, const struct pare_graph *g, bool *seen,
                        struct pare_err *err)
{
    const struct pare_graph *main = t->model->graph, *body;

    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in && n->op; k++) {
            struct pare_value *v = n->in[k];

            if (!is_candidate(v) || v->id >= main->n_values || main->value[v->id] != v)
                continue;
            if (n->op->settings >> k & 1) {
                if (n->op->statistics >> k & 1)
                    PARE_TRY(add_state(t, v, err));
            } else if (n->op->backward && !seen[v->id] && !is_frozen(&t->o, v->name)) {
                seen[v->id] = true;
                PARE_TRY(add_param(t, v, err));
            }
        }
        for (int b = 0; (body = pare_node_body(n, b, NULL)) != NULL; b++)
            PARE_TRY(collect_from(t, body, seen, err));
    }
    return 0;
}

static int collect_params(struct pare_trainer *t, struct pare_err *err)
{
    bool *seen = pare_alloc(t->arena, (size_t)t->model->graph->n_values, sizeof(*seen));

    if (!seen)
        return pare_no_memory(err, "for training");
    PARE_TRY(collect_from(t, t->model->graph, seen, err));
    if (!t->n_params)
        return pare_fail(err, PARE_ECONFIG, "nothing to train: all parameters are frozen");
    return 0;
}

static int check_freeze(const struct pare_trainer *t, struct pare_err *err)
{
    for (int i = 0; i < t->o.n_freeze; i++) {
        struct pare_trainer_opts one = { .freeze = &t->o.freeze[i], .n_freeze = 1 };
        bool used = false;

        for (int k = 0; k < t->model->graph->n_values && !used; k++)
            used = is_candidate(t->model->graph->value[k]) &&
                   is_frozen(&one, t->model->graph->value[k]->name);
        if (!used)
            return pare_fail(err, PARE_ECONFIG,
                             "cannot freeze '%s': the model has no such parameter", t->o.freeze[i]);
    }
    return 0;
}

static void drop_plans(struct pare_trainer *t)
{
    for (int i = 0; i < t->n_plans; i++) {
        pare_plan_free(t->plan[i]);
        pare_plan_free(t->teacher[i]);
        t->plan[i] = t->teacher[i] = NULL;
    }
    t->n_plans = 0;
    t->out.data = NULL;
}

int pare_trainer_watch(struct pare_trainer *t, struct pare_strs names, struct pare_err *err)
{
    int n = names.n + t->layers.student.n;
    const char **all = pare_alloc(t->arena, (size_t)n, sizeof(*all));

    if (!all)
        return pare_no_memory(err, "for training");
    for (int i = 0; i < n; i++)
        all[i] = i < names.n ? names.v[i] : t->layers.student.v[i - names.n];
    t->stale = true; /* plans may be in use just now */
    t->observe = (struct pare_strs){ all, n };
    t->o.observe = (struct pare_strs){ all, names.n };
    return 0;
}

/* The values that plans must observe. */
static int observe_layers(struct pare_trainer *t, struct pare_err *err)
{
    t->layers.link = t->o.link;
    t->layers.n = t->o.n_links;
    if (t->o.teacher && t->o.n_links)
        PARE_TRY(pare_distill_layers_new(t->model, t->o.teacher, &t->layers, t->arena, err));
    return pare_trainer_watch(t, t->o.observe, err);
}

static int make_grads(struct pare_trainer *t, struct pare_err *err)
{
    struct pare_allreduce_opts o = {
        .dist = t->o.dist,
        .synced = t->o.sync_bn,
        .param = t->param,
        .grad = t->grad,
        .n_params = t->n_params,
        .state = t->state,
        .n_state = t->n_state,
    };

    PARE_TRY(pare_allreduce_init(&t->allreduce, &o, t->arena, err));
    for (int i = 0; i < t->n_params; i++)
        t->param[i].grad = t->grad[i];
    return 0;
}

static int init_trainer(struct pare_trainer *t, struct pare_err *err)
{
    size_t n = (size_t)t->model->graph->n_values;
    struct pare_optim_opts o = {
        .type = t->o.optimizer,
        .conf = t->o.optimizer_conf,
        .clip_norm = t->o.clip_norm,
        .clip_value = t->o.clip_value,
        .threads = t->o.threads,
    };

    t->param = pare_alloc(t->arena, n, sizeof(*t->param));
    t->name = pare_alloc(t->arena, n, sizeof(*t->name));
    t->grad = pare_alloc(t->arena, n, sizeof(*t->grad));
    t->state = pare_alloc(t->arena, n, sizeof(*t->state));
    t->blocked.param = pare_alloc(t->arena, n, sizeof(*t->blocked.param));
    t->blocked.ask = pare_alloc(t->arena, n, sizeof(*t->blocked.ask));
    if (!t->param || !t->name || !t->grad || !t->state || !t->blocked.param || !t->blocked.ask)
        return pare_no_memory(err, "for training");
    pare_rng_init(&t->rng, t->o.seed);
    PARE_TRY(observe_layers(t, err));
    PARE_TRY(check_freeze(t, err));
    PARE_TRY(collect_params(t, err));
    PARE_TRY(make_grads(t, err));
    o.param = t->param;
    o.n_params = t->n_params;
    return pare_optim_new(t->arena, &o, &t->optim, err);
}

int pare_trainer_new(struct pare_model *model, const struct pare_trainer_opts *o,
                     struct pare_trainer **trainer, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_trainer *t = a ? pare_alloc(a, 1, sizeof(*t)) : NULL;
    int rc;

    *trainer = NULL;
    if (!t) {
        pare_arena_free(a);
        return pare_no_memory(err, "for training");
    }
    t->arena = a;
    t->model = model;
    t->o = *o;
    rc = init_trainer(t, err);
    if (rc)
        pare_trainer_free(t);
    else
        *trainer = t;
    return rc;
}

void pare_trainer_free(struct pare_trainer *t)
{
    if (!t)
        return;
    pare_params_to_row_major(t);
    if (t->o.hooks.gone)
        t->o.hooks.gone(t->o.hooks.user);
    drop_plans(t);
    pare_arena_free(t->arena);
}

/* ---- one batch ---------------------------------------------------------------------- */

static int make_plans(struct pare_trainer *t, int i, const struct pare_tensor *x,
                      struct pare_err *err)
{
    struct pare_plan_train train = {
        .names = t->name,
        .n_names = t->n_params,
        .grad = t->grad,
        .blocked = t->blocked.plans ? t->blocked.ask : NULL,
        .rng = &t->rng,
        .sync = t->o.sync_bn ? t->o.dist : NULL,
        .on_back = t->o.dist ? pare_allreduce_on_back : NULL,
        .user = &t->allreduce,
    };
    struct pare_plan_opts o = { .threads = t->o.threads, .batch = x->dim[0], .in = x },
                          of_teacher = o;
    struct pare_plan_build student = { .opts = &o,
                                       .without = t->o.without,
                                       .observe = t->observe,
                                       .logits = t->o.loss->logits,
                                       .train = &train };
    struct pare_plan_build teacher = { .opts = &of_teacher,
                                       .observe = t->layers.teacher,
                                       .logits = t->o.loss->logits };

    o.reference = t->o.reference;
    o.precision = t->o.precision;
    PARE_TRY(pare_plan_build(t->model, &student, &t->plan[i], err));
    if (t->o.teacher)
        PARE_TRY(pare_plan_build(t->o.teacher, &teacher, &t->teacher[i], err));
    memcpy(t->shape[i], x, (size_t)t->model->n_in * sizeof(*x));
    return 0;
}

/* The plan for these shapes.  There are two at most: full batches and the last one. */
static int find_plan(struct pare_trainer *t, const struct pare_tensor *x, int *which,
                     struct pare_err *err)
{
    int i = 0;

    while (i < t->n_plans && !pare_shapes_equal(t->shape[i], x, t->model->n_in))
        i++;
    *which = i;
    if (i < t->n_plans)
        return 0;
    if (i == PARE_TRAINER_PLANS) {
        *which = i = PARE_TRAINER_PLANS - 1;
        pare_plan_free(t->plan[i]);
        pare_plan_free(t->teacher[i]);
        t->plan[i] = t->teacher[i] = NULL;
        t->n_plans--;
    }
    t->n_plans++; /* also on failure, so that drop_plans() frees it */
    t->shape[i][0].rank = -1;
    return make_plans(t, i, x, err);
}

/* The plan for this batch, with parameters in its layout.  If plans of two shapes need
 * different parameters in blocks, none is. */
static int choose_plan(struct pare_trainer *t, const struct pare_tensor *x, struct pare_err *err)
{
    struct pare_blocked_param *l = &t->blocked;
    size_t n = (size_t)t->n_params * sizeof(bool);
    bool lay = l->want && !l->never, first;

    if (t->stale || l->plans != lay) {
        pare_params_to_row_major(t);
        drop_plans(t);
    }
    t->stale = false;
    l->plans = lay;
    first = !t->n_plans;
    if (first)
        memset(l->param, 1, n);
    memcpy(l->ask, l->param, n);
    PARE_TRY(find_plan(t, x, &t->at, err));
    if (!lay)
        return 0;
    if (first)
        memcpy(l->param, l->ask, n);
    if (!memcmp(l->param, l->ask, n))
        return pare_params_to_blocked(t, err);
    l->never = true;
    return choose_plan(t, x, err);
}

/* Run again to find the node whose result is not finite. */
static int find_bad_node(struct pare_trainer *t, double loss, struct pare_err *err)
{
    struct pare_plan *p = t->plan[t->at];
    struct pare_tensor out[PARE_DATA_OUTPUTS];
    const char *what = isnan(loss) ? "the loss is not a number" : "the loss is infinite";
    int rc;

    p->finite = true;
    pare_dist_suspend(t->o.dist, true);
    rc = pare_plan_execute(p, t->in, out, err);
    p->finite = false;
    if (!rc)
        return pare_fail(err, PARE_ELIMIT, "%s, though the results of all nodes are finite", what);
    if (rc == PARE_ELIMIT && strlen(err->msg) < sizeof(err->msg) - 80)
        snprintf(err->msg + strlen(err->msg), sizeof(err->msg) - strlen(err->msg),
                 "; try a smaller learning rate, or clip gradients");
    return pare_at(err, rc, "%s", what);
}

int pare_trainer_param(const struct pare_trainer *t, const char *name)
{
    for (int i = 0; i < t->n_params; i++)
        if (!strcmp(t->param[i].name, name))
            return i;
    return -1;
}

int pare_trainer_mask(struct pare_trainer *t, const char *name, const uint8_t *mask,
                      struct pare_tensor *value, struct pare_err *err)
{
    int i = pare_trainer_param(t, name);
    struct pare_optim_param *p = i < 0 ? NULL : &t->param[i];

    if (!p)
        return pare_fail(err, PARE_ECONFIG, "'%s' is masked but not trained", name);
    pare_params_to_row_major(t);
    if (!p->mask) {
        struct pare_tensor own;

        PARE_TRY(pare_tensor_new(t->arena, &own, PARE_F32, p->value.rank, p->value.dim, err));
        memcpy(own.data, p->value.data, (size_t)pare_numel(&own) * sizeof(float));
        p->out = p->value.data;
        p->value = own;
    }
    p->mask = mask;
    pare_optim_mask(t->optim, i, &p->value, mask, p->out);
    *value = p->value;
    return 0;
}

void pare_trainer_block_params(struct pare_trainer *t, bool on)
{
    t->blocked.want = on;
    if (!on)
        pare_params_to_row_major(t);
}

void pare_trainer_refresh(struct pare_trainer *t)
{
    pare_optim_refresh(t->optim);
}

/* Derive the seed from the step: processes must draw different numbers, and a resumed run the same
 * as before. */
static void seed_random(struct pare_trainer *t)
{
    const uint64_t from[] = { t->o.seed, (uint64_t)t->optim->step,
                              (uint64_t)pare_dist_rank(t->o.dist) };

    pare_rng_init(&t->rng, pare_dist_hash(from, sizeof(from)));
}

int pare_trainer_forward(struct pare_trainer *t, const struct pare_tensor *x,
                         struct pare_tensor *out, struct pare_err *err)
{
    const struct pare_hooks *h = &t->o.hooks;
    struct pare_tensor all[PARE_DATA_OUTPUTS];

    t->out.data = NULL;
    if (t->model->n_in > PARE_DATA_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "cannot train a model with more than %d inputs",
                         PARE_DATA_INPUTS);
    if (x->rank < 1)
        return pare_fail(err, PARE_ESHAPE,
                         "the batch has no dimensions, expected the batch size first");
    PARE_TRY(choose_plan(t, x, err));
    if (t->o.dist)
        seed_random(t);
    if (t->plan[t->at]->graph->n_out > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_ELIMIT, "cannot train a model with more than %d outputs",
                         PARE_DATA_OUTPUTS);
    PARE_TRY(pare_plan_execute(t->plan[t->at], x, all, err));
    memcpy(t->in, x, (size_t)t->model->n_in * sizeof(*x));
    t->out = all[0];
    if (out)
        *out = all[0];
    return h->after_forward ? h->after_forward(h->user, t, err) : 0;
}

static int add_teacher(struct pare_trainer *t, double *loss, struct pare_err *err)
{
    struct pare_plan *teacher = t->teacher[t->at];
    struct pare_distill_soft conf = t->o.soft;
    struct pare_tensor soft[PARE_DATA_OUTPUTS];
    double part = pare_dist_part(t->o.dist);

    if (teacher->graph->n_out > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_ELIMIT, "cannot use a teacher with more than %d outputs",
                         PARE_DATA_OUTPUTS);
    PARE_TRY(pare_plan_execute(teacher, t->in, soft, err));
    conf.beta *= part;
    t->layers.away = 1 - part;
    PARE_TRY(
        pare_distill_soft(&conf, &t->out, &soft[0], pare_plan_out_grad(t->plan[t->at]), loss, err));
    return pare_distill_layers_add(&t->layers, t->plan[t->at], t->o.observe.n, teacher, loss, err);
}

/* Weight loss and gradient by this process's share of the batch. */
static void weight_loss(struct pare_trainer *t, struct pare_score *score)
{
    float *grad = pare_plan_out_grad(t->plan[t->at]), part = (float)pare_dist_part(t->o.dist);

    for (int64_t i = 0, n = pare_numel(&t->out); i < n; i++)
        grad[i] = part > 0 ? grad[i] * part : 0;
    score->loss = part > 0 ? score->loss * (double)part : 0;
}

/* A compression's term is for the whole batch, so only one process counts it. */
static int add_hook(struct pare_trainer *t, double *loss, struct pare_err *err)
{
    double other = 0;

    if (!t->o.hooks.loss)
        return 0;
    return t->o.hooks.loss(t->o.hooks.user, t, pare_dist_rank(t->o.dist) ? &other : loss, err);
}

/* Only the teacher's terms remain. */
static int loss_without_labels(struct pare_trainer *t, struct pare_score *score,
                               struct pare_err *err)
{
    float *grad = pare_plan_out_grad(t->plan[t->at]);

    if (!t->teacher[t->at])
        return pare_fail(err, PARE_ECONFIG, "a batch without labels needs a teacher");
    for (int64_t i = 0; i < pare_numel(&t->out) && grad; i++)
        grad[i] = 0;
    score->loss = 0;
    return 0;
}

int pare_trainer_loss(struct pare_trainer *t, const struct pare_tensor *y, struct pare_score *score,
                      struct pare_err *err)
{
    bool counts = pare_dist_part(t->o.dist) > 0;

    if (!t->out.data)
        return pare_fail(err, PARE_ECONFIG, "the loss needs a forward pass first");
    if (y->data)
        PARE_TRY(t->o.loss->run(t->o.loss_conf, &t->out, y, pare_plan_out_grad(t->plan[t->at]),
                                &score->loss, err));
    else
        PARE_TRY(loss_without_labels(t, score, err));
    if (t->mixup)
        PARE_TRY(
            pare_mixup_loss(t->mixup, t, pare_plan_out_grad(t->plan[t->at]), &score->loss, err));
    if (t->o.dist)
        weight_loss(t, score);
    if (t->teacher[t->at])
        PARE_TRY(add_teacher(t, &score->loss, err));
    PARE_TRY(add_hook(t, &score->loss, err));
    score->n = counts ? t->in[0].dim[0] : 0;
    score->top1 = score->top5 = 0;
    if (counts && y->data)
        pare_score_add(score, &t->out, y);
    if (!isfinite(score->loss))
        return find_bad_node(t, score->loss, err);
    return t->o.dist ? pare_allreduce_begin(&t->allreduce, t->plan[t->at], score, t->stop, err) : 0;
}

int pare_trainer_backward(struct pare_trainer *t, struct pare_err *err)
{
    if (t->orphan)
        return pare_fail(err, PARE_ECONFIG,
                         "the compression that this training followed was freed, and its masks "
                         "with it: make another training");
    if (!t->out.data)
        return pare_fail(err, PARE_ECONFIG, "the backward pass needs a forward pass first");
    t->out.data = NULL;
    PARE_TRY(pare_plan_backward(t->plan[t->at], err));
    for (int i = 0; i < t->n_params; i++)
        pare_optim_idle(t->optim, i, !t->plan[t->at]->param[i].reached);
    if (t->o.dist)
        PARE_TRY(pare_allreduce_end(&t->allreduce, &t->whole, &t->stop, err));
    return t->o.hooks.after_backward ? t->o.hooks.after_backward(t->o.hooks.user, t, err) : 0;
}

int pare_trainer_gradient(struct pare_trainer *t, const struct pare_tensor *x,
                          const struct pare_tensor *y, struct pare_score *score,
                          struct pare_err *err)
{
    PARE_TRY(pare_trainer_forward(t, x, NULL, err));
    PARE_TRY(pare_trainer_loss(t, y, score, err));
    PARE_TRY(pare_trainer_backward(t, err));
    if (t->o.dist)
        *score = t->whole;
    return 0;
}

int pare_trainer_update(struct pare_trainer *t, double lr, struct pare_err *err)
{
    t->lr = lr;
    PARE_TRY(pare_optim_step(t->optim, lr, err));
    return pare_trainer_step(t, err);
}

int pare_trainer_step(struct pare_trainer *t, struct pare_err *err)
{
    const struct pare_hooks *h = &t->o.hooks;

    return h->after_step ? h->after_step(h->user, t, t->optim->step, err) : 0;
}

void pare_score_add(struct pare_score *s, const struct pare_tensor *out,
                    const struct pare_tensor *y)
{
    int64_t C = out->rank == 2 ? out->dim[1] : 0;

    if (!C || y->dtype != PARE_I64 || y->rank != 1)
        return;
    for (int64_t i = 0; i < out->dim[0]; i++) {
        int64_t label = pare_i64(y)[i], before;

        if (label < 0 || label >= C)
            continue;
        before = pare_metric_rank(out, i, label);
        s->top1 += before == 0;
        s->top5 += before < 5;
    }
}
