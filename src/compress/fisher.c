/* fisher.c - Fisher information of layer outputs from one backward pass per batch. */
#include "fisher.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/rng.h"
#include "../graph/passing_node.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "../train/train_options.h"
#include "grams.h"

#define BATCH 32

/* What a node after a layer adds to. */
struct sink {
    struct pare_fisher *f;
    const double *scale; /* of gradients, of the current batch */
};

struct run {
    const struct pare_fisher_source *s;
    struct pare_arena *a;
    struct pare_fisher *f;
    int n;
    struct pare_trainer *t;
    double scale;
    float **saved; /* running statistics, which a forward pass changes */
};

/* ---- the loss -------------------------------------------------------------------------------- */

/* d L / d out of an item with a label drawn from softmax(out): p - (1 at the label). */
static void draw_class(const float *out, int64_t n, struct pare_rng *rng, float *grad)
{
    double most = -INFINITY, sum = 0, u = pare_rng_uniform(rng);
    int64_t label = -1;

    for (int64_t i = 0; i < n; i++)
        most = (double)out[i] > most ? (double)out[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)out[i] - most);
    for (int64_t i = 0; i < n; i++)
        grad[i] = (float)(exp((double)out[i] - most) / sum);
    while (u >= 0 && label < n - 1)
        u -= (double)grad[++label];
    grad[label] -= 1;
}

/* Without labels: of each item by itself, so that it does not depend on its batch. */
static void draw_loss(const struct run *r, const struct pare_batch *b)
{
    const struct pare_tensor *out = &r->t->out;
    float *grad = pare_plan_out_grad(r->t->plan[r->t->at]);
    int64_t rows = out->rank ? out->dim[0] : 1, n = rows ? pare_numel(out) / rows : 0;

    for (int64_t i = 0; i < rows; i++) {
        struct pare_rng rng;

        pare_rng_init(&rng, (uint64_t)(i < pare_batch_items(b) ? b->index[i] : i) + 1);
        if (out->rank == 2 && n > 1 && !r->s->outputs)
            draw_class(pare_f32(out) + i * n, n, &rng, grad + i * n);
        else
            for (int64_t k = 0; k < n; k++)
                grad[i * n + k] = (float)pare_rng_normal(&rng);
    }
}

/* Gradients of the items' own losses: that of the mean of N items has 1 / N of each. */
static int set_gradient(struct run *r, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_trainer *t = r->t;
    double loss;

    r->scale = 1;
    if (r->s->own || r->s->outputs || !b->y.data) {
        draw_loss(r, b);
        return 0;
    }
    r->scale = (double)pare_batch_items(b);
    return t->o.loss->run(t->o.loss_conf, &t->out, &b->y, pare_plan_out_grad(t->plan[t->at]), &loss,
                          err);
}

/* ---- nodes after layers, which see the gradient ---------------------------------------------- */

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;

    (void)c;
    (void)err;
    memcpy(n->out[0]->t.data, x->data, (size_t)pare_numel(x) * sizeof(float));
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct sink *s = n->attr;
    struct pare_fisher *f = s->f;
    const struct pare_tensor *y = &n->out[0]->t;
    const float *g = pare_f32(&n->out[0]->grad);
    int axis = f->layer->node->op->layer.kind == PARE_LAYER_LINEAR ? y->rank - 1 : 1;
    int64_t inner = 1, outer = 1;

    if (axis < 0 || axis >= y->rank || y->dim[axis] != f->n)
        return pare_fail(err, PARE_ESHAPE,
                         "layer '%s' has an output of another shape than expected", f->layer->name);
    for (int d = 0; d < y->rank; d++) {
        outer *= d < axis ? y->dim[d] : 1;
        inner *= d > axis ? y->dim[d] : 1;
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < f->n; k++, g += inner) {
            double sum = 0;

            for (int64_t i = 0; i < inner; i++)
                sum += (double)g[i] * (double)g[i];
            f->f[k] += sum * *s->scale * *s->scale;
        }
    f->count += (double)(outer * inner);
    f->items += (double)y->dim[0];
    return pare_backward_copy(n, c, err);
}

/* Not in ops.def: it is never written to a file. */
static const struct pare_op gradient_op = {
    .type = "GradientProbe",
    .doc = "Sees the gradient of a value.",
    .domain = "ai.pare",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_RANDOM | PARE_OP_LINEAR, /* not folded, not shared, not run in parts */
    .infer = pare_infer_same,
    .forward = forward,
    .backward = backward,
};

/* ---- batches --------------------------------------------------------------------------------- */

static int run_batches(struct run *r, struct pare_loader *l, int64_t batches, struct pare_err *err)
{
    const int64_t fixed = pare_fixed_batch(r->s->model, NULL);

    for (int64_t k = 0; k < batches; k++) {
        const struct pare_batch *b;

        PARE_TRY(pare_loader_next(l, &b, err));
        if (!b)
            break;
        if (fixed > 0 && pare_batch_items(b) != fixed)
            continue;
        PARE_TRY(pare_trainer_forward(r->t, b->in, NULL, err));
        PARE_TRY(set_gradient(r, b, err));
        PARE_TRY(pare_trainer_backward(r->t, err));
    }
    return 0;
}

