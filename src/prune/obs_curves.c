/* obs_curves.c - error curves of channels: which columns of which layers a group is, and the
 * removals (obs_columns.h) of all sets of groups, in parts that fit in memory. */
#include "obs_curves.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/map.h"
#include "../compress/fisher.h"
#include "../compress/wrap.h"
#include "../graph/free_dims.h"
#include "../graph/removal_units.h"
#include "../onnx/model.h"
#include "../tensor/tensor.h"
#include "obs_columns.h"

#define WAVE_BYTES 768e6 /* Grams of the layers that read some sets */

/* A layer that reads channels; it need not be wrapped. */
struct reader {
    struct pare_layer layer; /* as much of it as pare_input_gram_of() needs */
    struct pare_input_gram gram;
    int64_t in, kernel;        /* input channels of a group; columns of each */
    int64_t *unit;             /* (in): removal units; -1: unknown */
    struct pare_fisher fisher; /* with scale fisher; else f is NULL */
};

struct job {
    struct pare_compression *c;
    const struct pare_obs_options *o;
    struct pare_arena *a; /* of the curves */
    const struct pare_dependency_groups *d;
    const struct pare_value **weight; /* of wrapped layers, in the graph of `units` */
    struct pare_removal_units *units;
    struct pare_graph *g;
    struct reader *reader;
    int n_readers;
    const struct pare_unit_groups *set; /* the current one */
    int64_t *group;                     /* by removal unit: its group in the set, or -1 */
};

/* ---- readers --------------------------------------------------------------------------------- */

static int open_reader(struct job *j, const struct pare_layer_info *info, struct reader *r,
                       bool *is, struct pare_err *err)
{
    struct pare_layer *l = &r->layer;
    const struct pare_value *v;
    int out = -1, in = -1;

    *is = false;
    *r = (struct reader){ .layer = { .compression = j->c, .info = *info } };
    if (!info->weight || info->shared || info->body || !info->node->op || !info->node->op->axes)
        return 0;
    info->node->op->axes(info->node, &out, &in);
    l->out_axis = pare_root_axis(info->weight, out);
    l->in_axis = pare_root_axis(info->weight, in);
    l->weight = pare_graph_find(j->c->model->graph, pare_value_root(info->weight)->name);
    v = pare_map_get(&j->g->names, pare_value_root(info->weight)->name);
    if (!l->weight || !v || l->weight->t.dtype != PARE_F32 || !pare_layer_is_product(info))
        return 0;
    PARE_TRY(pare_model_own(j->c->model, l->weight, err));
    l->w = l->weight->t;
    l->bias = info->bias;
    if (pare_input_gram_check(l, NULL) || !pare_input_gram_of(l, &r->gram))
        return 0;
    r->in = l->w.dim[l->in_axis];
    r->kernel = r->gram.gram.k / r->in;
    r->unit = pare_alloc(j->c->scratch, (size_t)r->in + 1, sizeof(*r->unit));
    if (!r->unit)
        return pare_no_memory(err, "for error curves");
    for (int64_t i = 0; i < r->in; i++)
        r->unit[i] = pare_removal_unit(j->units, v, l->in_axis, i);
    *is = r->in > 1 || r->gram.gram.groups == 1; /* a depthwise layer loses its output as well */
    return 0;
}

static int find_readers(struct job *j, struct pare_err *err)
{
    struct pare_layer_info *list;
    int n;

    PARE_TRY(pare_layers(j->c->scratch, j->c->graph, &list, &n, err));
    j->reader = pare_alloc(j->c->scratch, (size_t)n + 1, sizeof(*j->reader));
    if (!j->reader)
        return pare_no_memory(err, "for error curves");
    for (int i = 0; i < n; i++) {
        bool is;

        PARE_TRY(open_reader(j, &list[i], &j->reader[j->n_readers], &is, err));
        j->n_readers += is;
    }
    for (int i = 0; i < j->n_readers; i++) /* they have their final addresses */
        j->reader[i].gram.l = &j->reader[i].layer,
        j->reader[i].gram.gram.layer = &j->reader[i].layer.info;
    return 0;
}

/* ---- the groups of a set --------------------------------------------------------------------- */

