/* correct_statistics.c - mean and variance of layer outputs made those of the original model: what
 * re-estimated statistics do, where batch normalization is folded into the layers.
 *
 * Channel y of the compressed model and d of the original: W *= s, b = s b + E[d] - s E[y] with s =
 * sqrt(var d / var y).  Layers are corrected in order, each with the inputs of those that are
 * corrected already.  Layers that make outputs of the model only get the means: their variance is
 * what least squares chose.
 */
#include "repair.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../op/channels.h"
#include "../op/op.h"
#include "../plan/shape_plans.h"
#include "../tensor/tensor.h"
#include "grams.h"
#include "wrap.h"

#define BATCH 32
#define ITEMS 256
#define PASSES 24
#define LIMIT 8.0      /* of the factor s */
#define CONSTANT 1e-12 /* variance, relative to the square of the mean */

/* A layer with a bias and no batch normalization after it. */
struct target {
    const char *name, *out;
    struct pare_value *w, *b; /* initializers of the model */
    int64_t n, inner;         /* output channels; elements of the weight after their axis */
    int axis;                 /* channels of the output; -1: the last */
    bool last;                /* makes an output of the model */
    double *sum[2], *square[2], count[2]; /* (n): of the model, of the original */
};

struct corrector {
    struct pare_model *m;
    struct pare_repair *r;
    struct pare_arena *a;
    struct target *t;
    int n;
    double start;
};

/* ---- which layers ---------------------------------------------------------------------------- */

static bool is_output(const struct pare_graph *g, const struct pare_value *v)
{
    for (int i = 0; i < g->n_out; i++)
        if (g->out[i] == v)
            return true;
    return false;
}

static bool is_normalized(const struct pare_graph *g, const struct pare_value *v)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v && g->node[i]->op && g->node[i]->op->statistics)
                return true;
    return false;
}

static bool find_target(const struct corrector *s, const struct pare_layer_info *l,
                        struct target *t)
{
    const struct pare_graph *g = s->m->graph;
    struct pare_linear p;
    struct pare_value *out;
    int axis = -1, in = -1;

    *t = (struct target){ .name = l->name };
    if (!l->weight || !l->bias || !l->out || l->shared || l->body || !l->node->op->axes ||
        !l->node->op->linear || !l->node->op->linear(l->node, &p) || p.x != 0 || p.w != 1 ||
        p.after || p.adds || p.scale != 1 || p.outer != 1)
        return false;
    l->node->op->axes(l->node, &axis, &in);
    axis = pare_root_axis(l->weight, axis);
    t->w = pare_graph_find(g, pare_value_root(l->weight)->name);
    t->b = pare_graph_find(g, pare_value_root(l->bias)->name);
    out = pare_graph_find(g, l->out->name);
    if (axis < 0 || !out || !t->w || !t->b || t->w->t.rank <= axis || is_normalized(g, out))
        return false;
    t->n = t->w->t.dim[axis];
    t->inner = 1;
    for (int i = axis + 1; i < t->w->t.rank; i++)
        t->inner *= t->w->t.dim[i];
    t->out = out->name;
    t->axis = l->node->op->layer.kind == PARE_LAYER_LINEAR ? -1 : 1;
    t->last = is_output(g, out);
    return pare_value_is_own(g, t->w, pare_numel(&t->w->t)) && pare_value_is_own(g, t->b, t->n);
}

/* ---- moments --------------------------------------------------------------------------------- */

static int clear(const struct corrector *s, int from, int to, struct pare_err *err)
{
    for (int i = from; i < to; i++)
        for (int k = 0; k < 2; k++) {
            struct target *t = &s->t[i];

            t->count[k] = 0;
            t->sum[k] = pare_alloc(s->a, (size_t)t->n, sizeof(double));
            t->square[k] = pare_alloc(s->a, (size_t)t->n, sizeof(double));
            if (!t->sum[k] || !t->square[k])
                return pare_no_memory(err, "for the statistics of layer '%s'", t->name);
        }
    return 0;
}

