/* budget_noise.c - the expected increase of the loss by rounding each layer to int8.
 *
 * Weights: dW G dW' of each row, dW the error of rounding it with its own scale, G the second
 * moments of the layer's inputs.  Inputs: the variance step^2 / 12 of each, with the step that a
 * calibrated int8 model has.  Both count by the Fisher information of the row's outputs.
 */
#include <math.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../compress/fisher.h"
#include "../compress/grams.h"
#include "../compress/wrap.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

#define ITEMS 512
#define FLOPS 2e9
#define LEVELS 127.0

struct noise {
    struct pare_budget_search *s;
    struct pare_arena *a;
    struct pare_layer_info *list; /* of the original */
    struct pare_gram *gram;       /* of n layers */
    struct pare_fisher *fisher;
    int *layer, n; /* of the table */
    double *step;  /* by layer of the table: of its inputs; 0: unknown */
};

/* ---- steps of inputs ------------------------------------------------------------------------- */

/* The scale of the DequantizeLinear that computes a layer's inputs. */
static double input_step(const struct pare_layer_info *l)
{
    const struct pare_node *q;
    struct pare_linear p;

    if (!l->node->op || !l->node->op->linear || !l->node->op->linear(l->node, &p))
        return 0;
    q = l->node->in[p.x]->maker;
    if (!q || q->n_in < 2 || !q->in[1] || q->in[1]->t.dtype != PARE_F32 || !q->in[1]->t.data ||
        pare_numel(&q->in[1]->t) != 1)
        return 0;
    return (double)pare_f32(&q->in[1]->t)[0];
}

static int read_steps(struct noise *w, const struct pare_model *m, struct pare_err *err)
{
    const struct pare_cost_table *t = w->s->table;
    struct pare_layer_info *list;
    struct pare_graph *g;
    int n;

    PARE_TRY(pare_model_find_layers(m, w->a, &g, &list, &n, err));
    for (int i = 0; i < t->n_layers; i++)
        for (int k = 0; k < n; k++)
            if (!strcmp(list[k].name, t->layer[i].name))
                w->step[i] = input_step(&list[k]);
    return 0;
}

/* What the whole model in int8 really loses. */
static int measure_rounded(struct pare_budget_search *s, const struct pare_model *rounded,
                           struct pare_err *err)
{
    struct pare_output_distance d;
    struct pare_held_out h;

    pare_budget_score_items(s, &h);
    PARE_TRY(pare_held_out_compare(&h, rounded, &d, err));
    s->rounded = pare_budget_loss(s, &d);
    return 0;
}