static int64_t unit_of_group(const struct job *j, const struct pare_unit_groups *b, int64_t i)
{
    int l = b->layer[0];

    return j->weight[l] ? pare_removal_unit(j->units, j->weight[l], j->c->layer[l].out_axis,
                                            b->unit[i * b->n_layers])
                        : -1;
}

static void number_groups(struct job *j, const struct pare_unit_groups *b)
{
    j->set = b;
    for (int64_t i = 0; i < pare_removal_units_count(j->units); i++)
        j->group[i] = -1;
    for (int64_t i = 0; i < b->n; i++) {
        int64_t u = unit_of_group(j, b, i);

        if (u >= 0)
            j->group[u] = i;
    }
}

/* Input channels of the reader that belong to groups of the current set. */
static int64_t channels_read(const struct job *j, const struct reader *r)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->in; i++)
        n += r->unit[i] >= 0 && j->group[r->unit[i]] >= 0;
    return n;
}

/* Columns by group: of group i they are column[start[i]], ... */
static int list_columns(const struct job *j, const struct reader *r, struct pare_obs_columns *m,
                        struct pare_arena *a, struct pare_err *err)
{
    const int64_t n = j->set->n;
    int64_t *start = pare_alloc(a, (size_t)n + 2, sizeof(*start));
    int64_t *column = pare_alloc(a, (size_t)r->gram.gram.k + 1, sizeof(*column));

    if (!start || !column)
        return pare_no_memory(err, "for error curves");
    for (int64_t i = 0; i < r->in; i++)
        if (r->unit[i] >= 0 && j->group[r->unit[i]] >= 0)
            start[j->group[r->unit[i]] + 2] += r->kernel;
    for (int64_t i = 0; i <= n; i++)
        start[i + 1] += start[i];
    for (int64_t i = 0; i < r->in; i++)
        for (int64_t e = 0; e < r->kernel; e++)
            if (r->unit[i] >= 0 && j->group[r->unit[i]] >= 0)
                column[start[j->group[r->unit[i]] + 1]++] = i * r->kernel + e;
    m->start = start;
    m->column = column;
    return 0;
}

static int open_columns(const struct job *j, const struct reader *r, int64_t g,
                        struct pare_obs_columns *m, struct pare_arena *a, struct pare_err *err)
{
    struct pare_hessian h;
    double power = 0;
    int threads = j->c->threads > 0 ? j->c->threads : omp_get_max_threads(), raised = 0;

    PARE_TRY(pare_hessian(&r->gram, g, j->o->gram.damping, a, &h, err));
    for (int64_t i = 0; i < h.rows; i++)
        power += h.output[i] / (double)h.rows;
    for (int64_t i = 0; i < h.rows * h.k; i++) {
        double p = strcmp(j->o->scale, "row") ? power : h.output[i / h.k];

        if (r->fisher.f)
            h.w[i] *= sqrt(pare_fisher_cost(&r->fisher, g * h.rows + i / h.k));
        else
            h.w[i] *= !strcmp(j->o->scale, "none") ? 1 : p > 0 ? sqrt(1 / (p * (double)h.rows)) : 0;
    }
    PARE_TRY(pare_hessian_invert(&h, NULL, threads, &raised, a, err));
    *m = (struct pare_obs_columns){ .rows = h.rows,
                                    .k = h.k,
                                    .w = h.w,
                                    .inverse = h.h,
                                    .threads = threads };
    return list_columns(j, r, m, a, err);
}

/* ---- one set --------------------------------------------------------------------------------- */

static void add_price(const struct job *j, struct pare_obs_curve *v)
{
    for (int i = 0; i < v->set->n_layers; i++) {
        const struct pare_layer *l = &j->c->layer[v->set->layer[i]];

        v->params += (double)pare_units_size(&l->prune->units);
        v->macs += l->info.macs > 0 ? l->info.macs / (double)l->prune->units.n : 0;
    }
    for (int i = 0; i < j->n_readers; i++) {
        const struct reader *r = &j->reader[i];
        double part = (double)channels_read(j, r) / (double)(r->in * v->set->n);

        if (part > 0)
            v->reader[v->readers++] = (struct pare_obs_reader){ r->layer.info.name, part };
        v->params += part * (double)pare_numel(&r->layer.w);
        v->macs += part * (r->layer.info.macs > 0 ? r->layer.info.macs : 0);
    }
}