static int add_value(struct target *t, int k, const struct pare_tensor *y, struct pare_err *err)
{
    int axis = t->axis < 0 ? y->rank - 1 : t->axis;
    int64_t inner = 1, outer = 1;
    const float *x;

    if (y->dtype != PARE_F32 || axis >= y->rank || y->dim[axis] != t->n)
        return pare_fail(err, PARE_ESHAPE,
                         "layer '%s' has an output of another shape than expected", t->name);
    for (int i = 0; i < y->rank; i++) {
        inner *= i > axis ? y->dim[i] : 1;
        outer *= i < axis ? y->dim[i] : 1;
    }
    x = pare_f32(y);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t c = 0; c < t->n; c++, x += inner)
            for (int64_t i = 0; i < inner; i++) {
                t->sum[k][c] += (double)x[i];
                t->square[k][c] += (double)x[i] * (double)x[i];
            }
    t->count[k] += (double)(outer * inner);
    return 0;
}

static int run_batch(const struct corrector *s, int from, int to, const struct pare_batch *b,
                     struct pare_shape_plans plans[2], struct pare_err *err)
{
    const struct pare_model *m[2] = { s->m, s->r->dense };
    struct pare_tensor in[PARE_DATA_INPUTS], out[PARE_DATA_OUTPUTS];
    const char **name = pare_alloc(s->a, (size_t)(to - from), sizeof(*name));

    if (!name)
        return pare_no_memory(err, "for statistics");
    for (int i = from; i < to; i++)
        name[i - from] = s->t[i].out;
    memcpy(in, b->in, (size_t)b->n_in * sizeof(*in));
    for (int k = 0; k < 2; k++) {
        struct pare_plan_opts o = { .threads = s->r->threads, .in = in, .batch = in[0].dim[0] };
        struct pare_plan_build build = { .opts = &o, .observe = { name, to - from } };
        struct pare_plan *plan;

        PARE_TRY(pare_shape_plans_get(&plans[k], m[k], &build, b->n_in, &plan, err));
        if (plan->graph->n_out > PARE_DATA_OUTPUTS)
            return pare_fail(err, PARE_ELIMIT, "the model has more than %d outputs",
                             PARE_DATA_OUTPUTS);
        PARE_TRY(pare_plan_execute(plan, in, out, err));
        for (int i = from; i < to && b->own > 0; i++)
            PARE_TRY(add_value(&s->t[i], k, pare_plan_value(plan, i - from), err));
    }
    return 0;
}

static int run_batches(const struct corrector *s, int from, int to, struct pare_loader *l,
                       struct pare_err *err)
{
    struct pare_shape_plans plans[2] = { 0 };
    int64_t most = s->r->items > 0 && s->r->items < ITEMS ? s->r->items : ITEMS, seen = 0, size = 0;
    int rc = 0;

    while (seen < most && !rc) {
        struct pare_progress now = { "correct", from, s->n, pare_now() - s->start };
        const struct pare_batch *b;

        if (s->r->progress && !s->r->progress(s->r->user, &now))
            rc = pare_fail(err, PARE_ECANCEL, "the correction of statistics was canceled");
        if (!rc)
            rc = pare_loader_next(l, &b, err);
        if (rc || !b || (size && b->whole != size))
            break;
        size = b->whole;
        rc = run_batch(s, from, to, b, plans, err);
        seen += b->whole;
    }
    pare_shape_plans_free(&plans[0]);
    pare_shape_plans_free(&plans[1]);
    return rc;
}

