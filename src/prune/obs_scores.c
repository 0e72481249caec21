/* obs_scores.c - scores of single weights and blocks by exact optimal brain surgeon: traces of all
 * rows of a layer, in parallel.
 *
 * A trace of k columns takes k^3 / 6 multiplications, so layers with many inputs are cut into spans
 * of columns whose correlations with other spans are ignored.
 */
#include "obs_scores.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "mask_job.h"
#include "obs_trace.h"

struct job {
    const struct pare_input_gram *m;
    const struct pare_obs_options *o;
    const struct pare_fisher *f; /* or NULL */
    struct pare_arena *a;
    struct pare_hessian *h;     /* by group of the convolution */
    int64_t block, parts, rows; /* rows of a unit; groups that it has rows of; rows of each */
    int32_t *group, *most;      /* of the pattern, by column; by group */
    double *inverse, *w;        /* of the span: (groups, k, k), (rows, k) */
    int64_t from, k;            /* the span */
    int threads;
    float *score;
    double scale; /* of the layer */
};

static int open_rows(struct job *j, struct pare_err *err)
{
    const struct pare_gram *g = &j->m->gram;
    const struct pare_layer *l = j->m->l;

    j->block = l->prune->units.block[l->out_axis];
    if (l->prune->units.rank != l->w.rank || pare_units_size(&l->prune->units) != j->block)
        return pare_fail(err, PARE_ECONFIG,
                         "pruner obs removes single weights, blocks of output channels or output "
                         "channels; use granularity element, block_4x1, block_8x1 or out_channel");
    j->parts = g->rows % j->block ? j->block / g->rows : 1;
    j->rows = j->block / j->parts;
    if (j->parts * j->rows != j->block || (j->parts > 1 && j->rows != g->rows))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "blocks of %lld output channels overlap groups of %lld; use granularity "
                         "element",
                         (long long)j->block, (long long)g->rows);
    return 0;
}

/* Groups of m consecutive columns along the axis of the pattern. */
static int open_pattern(struct job *j, struct pare_err *err)
{
    const struct pare_layer *l = j->m->l;
    const int64_t k = j->m->gram.k, m = l->prune->m;
    int axis = pare_layer_pattern_axis(l);
    int64_t inner = 1, len = l->w.dim[axis], runs = m ? (len + m - 1) / m : 0;

    if (!m)
        return 0;
    for (int i = axis + 1; i < l->w.rank; i++)
        inner *= i == l->out_axis ? 1 : l->w.dim[i];
    j->group = pare_alloc(j->a, (size_t)k + 1, sizeof(*j->group));
    j->most = pare_alloc(j->a, (size_t)k + 1, sizeof(*j->most));
    if (!j->group || !j->most)
        return pare_no_memory(err, "to trace weights");
    for (int64_t c = 0; c < k; c++) {
        int64_t at = c / inner % len;

        j->group[c] = (int32_t)((c / inner / len * runs + at / m) * inner + c % inner);
        j->most[j->group[c]]++;
    }
    for (int64_t i = 0; i < k; i++)
        j->most[i] = j->most[i] > l->prune->n ? (int32_t)(j->most[i] - l->prune->n) : 0;
    return 0;
}

/* Columns of a span: a multiple of what belongs together. */
static int64_t span_of(const struct job *j)
{
    const struct pare_layer *l = j->m->l;
    int64_t unit = j->m->gram.k / (l->w.dim[l->in_axis] > 0 ? l->w.dim[l->in_axis] : 1);

    unit *= l->prune->m ? l->prune->m : 1;
    return j->o->span > unit ? j->o->span / unit * unit : unit;
}

static int open_groups(struct job *j, struct pare_err *err)
{
    const struct pare_gram *g = &j->m->gram;
    double power = 0;

    j->h = pare_alloc(j->a, (size_t)g->groups, sizeof(*j->h));
    if (!j->h)
        return pare_no_memory(err, "to trace weights");
    for (int64_t i = 0; i < g->groups; i++) {
        PARE_TRY(pare_hessian(j->m, i, j->o->gram.damping, j->a, &j->h[i], err));
        for (int64_t r = 0; r < g->rows; r++)
            power += j->h[i].output[r] / (double)(g->groups * g->rows);
    }
    j->scale = !strcmp(j->o->scale, "none") || !(power > 0) ? 1 : 1 / power;
    return 0;
}

/* The factor of the costs of a row. */
static double scale_of(const struct job *j, int64_t group, int64_t row)
{
    double power = j->h[group].output[row];

    if (j->f)
        return pare_fisher_cost(j->f, group * j->m->gram.rows + row);
    if (strcmp(j->o->scale, "row"))
        return j->scale;
    return power > 0 ? 1 / power : 0;
}

