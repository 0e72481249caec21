/* smooth.c - inputs of linear layers divided by a scale per channel (SmoothQuant, AWQ).
 *
 *     W x = (W S) (x / S),   s_j = max|x_j|^a / max|w_j|^(1 - a),  or (mean |x_j|)^a
 *
 * With one range for the whole input, a channel with outliers leaves few levels to the others.  For
 * each input a is the one of 20 with the least expected error of the outputs,
 *     step_x^2 / 12 sum_j s_j^2 |w_j|^2
 *         + sum_rows (sum_j e_j m_j / s_j)^2 + sum_j e_j^2 v_j / s_j^2,
 * e: rounding errors of the row's weights W S, m and v: means and variances of the inputs, which
 * count as independent of each other.  The input stays as it is unless that is well below the error
 * without scales.  Layers that read the same value share its scales.
 *
 * The means must not be left out: a row with one large weight has a large step, and all other
 * weights of the row may become 0.  The sum of what they contribute on average is then missing in
 * all positions.
 */
#include "smooth.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../compress/grams.h"
#include "../compress/wrap.h"
#include "../data/loader.h"
#include "../onnx/edit.h"
#include "../op/channels.h"
#include "../plan/shape_plans.h"
#include "../tensor/tensor.h"
#include "scale_taker.h"

#define BATCH 16
#define CANDIDATES 20

/* Largest error, relative to that without scales, for which a Mul is inserted; for which a constant
 * takes the scales. */
#define PAYS 0.7
#define PAYS_FOLDED 0.95

/* An input value and the layers that read it. */
struct input {
    const struct pare_value *v;
    int64_t k;
    double *lo, *hi;             /* (k) range of each channel */
    double *mean, *size, *power; /* (k) means of x, |x| and x^2 */
    double n;                    /* positions */
    double *s, *best;            /* (k) */
    bool folds;                  /* a constant takes the scales */
    struct pare_scale_taker taker;
};

/* A constant that is changed. */
struct change {
    const struct pare_value *v;
    struct pare_tensor t;
};

struct smoother {
    const struct pare_model *m;
    struct pare_smooth *o;
    struct pare_arena *a;
    struct pare_graph *g;
    struct pare_layer_info *layer;
    int n_layers;
    int *input_of; /* of each layer; -1: it stays */
    struct input *in;
    int n;
    struct pare_shape_plans plans;
    const char **names;
    struct change *change; /* (2 layers) */
    int n_changes;
};

/* ---- which inputs ---------------------------------------------------------------------------- */

static bool is_smoothable(const struct smoother *s, const struct pare_layer_info *l)
{
    const struct pare_value *w = l->weight;
    struct pare_gram g;

    return pare_gram_of(l, &g) && l->node->op->layer.kind == PARE_LAYER_LINEAR && !l->shared &&
           w->flags & PARE_V_CONST && !w->maker && pare_graph_only_consumer(s->g, w) &&
           l->node->in[0]->maker && !(l->node->in[0]->flags & PARE_V_CONST) &&
           pare_model_has_node(s->m, l->node);
}

static int add_input(struct smoother *s, const struct pare_value *v, int64_t k,
                     struct pare_err *err)
{
    struct input *in = &s->in[s->n];
    double **room[] = { &in->lo, &in->hi, &in->mean, &in->size, &in->power, &in->s, &in->best };

    *in = (struct input){ .v = v, .k = k };
    for (size_t i = 0; i < sizeof(room) / sizeof(*room); i++) {
        *room[i] = pare_alloc(s->a, (size_t)k, sizeof(double));
        if (!*room[i])
            return pare_no_memory(err, "to smooth inputs");
    }
    s->names[s->n++] = v->name;
    return 0;
}

/* Is the value read by layers with these scales only? */
static bool only_layers_read(const struct smoother *s, int input)
{
    const struct pare_value *v = s->in[input].v;
    int uses = v->flags & PARE_V_OUTPUT ? 1 : 0, reads = 0;

    for (int l = 0; l < s->n_layers; l++)
        reads += s->input_of[l] == input;
    for (int i = 0; i < s->g->n_nodes; i++) {
        const struct pare_node *n = s->g->node[i];

        for (int k = 0; k < n->n_in + n->n_cap; k++)
            uses += (k < n->n_in ? n->in[k] : n->cap[k - n->n_in]) == v;
    }
    return uses == reads;
}

