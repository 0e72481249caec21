/* quantize_ptq.c - PTQ quantizer, post-training quantization: calibrate on a few batches, then fix
 * all scales.
 *
 * Ranges of inputs and outputs, by the option `observer`:
 *     minmax          minimum and maximum of all batches
 *     moving_average  range = a * range + (1 - a) * range of the batch
 *     percentile      without outliers
 *     mse             least squared error of the quantized values
 *     entropy         least divergence between the values and the quantized values
 *     auto            for each tensor the one of minmax, percentile, mse and entropy with the least
 *                     error at the model's outputs (range_trials.h)
 * The last four keep a histogram per quantization point (histogram.h).  Weights: minmax or mse, and
 * with data rounded by weight_rounding.h; up to 4 bits they are stored in 4.
 */
#include <stddef.h>
#include <string.h>

#include "group_scales.h"
#include "histogram.h"
#include "mse_scales.h"
#include "range_trials.h"
#include "rounding/weight_rounding.h"
#include "channel_rows.h"

struct opts {
    const char *observer, *weight_observer;
    int64_t calibration_steps;
    double percentile, averaging;
    struct pare_rounding rounding;
};

/* State during start(); NULL at all other times, also in checkpoints. */
struct state {
    struct observed *observed; /* (layers, PARE_QUANT_SITES) */
    uint32_t *part;            /* histogram counts per thread */
};

struct observed {
    bool seen;
    int64_t n;                /* channels */
    struct pare_histogram *h; /* NULL: the observer needs none; has the whole range */
    float *lo, *hi;           /* tracked_min_*, tracked_max_* */
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_CHOICE("observer", offsetof(struct opts, observer),
                "how to find the range of inputs and outputs",
                "auto", "auto|minmax|moving_average|percentile|mse|entropy"),
    PARE_CHOICE("weight_observer", offsetof(struct opts, weight_observer),
                "how to find the range of weights", "minmax", "minmax|mse"),
    PARE_INT("calibration_steps", offsetof(struct opts, calibration_steps),
             "number of batches to calibrate with", 8, 1, 1e9),
    PARE_FLOAT("percentile", offsetof(struct opts, percentile),
               "percentage of values to keep, for observer percentile", 99.99, 50, 100),
    PARE_FLOAT("averaging", offsetof(struct opts, averaging),
               "weight of the old range at each batch, for observer moving_average", 0.9, 0, 1),
    PARE_ROUNDING_OPTIONS(opts, rounding, "nearest"),
    PARE_OPT_END
};
/* clang-format on */

static bool needs_histogram(const struct opts *o)
{
    return strcmp(o->observer, "minmax") != 0 && strcmp(o->observer, "moving_average") != 0;
}

/* ---- observing ------------------------------------------------------------------------------- */

static int range_buffers(const struct pare_quant_point *p, struct observed *at,
                         struct pare_err *err)
{
    struct pare_tensor *tmin = pare_quant_point_buffer(p, "tracked_min", err);
    struct pare_tensor *tmax = tmin ? pare_quant_point_buffer(p, "tracked_max", err) : NULL;

    if (!tmax)
        return err->code;
    at->lo = pare_f32_mut(tmin);
    at->hi = pare_f32_mut(tmax);
    return 0;
}

/* Updates the range. */
static int update_range(const struct pare_quant_point *p, struct observed *at, const float *lo,
                        const float *hi, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(p->layer));
    float keep = (float)o->averaging;

    PARE_TRY(range_buffers(p, at, err));
    for (int64_t c = 0; c < p->n; c++) {
        float *a = at->lo + c, *b = at->hi + c;

        if (!at->seen) {
            *a = lo[c];
            *b = hi[c];
        } else if (!strcmp(o->observer, "moving_average")) {
            *a = keep * *a + (1 - keep) * lo[c];
            *b = keep * *b + (1 - keep) * hi[c];
        } else {
            *a = lo[c] < *a ? lo[c] : *a;
            *b = hi[c] > *b ? hi[c] : *b;
        }
    }
    return 0;
}