struct ordered {
    double cost;
    int64_t i;
};

static int by_cost(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;

    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* Nothing is known of what reads the channels: the smallest weights first. */
static int curve_of_weights(const struct job *j, struct pare_obs_curve *v, struct pare_arena *a,
                            struct pare_err *err)
{
    const struct pare_unit_groups *b = v->set;
    struct ordered *x = pare_alloc(a, (size_t)b->n + 1, sizeof(*x));
    double all = 0;

    if (!x)
        return pare_no_memory(err, "for error curves");
    for (int k = 0; k < b->n_layers; k++) {
        const struct pare_layer *l = &j->c->layer[b->layer[k]];
        float *square = pare_alloc(a, (size_t)l->prune->units.n + 1, sizeof(*square));

        if (!square)
            return pare_no_memory(err, "for error curves");
        if (!l->prune->follows)
            pare_units_sum(&l->prune->units, &l->w, 2, square);
        for (int64_t i = 0; i < b->n; i++)
            x[i].cost += (double)square[b->unit[i * b->n_layers + k]];
    }
    for (int64_t i = 0; i < b->n; i++) {
        x[i].i = i;
        all += x[i].cost;
    }
    qsort(x, (size_t)b->n, sizeof(*x), by_cost);
    for (int64_t i = 0; i < b->n; i++) {
        v->order[i] = x[i].i;
        v->error[i + 1] = v->error[i] + (all > 0 ? x[i].cost / all : 0);
    }
    return 0;
}

static int curve_of(struct job *j, struct pare_obs_curve *v, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 20);
    struct pare_obs_columns *m;
    int n = 0, rc = 0;

    if (!a)
        return pare_no_memory(err, "for error curves");
    number_groups(j, v->set);
    for (int i = 0; i < j->n_readers; i++)
        n += (int)j->reader[i].gram.gram.groups;
    m = pare_alloc(a, (size_t)n + 1, sizeof(*m));
    n = 0;
    rc = m ? 0 : pare_no_memory(err, "for error curves");
    for (int i = 0; i < j->n_readers && v->readers && !rc; i++)
        for (int64_t g = 0; g < j->reader[i].gram.gram.groups && !rc; g++)
            if (channels_read(j, &j->reader[i]))
                rc = pare_at(err, open_columns(j, &j->reader[i], g, &m[n++], a, err), "layer '%s'",
                             j->reader[i].layer.info.name);
    if (!rc && v->readers)
        rc = pare_obs_remove_columns(&(struct pare_obs_removal){ m, n, v->set->n, v->order,
                                                                 v->error },
                                     a, err);
    else if (!rc)
        rc = curve_of_weights(j, v, a, err);
    pare_arena_free(a);
    return rc;
}

/* ---- all sets -------------------------------------------------------------------------------- */

/* Grams of the readers of sets [from, to), then their curves. */
static int curves_of_wave(struct job *j, struct pare_obs_curves *v, int from, int to,
                          struct pare_err *err)
{
    struct pare_mark mark = pare_mark(j->c->scratch);
    struct pare_input_grams s = { .c = j->c, .items = j->o->gram.items };
    struct pare_input_gram *m = pare_alloc(j->c->scratch, (size_t)j->n_readers + 1, sizeof(*m));
    struct pare_arena *a = pare_arena_new(1 << 20);
    int *at = pare_alloc(j->c->scratch, (size_t)j->n_readers + 1, sizeof(*at)), n = 0, rc;

    rc = m && a && at ? 0 : pare_no_memory(err, "for error curves");
    for (int i = 0; i < j->n_readers && !rc; i++) {
        bool used = false;

        for (int k = from; k < to && !used; k++) {
            number_groups(j, v->list[k].set);
            used = channels_read(j, &j->reader[i]) > 0;
        }
        if (used) {
            m[n] = j->reader[i].gram;
            at[n++] = i;
        }
    }
    if (!rc && n)
        rc = pare_input_grams_collect(&s, m, n, a, err);
    for (int i = 0; i < n && !rc; i++)
        j->reader[at[i]].gram.gram = m[i].gram;
    for (int k = from; k < to && !rc; k++)
        rc = curve_of(j, &v->list[k], err);
    pare_arena_free(a);
    pare_rewind(j->c->scratch, mark);
    return rc;
}