static int find_inputs(struct smoother *s, struct pare_err *err)
{
    size_t n;

    PARE_TRY(pare_model_layers(s->m, s->a, &s->g, &s->layer, &s->n_layers, err));
    n = (size_t)s->n_layers + 1;
    s->in = pare_alloc(s->a, n, sizeof(*s->in));
    s->input_of = pare_alloc(s->a, n, sizeof(*s->input_of));
    s->names = pare_alloc(s->a, n, sizeof(*s->names));
    s->change = pare_alloc(s->a, 2 * n, sizeof(*s->change));
    if (!s->in || !s->input_of || !s->names || !s->change)
        return pare_no_memory(err, "to smooth inputs");
    for (int i = 0; i < s->n_layers; i++) {
        const struct pare_value *v;
        struct pare_gram g;
        int k = 0;

        s->input_of[i] = -1;
        if (!is_smoothable(s, &s->layer[i]))
            continue;
        pare_gram_of(&s->layer[i], &g);
        v = s->layer[i].node->in[0];
        while (k < s->n && s->in[k].v != v)
            k++;
        if (k == s->n)
            PARE_TRY(add_input(s, v, g.k, err));
        s->input_of[i] = k;
    }
    for (int i = 0; i < s->n; i++)
        s->in[i].folds = only_layers_read(s, i) &&
                         pare_find_scale_taker(s->g, s->in[i].v, s->in[i].k, &s->in[i].taker);
    return 0;
}

/* ---- ranges of the inputs -------------------------------------------------------------------- */

static void observe(struct input *in, const struct pare_tensor *x)
{
    const float *v = pare_f32(x);
    int64_t rows = pare_numel(x) / in->k;

    for (int64_t r = 0; r < rows; r++, v += in->k)
        for (int64_t j = 0; j < in->k; j++) {
            double e = (double)v[j];

            if (!(fabs(e) <= 1e30))
                continue;
            in->lo[j] = e < in->lo[j] ? e : in->lo[j];
            in->hi[j] = e > in->hi[j] ? e : in->hi[j];
            in->mean[j] += e;
            in->size[j] += fabs(e);
            in->power[j] += e * e;
        }
    in->n += (double)rows;
}

static int run_batch(struct smoother *s, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_tensor in[PARE_DATA_INPUTS], out[16];
    struct pare_plan_opts o = { .threads = s->o->threads, .in = in, .batch = b->in[0].dim[0] };
    struct pare_plan_build build = { .opts = &o, .observe = { s->names, s->n } };
    struct pare_plan *plan;

    memcpy(in, b->in, (size_t)b->n_in * sizeof(*in));
    PARE_TRY(pare_shape_plans_get(&s->plans, s->m, &build, b->n_in, &plan, err));
    if (plan->graph->n_out > 16)
        return pare_fail(err, PARE_ELIMIT, "the model has more than 16 outputs");
    PARE_TRY(pare_plan_execute(plan, in, out, err));
    for (int i = 0; i < s->n && b->own > 0; i++)
        observe(&s->in[i], pare_plan_value(plan, i));
    return 0;
}

static int merge(const struct smoother *s, struct pare_err *err)
{
    for (int i = 0; i < s->n; i++) {
        struct input *in = &s->in[i];

        PARE_TRY(pare_dist_merge(s->o->dist, PARE_MERGE_MIN, PARE_F64, in->lo, in->k, err));
        PARE_TRY(pare_dist_merge(s->o->dist, PARE_MERGE_MAX, PARE_F64, in->hi, in->k, err));
        PARE_TRY(pare_dist_merge(s->o->dist, PARE_MERGE_SUM, PARE_F64, in->mean, in->k, err));
        PARE_TRY(pare_dist_merge(s->o->dist, PARE_MERGE_SUM, PARE_F64, in->size, in->k, err));
        PARE_TRY(pare_dist_merge(s->o->dist, PARE_MERGE_SUM, PARE_F64, in->power, in->k, err));
        PARE_TRY(pare_dist_merge(s->o->dist, PARE_MERGE_SUM, PARE_F64, &in->n, 1, err));
        for (int64_t j = 0; j < in->k && in->n > 0; j++) {
            in->mean[j] /= in->n;
            in->size[j] /= in->n;
            in->power[j] /= in->n;
        }
    }
    return 0;
}

