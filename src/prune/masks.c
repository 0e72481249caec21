/* masks.c - compute the masks of layers from a pruner's scores or masks, by ranking mode. */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "dependency_groups.h"
#include "mask_job.h"
#include "prune_method.h"
#include "prune_state.h"
#include "rank.h"
#include "removed_channels.h"

static const struct pare_pruner *ranking_pruner(const struct pare_compression *c)
{
    return c->algorithm[pare_compression_ranker(c)]->pruner;
}

/* ---- the bias ------------------------------------------------------------------------------ */

/* Remove the bias of an output whose weights are all removed, in both weights of a recurrent layer,
 * whose bias has each output several times.  The outputs of a grouped ConvTranspose are not an axis
 * of the weight; its bias stays. */
static void mask_bias(struct pare_layer *l)
{
    struct pare_layer *to = l->is_second ? l - 1 : l;
    int64_t n = pare_layer_outputs(to), all = to->bias ? pare_numel(&to->b) : 0;
    uint8_t *any = to->bias_mask.data;

    if (!all || !n || (to->has_second ? all % n : all != n) ||
        (to->has_second && pare_layer_outputs(to + 1) != n))
        return;
    memset(any, 0, (size_t)all);
    pare_layer_kept_outputs(to, any);
    if (to->has_second)
        pare_layer_kept_outputs(to + 1, any);
    for (int64_t i = n; i < all; i++)
        any[i] = any[i % n];
}

/* ---- scores -------------------------------------------------------------------------------- */

int pare_mask_job_score(struct pare_compression *c, struct pare_layer *l, bool sums,
                        struct pare_mask_job *j, struct pare_err *err)
{
    const struct pare_algorithm *p = c->algorithm[c->current];
    size_t n = (size_t)l->prune->units.n;
    uint8_t *keep = pare_alloc_raw(c->scratch, n, 1);
    bool direct = p->flags & PARE_MAGNITUDE && !sums && pare_units_single(&l->prune->units);
    float *score = direct ? NULL : pare_alloc(c->scratch, n, sizeof(float));

    if (!keep || (!score && !direct))
        return pare_no_memory(err, "for masks");
    if (l->prune->sparsity < 0 && !l->prune->follows)
        return pare_fail(err, PARE_ECONFIG, "%s: no sparsity is specified", l->entry->where);
    if (!direct && !l->prune->follows)
        PARE_TRY(p->pruner->score(c, l, score, err));
    pare_units_shrink(&l->prune->units, l->mask.data, keep);
    *j = (struct pare_mask_job){
        .layer = l,
        .ranked = { .units = &l->prune->units,
                    .score = score,
                    .weight = &l->w,
                    .keep = keep,
                    .sparsity = l->prune->sparsity,
                    .max_sparsity = pare_layer_most(l),
                    .regrow = (p->flags & PARE_REGROW) != 0 },
    };
    return 0;
}

/* As pare_mask_job_score(); the score of a joined layer is the sum over both of its weights. */
static int score_channels(struct pare_compression *c, struct pare_layer *l, bool sums,
                          struct pare_mask_job *j, struct pare_err *err)
{
    bool joined = pare_layer_is_joined(l);
    struct pare_mask_job r;
    float *score;
    int rc = pare_mask_job_score(c, l, sums || joined, j, err);

    if (rc || !joined)
        return rc;
    rc = pare_mask_job_score(c, l + 1, true, &r, err);
    if (rc)
        return rc;
    score = (float *)(uintptr_t)j->ranked.score;
    for (int64_t i = 0; i < l->prune->units.n; i++) {
        score[i] += r.ranked.score[i];
        j->ranked.keep[i] &= r.ranked.keep[i];
    }
    j->both = (struct pare_units){
        .rank = 2,
        .block = { 1, pare_units_size(&l->prune->units) + pare_units_size(&l[1].prune->units) },
        .grid = { l->prune->units.n, 1 },
        .n = l->prune->units.n,
    };
    return 0;
}

void pare_mask_job_write(struct pare_mask_job *j)
{
    struct pare_layer *l = j->layer;

    pare_units_expand(&l->prune->units, j->ranked.keep, l->mask.data);
    l->prune->due = false;
    if (j->both.n) {
        pare_units_expand(&l[1].prune->units, j->ranked.keep, l[1].mask.data);
        l[1].prune->due = false;
    }
    mask_bias(l);
}

