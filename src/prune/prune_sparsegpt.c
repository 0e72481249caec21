/* prune_sparsegpt.c - SparseGPT pruner: remove weights column by column, and let the columns that
 * follow make up for them.  Frantar, Alistarh, "SparseGPT: massive language models can be
 * accurately pruned in one-shot", 2023, arXiv 2301.00774.
 *
 * With inverse(H) = U' U, U upper, removing w_j changes the columns after it by -w_j / U_jj U_j:.
 * At the start of each block of columns the weights of it with the smallest w_j^2 / U_jj^2 are
 * chosen, in all rows of the layer together; of a pattern n:m, those of every m columns of a row.
 * Second moments are not centered, and biases stay.  Layers are pruned in order, each with the
 * inputs of the layers that are pruned already, unless batch normalizations still have the
 * statistics of the dense model: their outputs drift until those are re-estimated.
 */
#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <string.h>

#include "../backend/gemm/cholesky.h"
#include "../base/arena.h"
#include "../base/simd.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "input_grams.h"
#include "mask_job.h"

struct opts {
    struct pare_gram_options gram;
    int64_t block;
    const char *inputs;
};

#define AT(field) offsetof(struct opts, field)

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("items", AT(gram.items), "items of the data for statistics of inputs",
             PARE_GRAM_ITEMS, 1, 1e9),
    PARE_FLOAT("damping", AT(gram.damping),
               "part of the mean power of inputs that is added to each (-1: 0.001 for "
               "convolutions, else 0.01)", -1, -1, 1),
    PARE_INT("columns", AT(block), "columns in which weights are chosen together", 128, 1, 1e9),
    PARE_CHOICE("inputs", AT(inputs),
                "inputs of layers: of the model before pruning, or with the layers before it "
                "pruned (default: dense if there are batch normalizations)", "default",
                "default|dense|pruned"),
    PARE_OPT_END
};
/* clang-format on */

/* One group of a layer, with its columns in the order in which they are pruned. */
struct job {
    const struct pare_input_gram *m;
    struct pare_hessian h;
    struct pare_arena *a;
    int64_t g, rows, k;      /* group; its matrix */
    int64_t unit;            /* rows that lose the same columns */
    int64_t *order;          /* (k): columns; those of an n:m group are consecutive */
    int64_t *run;            /* (k): the n:m group of a place in the order; NULL: none */
    double *u, *w, *carried; /* (k, k), (rows, k) in the order, (rows, columns) */
    uint8_t *keep;           /* (rows / unit, k) in the order */
    int64_t columns;
    int threads;
};

/* ---- the order of columns -------------------------------------------------------------------- */

/* Columns of a group of a pattern are along an axis of the weight, with `inner` columns between. */
static int make_order(struct job *j, struct pare_err *err)
{
    const struct pare_layer *l = j->m->l;
    const int64_t m = l->prune->m;
    int axis = m ? pare_layer_pattern_axis(l) : 0;
    int64_t inner = 1, len = m ? l->w.dim[axis] : 1, at = 0;

    j->order = pare_alloc(j->a, (size_t)j->k + 1, sizeof(*j->order));
    j->run = m ? pare_alloc(j->a, (size_t)j->k + 1, sizeof(*j->run)) : NULL;
    if (!j->order || (m && !j->run))
        return pare_no_memory(err, "to prune layers");
    for (int64_t i = 0; i < j->k && !m; i++)
        j->order[i] = i;
    for (int i = axis + 1; i < l->w.rank && m; i++)
        inner *= i == l->out_axis ? 1 : l->w.dim[i];
    for (int64_t o = 0, run = 0; o < j->k && m; o += len * inner)
        for (int64_t from = 0; from < len; from += m)
            for (int64_t i = 0; i < inner; i++, run++)
                for (int64_t e = from; e < from + m && e < len; e++, at++) {
                    j->order[at] = o + e * inner + i;
                    j->run[at] = run;
                }
    return 0;
}

/* ---- which weights --------------------------------------------------------------------------- */

/* The sum over the rows of a unit of (w / u_cc)^2. */
static double score_of(const struct job *j, int64_t unit, int64_t c)
{
    double sum = 0, u = j->u[c * j->k + c];

    for (int64_t r = unit * j->unit; r < (unit + 1) * j->unit; r++)
        sum += j->w[r * j->k + c] * j->w[r * j->k + c];
    return sum / (u * u);
}

