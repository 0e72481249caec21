/* grams.c - Gram matrices of layer inputs, summed in double while batches run through a model.
 *
 * The inputs of a layer are gathered in a block of a thousand positions, whose products are then
 * added at once.  Products of two floats are exact in double, so that sums hardly depend on how
 * items are distributed over blocks and processes.
 */
#include "grams.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "../backend/conv/columns.h"
#include "../backend/gemm/cholesky.h"
#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/rng.h"
#include "../op/channels.h"
#include "../op/op.h"
#include "../plan/shape_plans.h"
#include "../tensor/tensor.h"

#define BATCH 32
#define BLOCK 1024             /* positions, at most */
#define BLOCK_BYTES (16 << 20) /* of a block */
#define LEAST 64               /* positions of an item that are always used */
#define SKEW 8                 /* row strides that are not a power of 2 */

struct collector {
    struct pare_gram *g;
    struct pare_columns columns;
    bool conv;
    int64_t room, used;      /* positions of a block */
    int64_t row, column;     /* strides of the block of a group: by input, by position */
    float *block[2], *strip; /* (groups, k, room): this model, the other one; im2col */
    int64_t *at;             /* positions of an item that are used */
    int64_t all, take;       /* positions of an item; those that are used */
};

struct run {
    const struct pare_gram_source *s;
    struct pare_arena *a;
    struct collector *c;
    int n, threads;
    struct pare_strs names[2]; /* observed values of both models */
    struct pare_shape_plans plans[2];
    double start;
};

/* ---- layers ---------------------------------------------------------------------------------- */

bool pare_gram_of(const struct pare_layer_info *layer, struct pare_gram *g)
{
    const struct pare_node *n = layer->node;
    const struct pare_value *w = layer->weight;
    struct pare_linear l;

    *g = (struct pare_gram){ .layer = layer };
    if (!w || !layer->in || layer->body || !n->op || !n->op->linear || !n->op->linear(n, &l) ||
        l.x != 0 || l.w != 1 || l.after || l.adds || l.groups < 1 || w->t.dtype != PARE_F32 ||
        n->in[0]->t.dtype != PARE_F32)
        return false;
    g->groups = l.groups;
    g->rows = w->t.dim[l.w_out] / l.groups;
    if (g->rows < 1 || pare_numel(&w->t) < 1)
        return false;
    g->k = pare_numel(&w->t) / w->t.dim[l.w_out];
    if (n->op->layer.kind == PARE_LAYER_LINEAR)
        return w->t.rank == 2 && l.groups == 1 && l.x_axis == n->in[0]->t.rank - 1;
    return pare_node_is(n, &pare_op_conv) && w->t.rank <= 5;
}

size_t pare_gram_bytes(const struct pare_gram *g, bool cross)
{
    double bytes = (double)g->groups * (double)g->k * (double)(g->k + 1) * sizeof(double) *
                   (cross ? 2 : 1);

    return bytes < 1e18 ? (size_t)bytes : (size_t)1e18;
}

static int64_t threads_of(const struct pare_gram_source *s)
{
    return s->threads > 0 ? s->threads : omp_get_max_threads();
}

static int open_collector(struct run *r, struct collector *c, struct pare_err *err)
{
    struct pare_gram *g = c->g;
    size_t matrix = (size_t)g->groups * (size_t)g->k;
    bool cross = r->s->other != NULL && !r->s->diagonal;

    c->room = BLOCK_BYTES / (int64_t)(matrix * sizeof(float));
    c->room = c->room > BLOCK ? BLOCK : c->room < LEAST ? LEAST : c->room;
    *(r->s->diagonal
          ? &g->diagonal
          : &g->g) = pare_alloc(r->a, matrix * (r->s->diagonal ? 1 : (size_t)g->k), sizeof(double));
    g->mean = pare_alloc(r->a, matrix, sizeof(double));
    for (int i = 0; i < 1 + cross; i++)
        c->block[i] = pare_alloc_raw(r->a, matrix * (size_t)(c->room + SKEW), sizeof(float));
    if (cross) {
        g->cross = pare_alloc(r->a, matrix * (size_t)g->k, sizeof(double));
        g->cross_mean = pare_alloc(r->a, matrix, sizeof(double));
    }
    if ((!g->g && !g->diagonal) || !g->mean || !c->block[0] ||
        (cross && (!g->cross || !g->cross_mean || !c->block[1])))
        return pare_no_memory(err, "for the statistics of layer '%s'", g->layer->name);
    g->n = 0;
    return 0;
}

/* The input of the layer in this model's graph. */
static const char *input_name(const struct pare_model *m, const struct pare_layer_info *l,
                              struct pare_err *err)
{
    const struct pare_value *y = pare_graph_find(m->graph, l->node->out[0]->name);