static int observe(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                   struct pare_err *err)
{
    struct pare_compression *r = pare_layer_compression(l);
    struct state *s = pare_compression_state(r);
    struct observed *at = &s->observed[pare_layer_index(l) * PARE_QUANT_SITES + (int)site];
    struct pare_quant_point p;
    float *lo;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    lo = pare_alloc_raw(pare_compression_scratch(r), 2 * (size_t)p.n, sizeof(*lo));
    if (!lo)
        return pare_no_memory(err, "for observers");
    PARE_TRY(pare_quant_point_range(&p, x, lo, lo + p.n, err));
    PARE_TRY(update_range(&p, at, lo, lo + p.n, err));
    if (at->h)
        pare_histogram_add(at->h, &(struct pare_hist_batch){ .x = pare_f32(x),
                                                             .n = pare_numel(x),
                                                             .lo = lo[0],
                                                             .hi = lo[1],
                                                             .threads = p.q->threads,
                                                             .part = s->part });
    at->seen = true;
    at->n = p.n;
    return 0;
}

/* ---- choosing scales ------------------------------------------------------------------------- */

static void clip_range(const struct opts *o, const char *observer, const struct pare_quant *q,
                       struct observed *at)
{
    const struct pare_histogram *h = at->h;
    double lo = h->lo, hi = h->hi;

    if (!strcmp(observer, "percentile"))
        pare_histogram_percentile(h, o->percentile / 100, &lo, &hi);
    else if (!strcmp(observer, "mse"))
        pare_histogram_mse(h, q, &lo, &hi);
    else if (!strcmp(observer, "entropy"))
        pare_histogram_entropy(h, q, &lo, &hi);
    at->lo[0] = (float)lo;
    at->hi[0] = (float)hi;
}

/* Keeps the whole range in the histogram: tracked_min and tracked_max become the clipped one. */
static void keep_range(struct pare_compression *r, struct state *s)
{
    for (int i = 0; i < pare_compression_layers(r) * PARE_QUANT_SITES; i++) {
        struct observed *at = &s->observed[i];

        if (at->seen && at->h) {
            at->h->lo = (double)at->lo[0];
            at->h->hi = (double)at->hi[0];
        }
    }
}

static void clip_ranges(struct pare_compression *r, struct state *s, const char *observer)
{
    const struct opts *o = pare_compression_conf(r);
    int n = pare_compression_layers(r) * PARE_QUANT_SITES, threads = pare_compression_threads(r);

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic, 1)
    for (int i = 0; i < n; i++)
        if (s->observed[i].seen && s->observed[i].h)
            clip_range(o, observer,
                       pare_layer_quant(pare_compression_layer(r, i / PARE_QUANT_SITES),
                                        (enum pare_quant_site)(i % PARE_QUANT_SITES)),
                       &s->observed[i]);
}

/* Sets scales from the observed range; `from` may belong to another point that observed the same
 * value. */
static int set_scales(struct pare_layer *l, enum pare_quant_site site, const struct observed *from,
                      struct pare_err *err)
{
    struct pare_quant_point p = { .layer = l, .site = site, .n = from->n };
    struct pare_tensor *scale, *zero;
    struct observed own = { .n = p.n };

    p.q = pare_layer_quant(l, site);
    PARE_TRY(range_buffers(&p, &own, err));
    scale = pare_layer_scale(l, site, p.n, err);
    zero = scale ? pare_layer_zero_point(l, site, p.n, err) : NULL;
    if (!zero)
        return err->code;
    for (int64_t c = 0; c < p.n; c++) {
        own.lo[c] = from->lo[c];
        own.hi[c] = from->hi[c];
        pare_quant_fit(p.q, (double)own.lo[c], (double)own.hi[c], pare_f32_mut(scale) + c,
                       pare_f32_mut(zero) + c);
    }
    return 0;
}

static int set_all_scales(struct pare_compression *r, struct state *s, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r) * PARE_QUANT_SITES; i++) {
        struct pare_layer *l = pare_compression_layer(r, i / PARE_QUANT_SITES), *of;
        enum pare_quant_site site = (enum pare_quant_site)(i % PARE_QUANT_SITES), of_site;
        const struct observed *from;

        if (site == PARE_WEIGHT || !pare_layer_quant(l, site))
            continue;
        pare_layer_twin(l, site, &of, &of_site);
        from = &s->observed[pare_layer_index(of) * PARE_QUANT_SITES + (int)of_site];
        if (from->seen)
            PARE_TRY(set_scales(l, site, from, err));
    }
    return 0;
}

/* ---- calibration ----------------------------------------------------------------------------- */