/* Units of columns [from, to) with the lowest scores, in all rows. */
static int choose_block(const struct job *j, int64_t from, int64_t to, struct pare_err *err)
{
    struct pare_compression *c = j->m->l->compression;
    struct pare_mark mark = pare_mark(j->a);
    int64_t units = j->rows / j->unit, n = units * (to - from);
    float *score = pare_alloc_raw(j->a, (size_t)n + 1, sizeof(*score));
    uint8_t *keep = pare_alloc_raw(j->a, (size_t)n + 1, 1);
    double sparsity = pare_layer_sparsity(j->m->l);

    if (!score || !keep)
        return pare_no_memory(err, "to prune layers");
    for (int64_t i = 0; i < n; i++)
        score[i] = (float)score_of(j, i / (to - from), from + i % (to - from));
    PARE_TRY(pare_keep_largest(c, score, n, (int64_t)((double)n * sparsity), keep, err));
    for (int64_t i = 0; i < n; i++)
        j->keep[i / (to - from) * j->k + from + i % (to - from)] = keep[i];
    pare_rewind(j->a, mark);
    return 0;
}

/* At the first column of a group of a pattern, its n best columns of one unit of rows. */
static void choose_run(const struct job *j, int64_t unit, int64_t from)
{
    const int64_t k = j->k, n = j->m->l->prune->n;
    int64_t to = from;

    while (to < k && j->run[to] == j->run[from])
        to++;
    for (int64_t c = from; c < to; c++) {
        double x = score_of(j, unit, c);
        int64_t larger = 0;

        for (int64_t e = from; e < to; e++) {
            double y = score_of(j, unit, e);

            larger += y > x || (y >= x && e > c);
        }
        j->keep[unit * k + c] = larger < n;
    }
}

/* ---- errors that are carried on -------------------------------------------------------------- */

PARE_SIMD static void carry(double *w, const double *u, double e, int64_t n)
{
    for (int64_t t = 0; t < n; t++)
        w[t] -= e * u[t];
}

/* Columns [from, to) of the rows of a unit. */
static void prune_columns(const struct job *j, int64_t unit, int64_t from, int64_t to)
{
    const int64_t k = j->k;

    for (int64_t c = from; c < to; c++) {
        if (j->run && (c == 0 || j->run[c] != j->run[c - 1]))
            choose_run(j, unit, c);
        for (int64_t r = unit * j->unit; r < (unit + 1) * j->unit; r++) {
            double *w = j->w + r * k, e = 0;

            if (!j->keep[unit * k + c]) {
                e = w[c] / j->u[c * k + c];
                carry(w + c + 1, j->u + c * k + c + 1, e, to - c - 1);
                w[c] = 0;
            }
            j->carried[r * j->columns + c - from] = e;
        }
    }
}