/* Each output channel, or block of them, by itself: tiles that span the other axes. */
static int rank_rows(const struct pare_mask_job *j, struct pare_compression *c,
                     struct pare_err *err)
{
    const struct pare_layer *l = j->layer;
    int64_t size[PARE_MAX_RANK];
    struct pare_ints gran = { size, l->w.rank };

    if (l->out_axis < 0 || l->prune->units.rank != l->w.rank)
        return pare_fail(err, PARE_ECONFIG, "mode=row needs a weight with output channels");
    for (int i = 0; i < l->w.rank; i++)
        size[i] = i == l->out_axis ? l->prune->units.block[i] : l->w.dim[i];
    return pare_rank_balance(&j->ranked, &gran, c->threads, c->scratch, err);
}

int pare_layer_pattern_axis(const struct pare_layer *l)
{
    return l->in_axis >= 0 && l->w.dim[l->in_axis] >= l->prune->m ? l->in_axis : l->w.rank - 1;
}

int pare_mask_job_rank(struct pare_compression *c, struct pare_mask_job *j, struct pare_err *err)
{
    const struct pare_layer *l = j->layer;
    const char *mode = pare_prune_mode(c);

    if (l->prune->m)
        return pare_rank_nm(&j->ranked, l->prune->n, l->prune->m, pare_layer_pattern_axis(l),
                            c->scratch, err);
    if (!strcmp(mode, "row"))
        return rank_rows(j, c, err);
    return strcmp(mode, "balance") ? pare_rank_local(&j->ranked, c->threads, c->scratch, err)
                                   : pare_rank_balance(&j->ranked, &c->prune->settings.balance_gran,
                                                       c->threads, c->scratch, err);
}

static int rank_by_score(struct pare_compression *c, struct pare_layer *l, struct pare_err *err)
{
    struct pare_mask_job j;
    int rc = score_channels(c, l, false, &j, err);

    if (rc)
        return rc;
    PARE_TRY(pare_mask_job_rank(c, &j, err));
    pare_mask_job_write(&j);
    return 0;
}

static int rank_layer(struct pare_compression *c, struct pare_layer *l, struct pare_err *err)
{
    const struct pare_pruner *p = c->algorithm[c->current]->pruner;
    int rc;

    if (!p->calc_mask)
        return rank_by_score(c, l, err);
    rc = p->calc_mask(c, l, err);
    if (!rc)
        l->prune->due = false;
    return rc;
}

int pare_keep_largest(struct pare_compression *c, const float *score, int64_t n, int64_t gone,
                      uint8_t *keep, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_kth_smallest s = { .x = score, .n = n, .threads = c->threads };

    if (gone < 0 || gone > n)
        return pare_fail(err, PARE_ECONFIG, "cannot remove %lld of %lld units", (long long)gone,
                         (long long)n);
    return pare_kth_smallest_mask(&s, gone, keep, c->scratch, err);
}

/* Is it ranked together with the layer's first weight? */
static bool follows(const struct pare_layer *l)
{
    return l->is_second && pare_layer_is_joined(l - 1) &&
           !ranking_pruner(l->compression)->calc_mask;
}

/* ---- global ranking --------------------------------------------------------------- */

static bool ranked_with(const struct pare_layer *a, const struct pare_layer *b)
{
    return a->entry == b->entry && !a->prune->m &&
           (!a->compression->prune->settings.isomorphic || pare_layers_isomorphic(a, b));
}

/* Rank layer `first` and those of its config entry that are ranked with it. */
static int rank_entry(struct pare_compression *c, int first, struct pare_err *err)
{
    int all = pare_compression_layers(c), n = 0;
    struct pare_mask_job *j = pare_alloc(c->scratch, (size_t)all, sizeof(*j));
    struct pare_ranked *ranked = pare_alloc(c->scratch, (size_t)all, sizeof(*ranked));

    if (!j || !ranked)
        return pare_no_memory(err, "for masks");
    for (int i = first; i < all; i++) {
        struct pare_layer *l = &c->layer[i];
        bool sums = pare_scores_normalized(c);
        int rc;

        if (!ranked_with(&c->layer[first], l) || follows(l))
            continue;
        PARE_TRY(pare_same_sparsity(&c->layer[first], l, err));
        rc = score_channels(c, l, sums, &j[n], err);
        if (rc)
            return rc;
        if (sums)
            PARE_TRY(pare_scores_normalize(c, (float *)(uintptr_t)j[n].ranked.score,
                                           l->prune->units.n, err));
        if (j[n].both.n)
            j[n].ranked.units = &j[n].both;
        ranked[n] = j[n].ranked;
        n++;
    }
    PARE_TRY(
        pare_rank_global(ranked, n, c->layer[first].prune->sparsity, c->threads, c->scratch, err));
    for (int i = 0; i < n; i++)
        pare_mask_job_write(&j[i]);
    return 0;
}

