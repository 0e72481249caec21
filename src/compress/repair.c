/* repair.c - least-squares repair of the layers after removed channels, and of the weights that are
 * left in layers that lost single weights.
 *
 * Residual sums are repaired at the layers that read them, and depthwise convolutions, which cannot
 * mix channels, by themselves per channel and then at the next pointwise layer: each layer is
 * fitted to its own inputs, whatever made them.
 *
 * Rows with the same weights of 0 are one problem: all rows of a layer whose input channels were
 * removed, four rows of 4x1 blocks, each row by itself where single weights are 0.
 */
#include "repair.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "../base/arena.h"
#include "../op/channels.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "least_squares.h"
#include "wrap.h"

#define ITEMS 1024
#define PASSES 24
#define FLOPS 2e10
#define WAVE_BYTES 768e6
#define DAMPING 1e-4
#define ENOUGH 10.0     /* positions per input; with fewer, damping grows */
#define CONSTANT 1e-10  /* variance of an input, relative to the largest */
#define UNCHANGED 1e-10 /* difference of the Grams, relative to the largest element */

/* A layer of the model. */
struct target {
    struct pare_gram gram;
    struct pare_value *w, *dense; /* initializers: of the model, of the dense model */
    struct pare_value *bias;      /* takes the difference of the means; or NULL */
    double sign;                  /* -1: `bias` is the mean of a following BatchNormalization */
    int64_t row, column;          /* strides of the weight */
    double damping;
    bool unchanged; /* the layer's inputs are those of the dense model */
};

struct repairer {
    struct pare_model *m;
    struct pare_repair *r;
    struct pare_arena *a;
    struct target *t;
    int n, threads;
};

/* ---- which layers ---------------------------------------------------------------------------- */

static int readers(const struct pare_graph *g, const struct pare_value *v, struct pare_node **one)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v) {
                n++;
                *one = g->node[i];
            }
    for (int i = 0; i < g->n_out; i++)
        n += g->out[i] == v;
    return n;
}

bool pare_value_is_own(const struct pare_graph *g, const struct pare_value *v, int64_t n)
{
    struct pare_node *one;

    return v && v->t.dtype == PARE_F32 && v->flags & PARE_V_CONST && !v->maker &&
           pare_numel(&v->t) == n && readers(g, v, &one) == 1;
}

/* What takes the difference of the means: the bias, or the mean of the normalization after it. */
static void find_bias(const struct pare_model *m, const struct pare_layer_info *l,
                      const struct pare_linear *p, struct target *t)
{
    const struct pare_graph *g = m->graph;
    int64_t n = t->gram.groups * t->gram.rows;
    struct pare_value *out = pare_graph_find(g, l->out->name);
    struct pare_value *b = l->bias ? pare_graph_find(g, pare_value_root(l->bias)->name) : NULL;
    struct pare_node *next = NULL;

    t->sign = 1;
    if (b && p->scale == 1 && p->outer == 1 && pare_value_is_own(g, b, n)) {
        t->bias = b;
        return;
    }
    if (!out || readers(g, out, &next) != 1 || !next ||
        !pare_node_is(next, &pare_op_batch_normalization) || next->in[0] != out || next->n_in < 5)
        return;
    if (pare_value_is_own(g, next->in[3], n)) {
        t->bias = next->in[3];
        t->sign = -1;
    }
}

static bool find_target(const struct repairer *s, const struct pare_layer_info *l, struct target *t)
{
    const struct pare_graph *g = s->m->graph;
    struct pare_linear p;
    const char *name;
    struct pare_node *one;
    int out = -1, in = -1;

    *t = (struct target){ .damping = s->r->damping > 0 ? s->r->damping : DAMPING };
    if (!l->weight || l->shared || !pare_gram_of(l, &t->gram) || !l->node->op->axes ||
        !l->node->op->linear(l->node, &p))
        return false;
    l->node->op->axes(l->node, &out, &in);
    out = pare_root_axis(l->weight, out);
    in = pare_root_axis(l->weight, in);
    name = pare_value_root(l->weight)->name;
    t->w = pare_graph_find(g, name);
    t->dense = pare_graph_find(s->r->dense->graph, name);
    if (!t->w || !t->dense || out < 0 || in < 0 || t->w->t.dtype != PARE_F32 ||
        !(t->w->flags & PARE_V_CONST) || !(t->dense->flags & PARE_V_CONST) || t->w->maker ||
        !pare_same_shape(&t->w->t, &t->dense->t) ||
        pare_numel(&t->w->t) != t->gram.groups * t->gram.rows * t->gram.k ||
        readers(g, t->w, &one) != 1 || (t->w->t.rank > 2 && (out != 0 || in != 1)))
        return false;
    t->row = out == 0 ? t->gram.k : 1;
    t->column = out == 0 ? 1 : t->gram.rows;
    find_bias(s->m, l, &p, t);
    return true;
}