/* Allocates the observers; *n is the number of inputs and outputs to observe. */
static int alloc_observers(struct pare_compression *r, struct state *s, int *n,
                           struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct pare_arena *a = pare_compression_scratch(r);
    int threads = 1;

    *n = 0;
    s->observed = pare_alloc(a, (size_t)pare_compression_layers(r) * PARE_QUANT_SITES,
                             sizeof(*s->observed));
    for (int i = 0; i < pare_compression_layers(r) * PARE_QUANT_SITES && s->observed; i++) {
        struct pare_layer *l = pare_compression_layer(r, i / PARE_QUANT_SITES);
        const struct pare_quant *q = pare_layer_quant(l,
                                                      (enum pare_quant_site)(i % PARE_QUANT_SITES));

        if (!q || i % PARE_QUANT_SITES == PARE_WEIGHT)
            continue;
        ++*n;
        threads = q->threads > threads ? q->threads : threads;
        if (!needs_histogram(o) || (q->axis >= 0 && !strcmp(o->observer, "auto")))
            continue;
        if (q->axis >= 0)
            return pare_fail(
                err, PARE_ECONFIG,
                "layer '%s': observer %s needs one range per tensor; use minmax or moving_average "
                "with per_channel",
                pare_layer_name(l), o->observer);
        if (pare_layer_twin(l, (enum pare_quant_site)(i % PARE_QUANT_SITES), NULL, NULL))
            continue;
        s->observed[i].h = pare_alloc(a, 1, sizeof(*s->observed[i].h));
        if (!s->observed[i].h)
            return pare_no_memory(err, "for observers");
    }
    s->part = pare_alloc_raw(a, (size_t)threads * 2 * PARE_HIST_TABLE, sizeof(*s->part));
    return s->observed && s->part ? 0 : pare_no_memory(err, "for observers");
}

/* Ranges were merged for every batch, so the bins are the same in all processes. */
static int merge_counts(struct pare_compression *r, struct state *s, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r) * PARE_QUANT_SITES; i++) {
        struct pare_histogram *h = s->observed[i].seen ? s->observed[i].h : NULL;

        if (!h)
            continue;
        PARE_TRY(pare_compression_merge(r, PARE_MERGE_SUM, PARE_I64, h->count, PARE_BINS, err));
        PARE_TRY(pare_compression_merge(r, PARE_MERGE_SUM, PARE_I64, &h->zeros, 1, err));
    }
    return 0;
}

static const char *const observers[PARE_OBSERVERS] = { "minmax", "percentile", "mse", "entropy" };

/* Sets the scales of the points that share the tensor. */
static int set_range(struct pare_compression *r, int place, float lo, float hi,
                     struct pare_err *err)
{
    const struct observed from = { .n = 1, .lo = &lo, .hi = &hi };

    for (int i = 0; i < pare_compression_layers(r) * PARE_QUANT_SITES; i++) {
        struct pare_layer *l = pare_compression_layer(r, i / PARE_QUANT_SITES), *of;
        enum pare_quant_site site = (enum pare_quant_site)(i % PARE_QUANT_SITES), of_site;

        if (site == PARE_WEIGHT || !pare_layer_quant(l, site))
            continue;
        pare_layer_twin(l, site, &of, &of_site);
        if (pare_layer_index(of) * PARE_QUANT_SITES + (int)of_site == place)
            PARE_TRY(set_scales(l, site, &from, err));
    }
    return 0;
}

/* The tensors that compete, with the ranges of all observers. */
static int list_trials(struct pare_compression *r, struct state *s, struct pare_range_trial **list,
                       int *n, struct pare_err *err)
{
    int places = pare_compression_layers(r) * PARE_QUANT_SITES;
    struct pare_range_trial *t = pare_alloc(pare_compression_scratch(r), (size_t)places + 1,
                                            sizeof(*t));

    *list = t;
    *n = 0;
    if (!t)
        return pare_no_memory(err, "for observers");
    for (int k = 0; k < PARE_OBSERVERS; k++) {
        clip_ranges(r, s, observers[k]);
        *n = 0;
        for (int i = 0; i < places; i++)
            if (s->observed[i].seen && s->observed[i].h) {
                t[*n].place = i;
                t[*n].lo[k] = s->observed[i].lo[0];
                t[(*n)++].hi[k] = s->observed[i].hi[0];
            }
    }
    return 0;
}

/* Items of a trial: a share of the calibration's, so that all trials take as long as a few passes
 * of calibration; at least a few, fewer of large ones. */
#define TRIAL_SHARE 4
#define LEAST_ITEMS 8
#define LEAST_LARGE 4
#define LARGE 2e6 /* observed values of an item */
#define MOST_ITEMS 64