static int run_batches(struct smoother *s, struct pare_loader *loader, bool fixed,
                       struct pare_err *err)
{
    double start = pare_now();
    int64_t seen = 0, size = 0;

    while (seen < s->o->items) {
        struct pare_progress p = { "smooth", seen, s->o->items, pare_now() - start };
        const struct pare_batch *b;

        if (s->o->progress && !s->o->progress(s->o->user, &p))
            return pare_fail(err, PARE_ECANCEL, "the collection of ranges was canceled");
        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b && seen)
            break; /* fewer items than asked for */
        if (!b || (size && b->whole != size && fixed))
            continue;
        size = b->whole;
        pare_dist_batch(s->o->dist, b->own, b->whole);
        PARE_TRY(run_batch(s, b, err));
        seen += b->whole;
    }
    return merge(s, err);
}

static int collect(struct smoother *s, struct pare_err *err)
{
    const struct pare_io *io;
    struct pare_loader_opts o = { .train = true,
                                  .batch = BATCH,
                                  .seed = 1,
                                  .rank = pare_dist_rank(s->o->dist),
                                  .ranks = pare_dist_size(s->o->dist) };
    struct pare_loader *loader = NULL;
    bool fixed;
    int rc;

    o.n_inputs = pare_model_inputs(s->m, &io);
    o.input = o.n_inputs > 0 ? io : NULL;
    fixed = o.n_inputs > 0 && io[0].rank > 0 && io[0].dim[0] > 0;
    if (fixed && o.ranks == 1)
        o.batch = io[0].dim[0];
    o.batch = o.batch > s->o->items ? s->o->items : o.batch;
    rc = pare_loader_new(s->o->data, &o, &loader, err);
    if (!rc)
        rc = run_batches(s, loader, fixed, err);
    pare_shape_plans_free(&s->plans);
    pare_loader_free(loader);
    return rc;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* The weight as (rows, k): strides. */
static const float *weight_of(const struct pare_layer_info *l, int64_t *row, int64_t *column)
{
    const struct pare_value *w = l->weight;
    struct pare_linear p;

    l->node->op->linear(l->node, &p);
    *row = p.w_out == 0 ? w->t.dim[1] : 1;
    *column = p.w_out == 0 ? 1 : w->t.dim[1];
    return w->t.data ? w->t.data : w->raw;
}

/* Adds to the mean error and the variance of an output what weights [from, to) of its row, times
 * the scales, contribute when they are rounded with one step. */
static void add_errors(const struct input *in, const float *w, int64_t column, const double *by,
                       const int64_t part[2], int bits, double sum[2])
{
    double most = 0, step;

    for (int64_t j = part[0]; j < part[1]; j++) {
        double v = fabs((double)w[j * column]) * by[j];

        most = v > most ? v : most;
    }
    step = most / (ldexp(1, bits - 1) - 1);
    if (!(step > 0))
        return;
    for (int64_t j = part[0]; j < part[1]; j++) {
        double v = (double)w[j * column] * by[j] / step, e = (rint(v) - v) * step / by[j];
        double spread = in->power[j] - in->mean[j] * in->mean[j];

        sum[0] += e * in->mean[j];
        sum[1] += e * e * (spread > 0 ? spread : 0);
    }
}

/* Squared error of an output whose row of weights, times the scales, is rounded. */
static double row_error(const struct smoother *s, const struct input *in, const float *w,
                        int64_t column, const double *by)
{
    int64_t group = s->o->group > 0 ? s->o->group : in->k;
    double sum[2] = { 0, 0 };

    for (int64_t from = 0; from < in->k; from += group) {
        int64_t part[2] = { from, in->k - from < group ? in->k : from + group };

        add_errors(in, w, column, by, part, s->o->bits[0], sum);
    }
    return sum[0] * sum[0] + sum[1];
}

/* Expected squared error of the outputs of a layer with scales s. */
static double error_of(const struct smoother *s, const struct pare_layer_info *l,
                       const struct input *in, const double *by)
{
    int64_t row, column, rows = pare_numel(&l->weight->t) / in->k;
    const float *w = weight_of(l, &row, &column);
    double lo = 0, hi = 0, step, inputs = 0, weights = 0;

    for (int64_t j = 0; j < in->k; j++) {
        lo = in->lo[j] / by[j] < lo ? in->lo[j] / by[j] : lo;
        hi = in->hi[j] / by[j] > hi ? in->hi[j] / by[j] : hi;
    }
    step = s->o->bits[1] ? (hi - lo) / (ldexp(1, s->o->bits[1]) - 1) : 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < in->k; j++) {
            double v = (double)w[r * row + j * column] * by[j];

            inputs += v * v;
        }
        weights += row_error(s, in, w + r * row, column, by);
    }
    return step * step / 12 * inputs + weights;
}