/* ---- one matrix ------------------------------------------------------------------------------ */

/* The matrix of a group without the rows that are 0. */
struct part {
    const struct target *t;
    int64_t g, rows, *row;   /* row: of the layer */
    uint8_t *keep;           /* (rows, k): weights that may change; or (k) for all rows */
    double *w, *out, *shift; /* (rows, k): of the dense model, fitted; (rows) */
    double damping;
    bool sparse; /* single weights are 0: keep has a row for each row */
    bool lost;   /* some were removed */
};

static float weight_at(const struct pare_value *v, const struct target *t, int64_t row, int64_t k)
{
    return pare_f32(&v->t)[row * t->row + k * t->column];
}

static double variance(const struct target *t, int64_t g, int64_t k)
{
    const struct pare_gram *x = &t->gram;
    double m = t->bias ? x->mean[g * x->k + k] : 0;

    return x->g[(g * x->k + k) * x->k + k] - m * m;
}

/* Columns that vary in the model and that some row uses; is a row of them partly 0? */
static void choose_columns(struct part *p)
{
    const struct target *t = p->t;
    double most = 0;

    for (int64_t k = 0; k < t->gram.k; k++)
        most = fmax(most, variance(t, p->g, k));
    for (int64_t k = 0; k < t->gram.k; k++) {
        int64_t zeros = 0, lost = 0;

        for (int64_t i = 0; i < p->rows; i++) {
            bool zero = weight_at(t->w, t, p->row[i], k) == 0;

            zeros += zero;
            lost += zero && weight_at(t->dense, t, p->row[i], k) != 0;
        }
        p->keep[k] = variance(t, p->g, k) > CONSTANT * most && !(lost && zeros == p->rows);
        p->sparse |= p->keep[k] && zeros && zeros < p->rows;
        p->lost |= lost > 0;
    }
    for (int64_t i = p->rows - 1; i >= 0 && p->sparse; i--)
        for (int64_t k = 0; k < t->gram.k; k++)
            p->keep[i * t->gram.k + k] = p->keep[k] && weight_at(t->w, t, p->row[i], k) != 0;
}

static int open_part(const struct target *t, int64_t g, struct pare_arena *a, struct part *p,
                     struct pare_err *err)
{
    const int64_t rows = t->gram.rows, k = t->gram.k;
    double scarce = t->gram.n > 0 ? ENOUGH * (double)k / t->gram.n : 1;
    size_t n = (size_t)rows * (size_t)k + 1;

    *p = (struct part){ .t = t,
                        .g = g,
                        .row = pare_alloc(a, (size_t)rows + 1, sizeof(*p->row)),
                        .keep = pare_alloc(a, n, 1),
                        .w = pare_alloc(a, n, sizeof(double)),
                        .out = pare_alloc(a, n, sizeof(double)),
                        .shift = pare_alloc(a, (size_t)rows + 1, sizeof(double)),
                        .damping = t->damping * (scarce > 1 ? scarce * scarce : 1) };
    if (!p->row || !p->keep || !p->w || !p->out || !p->shift)
        return pare_no_memory(err, "to repair layers");
    for (int64_t r = g * rows; r < (g + 1) * rows; r++) {
        bool any = false;

        for (int64_t i = 0; i < k; i++)
            any |= weight_at(t->w, t, r, i) != 0;
        if (any)
            p->row[p->rows++] = r;
    }
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t c = 0; c < k; c++)
            p->w[i * k + c] = (double)weight_at(t->dense, t, p->row[i], c);
    choose_columns(p);
    return 0;
}