    if (y && y->maker && y->maker->n_in && y->maker->in[0])
        return y->maker->in[0]->name;
    pare_fail(err, PARE_EUNSUPPORTED, "layer '%s' is not in the model", l->name);
    return NULL;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void add_means(const struct collector *c, const float *block, int64_t group, double *mean)
{
    for (int64_t k = 0; k < c->g->k; k++) {
        const float *x = block + k * c->row;
        double sum = 0;

        for (int64_t p = 0; p < c->used; p++)
            sum += (double)x[p * c->column];
        mean[group * c->g->k + k] += sum;
    }
}

static void add_squares(const struct collector *c, const float *block, int64_t group)
{
    for (int64_t k = 0; k < c->g->k; k++) {
        const float *x = block + k * c->row;
        double sum = 0;

        for (int64_t p = 0; p < c->used; p++)
            sum += (double)x[p * c->column] * (double)x[p * c->column];
        c->g->diagonal[group * c->g->k + k] += sum;
    }
}

/* Adds the products of the block of a group. */
static void add_group(const struct collector *c, int64_t i, int threads)
{
    const struct pare_gram *g = c->g;
    int64_t each = g->k * (c->room + SKEW);
    const float *x = c->block[0] + i * each, *d = g->cross ? c->block[1] + i * each : NULL;
    struct pare_dgemm p = { .a = { NULL, x, c->row, c->column },
                            .b = { NULL, x, c->column, c->row },
                            .c = g->g ? g->g + i * g->k * g->k : NULL,
                            .m = g->k,
                            .n = g->k,
                            .k = c->used,
                            .ldc = g->k,
                            .sign = 1,
                            .lower = true,
                            .threads = threads };

    add_means(c, x, i, g->mean);
    if (g->diagonal) {
        add_squares(c, x, i);
        return;
    }
    pare_dgemm(&p);
    if (!d)
        return;
    p.a.f = d;
    p.c = g->cross + i * g->k * g->k;
    p.lower = false;
    pare_dgemm(&p);
    add_means(c, d, i, g->cross_mean);
}

static void flush(struct collector *c, int threads)
{
    const int64_t groups = c->g->groups;
    int outer = groups >= threads ? threads : 1;

    if (!c->used)
        return;
#pragma omp parallel for num_threads(outer) if (outer > 1) schedule(static)
    for (int64_t i = 0; i < groups; i++)
        add_group(c, i, outer > 1 ? 1 : threads);
    c->g->n += (double)c->used;
    c->used = 0;
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The positions of an item: all, or one at random from each of `take` equal parts.  They depend on
 * the item only, so that they are the same in any process. */
static void choose_positions(struct collector *c, int64_t item)
{
    struct pare_rng rng;

    pare_rng_init(&rng, (uint64_t)item);
    for (int64_t i = 0; i < c->take; i++) {
        int64_t from = i * c->all / c->take, to = (i + 1) * c->all / c->take;

        c->at[i] = from + (int64_t)pare_rng_below(&rng, (uint64_t)(to - from));
    }
}

/* Positions [from, to) of the list, of an image x, go to a block. */
static void gather_conv(struct collector *c, const float *x, int64_t from, int64_t to, float *block)
{
    const struct pare_columns *col = &c->columns;
    const int64_t *at = c->at;

    for (int64_t g = 0; g < c->g->groups; g++)
        for (int64_t i = from, end; i < to; i = end) {
            int64_t strip = at[i] / col->strip, first = strip * col->strip, row;
            const float *s = pare_columns_make(col, x + g * col->I * col->plane, strip, c->strip,
                                               &row);

            for (end = i; end < to && at[end] / col->strip == strip;)
                end++;
            for (int64_t k = 0; k < c->g->k; k++) {
                float *y = block + (g * c->g->k + k) * c->row + c->used + i - from;

                for (int64_t p = i; p < end; p++)
                    y[p - i] = s[k * row + at[p] - first];
            }
        }
}

static void gather_rows(struct collector *c, const float *x, int64_t from, int64_t to, float *block)
{
    for (int64_t i = from; i < to; i++)
        memcpy(block + (c->used + i - from) * c->column, x + c->at[i] * c->g->k,
               (size_t)c->g->k * sizeof(*x));
}

static void add_item(struct collector *c, const struct pare_tensor *const x[2], int64_t i,
                     int threads)
{
    int64_t n;

    for (int64_t from = 0; from < c->take; from += n) {
        n = c->take - from < c->room - c->used ? c->take - from : c->room - c->used;
        for (int m = 0; m < 1 + (x[1] != NULL); m++)
            (c->conv ? gather_conv
                     : gather_rows)(c, pare_f32(x[m]) + i * (pare_numel(x[m]) / x[m]->dim[0]), from,
                                    from + n, c->block[m]);
        c->used += n;
        if (c->used == c->room)
            flush(c, threads);
    }
}

/* ---- one batch ------------------------------------------------------------------------------- */

/* The window of the convolution over this input. */
static bool shape_conv(struct collector *c, const struct pare_tensor *x)
{
    struct pare_node n = *c->g->layer->node;
    struct pare_value in = { .t = *x }, *ins[2] = { &in, n.in[1] };

    n.in = ins;
    n.n_in = 2;
    return pare_columns_init(&n, &c->columns) && c->columns.w.group == c->g->groups &&
           c->columns.K == c->g->k;
}

/* Sizes for the shape of this input. */
static int shape(struct run *r, struct collector *c, const struct pare_tensor *x, int64_t items,
                 struct pare_err *err)
{
    double flops = (double)c->g->k * (r->s->diagonal ? 1 : (double)c->g->k), most;

    c->conv = c->g->layer->node->op->layer.kind == PARE_LAYER_CONV;
    if (x->dtype != PARE_F32 || x->rank < 2 || x->dim[0] < 1 ||
        (c->conv ? !shape_conv(c, x) : x->dim[x->rank - 1] != c->g->k))
        return pare_fail(err, PARE_ESHAPE, "layer '%s' has an input of another shape than expected",
                         c->g->layer->name);
    c->row = c->conv ? c->room + SKEW : 1;
    c->column = c->conv ? 1 : c->g->k;
    c->all = c->conv ? c->columns.pixels : pare_numel(x) / x->dim[0] / c->g->k;
    c->take = c->all;
    most = r->s->flops > 0 && x->dim[0] == items ? r->s->flops / flops / (double)r->s->items : 1e18;
    if (r->s->enough > 0 && c->g->groups > 1)
        most = fmin(most, (double)r->s->enough * (double)c->g->k / (double)r->s->items);
    most = most < LEAST ? LEAST : most;
    if (most < (double)c->all)
        c->take = (int64_t)most;
    c->at = pare_alloc_raw(r->a, (size_t)c->take + 1, sizeof(*c->at));
    if (c->conv)
        c->strip = pare_alloc_raw(r->a, (size_t)(c->g->k * c->columns.strip) + 1, sizeof(float));
    if (!c->at || (c->conv && !c->strip))
        return pare_no_memory(err, "for the statistics of layer '%s'", c->g->layer->name);
    return 0;
}

static int add_batch(struct run *r, const struct pare_batch *b, struct pare_plan *const plan[2],
                     struct pare_err *err)
{
    for (int i = 0; i < r->n && b->own > 0; i++) {
        struct collector *c = &r->c[i];
        const struct pare_tensor *x[2] = { pare_plan_value(plan[0], i),
                                           plan[1] ? pare_plan_value(plan[1], i) : NULL };
        struct pare_mark mark = pare_mark(r->a);

        if (x[1] && !pare_same_shape(x[0], x[1]))
            return pare_fail(err, PARE_ESHAPE, "the inputs of layer '%s' differ in shape",
                             c->g->layer->name);
        PARE_TRY(shape(r, c, x[0], pare_batch_items(b), err));
        for (int64_t k = 0; k < x[0]->dim[0]; k++) {
            choose_positions(c, x[0]->dim[0] == pare_batch_items(b) ? b->index[k] : k);
            add_item(c, x, k, r->threads);
        }
        flush(c, r->threads);
        pare_rewind(r->a, mark);
    }
    return 0;
}

/* ---- all batches ----------------------------------------------------------------------------- */

static int run_batch(struct run *r, const struct pare_batch *b, struct pare_err *err)
{
    const struct pare_model *m[2] = { r->s->model, r->s->other };
    struct pare_plan *plan[2] = { NULL, NULL };
    struct pare_tensor in[PARE_DATA_INPUTS], out[16];

    memcpy(in, b->in, (size_t)b->n_in * sizeof(*in));
    for (int i = 0; i < 2 && m[i]; i++) {
        struct pare_plan_opts o = { .threads = r->s->threads, .in = in, .batch = in[0].dim[0] };
        struct pare_plan_build build = { .opts = &o, .observe = r->names[i] };

        PARE_TRY(pare_shape_plans_get(&r->plans[i], m[i], &build, b->n_in, &plan[i], err));
        if (plan[i]->graph->n_out > 16)
            return pare_fail(err, PARE_ELIMIT, "the model has more than 16 outputs");
        PARE_TRY(pare_plan_execute(plan[i], in, out, err));
    }
    return add_batch(r, b, plan, err);
}

int64_t pare_fixed_batch(const struct pare_model *a, const struct pare_model *b)
{
    const struct pare_model *m[] = { a, b };

    for (int i = 0; i < 2; i++) {
        const struct pare_io *io;

        if (m[i] && pare_model_inputs(m[i], &io) > 0 && io[0].rank > 0 && io[0].dim[0] > 0)
            return io[0].dim[0];
    }
    return 0;
}

static int run_batches(struct run *r, struct pare_loader *loader, struct pare_err *err)
{
    const struct pare_gram_source *s = r->s;
    bool fixed = pare_fixed_batch(s->model, s->other) > 0;
    int64_t seen = 0, size = 0;

    while (seen < s->items) {
        struct pare_progress p = { "collect", seen, s->items, pare_now() - r->start };
        const struct pare_batch *b;

        if (s->progress && !s->progress(s->user, &p))
            return pare_fail(err, PARE_ECANCEL, "the collection of statistics was canceled");
        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b && seen)
            break; /* fewer items than asked for */
        if (!b)
            continue;
        if (size && b->whole != size && fixed)
            continue; /* the model takes batches of one size only */
        size = b->whole;
        pare_dist_batch(s->dist, b->own, b->whole);
        PARE_TRY(run_batch(r, b, err));
        seen += b->whole;
    }
    return 0;
}

static int open_loader(const struct pare_gram_source *s, struct pare_loader **loader,
                       struct pare_err *err)
{
    const struct pare_io *io;
    struct pare_loader_opts o = { .train = true,
                                  .batch = BATCH,
                                  .seed = 1,
                                  .rank = pare_dist_rank(s->dist),
                                  .ranks = pare_dist_size(s->dist) };