/* Inverses and weights of columns [from, from + k). */
static int open_span(struct job *j, struct pare_err *err)
{
    const struct pare_gram *g = &j->m->gram;
    int raised = 0;

    for (int64_t i = 0; i < g->groups; i++) {
        double *h = j->inverse + i * j->k * j->k;
        struct pare_hessian part = { .k = j->k, .h = h };

        for (int64_t c = 0; c < j->k; c++)
            memcpy(h + c * j->k, j->h[i].h + (j->from + c) * g->k + j->from,
                   (size_t)j->k * sizeof(*h));
        PARE_TRY(pare_hessian_invert(&part, NULL, j->threads, &raised, j->a, err));
        for (int64_t r = 0; r < g->rows; r++) {
            double by = sqrt(scale_of(j, i, r));

            for (int64_t c = 0; c < j->k; c++)
                j->w[(i * g->rows + r) * j->k + c] = by * j->h[i].w[r * g->k + j->from + c];
        }
    }
    return 0;
}

static void put_scores(const struct job *j, int64_t unit, const double *cost)
{
    const struct pare_layer *l = j->m->l;
    int64_t units = j->m->gram.groups * j->m->gram.rows / j->block;
    int64_t row = l->out_axis == 0 ? j->m->gram.k : 1, column = l->out_axis == 0 ? 1 : units;

    for (int64_t c = 0; c < j->k; c++)
        j->score[unit * row + (j->from + c) * column] = cost[c] < (double)FLT_MAX ? (float)cost[c]
                                                                                  : FLT_MAX;
}

/* Spans do not cut groups, so the groups of a span are as many as its columns at most. */
static int32_t first_group(const struct job *j)
{
    int32_t least = INT32_MAX;

    for (int64_t c = j->from; c < j->from + j->k && j->group; c++)
        least = j->group[c] < least ? j->group[c] : least;
    return least;
}

/* The column that is removed last.  The bias of an output leaves with its last weight, which no
 * cost of weights shows, so that one is kept as long as others are left. */
static int64_t last_of(const double *cost, int64_t k)
{
    int64_t last = 0;

    for (int64_t i = 1; i < k; i++)
        last = cost[i] >= cost[last] ? i : last;
    return last;
}

static void trace_unit(const struct job *j, int64_t unit, double *cost, double *room)
{
    const struct pare_gram *g = &j->m->gram;
    int64_t first = unit * j->block, part = first / g->rows;
    struct pare_obs_trace t = { .parts = j->parts,
                                .rows = j->rows,
                                .k = j->k,
                                .w = j->w + first * j->k,
                                .inverse = j->inverse + part * j->k * j->k,
                                .group = j->group ? j->group + j->from : NULL,
                                .most = j->most,
                                .first = first_group(j),
                                .cost = cost,
                                .steps = -1 };

    pare_obs_trace(&t, room);
    if (j->m->l->bias && j->k == g->k && !j->group)
        cost[last_of(cost, j->k)] = (double)INFINITY;
    put_scores(j, unit, cost);
}

static int trace_span(const struct job *j, struct pare_err *err)
{
    int64_t units = j->m->gram.groups * j->m->gram.rows / j->block;
    struct pare_obs_trace sizes = { .parts = j->parts, .rows = j->rows, .k = j->k };
    int64_t each = pare_obs_trace_room(&sizes) + j->k;
    double *room = pare_alloc_raw(j->a, (size_t)(each * j->threads) + 1, sizeof(*room));
    int threads = j->threads;

    if (!room)
        return pare_no_memory(err, "to trace weights");
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic)
    for (int64_t i = 0; i < units; i++) {
        double *mine = room + each * omp_get_thread_num();

        trace_unit(j, i, mine, mine + j->k);
    }
    return 0;
}

static int trace_all(struct job *j, struct pare_err *err)
{
    const struct pare_gram *g = &j->m->gram;
    int64_t span = span_of(j), most = span < g->k ? span : g->k;

    j->inverse = pare_alloc_raw(j->a, (size_t)(g->groups * most * most) + 1, sizeof(double));
    j->w = pare_alloc_raw(j->a, (size_t)(g->groups * g->rows * most) + 1, sizeof(double));
    if (!j->inverse || !j->w)
        return pare_no_memory(err, "to trace weights");
    for (j->from = 0; j->from < g->k; j->from += span) {
        struct pare_mark mark = pare_mark(j->a);

        j->k = g->k - j->from < span ? g->k - j->from : span;
        PARE_TRY(open_span(j, err));
        PARE_TRY(trace_span(j, err));
        pare_rewind(j->a, mark);
    }
    return 0;
}

bool pare_obs_by_fisher(const struct pare_obs_options *o)
{
    return !strcmp(o->scale, "fisher") || !strcmp(o->scale, "outputs");
}

int pare_obs_scores(const struct pare_input_gram *m, const struct pare_obs_options *o,
                    const struct pare_fisher *f, float *score, struct pare_err *err)
{
    int threads = m->l->compression->threads;
    struct job j = { .m = m,
                     .o = o,
                     .f = f,
                     .a = pare_arena_new(1 << 18),
                     .threads = threads > 0 ? threads : omp_get_max_threads(),
                     .score = score };
    int rc = j.a ? open_rows(&j, err) : pare_no_memory(err, "to trace weights");

    if (!rc)
        rc = open_pattern(&j, err);
    if (!rc)
        rc = open_groups(&j, err);
    if (!rc)
        rc = trace_all(&j, err);
    pare_arena_free(j.a);
    return rc;
}