static void put_row(const struct part *p, int64_t i, const double *w, double shift)
{
    const struct target *t = p->t;

    for (int64_t c = 0; c < t->gram.k; c++)
        pare_f32_mut(&t->w->t)[p->row[i] * t->row + c * t->column] = (float)w[c];
    if (t->bias)
        pare_f32_mut(&t->bias->t)[p->row[i]] += (float)(t->sign * shift);
}

static bool is_unchanged(const struct pare_gram *x)
{
    double most = 0, off = 0;

    for (int64_t i = 0; i < x->groups * x->k * x->k; i++) {
        most = fmax(most, fabs(x->g[i]));
        off = fmax(off, fabs(x->g[i] - x->cross[i]));
    }
    return !(off > UNCHANGED * most);
}

/* Rows that have the same weights of 0. */
struct same_rows {
    const int64_t *list; /* NULL: the first n */
    int64_t n;
    int threads;
};

static int fit_rows(const struct part *p, const struct same_rows *r, struct pare_arena *a,
                    bool *done, struct pare_err *err)
{
    const struct pare_gram *x = &p->t->gram;
    const int64_t *list = r->list, n = r->n;
    size_t size = (size_t)n * (size_t)x->k + 1;
    struct pare_least_squares l = { .rows = n,
                                    .k = x->k,
                                    .g = x->g + p->g * x->k * x->k,
                                    .cross = x->cross + p->g * x->k * x->k,
                                    .keep = p->keep + (list && p->sparse ? list[0] * x->k : 0),
                                    .damping = p->damping,
                                    .threads = r->threads };
    double *w = list ? pare_alloc(a, size, sizeof(*w)) : p->w;

    l.w = w;
    l.out = list ? pare_alloc(a, size, sizeof(*l.out)) : p->out;
    l.shift = list ? pare_alloc(a, (size_t)n + 1, sizeof(*l.shift)) : p->shift;
    if (!w || !l.out || !l.shift)
        return pare_no_memory(err, "to repair layers");
    for (int64_t i = 0; i < n && list; i++)
        memcpy(w + i * x->k, p->w + list[i] * x->k, (size_t)x->k * sizeof(*w));
    if (p->t->bias) {
        l.mean = x->mean + p->g * x->k;
        l.cross_mean = x->cross_mean + p->g * x->k;
    }
    PARE_TRY(pare_least_squares(&l, a, err));
    *done = !l.failed;
    for (int64_t i = 0; i < n && !l.failed; i++)
        put_row(p, list ? list[i] : i, l.out + i * x->k, l.shift[i]);
    return 0;
}

/* ---- rows with weights of 0 ------------------------------------------------------------------ */

/* Rows in lists of those with the same weights of 0: list i is order[start[i]], ... */
struct row_lists {
    int64_t *order, *start, n;
};

static uint64_t hash_row(const uint8_t *keep, int64_t k)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (int64_t i = 0; i < k; i++)
        h = (h ^ keep[i]) * 1099511628211u;
    return h;
}

static int list_rows(const struct part *p, struct pare_arena *a, struct row_lists *r,
                     struct pare_err *err)
{
    const int64_t k = p->t->gram.k;
    size_t n = (size_t)p->rows + 1;
    uint64_t *hash = pare_alloc(a, n, sizeof(*hash));
    bool *taken = pare_alloc(a, n, sizeof(*taken));
    int64_t at = 0;

    r->order = pare_alloc(a, n, sizeof(*r->order));
    r->start = pare_alloc(a, n, sizeof(*r->start));
    r->n = 0;
    if (!hash || !taken || !r->order || !r->start)
        return pare_no_memory(err, "to repair layers");
    for (int64_t i = 0; i < p->rows; i++)
        hash[i] = hash_row(p->keep + i * k, k);
    for (int64_t i = 0; i < p->rows; i++) {
        if (taken[i])
            continue;
        r->start[r->n++] = at;
        for (int64_t e = i; e < p->rows; e++)
            if (!taken[e] && hash[e] == hash[i] &&
                !memcmp(p->keep + e * k, p->keep + i * k, (size_t)k)) {
                taken[e] = true;
                r->order[at++] = e;
            }
    }
    r->start[r->n] = at;
    return 0;
}

