/* masks.c - from what a pruner says to masks, and from masks to the model. */
#include <string.h>

#include "../base/arena.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"
#include "../quant/calibration_file.h"
#include "dependency_groups.h"
#include "../quant/conv_bn_quant.h"
#include "rank.h"
#include "../compress/compression.h"

/* ---- into the model ---------------------------------------------------------------------- */

PARE_SIMD static void multiply_row(const float *w, const uint8_t *mask, float *out, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = mask[i] ? w[i] : 0;
}

/* Without a mask all stay. */
static void multiply(const float *w, const uint8_t *mask, float *out, int64_t n)
{
    if (mask)
        multiply_row(w, mask, out, n);
    else if (w != out)
        memcpy(out, w, (size_t)n * sizeof(float));
}

/* Without a trainer: `w` leaves the model's memory the first time, unless there is no way back. */
static int leave(struct pare_compression *r, const struct pare_value *v, struct pare_tensor *w,
                 struct pare_err *err)
{
    int64_t n = pare_numel(w);

    if (w->data == v->t.data && !r->final) {
        struct pare_tensor own = v->t;

        PARE_TRY(r->quantizer ? pare_tensor_scratch(r->arena, &own, &r->pages, err)
                              : pare_tensor_alloc(r->arena, &own, err));
        memcpy(own.data, v->t.data, (size_t)n * sizeof(float));
        *w = own;
    }
    return 0;
}

static int put(struct pare_compression *r, const struct pare_value *v, struct pare_tensor *w,
               const struct pare_tensor *mask, struct pare_err *err)
{
    PARE_TRY(leave(r, v, w, err));
    multiply(pare_f32(w), mask->data, pare_f32(&v->t), pare_numel(w));
    return 0;
}

/* The model's weight is the rounded one, then masked. */
static int round_weight(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct pare_tensor out = l->weight->t;
    struct pare_turn t = pare_turn_begin(r, 0);
    int rc = l->norm          ? pare_conv_bn_round(l, err)
             : r->calibration ? pare_calibrated(l, PARE_WEIGHT, &l->w, &out, err)
                              : r->quantizer->weight(l, &l->w, &out, err);

    pare_turn_end(r, t);
    if (!rc && !l->norm)
        multiply(pare_f32(&out), l->mask.data, pare_f32(&out), pare_numel(&out));
    return pare_at(err, rc, "weight of layer '%s'", l->info.name);
}

int pare_compression_round_weights(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].weight && r->layer[i].quantized[PARE_WEIGHT])
            PARE_TRY(round_weight(r, &r->layer[i], err));
    return 0;
}

void pare_layer_release(const struct pare_layer *l)
{
    size_t bytes = l->weight ? (size_t)pare_numel(&l->w) * sizeof(float) : 0;

    if (!bytes || l->grad.data)
        return;
    pare_pages_release(l->run->pages, l->w.data, bytes);
    pare_model_release(l->run->model, l->weight->t.data, bytes);
}

int pare_compression_write_weights(struct pare_compression *r, struct pare_err *err)
{
    if (r->trainer)
        pare_trainer_refresh(r->trainer);
    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];

        if (!l->weight)
            continue;
        if (!l->grad.data) /* what is rounded is written as a whole below */
            PARE_TRY(l->quantized[PARE_WEIGHT] ? leave(r, l->weight, &l->w, err)
                                               : put(r, l->weight, &l->w, &l->mask, err));
        if (l->bias && !l->bias_grad.data)
            PARE_TRY(put(r, l->bias, &l->b, &l->bias_mask, err));
        if (l->quantized[PARE_WEIGHT])
            PARE_TRY(round_weight(r, l, err));
        pare_layer_release(l);
    }
    return 0;
}

void pare_compression_restore(struct pare_compression *r)
{
    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];

        if (l->weight && l->w.data != l->weight->t.data)
            memcpy(l->weight->t.data, l->w.data, (size_t)pare_numel(&l->w) * sizeof(float));
        if (l->bias && l->b.data != l->bias->t.data)
            memcpy(l->bias->t.data, l->b.data, (size_t)pare_numel(&l->b) * sizeof(float));
    }
}

/* ---- the bias ------------------------------------------------------------------------------ */

/* any[o] = 1 when a weight of output o stays; the axis is in the middle of (a, o, b). */
static void any_left(const struct pare_layer *l, uint8_t *any)
{
    const uint8_t *mask = l->mask.data;
    int64_t a = 1, n = l->w.dim[l->out_axis], b = 1;

    for (int i = 0; i < l->w.rank; i++) {
        a *= i < l->out_axis ? l->w.dim[i] : 1;
        b *= i > l->out_axis ? l->w.dim[i] : 1;
    }
    memset(any, 0, (size_t)n);
    for (int64_t i = 0; i < a; i++)
        for (int64_t o = 0; o < n; o++)
            any[o] |= memchr(mask + (i * n + o) * b, 1, (size_t)b) != NULL;
}

