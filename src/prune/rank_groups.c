/* rank_groups.c - rank dependency groups: scores of groups, made comparable between layers, and
 * ranked by layers or globally. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "dependency_groups.h"
#include "mask_job.h"
#include "prune_method.h"

/* ---- comparable scores ----------------------------------------------------------------------- */

/* Mode global is NNI's and ranks raw scores. */
static const char *normalization(const struct pare_compression *c)
{
    const char *how = c->prune->settings.normalize;

    if (how && strcmp(how, "default") != 0)
        return how;
    if (c->algorithm[pare_compression_ranker(c)]->flags & PARE_USES_GRAMS)
        return "none"; /* errors of outputs are comparable */
    return strcmp(pare_prune_mode(c), "global_aware") ? "none" : "mean";
}

bool pare_scores_normalized(const struct pare_compression *c)
{
    return strcmp(normalization(c), "none") != 0;
}

struct ranked_score {
    float v;
    int64_t i;
};

static int by_score(const void *a, const void *b)
{
    const struct ranked_score *x = a, *y = b;

    if (x->v != y->v)
        return x->v < y->v ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* Lee et al., "Layer-adaptive sparsity for the magnitude-based pruning", 2021: the square, divided
 * by the sum of the squares that are not smaller. */
static int lamp(struct pare_compression *c, float *score, int64_t n, struct pare_err *err)
{
    struct pare_mark m = pare_mark(c->scratch);
    struct ranked_score *r = pare_alloc(c->scratch, (size_t)n + 1, sizeof(*r));
    double sum = 0;

    if (!r)
        return pare_no_memory(err, "for masks");
    for (int64_t i = 0; i < n; i++) {
        r[i] = (struct ranked_score){ score[i], i };
        if (score[i] < 0)
            return pare_fail(err, PARE_ECONFIG,
                             "normalize=lamp needs scores that are not negative; use mean or max");
    }
    qsort(r, (size_t)n, sizeof(*r), by_score);
    for (int64_t k = n - 1; k >= 0; k--) {
        double square = (double)r[k].v * (double)r[k].v;

        sum += square;
        score[r[k].i] = sum > 0 ? (float)(square / sum) : 0;
    }
    pare_reset(c->scratch, m);
    return 0;
}

int pare_scores_normalize(struct pare_compression *c, float *score, int64_t n, struct pare_err *err)
{
    const char *how = normalization(c);
    double sum = 0, most = 0, by;

    if (!strcmp(how, "none"))
        return 0;
    if (!strcmp(how, "lamp"))
        return lamp(c, score, n, err);
    for (int64_t i = 0; i < n; i++) {
        double v = fabs((double)score[i]);

        sum += v / (double)n;
        most = v > most ? v : most;
    }
    by = strcmp(how, "max") ? sum : most;
    for (int64_t i = 0; i < n && by > 0; i++)
        score[i] = (float)((double)score[i] / by);
    return 0;
}

/* ---- layers that are ranked together --------------------------------------------------------- */

int pare_same_sparsity(const struct pare_layer *a, const struct pare_layer *b, struct pare_err *err)
{
    if (a->prune->sparsity == b->prune->sparsity)
        return 0;
    return pare_fail(
        err, PARE_ECONFIG,
        "layers '%s' and '%s' are ranked together but have different sparsities, %g and %g",
        a->info.name, b->info.name, a->prune->sparsity, b->prune->sparsity);
}

bool pare_layers_isomorphic(const struct pare_layer *a, const struct pare_layer *b)
{
    if (strcmp(a->info.torch, b->info.torch) != 0 || a->w.rank != b->w.rank ||
        a->out_axis != b->out_axis || a->in_axis != b->in_axis)
        return false;
    for (int i = 0; i < a->w.rank; i++)
        if (i != a->out_axis && i != a->in_axis && a->w.dim[i] != b->w.dim[i])
            return false;
    return true;
}

double pare_layer_most(const struct pare_layer *l)
{
    double most = 1 - l->compression->prune->settings.min_keep;

    return most < l->prune->goal.max_sparsity_per_layer ? most
                                                        : l->prune->goal.max_sparsity_per_layer;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The groups of one set as units of a layer. */
struct set {
    const struct pare_unit_groups *b;
    struct pare_units units;
    struct pare_ranked ranked;
    const struct pare_layer *first; /* that is ranked */
    bool done;
};

/* A group's score is the sum over its units, its sparsity the least of its layers; followers have
 * neither.  A group that has lost a unit is removed first, unless the pruner has PARE_REGROW. */
static int open_set(struct pare_compression *c, const struct pare_unit_groups *b,
                    const struct pare_mask_job *j, struct set *s, struct pare_err *err)
{
    float *score = pare_alloc(c->scratch, (size_t)b->n, sizeof(*score));
    uint8_t *keep = pare_alloc_raw(c->scratch, (size_t)b->n, 1);
    int64_t size = 0;

    if (!score || !keep)
        return pare_no_memory(err, "for masks");
    memset(keep, 1, (size_t)b->n);
    *s = (struct set){ .b = b, .ranked = j[b->layer[0]].ranked };
    s->ranked.sparsity = s->ranked.max_sparsity = 1;
    for (int k = 0; k < b->n_layers; k++) {
        const struct pare_ranked *one = &j[b->layer[k]].ranked;
        const struct pare_layer *l = j[b->layer[k]].layer;

        if (l->prune->follows)
            continue;
        s->first = s->first ? s->first : l;
        size += pare_units_size(one->units);
        s->ranked.sparsity = fmin(s->ranked.sparsity, one->sparsity);
        s->ranked.max_sparsity = fmin(s->ranked.max_sparsity,
                                      one->sparsity > 0 ? pare_layer_most(l) : 0);
        for (int64_t i = 0; i < b->n; i++) {
            score[i] += one->score[b->unit[i * b->n_layers + k]];
            keep[i] &= one->keep[b->unit[i * b->n_layers + k]];
        }
    }
    s->units = (struct pare_units){ .rank = 2,
                                    .block = { 1, size ? size : 1 },
                                    .grid = { b->n, 1 },
                                    .n = b->n };
    s->ranked.units = &s->units;
    s->ranked.score = score;
    s->ranked.keep = keep;
    return 0;
}

static void close_set(const struct set *s, struct pare_mask_job *j)
{
    const struct pare_unit_groups *b = s->b;

    for (int64_t i = 0; i < b->n * b->n_layers; i++)
        j[b->layer[i % b->n_layers]].next[b->unit[i]] = s->ranked.keep[i / b->n_layers];
}

/* Are the groups of both sets ranked against each other? */
static bool together(const struct pare_compression *c, const struct set *x, const struct set *y,
                     const struct pare_mask_job *j)
{
    if (x->first->entry != y->first->entry)
        return false;
    if (!c->prune->settings.isomorphic)
        return true;
    if (x->b->n_layers != y->b->n_layers)
        return false;
    for (int k = 0; k < x->b->n_layers; k++)
        if (!pare_layers_isomorphic(j[x->b->layer[k]].layer, j[y->b->layer[k]].layer))
            return false;
    return true;
}

/* Rank set i and all that are ranked with it. */
static int rank_together(struct pare_compression *c, struct set *s, int n, int i,
                         struct pare_mask_job *j, struct pare_err *err)
{
    struct pare_ranked *ranked = pare_alloc(c->scratch, (size_t)n, sizeof(*ranked));
    int count = 0;

    if (!ranked)
        return pare_no_memory(err, "for masks");
    for (int k = i; k < n; k++) {
        if (s[k].done || !together(c, &s[i], &s[k], j))
            continue;
        PARE_TRY(pare_same_sparsity(s[i].first, s[k].first, err));
        PARE_TRY(
            pare_scores_normalize(c, (float *)(uintptr_t)s[k].ranked.score, s[k].units.n, err));
        s[k].done = true;
        ranked[count++] = s[k].ranked;
    }
    return pare_rank_global(ranked, count, s[i].first->prune->sparsity, c->threads, c->scratch,
                            err);
}

static int rank_sets(struct pare_compression *c, const struct pare_dependency_groups *d,
                     struct pare_mask_job *j, struct pare_err *err)
{
    bool global = !strcmp(pare_prune_mode(c), "global_aware");
    struct set *s = pare_alloc(c->scratch, (size_t)d->n + 1, sizeof(*s));

    if (!s)
        return pare_no_memory(err, "for masks");
    for (int i = 0; i < d->n; i++)
        PARE_TRY(open_set(c, &d->list[i], j, &s[i], err));
    for (int i = 0; i < d->n; i++) {
        if (!global)
            PARE_TRY(pare_rank_local(&s[i].ranked, c->threads, c->scratch, err));
        else if (!s[i].done)
            PARE_TRY(rank_together(c, s, d->n, i, j, err));
    }
    for (int i = 0; i < d->n; i++)
        close_set(&s[i], j);
    return 0;
}

int pare_rank_groups(struct pare_compression *c, struct pare_err *err)
{
    int n = pare_compression_layers(c);
    struct pare_mask_job *j = pare_alloc(c->scratch, (size_t)n, sizeof(*j));
    const struct pare_dependency_groups *d;

    if (!j)
        return pare_no_memory(err, "for masks");
    PARE_TRY(pare_compression_groups(c, &d, err));
    for (int i = 0; i < n; i++) {
        int rc = pare_mask_job_score(c, &c->layer[i], true, &j[i], err);

        if (rc)
            return rc;
        j[i].next = pare_alloc_raw(c->scratch, (size_t)c->layer[i].prune->units.n, 1);
        if (!j[i].next)
            return pare_no_memory(err, "for masks");
        memset(j[i].next, 1, (size_t)c->layer[i].prune->units.n); /* also outside of groups */
    }
    PARE_TRY(rank_sets(c, d, j, err));
    for (int i = 0; i < n; i++) {
        if (pare_layer_by_channels(&c->layer[i]))
            j[i].ranked.keep = j[i].next;
        else
            PARE_TRY(pare_mask_job_rank(c, &j[i], err));
        pare_mask_job_write(&j[i]);
    }
    return 0;
}