    o.n_inputs = pare_model_inputs(s->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    if (pare_fixed_batch(s->model, s->other) && o.ranks == 1)
        o.batch = pare_fixed_batch(s->model, s->other);
    if (o.batch > s->items)
        o.batch = s->items;
    return pare_loader_new(s->data, &o, loader, err);
}

/* Sums over all processes become means. */
static int finish(struct run *r, struct pare_err *err)
{
    for (int i = 0; i < r->n; i++) {
        struct pare_gram *g = r->c[i].g;
        int64_t n = g->groups * g->k;
        double *list[5] = { g->g, g->cross, g->mean, g->cross_mean, g->diagonal };

        PARE_TRY(pare_dist_merge(r->s->dist, PARE_MERGE_SUM, PARE_F64, &g->n, 1, err));
        for (int k = 0; k < 5; k++) {
            int64_t m = k < 2 ? n * g->k : n;

            if (!list[k])
                continue;
            PARE_TRY(pare_dist_merge(r->s->dist, PARE_MERGE_SUM, PARE_F64, list[k], m, err));
            for (int64_t e = 0; e < m && g->n > 0; e++)
                list[k][e] /= g->n;
        }
        for (int64_t k = 0; k < g->groups && g->g; k++)
            pare_mirror_lower(g->g + k * g->k * g->k, g->k);
    }
    return 0;
}

static int open_all(struct run *r, struct pare_gram *g, struct pare_err *err)
{
    const struct pare_model *m[2] = { r->s->model, r->s->other };

    if (!r->s->data)
        return pare_fail(err, PARE_ECONFIG,
                         "there is no data to collect statistics of: use --data");
    r->c = pare_alloc(r->a, (size_t)r->n + 1, sizeof(*r->c));
    if (!r->c)
        return pare_no_memory(err, "for statistics");
    for (int i = 0; i < r->n; i++) {
        r->c[i].g = &g[i];
        PARE_TRY(open_collector(r, &r->c[i], err));
    }
    for (int k = 0; k < 2 && m[k]; k++) {
        const char **v = pare_alloc(r->a, (size_t)r->n + 1, sizeof(*v));

        if (!v)
            return pare_no_memory(err, "for statistics");
        for (int i = 0; i < r->n; i++) {
            v[i] = input_name(m[k], g[i].layer, err);
            if (!v[i])
                return err->code;
        }
        r->names[k] = (struct pare_strs){ v, r->n };
    }
    return 0;
}

int pare_grams_collect(const struct pare_gram_source *s, struct pare_arena *a, struct pare_gram *g,
                       int n, struct pare_err *err)
{
    struct run r = { .s = s, .a = a, .n = n, .threads = (int)threads_of(s), .start = pare_now() };
    struct pare_loader *loader = NULL;
    int rc = open_all(&r, g, err);

    if (!rc)
        rc = open_loader(s, &loader, err);
    if (!rc)
        rc = run_batches(&r, loader, err);
    pare_shape_plans_free(&r.plans[0]);
    pare_shape_plans_free(&r.plans[1]);
    pare_loader_free(loader);
    return rc ? rc : finish(&r, err);
}