static double observed_values(struct pare_compression *r, const struct state *s)
{
    double n = 0;

    for (int i = 0; i < pare_compression_layers(r) * PARE_QUANT_SITES; i++) {
        const struct pare_histogram *h = s->observed[i].seen ? s->observed[i].h : NULL;

        n += h ? (double)h->zeros : 0;
        for (int k = 0; h && k < PARE_BINS; k++)
            n += (double)h->count[k];
    }
    return n;
}

static int64_t trial_items(struct pare_compression *r, const struct state *s)
{
    const struct opts *o = pare_compression_conf(r);
    int64_t items = o->calibration_steps * (r->batch ? r->batch : r->data->opts.batch), least, n;

    items = items < r->data->n ? items : r->data->n;
    least = observed_values(r, s) > LARGE * (double)items ? LEAST_LARGE : LEAST_ITEMS;
    n = items / TRIAL_SHARE;
    return n < least ? least : n > MOST_ITEMS ? MOST_ITEMS : n;
}

/* Chooses an observer for each tensor by the error at the model's outputs. */
static int choose_observers(struct pare_compression *r, struct state *s, struct pare_err *err)
{
    struct state *live = pare_compression_state(r), now = *s;
    struct pare_range_trial *t;
    int n, rc, count[PARE_OBSERVERS] = { 0 };
    int64_t items;

    PARE_TRY(list_trials(r, s, &t, &n, err));
    items = trial_items(r, s);
    live->observed = NULL; /* quantize instead of observing */
    rc = pare_choose_ranges(r, t, n, items, set_range, err);
    live->observed = now.observed;
    for (int i = 0; i < n && !rc; i++) {
        s->observed[t[i].place].lo[0] = t[i].lo[t[i].best];
        s->observed[t[i].place].hi[0] = t[i].hi[t[i].best];
        count[t[i].best]++;
    }
    r->quant->observer = pare_sprintf(r->arena, "per tensor: %d %s, %d %s, %d %s, %d %s", count[0],
                                      observers[0], count[1], observers[1], count[2], observers[2],
                                      count[3], observers[3]);
    return rc;
}

static int calibrate(struct pare_compression *r, struct state *s, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    bool parts = strcmp(o->observer, "moving_average") != 0; /* moving_average needs whole
                                                              * batches */
    int n;

    PARE_TRY(alloc_observers(r, s, &n, err));
    if (!n)
        return 0; /* only weights: no data needed */
    PARE_TRY(
        pare_at(err, pare_compression_observe(r, o->calibration_steps, parts, err), "calibration"));
    PARE_TRY(merge_counts(r, s, err));
    keep_range(r, s);
    r->quant->observer = o->observer;
    if (!strcmp(o->observer, "auto"))
        PARE_TRY(choose_observers(r, s, err));
    else if (needs_histogram(o))
        clip_ranges(r, s, o->observer);
    return set_all_scales(r, s, err);
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);
    int rc = calibrate(r, s, err);

    *s = (struct state){ NULL, NULL };
    return rc ? rc : pare_round_weights(r, &o->rounding, err);
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    struct pare_quant_point p;
    bool done;

    PARE_TRY(pare_rounded_weight(l, x, y, &done, err));
    if (pare_layer_quant(l, PARE_WEIGHT)->bits <= 4)
        PARE_TRY(pare_groups_keep(l, 0, err));
    if (done)
        return 0;
    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, x, &p, err));
    PARE_TRY(strcmp(o->weight_observer, "mse") ? pare_quant_point_fit(&p, x, err)
                                               : pare_quant_point_fit_mse(&p, x, err));
    pare_quant_apply(p.q, x, p.scale, p.zero, y);
    return 0;
}

static int activation(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                      struct pare_tensor *y, struct pare_err *err)
{
    const struct state *s = pare_compression_state(pare_layer_compression(l));
    struct pare_quant_point p;

    if (s->observed) {
        pare_copy(x, y);
        return observe(l, site, x, err);
    }
    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (p.scale[0] > 0)
        pare_quant_apply(p.q, x, p.scale, p.zero, y);
    else
        pare_copy(x, y);
    return 0;
}

PARE_ACTIVATIONS(activation)

/* If the model is fine-tuned: gradients are 0 outside of the range. */
static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (p.scale[0] > 0)
        pare_quant_clip_grad(p.q, x, p.scale, p.zero, gy, gx);
    else
        pare_copy(gy, gx);
    return 0;
}

const struct pare_algorithm pare_quantizer_ptq = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "ptq",
    .doc = "Calibrate scales on a few batches, without training.",
    .flags = PARE_ANY_ORDER,
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .state_size = sizeof(struct state),
    .start = start,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .input = input,
            .output = output,
            .backward = backward,
        },
};