static int collect(const struct corrector *s, int from, int to, struct pare_err *err)
{
    const struct pare_io *io;
    struct pare_loader_opts o = { .train = true,
                                  .batch = BATCH,
                                  .seed = 1,
                                  .rank = pare_dist_rank(s->r->dist),
                                  .ranks = pare_dist_size(s->r->dist) };
    struct pare_loader *l;
    int rc;

    o.n_inputs = pare_model_inputs(s->m, &io);
    if (o.n_inputs > 0)
        o.input = io;
    if (pare_fixed_batch(s->m, s->r->dense) && o.ranks == 1)
        o.batch = pare_fixed_batch(s->m, s->r->dense);
    PARE_TRY(clear(s, from, to, err));
    PARE_TRY(pare_loader_new(s->r->data, &o, &l, err));
    rc = run_batches(s, from, to, l, err);
    pare_loader_free(l);
    for (int i = from; i < to && !rc; i++)
        for (int k = 0; k < 2 && !rc; k++) {
            struct target *t = &s->t[i];
            struct pare_dist *d = s->r->dist;

            rc = pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, &t->count[k], 1, err);
            if (!rc)
                rc = pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, t->sum[k], t->n, err);
            if (!rc)
                rc = pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, t->square[k], t->n, err);
        }
    return rc;
}

/* ---- correction ------------------------------------------------------------------------------ */

/* The factor of a channel; 0: its output does not vary, so that it stays as it is. */
static double factor_of(const struct target *t, int64_t c, double mean[2])
{
    double var[2];

    for (int k = 0; k < 2; k++) {
        mean[k] = t->sum[k][c] / t->count[k];
        var[k] = t->square[k][c] / t->count[k] - mean[k] * mean[k];
    }
    if (!(var[0] > CONSTANT * mean[0] * mean[0]) || !(var[1] > CONSTANT * mean[1] * mean[1]) ||
        !isfinite(var[0]) || !isfinite(var[1]))
        return 0;
    return t->last ? 1 : fmax(1 / LIMIT, fmin(LIMIT, sqrt(var[1] / var[0])));
}

static void correct_layer(const struct corrector *s, const struct target *t)
{
    float *w = pare_f32_mut(&t->w->t), *b = pare_f32_mut(&t->b->t);
    bool any = false;

    if (!(t->count[0] > 0) || !(t->count[1] > 0))
        return;
    for (int64_t c = 0; c < t->n; c++) {
        double mean[2], f = factor_of(t, c, mean);

        if (f == 0 || (f == 1 && mean[0] == mean[1]))
            continue;
        any = true;
        b[c] = (float)(f * (double)b[c] + mean[1] - f * mean[0]);
        for (int64_t i = c * t->inner; i < pare_numel(&t->w->t); i += t->n * t->inner)
            for (int64_t k = 0; k < t->inner; k++)
                w[i + k] = (float)(f * (double)w[i + k]);
    }
    s->r->corrected += any;
}

static int correct_all(struct corrector *s, struct pare_err *err)
{
    struct pare_layer_info *list;
    struct pare_graph *g;
    int n, most;

    PARE_TRY(pare_model_layers(s->m, s->a, &g, &list, &n, err));
    s->t = pare_alloc(s->a, (size_t)n + 1, sizeof(*s->t));
    if (!s->t)
        return pare_no_memory(err, "for statistics");
    for (int i = 0; i < n; i++)
        s->n += find_target(s, &list[i], &s->t[s->n]);
    most = (s->n + PASSES - 1) / PASSES;
    for (int from = 0, to; from < s->n; from = to) {
        to = from + most < s->n ? from + most : s->n;
        for (int i = from; i < to; i++) {
            PARE_TRY(pare_model_own(s->m, s->t[i].w, err));
            PARE_TRY(pare_model_own(s->m, s->t[i].b, err));
        }
        PARE_TRY(collect(s, from, to, err));
        for (int i = from; i < to; i++)
            correct_layer(s, &s->t[i]);
    }
    return 0;
}

int pare_correct_statistics(struct pare_model *m, struct pare_repair *r, struct pare_err *err)
{
    struct corrector s = { .m = m, .r = r, .a = pare_arena_new(1 << 16), .start = pare_now() };
    int rc = s.a ? correct_all(&s, err) : pare_no_memory(err, "for statistics");

    pare_arena_free(s.a);
    return pare_at(err, rc, "correction of statistics");
}