static int fit_lists(const struct repairer *s, const struct part *p, const struct row_lists *r,
                     bool *done, struct pare_err *err)
{
    int outer = r->n >= s->threads ? s->threads : 1, rc = 0;
    bool any = false;

#pragma omp parallel for num_threads(outer) if (outer > 1) schedule(dynamic)
    for (int64_t i = 0; i < r->n; i++) {
        struct pare_arena *a = pare_arena_new(1 << 16);
        struct pare_err e = { 0 };
        bool fitted = false;
        struct same_rows rows = { r->order + r->start[i], r->start[i + 1] - r->start[i],
                                  outer > 1 ? 1 : s->threads };
        int code = a ? fit_rows(p, &rows, a, &fitted, &e) : pare_no_memory(&e, "to repair layers");

        pare_arena_free(a);
#pragma omp critical
        {
            any |= fitted;
            if (code && !rc) {
                rc = code;
                *err = e;
            }
        }
    }
    *done = any;
    return rc;
}

static int repair_group(const struct repairer *s, const struct target *t, int64_t g,
                        struct pare_arena *a, bool *done, struct pare_err *err)
{
    struct row_lists r;
    struct part p;

    if (s->r->ample && t->gram.n < ENOUGH * (double)t->gram.k) {
        *done = false;
        return 0;
    }
    PARE_TRY(open_part(t, g, a, &p, err));
    *done = true;
    if (!p.rows || (t->unchanged && !p.lost))
        return 0;
    if (!p.sparse)
        return fit_rows(&p, &(struct same_rows){ NULL, p.rows, s->threads }, a, done, err);
    PARE_TRY(list_rows(&p, a, &r, err));
    return fit_lists(s, &p, &r, done, err);
}

/* ---- all layers ------------------------------------------------------------------------------ */

/* Did weights of rows that are left become 0? */
static bool has_lost(const struct target *t)
{
    for (int64_t r = 0; r < t->gram.groups * t->gram.rows; r++) {
        bool lost = false, any = false;

        for (int64_t i = 0; i < t->gram.k; i++) {
            bool zero = weight_at(t->w, t, r, i) == 0;

            any |= !zero;
            lost |= zero && weight_at(t->dense, t, r, i) != 0;
        }
        if (any && lost)
            return true;
    }
    return false;
}

static int repair_layer(const struct repairer *s, struct target *t, struct pare_err *err)
{
    struct pare_arena *a;
    bool any = false, all = true;
    int rc = 0;

    PARE_TRY(pare_model_own(s->m, t->w, err)); /* they may not be in memory yet */
    PARE_TRY(pare_model_own(s->r->dense, t->dense, err));
    t->unchanged = is_unchanged(&t->gram);
    if (t->unchanged && !has_lost(t))
        return 0;
    if (t->bias)
        PARE_TRY(pare_model_own(s->m, t->bias, err));
    a = pare_arena_new(1 << 18);
    if (!a)
        return pare_no_memory(err, "to repair layers");
    for (int64_t g = 0; g < t->gram.groups && !rc; g++) {
        struct pare_mark mark = pare_mark(a);
        bool done = false;

        rc = repair_group(s, t, g, a, &done, err);
        any |= done;
        all &= done;
        pare_rewind(a, mark);
    }
    pare_arena_free(a);
    s->r->layers += any;
    s->r->skipped += !any && !all;
    return pare_at(err, rc, "layer '%s'", t->gram.layer->name);
}

static int repair_wave(const struct repairer *s, int from, int to, struct pare_err *err)
{
    const struct pare_repair *r = s->r;
    struct pare_arena *a = pare_arena_new(1 << 18);
    struct pare_gram *g = a ? pare_alloc(a, (size_t)(to - from), sizeof(*g)) : NULL;
    struct pare_gram_source source = { .model = s->m,
                                       .other = r->dense,
                                       .data = r->data,
                                       .items = r->items > 0 ? r->items : ITEMS,
                                       .flops = r->flops > 0 ? r->flops : FLOPS,
                                       .dist = r->dist,
                                       .threads = r->threads,
                                       .progress = r->progress,
                                       .user = r->user };
    int rc = g ? 0 : pare_no_memory(err, "to repair layers");

    for (int i = from; i < to && !rc; i++)
        g[i - from] = s->t[i].gram;
    if (!rc)
        rc = pare_grams_collect(&source, a, g, to - from, err);
    for (int i = from; i < to && !rc; i++) {
        s->t[i].gram = g[i - from];
        rc = repair_layer(s, &s->t[i], err);
    }
    pare_arena_free(a);
    return rc;
}