static int prune_matrix(const struct job *j, struct pare_err *err)
{
    const int64_t k = j->k, units = j->rows / j->unit;
    int threads = j->threads;

    for (int64_t from = 0, to; from < k; from = to) {
        to = k - from < j->columns ? k : from + j->columns;
        while (j->run && to < k && to > from + 1 && j->run[to] == j->run[to - 1])
            to--; /* a block ends with a group of the pattern */
        if (!j->run)
            PARE_TRY(choose_block(j, from, to, err));
#pragma omp parallel for num_threads(threads) if (threads > 1 && units * k > 4096) schedule(static)
        for (int64_t i = 0; i < units; i++)
            prune_columns(j, i, from, to);
        pare_dgemm(&(struct pare_dgemm){ .a = { j->carried, NULL, j->columns, 1 },
                                         .b = { j->u + from * k + to, NULL, k, 1 },
                                         .c = j->w + to,
                                         .m = j->rows,
                                         .n = k - to,
                                         .k = to - from,
                                         .ldc = k,
                                         .sign = -1,
                                         .threads = threads });
    }
    return 0;
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* H in the order of columns. */
static int reorder(struct job *j, struct pare_err *err)
{
    const int64_t k = j->k;
    double *h = pare_alloc_raw(j->a, (size_t)(k * k) + 1, sizeof(*h));

    j->u = pare_alloc(j->a, (size_t)(k * k) + 1, sizeof(*j->u));
    j->w = pare_alloc_raw(j->a, (size_t)(j->rows * k) + 1, sizeof(*j->w));
    j->carried = pare_alloc(j->a, (size_t)(j->rows * j->columns) + 1, sizeof(*j->carried));
    j->keep = pare_alloc(j->a, (size_t)(j->rows * k) + 1, 1);
    if (!h || !j->u || !j->w || !j->carried || !j->keep)
        return pare_no_memory(err, "to prune layers");
    for (int64_t i = 0; i < k; i++)
        for (int64_t c = 0; c < k; c++)
            h[i * k + c] = j->h.h[j->order[i] * k + j->order[c]];
    for (int64_t i = 0; i < j->rows; i++)
        for (int64_t c = 0; c < k; c++)
            j->w[i * k + c] = j->h.w[i * k + j->order[c]];
    j->h.h = h;
    return 0;
}

/* Weights that are removed keep their values under the mask. */
static void put_matrix(const struct job *j)
{
    const struct pare_input_gram *m = j->m;
    uint8_t *mask = m->l->mask.data;

    for (int64_t r = 0; r < j->rows; r++)
        for (int64_t c = 0; c < j->k; c++) {
            int64_t at = (j->g * j->rows + r) * m->row + j->order[c] * m->column;

            mask[at] = j->keep[r / j->unit * j->k + c];
            if (mask[at] && !j->h.dead[j->order[c]])
                pare_f32_mut(&m->l->w)[at] = (float)j->w[r * j->k + c];
        }
}

static int prune_group(struct job *j, const struct opts *o, struct pare_err *err)
{
    int raised = 0;

    j->rows = j->m->gram.rows;
    j->k = j->m->gram.k;
    j->columns = o->block < j->k ? o->block : j->k;
    if (j->m->l->prune->m > j->columns)
        j->columns = j->m->l->prune->m;
    PARE_TRY(pare_hessian(j->m, j->g, o->gram.damping, j->a, &j->h, err));
    PARE_TRY(make_order(j, err));
    PARE_TRY(reorder(j, err));
    PARE_TRY(pare_hessian_invert(&j->h, j->u, j->threads, &raised, j->a, err));
    PARE_TRY(prune_matrix(j, err));
    put_matrix(j);
    return 0;
}

static int check_units(const struct pare_input_gram *m, int64_t *unit, struct pare_err *err)
{
    const struct pare_layer *l = m->l;
    const struct pare_units *u = &l->prune->units;

    *unit = u->block[l->out_axis];
    if (u->rank != l->w.rank || pare_units_size(u) != *unit)
        return pare_fail(
            err, PARE_ECONFIG,
            "pruner sparsegpt removes single weights or blocks of output channels; use "
            "granularity element, block_4x1 or block_8x1");
    if (m->gram.rows % *unit)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "blocks of %lld output channels overlap groups of %lld; use granularity "
                         "element, or exclude the layer",
                         (long long)*unit, (long long)m->gram.rows);
    return 0;
}

static int prune_layer(const struct pare_input_gram *x, void *user, struct pare_err *err)
{
    struct pare_compression *c = x->l->compression;
    struct pare_input_gram raw = *x, *m = &raw;
    struct job j = { .m = m,
                     .threads = c->threads > 0 ? c->threads : omp_get_max_threads(),
                     .a = pare_arena_new(1 << 18) };
    int rc = j.a ? check_units(m, &j.unit, err) : pare_no_memory(err, "to prune layers");

    raw.centered = false;
    if (!rc && (!pare_layer_mask(m->l) || !m->l->mask.data))
        rc = pare_no_memory(err, "for masks");
    for (; j.g < m->gram.groups && !rc; j.g++) {
        struct pare_mark mark = pare_mark(j.a);

        rc = prune_group(&j, user, err);
        pare_rewind(j.a, mark);
    }
    pare_arena_free(j.a);
    *(int64_t *)pare_layer_state(m->l) = 1;
    return rc;
}

static bool in_order(const struct pare_compression *c, const struct opts *o)
{
    bool normalized = false;

    for (int i = 0; i < c->graph->n_nodes; i++)
        normalized |= pare_node_is(c->graph->node[i], &pare_op_batch_normalization);
    return strcmp(o->inputs, "default") ? !strcmp(o->inputs, "pruned") : !normalized;
}

/* The first layer that is asked for prunes all that are due. */
static int calc_mask(struct pare_compression *c, struct pare_layer *l, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(c);
    int64_t *done = pare_layer_state(l);

    if (!*done)
        PARE_TRY(pare_input_grams(&(struct pare_input_grams){ .c = c,
                                                              .items = o->gram.items,
                                                              .in_order = in_order(c, o),
                                                              .due = true,
                                                              .each = prune_layer,
                                                              .user = (void *)(uintptr_t)o },
                                  err));
    *done = 0;
    return 0;
}

const struct pare_algorithm pare_pruner_sparsegpt = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "sparsegpt",
    .doc = "Remove weights column by column; the columns that follow make up for them.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .layer_size = sizeof(int64_t),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA | PARE_USES_GRAMS,
    .types = "Conv1d|Conv2d|Conv3d|Linear",
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .calc_mask = calc_mask,
        },
};