/* Every process has whole batches: a batch gives the same numbers in any of them. */
static int run_all(struct run *r, struct pare_err *err)
{
    const struct pare_fisher_source *s = r->s;
    int ranks = pare_dist_size(s->dist), rank = pare_dist_rank(s->dist);
    const struct pare_io *io;
    struct pare_loader_opts o = { .train = true,
                                  .batch = BATCH,
                                  .seed = 1,
                                  .rank = rank,
                                  .ranks = ranks,
                                  .deal = true,
                                  .float_y = r->t->o.loss->labels != PARE_LABELS_CLASS };
    int64_t all, own;
    struct pare_loader *l;
    int rc;

    o.n_inputs = pare_model_inputs(s->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    if (pare_fixed_batch(s->model, NULL))
        o.batch = pare_fixed_batch(s->model, NULL);
    all = s->items < s->data->n ? s->items : s->data->n;
    all = (all + o.batch - 1) / o.batch;
    own = ranks > 1 ? (all - rank + ranks - 1) / ranks : all;
    PARE_TRY(pare_loader_new(s->data, &o, &l, err));
    rc = run_batches(r, l, own, err);
    pare_loader_free(l);
    return rc;
}

static int finish(const struct run *r, struct pare_err *err)
{
    for (int i = 0; i < r->n; i++) {
        struct pare_fisher *f = &r->f[i];

        PARE_TRY(pare_dist_merge(r->s->dist, PARE_MERGE_SUM, PARE_F64, &f->count, 1, err));
        PARE_TRY(pare_dist_merge(r->s->dist, PARE_MERGE_SUM, PARE_F64, &f->items, 1, err));
        PARE_TRY(pare_dist_merge(r->s->dist, PARE_MERGE_SUM, PARE_F64, f->f, f->n, err));
        for (int64_t c = 0; c < f->n && f->count > 0; c++)
            f->f[c] /= f->count;
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_layers(struct run *r, struct pare_err *err)
{
    struct pare_graph *g = r->s->model->graph;
    struct sink *sink = pare_alloc(r->a, (size_t)r->n + 1, sizeof(*sink));

    if (!sink)
        return pare_no_memory(err, "for Fisher information");
    for (int i = 0; i < r->n; i++) {
        struct pare_fisher *f = &r->f[i];
        const struct pare_value *w = f->layer->weight;
        struct pare_value *y = f->layer->body ? NULL
                                              : pare_graph_find(g, f->layer->node->out[0]->name);
        int out = -1, in = -1;

        if (!w || !y || !f->layer->node->op->axes)
            return pare_fail(err, PARE_EUNSUPPORTED, "layer '%s' has no output channels",
                             f->layer->name);
        f->layer->node->op->axes(f->layer->node, &out, &in);
        f->n = out >= 0 && out < w->t.rank ? w->t.dim[out] : 0;
        f->count = f->items = 0;
        f->f = pare_alloc(r->a, (size_t)f->n + 1, sizeof(*f->f));
        if (!f->f)
            return pare_no_memory(err, "for Fisher information");
        sink[i] = (struct sink){ f, &r->scale };
        PARE_TRY(pare_passing_node_insert(g, &gradient_op, &sink[i], y, "gradient", err));
    }
    return pare_graph_order(g, err);
}

static int keep_state(struct run *r, struct pare_err *err)
{
    r->saved = pare_alloc(r->a, (size_t)r->t->n_state + 1, sizeof(*r->saved));
    for (int i = 0; r->saved && i < r->t->n_state; i++) {
        const struct pare_tensor *v = &r->t->state[i].t;

        r->saved[i] = pare_alloc_raw(r->a, (size_t)pare_numel(v) + 1, sizeof(float));
        if (!r->saved[i])
            return pare_no_memory(err, "for Fisher information");
        memcpy(r->saved[i], v->data, (size_t)pare_numel(v) * sizeof(float));
    }
    return r->saved ? 0 : pare_no_memory(err, "for Fisher information");
}

static void restore_state(const struct run *r)
{
    for (int i = 0; r->saved && i < r->t->n_state; i++)
        if (r->saved[i])
            memcpy(r->t->state[i].t.data, r->saved[i],
                   (size_t)pare_numel(&r->t->state[i].t) * sizeof(float));
}

static int run_trainer(struct run *r, const struct pare_train_options *o, struct pare_err *err)
{
    int rc;

    PARE_TRY(open_layers(r, err));
    PARE_TRY(pare_trainer_new(r->s->model, &o->trainer, &r->t, err));
    rc = keep_state(r, err);
    if (!rc)
        rc = run_all(r, err);
    restore_state(r);
    pare_trainer_free(r->t);
    return rc;
}

int pare_fisher_collect(const struct pare_fisher_source *s, struct pare_arena *a,
                        struct pare_fisher *f, int n, struct pare_err *err)
{
    struct run r = { .s = s, .a = a, .f = f, .n = n };
    struct pare_train_options *o;
    int rc;

    PARE_TRY(pare_train_options_make(NULL, 0, false, a, &o, err));
    if (s->data->y.data && !s->own && !s->outputs)
        PARE_TRY(pare_train_options_goal(o, s->model, s->data, err));
    o->trainer.threads = s->threads;
    rc = run_trainer(&r, o, err);
    pare_passing_nodes_remove(s->model->graph, &gradient_op);
    if (!rc)
        rc = finish(&r, err);
    return pare_at(err, rc, "Fisher information");
}

double pare_fisher_cost(const struct pare_fisher *f, int64_t o)
{
    return o < f->n && f->items > 0 ? 0.5 * f->f[o] * f->count / f->items : 0;
}