/* Is a constant of the node another one than in the dense model? */
static bool is_changed(const struct repairer *s, const struct pare_node *n)
{
    if (pare_node_body(n, 0, NULL))
        return true;
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k], *d;

        if (!v || !(v->flags & PARE_V_CONST) || v->maker || v->t.dtype != PARE_F32)
            continue;
        d = pare_graph_find(s->r->dense->graph, v->name);
        if (!d || !v->t.data || !d->t.data || !pare_same_shape(&v->t, &d->t) ||
            memcmp(v->t.data, d->t.data, (size_t)pare_numel(&v->t) * sizeof(float)) != 0)
            return true;
    }
    return false;
}

/* The first layer that may need a fit: before the first node that changed, all is as it was. */
static int first_target(const struct repairer *s)
{
    const struct pare_graph *g = s->m->graph;
    int first = 0, i = 0;

    while (i < g->n_nodes && !is_changed(s, g->node[i]))
        i++;
    while (first < s->n && s->t[first].gram.layer->node->id < i)
        first++;
    return first;
}

static int repair_all(struct repairer *s, struct pare_err *err)
{
    struct pare_layer_info *list;
    struct pare_graph *g;
    int n, most, first;

    PARE_TRY(pare_model_layers(s->m, s->a, &g, &list, &n, err));
    s->t = pare_alloc(s->a, (size_t)n + 1, sizeof(*s->t));
    if (!s->t)
        return pare_no_memory(err, "to repair layers");
    for (int i = 0; i < n; i++)
        s->n += find_target(s, &list[i], &s->t[s->n]);
    most = (int)((s->n + (s->r->passes ? s->r->passes : PASSES) - 1) /
                 (s->r->passes ? s->r->passes : PASSES));
    first = first_target(s);
    for (int from = first, to; from < s->n; from = to) {
        double bytes = 0;

        for (to = from; to < s->n && to - from < most; to++) {
            bytes += (double)pare_gram_bytes(&s->t[to].gram, true);
            if (to > from && bytes > WAVE_BYTES)
                break;
        }
        PARE_TRY(repair_wave(s, from, to, err));
    }
    return 0;
}

void pare_repair_update_copies(struct pare_compression *c)
{
    for (int i = 0; c && i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (l->weight && l->w.data != l->weight->t.data)
            memcpy(l->w.data, l->weight->t.data, (size_t)pare_numel(&l->w) * sizeof(float));
        if (l->bias && l->b.data != l->bias->t.data)
            memcpy(l->b.data, l->bias->t.data, (size_t)pare_numel(&l->b) * sizeof(float));
    }
}

int pare_repair(struct pare_model *m, struct pare_repair *r, struct pare_compression *c,
                struct pare_err *err)
{
    struct repairer s = { .m = m,
                          .r = r,
                          .a = pare_arena_new(1 << 18),
                          .threads = r->threads > 0 ? r->threads : omp_get_max_threads() };
    int rc = s.a ? repair_all(&s, err) : pare_no_memory(err, "to repair layers");

    r->layers = rc ? 0 : r->layers;
    pare_repair_update_copies(c);
    pare_arena_free(s.a);
    return pare_at(err, rc, "repair");
}

int pare_repair_masked(struct pare_compression *c, int64_t items, struct pare_err *err)
{
    struct pare_repair r = { .data = c->data,
                             .items = items,
                             .dist = c->dist,
                             .threads = c->threads,
                             .progress = c->progress,
                             .user = c->progress_user };
    int rc;

    pare_compression_restore(c);
    rc = pare_model_duplicate(c->model, &r.dense, err);
    if (!rc)
        rc = pare_compression_write_weights(c, err);
    if (!rc)
        rc = pare_repair(c->model, &r, c, err);
    pare_model_free(r.dense);
    return rc;
}