static double error_of_input(const struct smoother *s, int i, const double *by)
{
    double sum = 0;

    for (int l = 0; l < s->n_layers; l++)
        if (s->input_of[l] == i)
            sum += error_of(s, &s->layer[l], &s->in[i], by);
    return sum;
}

/* The largest weight of each input channel over all layers that read it. */
static void largest_weights(const struct smoother *s, int i, double *most)
{
    memset(most, 0, (size_t)s->in[i].k * sizeof(*most));
    for (int l = 0; l < s->n_layers; l++) {
        int64_t row, column, k = s->in[i].k;
        const float *w;

        if (s->input_of[l] != i)
            continue;
        w = weight_of(&s->layer[l], &row, &column);
        for (int64_t r = 0; r < pare_numel(&s->layer[l].weight->t) / k; r++)
            for (int64_t j = 0; j < k; j++) {
                double v = fabs((double)w[r * row + j * column]);

                most[j] = v > most[j] ? v : most[j];
            }
    }
}

/* in->s = the scales for exponent a; most: the largest weight of each channel. */
static void candidate(const struct smoother *s, struct input *in, const double *most, double a)
{
    double lo = INFINITY, hi = 0, middle;

    for (int64_t j = 0; j < in->k; j++) {
        double x = in->hi[j] > -in->lo[j] ? in->hi[j] : -in->lo[j];

        in->s[j] = x > 0 && most[j] > 0 ? pow(x, a) / pow(most[j], 1 - a) : 1;
        if (!s->o->bits[1])
            in->s[j] = pow(in->size[j] > 1e-4 ? in->size[j] : 1e-4, a);
        lo = in->s[j] < lo ? in->s[j] : lo;
        hi = in->s[j] > hi ? in->s[j] : hi;
    }
    middle = s->o->bits[1] ? 1 : sqrt(lo * hi);
    for (int64_t j = 0; j < in->k; j++) {
        double v = in->s[j] / middle;

        in->s[j] = v < 1e-5 ? 1e-5 : v > 1e5 ? 1e5 : v;
    }
}