static int open_curves(struct job *j, struct pare_obs_curves *v, struct pare_err *err)
{
    v->n = j->d->n;
    v->list = pare_alloc(j->a, (size_t)v->n + 1, sizeof(*v->list));
    for (int i = 0; i < v->n && v->list; i++) {
        struct pare_obs_curve *c = &v->list[i];

        c->set = &j->d->list[i];
        c->order = pare_alloc(j->a, (size_t)c->set->n + 1, sizeof(*c->order));
        c->error = pare_alloc(j->a, (size_t)c->set->n + 1, sizeof(*c->error));
        c->reader = pare_alloc(j->a, (size_t)j->n_readers + 1, sizeof(*c->reader));
        if (!c->order || !c->error || !c->reader)
            return pare_no_memory(err, "for error curves");
        number_groups(j, c->set);
        add_price(j, c);
    }
    return v->list ? 0 : pare_no_memory(err, "for error curves");
}

static double bytes_of(struct job *j, const struct pare_obs_curve *v)
{
    double bytes = 0;

    number_groups(j, v->set);
    for (int i = 0; i < j->n_readers; i++)
        if (channels_read(j, &j->reader[i]))
            bytes += (double)pare_gram_bytes(&j->reader[i].gram.gram, false);
    return bytes;
}

/* The Fisher information of the outputs of all readers. */
static int find_fisher(struct job *j, struct pare_err *err)
{
    struct pare_fisher *f = pare_alloc(j->a, (size_t)j->n_readers + 1, sizeof(*f));
    struct pare_fisher_source s = { .model = j->c->model,
                                    .data = j->c->data,
                                    .items = PARE_OBS_FISHER_ITEMS,
                                    .outputs = !strcmp(j->o->scale, "outputs"),
                                    .dist = j->c->dist,
                                    .threads = j->c->threads };

    if (!f)
        return pare_no_memory(err, "for error curves");
    for (int i = 0; i < j->n_readers; i++)
        f[i].layer = &j->reader[i].layer.info;
    PARE_TRY(pare_fisher_collect(&s, j->a, f, j->n_readers, err));
    for (int i = 0; i < j->n_readers; i++)
        j->reader[i].fisher = f[i];
    return 0;
}

static int all_curves(struct job *j, struct pare_obs_curves *v, struct pare_err *err)
{
    struct pare_all_sizes sizes;

    PARE_TRY(pare_compression_groups(j->c, &j->d, err));
    PARE_TRY(pare_graph_to_group(j->c, j->c->scratch, &sizes, err));
    j->g = sizes.g;
    PARE_TRY(pare_layer_weights(j->c, j->g, &j->weight, err));
    PARE_TRY(pare_graph_units(j->c, j->g, j->weight, j->c->n_layers, &j->units, err));
    j->group = pare_alloc(j->c->scratch, (size_t)pare_removal_units_count(j->units) + 1,
                          sizeof(*j->group));
    if (!j->group)
        return pare_no_memory(err, "for error curves");
    PARE_TRY(find_readers(j, err));
    if (pare_obs_by_fisher(j->o) && j->n_readers)
        PARE_TRY(find_fisher(j, err));
    PARE_TRY(open_curves(j, v, err));
    for (int from = 0, to; from < v->n; from = to) {
        double bytes = 0;

        for (to = from; to < v->n; to++) {
            bytes += bytes_of(j, &v->list[to]);
            if (to > from && bytes > WAVE_BYTES)
                break;
        }
        PARE_TRY(curves_of_wave(j, v, from, to, err));
    }
    return 0;
}

int pare_obs_curves(struct pare_compression *c, const struct pare_obs_options *o,
                    struct pare_arena *a, struct pare_obs_curves *curves, struct pare_err *err)
{
    struct job j = { .c = c, .o = o, .a = a };
    struct pare_mark mark = pare_mark(c->scratch);
    int rc;

    *curves = (struct pare_obs_curves){ 0 };
    rc = all_curves(&j, curves, err);
    pare_rewind(c->scratch, mark);
    return rc;
}