static bool first_ranked_together(const struct pare_compression *c, int i)
{
    for (int k = 0; k < i; k++)
        if (ranked_with(&c->layer[k], &c->layer[i]))
            return false;
    return true;
}

static bool is_due(const struct pare_compression *c, const struct pare_layer *l)
{
    return l->prune->due || !(c->algorithm[pare_compression_ranker(c)]->flags & PARE_ONE_SHOT);
}

/* ---- dependency groups ---------------------------------------------------------------- */

static int update_with_groups(struct pare_compression *c, bool *changed, struct pare_err *err)
{
    struct pare_call_scope t;
    bool due = false;
    int rc;

    for (int i = 0; i < pare_compression_layers(c); i++)
        due |= is_due(c, &c->layer[i]);
    if (!due)
        return 0;
    t = pare_call_begin(c, pare_compression_ranker(c));
    rc = pare_rank_groups(c, err);
    pare_call_end(c, t);
    if (rc == PARE_NOT_YET)
        return 0;
    *changed = !rc;
    return rc;
}

/* ---- all layers ------------------------------------------------------------------------------ */

static int update_layer(struct pare_compression *c, bool global, int i, bool *changed,
                        struct pare_err *err)
{
    struct pare_call_scope t;
    int rc;

    global &= !c->layer[i].prune->m; /* a pattern is the same in every layer */
    if (!is_due(c, &c->layer[i]) || follows(&c->layer[i]) ||
        (global && !first_ranked_together(c, i)))
        return 0;
    t = pare_call_begin(c, pare_compression_ranker(c));
    rc = global ? rank_entry(c, i, err) : rank_layer(c, &c->layer[i], err);
    pare_call_end(c, t);
    if (rc == PARE_NOT_YET)
        return 0;
    *changed |= !rc;
    return pare_at(err, rc, "layer '%s'", c->layer[i].info.name);
}

/* A pattern is counted within each layer; other modes are ignored only if they are defaults. */
static int check_pattern(const struct pare_compression *c, const char *mode, struct pare_err *err)
{
    bool given = strcmp(c->prune->settings.mode, "default") != 0;

    for (int i = 0; i < pare_compression_layers(c) && given; i++)
        if (c->layer[i].prune->m)
            return pare_fail(err, PARE_ECONFIG,
                             "layer '%s': pattern %s is the same in every layer, so mode=%s does "
                             "not apply",
                             c->layer[i].info.name, c->layer[i].prune->goal.pattern, mode);
    return 0;
}

/* The pruner's fit(), with the masks in the model. */
static int fit(struct pare_compression *c, struct pare_err *err)
{
    const struct pare_algorithm *a = c->algorithm[pare_compression_ranker(c)];
    struct pare_call_scope t;
    int rc;

    if (!a->pruner->fit)
        return 0;
    t = pare_call_begin(c, pare_compression_ranker(c));
    rc = a->pruner->fit(c, err);
    pare_call_end(c, t);
    return pare_at(err, rc, "pruner %s", a->name);
}

int pare_compression_update_masks(struct pare_compression *c, struct pare_err *err)
{
    PARE_ERR(err);
    const char *mode = pare_prune_mode(c);
    bool global = !strcmp(mode, "global"), aware = pare_prune_by_groups(c);
    bool changed = false;

    if (global)
        PARE_TRY(check_pattern(c, mode, err));

    if ((global || aware) && ranking_pruner(c)->calc_mask)
        return pare_fail(err, PARE_ECONFIG,
                         "pruner %s computes its masks itself, so it does not support mode=%s",
                         c->algorithm[pare_compression_ranker(c)]->name, mode);
    if (aware)
        PARE_TRY(update_with_groups(c, &changed, err));
    for (int i = 0; i < pare_compression_layers(c) && !aware; i++)
        PARE_TRY(update_layer(c, global, i, &changed, err));
    if (!changed)
        return 0;
    PARE_TRY(pare_removed_channels_mask(c, err));
    PARE_TRY(pare_compression_check_masks(c, err));
    PARE_TRY(pare_compression_write_weights(c, err));
    return fit(c, err);
}