/* Calibrate the whole model. */
static int find_steps(struct noise *w, struct pare_err *err)
{
    const struct pare_compress_budget_opts *o = w->s->o;
    struct pare_quantize_opts q = { .preset = "int8",
                                    .tuning = { w->s->rest, NULL, NULL, NULL },
                                    .fold = true,
                                    .progress = o->progress,
                                    .user = o->user };
    struct pare_model *copy, *rounded = NULL; /* quantization changes weights in place */
    int rc;

    q.tuning.settings = pare_sprintf(w->a, "seed=%llu threads=%d", (unsigned long long)o->seed,
                                     o->threads);
    w->step = pare_alloc(w->a, (size_t)w->s->table->n_layers + 1, sizeof(*w->step));
    if (!q.tuning.settings || !w->step)
        return pare_no_memory(err, "for the noise of int8");
    PARE_TRY(pare_model_duplicate(w->s->model, &copy, err));
    rc = pare_quantize(copy, &q, &rounded, NULL, err);
    if (!rc)
        rc = read_steps(w, rounded, err);
    if (!rc)
        rc = measure_rounded(w->s, rounded, err);
    pare_model_free(rounded);
    pare_model_free(copy);
    return rc;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int find_layers(struct noise *w, struct pare_err *err)
{
    const struct pare_cost_table *t = w->s->table;
    size_t most = (size_t)t->n_layers + 1;
    struct pare_graph *g;
    int n;

    PARE_TRY(pare_model_find_layers(w->s->model, w->a, &g, &w->list, &n, err));
    w->gram = pare_alloc(w->a, most, sizeof(*w->gram));
    w->fisher = pare_alloc(w->a, most, sizeof(*w->fisher));
    w->layer = pare_alloc(w->a, most, sizeof(*w->layer));
    if (!w->gram || !w->fisher || !w->layer)
        return pare_no_memory(err, "for the noise of int8");
    for (int i = 0; i < t->n_layers; i++)
        for (int k = 0; k < n; k++)
            if (!strcmp(w->list[k].name, t->layer[i].name) && w->list[k].weight &&
                pare_gram_of(&w->list[k], &w->gram[w->n])) {
                w->gram[w->n].layer = w->fisher[w->n].layer = &w->list[k];
                w->layer[w->n++] = i;
                break;
            }
    return 0;
}

static int collect(struct noise *w, struct pare_err *err)
{
    struct pare_gram_source gs = { .model = w->s->model,
                                   .data = w->s->rest,
                                   .items = ITEMS,
                                   .flops = FLOPS,
                                   .threads = w->s->o->threads,
                                   .progress = w->s->o->progress,
                                   .user = w->s->o->user };
    struct pare_fisher_source fs = { .model = w->s->model,
                                     .data = w->s->rest,
                                     .items = ITEMS,
                                     .threads = w->s->o->threads };

    PARE_TRY(pare_grams_collect(&gs, w->a, w->gram, w->n, err));
    return pare_fisher_collect(&fs, w->a, w->fisher, w->n, err);
}

/* ---- noise ----------------------------------------------------------------------------------- */

struct row {
    const float *w;
    int64_t stride, k;
    const double *g; /* (k, k) */
    double *error;   /* (k), scratch */
};

/* The mean square of the error of a row's outputs. */
static double row_noise(const struct row *r, double step)
{
    double most = 0, squares = 0, noise = 0, scale;

    for (int64_t i = 0; i < r->k; i++) {
        double x = fabs((double)r->w[i * r->stride]);

        most = x > most ? x : most; /* gcc 12 for arm64 fails on fmax() here */
    }
    scale = most > 0 ? most / LEVELS : 1;
    for (int64_t i = 0; i < r->k; i++) {
        double x = (double)r->w[i * r->stride];

        r->error[i] = nearbyint(x / scale) * scale - x;
        squares += x * x;
    }
    for (int64_t i = 0; i < r->k; i++)
        for (int64_t j = 0; j < r->k; j++)
            noise += r->error[i] * r->error[j] * r->g[i * r->k + j];
    return fmax(noise, 0) + squares * step * step / 12;
}

static int layer_noise(struct noise *w, int i, double *noise, struct pare_err *err)
{
    const struct pare_gram *x = &w->gram[i];
    const struct pare_fisher *f = &w->fisher[i];
    struct pare_value *v = pare_graph_find(w->s->model->graph,
                                           pare_value_root(x->layer->weight)->name);
    double *error = pare_alloc(w->a, (size_t)x->k + 1, sizeof(*error));
    int out = -1, in = -1;
    bool by_rows;

    *noise = 0;
    if (!error)
        return pare_no_memory(err, "for the noise of int8");
    if (!v || v->t.dtype != PARE_F32 || pare_numel(&v->t) != x->groups * x->rows * x->k ||
        !x->layer->node->op->axes || !f->f || !(f->items > 0))
        return 0;
    PARE_TRY(pare_model_own(w->s->model, v, err)); /* it may not be in memory yet */
    x->layer->node->op->axes(x->layer->node, &out, &in);
    by_rows = pare_root_axis(x->layer->weight, out) == 0;
    for (int64_t o = 0; o < x->groups * x->rows && o < f->n; o++) {
        struct row r = { pare_f32(&v->t) + (by_rows ? o * x->k : o), by_rows ? 1 : x->rows, x->k,
                         x->g + o / x->rows * x->k * x->k, error };

        *noise += 0.5 * f->f[o] * f->count / f->items * row_noise(&r, w->step[w->layer[i]]);
    }
    return 0;
}

static int find_noise(struct noise *w, struct pare_err *err)
{
    PARE_TRY(find_layers(w, err));
    PARE_TRY(find_steps(w, err));
    PARE_TRY(collect(w, err));
    for (int i = 0; i < w->n; i++)
        PARE_TRY(layer_noise(w, i, &w->s->noise[w->layer[i]], err));
    return 0;
}

int pare_budget_noise(struct pare_budget_search *s, struct pare_err *err)
{
    struct noise w = { .s = s, .a = pare_arena_new(1 << 18) };
    int rc;

    rc = w.a ? 0 : pare_no_memory(err, "for the noise of int8");
    if (!rc && s->int8)
        rc = find_noise(&w, err);
    pare_arena_free(w.a);
    return rc;
}