/* Sets in->best; false: the input stays. */
static bool choose_scales(const struct smoother *s, int i, double *most)
{
    struct input *in = &s->in[i];
    double least, before;

    for (int64_t j = 0; j < in->k; j++)
        in->s[j] = 1;
    before = error_of_input(s, i, in->s);
    least = (in->folds ? PAYS_FOLDED : PAYS) * before;
    largest_weights(s, i, most);
    if (!(before > 0) || !isfinite(before))
        return false;
    before = least;
    for (int c = 1; c <= CANDIDATES; c++) {
        double e;

        candidate(s, in, most, (double)c / CANDIDATES);
        e = error_of_input(s, i, in->s);
        if (!(e < least))
            continue;
        least = e;
        memcpy(in->best, in->s, (size_t)in->k * sizeof(double));
    }
    return least < before;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* A copy of the constant v that is to replace it; NULL: no memory. */
static float *changed(struct smoother *s, struct pare_edit *e, const struct pare_value *v,
                      struct pare_err *err)
{
    struct change *c;
    int i = 0;

    while (i < s->n_changes && s->change[i].v != v)
        i++;
    c = &s->change[i];
    if (i == s->n_changes) {
        c->v = v;
        c->t = v->t;
        c->t.data = NULL;
        if (pare_tensor_alloc(pare_edit_arena(e), &c->t, err))
            return NULL;
        memcpy(c->t.data, v->t.data ? v->t.data : v->raw,
               (size_t)pare_numel(&c->t) * sizeof(float));
        s->n_changes++;
    }
    return pare_f32_mut(&c->t);
}

static int scale_weight(struct smoother *s, struct pare_edit *e, const struct pare_layer_info *l,
                        const struct input *in, struct pare_err *err)
{
    float *w = changed(s, e, l->weight, err);
    int64_t row, column;

    if (!w)
        return err->code;
    weight_of(l, &row, &column);
    for (int64_t r = 0; r < pare_numel(&l->weight->t) / in->k; r++)
        for (int64_t j = 0; j < in->k; j++)
            w[r * row + j * column] = (float)((double)w[r * row + j * column] * in->best[j]);
    return 0;
}

/* The constant before the value is divided by the scales. */
static int fold_scales(struct smoother *s, struct pare_edit *e, const struct input *in,
                       struct pare_err *err)
{
    const struct pare_value *v = in->taker.constant;
    float *w = changed(s, e, v, err);
    int64_t inner = 1;

    if (!w)
        return err->code;
    for (int d = in->taker.axis + 1; d < v->t.rank; d++)
        inner *= v->t.dim[d];
    for (int64_t i = 0; i < pare_numel(&v->t); i++)
        w[i] = (float)((double)w[i] / in->best[i / inner % in->k]);
    s->o->folded++;
    return 0;
}

/* A Mul before the layers; *out: its result. */
static int insert_scales(struct pare_edit *e, const struct input *in, const char **out,
                         struct pare_err *err)
{
    struct pare_tensor t;
    const char *by = pare_edit_name(e, in->v->name, "_smooth_scale");

    *out = by ? pare_edit_name(e, in->v->name, "_smooth") : NULL;
    if (!*out)
        return pare_no_memory(err, "to smooth inputs");
    PARE_TRY(pare_tensor_new(pare_edit_arena(e), &t, PARE_F32, 1, &in->k, err));
    for (int64_t j = 0; j < in->k; j++)
        pare_f32_mut(&t)[j] = (float)(1 / in->best[j]);
    PARE_TRY(pare_edit_constant(e, by, &t, err));
    return pare_edit_insert(e,
                            &(struct pare_edit_node){ .type = "Mul",
                                                      .in = { in->v->name, by },
                                                      .out = *out,
                                                      .axis = -1 },
                            err);
}

static int scale_input(struct smoother *s, struct pare_edit *e, int i, struct pare_err *err)
{
    const struct input *in = &s->in[i];
    const char *out = NULL;

    if (in->folds)
        PARE_TRY(fold_scales(s, e, in, err));
    else
        PARE_TRY(insert_scales(e, in, &out, err));
    s->o->values++;
    for (int l = 0; l < s->n_layers; l++) {
        if (s->input_of[l] != i)
            continue;
        if (out)
            PARE_TRY(pare_edit_set_input(e, s->layer[l].node, 0, out, err));
        PARE_TRY(scale_weight(s, e, &s->layer[l], in, err));
        s->o->layers++;
    }
    return 0;
}

static int write_changes(const struct smoother *s, struct pare_edit *e, struct pare_err *err)
{
    for (int i = 0; i < s->n_changes; i++) {
        PARE_TRY(pare_edit_drop_constant(e, s->change[i].v->name, err));
        PARE_TRY(pare_edit_constant(e, s->change[i].v->name, &s->change[i].t, err));
    }
    return 0;
}

static int smooth(struct smoother *s, struct pare_model **out, struct pare_err *err)
{
    struct pare_edit *e = NULL;
    int64_t most = 1;
    double *room;
    int rc = 0;

    PARE_TRY(find_inputs(s, err));
    if (!s->n)
        return 0;
    PARE_TRY(collect(s, err));
    for (int i = 0; i < s->n; i++)
        most = s->in[i].k > most ? s->in[i].k : most;
    room = pare_alloc(s->a, (size_t)most, sizeof(*room));
    if (!room)
        return pare_no_memory(err, "to smooth inputs");
    PARE_TRY(pare_edit_new(s->m, &e, err));
    for (int i = 0; i < s->n && !rc; i++)
        if (choose_scales(s, i, room))
            rc = scale_input(s, e, i, err);
    if (!rc)
        rc = write_changes(s, e, err);
    if (rc || !s->o->values) {
        pare_edit_free(e);
        return rc;
    }
    return pare_edit_model(e, out, err);
}

int pare_model_smooth(const struct pare_model *m, struct pare_smooth *o, struct pare_model **out,
                      struct pare_err *err)
{
    struct smoother s = { .m = m, .o = o, .a = pare_arena_new(1 << 16) };
    int rc = s.a ? smooth(&s, out, err) : pare_no_memory(err, "to smooth inputs");

    pare_arena_free(s.a);
    return pare_at(err, rc, "smooth");
}