/* The bias of an output whose weights are all gone goes with them.  Of a grouped ConvTranspose the
 * outputs are not an axis of the weight; its bias stays. */
static void mask_bias(struct pare_layer *l)
{
    if (l->bias && l->out_axis >= 0 && pare_numel(&l->b) == l->w.dim[l->out_axis])
        any_left(l, l->bias_mask.data);
}

/* ---- scores -------------------------------------------------------------------------------- */

struct job {
    struct pare_layer *layer;
    struct pare_ranked ranked;
    uint8_t *next; /* of units that go together: the mask in the making */
};

/* What ranking needs of a layer; PARE_NOT_YET when the pruner has no scores yet. */
static int make_job(struct pare_compression *r, struct pare_layer *l, struct job *j,
                    struct pare_err *err)
{
    const struct pare_pruner *p = r->pruner[r->who];
    size_t n = (size_t)l->units.n;
    uint8_t *keep = pare_alloc_raw(r->scratch, n, 1);
    bool direct = p->flags & PARE_MAGNITUDE && pare_units_single(&l->units);
    float *score = direct ? NULL : pare_alloc(r->scratch, n, sizeof(float));

    if (!keep || (!score && !direct))
        return pare_no_memory(err, "for masks");
    if (l->sparsity < 0)
        return pare_fail(err, PARE_ECONFIG, "%s: gives no sparsity", l->entry->where);
    if (!direct)
        PARE_TRY(p->score(r, l, score, err));
    pare_units_shrink(&l->units, l->mask.data, keep);
    *j = (struct job){
        .layer = l,
        .ranked = { .units = &l->units,
                    .score = score,
                    .weight = &l->w,
                    .keep = keep,
                    .sparsity = l->sparsity,
                    .max_sparsity = l->goal.max_sparsity_per_layer,
                    .regrow = (p->flags & PARE_REGROW) != 0 },
    };
    return 0;
}

static void finish(struct job *j)
{
    pare_units_expand(&j->layer->units, j->ranked.keep, j->layer->mask.data);
    mask_bias(j->layer);
    j->layer->due = false;
}

static int one_by_score(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    struct job j;
    int rc = make_job(r, l, &j, err);

    if (rc)
        return rc;
    PARE_TRY(
        strcmp(r->settings.mode, "balance")
            ? pare_rank_local(&j.ranked, r->threads, r->scratch, err)
            : pare_rank_balance(&j.ranked, &r->settings.balance_gran, r->threads, r->scratch, err));
    finish(&j);
    return 0;
}

static int one(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    const struct pare_pruner *p = r->pruner[r->who];
    int rc;

    if (!p->calc_mask)
        return one_by_score(r, l, err);
    rc = p->calc_mask(r, l, err);
    if (!rc)
        l->due = false;
    return rc;
}

int pare_keep_largest(struct pare_compression *r, const float *score, int64_t n, int64_t gone,
                      uint8_t *keep, struct pare_err *err)
{
    struct pare_kth_smallest s = { .x = score, .n = n, .threads = r->threads };

    if (gone < 0 || gone > n)
        return pare_fail(err, PARE_ECONFIG, "%lld of %lld units cannot go", (long long)gone,
                         (long long)n);
    return pare_kth_smallest_mask(&s, gone, keep, r->scratch, err);
}

/* ---- several layers together --------------------------------------------------------------- */

static int same_goal(const struct pare_layer *a, const struct pare_layer *b, struct pare_err *err)
{
    if (a->sparsity == b->sparsity)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "layers '%s' and '%s' are ranked together but are to "
                     "lose %g and %g",
                     a->info.name, b->info.name, a->sparsity, b->sparsity);
}

/* The layers of one config entry. */
static int together(struct pare_compression *r, int first, struct pare_err *err)
{
    const struct pare_entry *e = r->layer[first].entry;
    struct job *j = pare_alloc(r->scratch, (size_t)r->n_layers, sizeof(*j));
    struct pare_ranked *ranked = pare_alloc(r->scratch, (size_t)r->n_layers, sizeof(*ranked));
    int n = 0;

    if (!j || !ranked)
        return pare_no_memory(err, "for masks");
    for (int i = first; i < r->n_layers; i++) {
        int rc;

        if (r->layer[i].entry != e)
            continue;
        PARE_TRY(same_goal(&r->layer[first], &r->layer[i], err));
        rc = make_job(r, &r->layer[i], &j[n], err);
        if (rc)
            return rc;
        ranked[n] = j[n].ranked;
        n++;
    }
    PARE_TRY(pare_rank_global(ranked, n, r->layer[first].sparsity, r->threads, r->scratch, err));
    for (int i = 0; i < n; i++)
        finish(&j[i]);
    return 0;
}

static bool first_of_entry(const struct pare_compression *r, int i)
{
    for (int k = 0; k < i; k++)
        if (r->layer[k].entry == r->layer[i].entry)
            return false;
    return true;
}

static bool is_due(const struct pare_compression *r, const struct pare_layer *l)
{
    return l->due || !(r->pruner[pare_compression_ranker(r)]->flags & PARE_ONE_SHOT);
}

/* ---- units that go together ---------------------------------------------------------------- */

/* Scores and sparsity of a bundle: the sum of its units', the least of its layers'.  What has
 * lost a unit before goes first, unless it may come back. */
static int rank_bundles(struct pare_compression *r, const struct pare_unit_groups *b, struct job *j,
                        struct pare_err *err)
{
    struct pare_units units = { .rank = 1, .block = { 1 }, .grid = { b->n }, .n = b->n };
    float *score = pare_alloc(r->scratch, (size_t)b->n, sizeof(*score));
    uint8_t *keep = pare_alloc_raw(r->scratch, (size_t)b->n, 1);
    struct pare_ranked ranked = j[b->layer[0]].ranked;

    if (!score || !keep)
        return pare_no_memory(err, "for masks");
    memset(keep, 1, (size_t)b->n);
    for (int k = 0; k < b->n_layers; k++) {
        const struct pare_ranked *one = &j[b->layer[k]].ranked;

        ranked.sparsity = one->sparsity < ranked.sparsity ? one->sparsity : ranked.sparsity;
        for (int64_t i = 0; i < b->n; i++) {
            score[i] += one->score[b->unit[i * b->n_layers + k]];
            keep[i] &= one->keep[b->unit[i * b->n_layers + k]];
        }
    }
    ranked.units = &units;
    ranked.score = score;
    ranked.keep = keep;
    PARE_TRY(pare_rank_local(&ranked, r->threads, r->scratch, err));
    for (int64_t i = 0; i < b->n * b->n_layers; i++)
        j[b->layer[i % b->n_layers]].next[b->unit[i]] = keep[i / b->n_layers];
    return 0;
}

/* All layers at once; those whose units are no output channels each by itself. */
static int dependent(struct pare_compression *r, struct pare_err *err)
{
    struct job *j = pare_alloc(r->scratch, (size_t)r->n_layers, sizeof(*j));
    const struct pare_dependency_groups *d;

    if (!j)
        return pare_no_memory(err, "for masks");
    PARE_TRY(pare_compression_groups(r, &d, err));
    for (int i = 0; i < r->n_layers; i++) {
        int rc = make_job(r, &r->layer[i], &j[i], err);

        if (rc)
            return rc;
        j[i].next = pare_alloc_raw(r->scratch, (size_t)r->layer[i].units.n, 1);
        if (!j[i].next)
            return pare_no_memory(err, "for masks");
    }
    for (int i = 0; i < d->n; i++)
        PARE_TRY(rank_bundles(r, &d->list[i], j, err));
    for (int i = 0; i < r->n_layers; i++) {
        if (pare_layer_by_channels(&r->layer[i]))
            j[i].ranked.keep = j[i].next;
        else
            PARE_TRY(pare_rank_local(&j[i].ranked, r->threads, r->scratch, err));
        finish(&j[i]);
    }
    return 0;
}

static int masks_of_all(struct pare_compression *r, bool *changed, struct pare_err *err)
{
    struct pare_turn t;
    bool due = false;
    int rc;

    for (int i = 0; i < r->n_layers; i++)
        due |= is_due(r, &r->layer[i]);
    if (!due)
        return 0;
    t = pare_turn_begin(r, pare_compression_ranker(r));
    rc = dependent(r, err);
    pare_turn_end(r, t);
    if (rc == PARE_NOT_YET)
        return 0;
    *changed = !rc;
    return rc;
}

/* ---- all ------------------------------------------------------------------------------------ */

static int masks_of(struct pare_compression *r, bool global, int i, bool *changed,
                    struct pare_err *err)
{
    struct pare_turn t;
    int rc;

    if (!is_due(r, &r->layer[i]) || (global && !first_of_entry(r, i)))
        return 0;
    t = pare_turn_begin(r, pare_compression_ranker(r));
    rc = global ? together(r, i, err) : one(r, &r->layer[i], err);
    pare_turn_end(r, t);
    if (rc == PARE_NOT_YET)
        return 0;
    *changed |= !rc;
    return pare_at(err, rc, "layer '%s'", r->layer[i].info.name);
}

int pare_compression_update_masks(struct pare_compression *r, struct pare_err *err)
{
    const struct pare_pruner *p = r->pruner[pare_compression_ranker(r)];
    bool global = !strcmp(r->settings.mode, "global"), changed = false;
    bool aware = !strcmp(r->settings.mode, "dependency_aware");

    if ((global || aware) && p->calc_mask)
        return pare_fail(err, PARE_ECONFIG,
                         "pruner %s makes its masks itself, so mode=%s says nothing to it", p->name,
                         r->settings.mode);
    if (aware)
        PARE_TRY(masks_of_all(r, &changed, err));
    for (int i = 0; i < r->n_layers && !aware; i++)
        PARE_TRY(masks_of(r, global, i, &changed, err));
    if (!changed)
        return 0;
    PARE_TRY(pare_compression_check_masks(r, err));
    return pare_compression_write_weights(r, err);
}
