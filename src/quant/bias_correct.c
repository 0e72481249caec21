/* bias_correct.c - empirical bias correction: cancel the mean output error of quantized layers.
 *
 * For each output channel of a layer with quantized weights
 *     b' = b + d,    d near E[y - y'], y of the float model, y' of the quantized model
 * over batches of data (Nagel et al. 2019).  A probe after each such layer records the means: first
 * in the float model, then in the quantized one.
 *
 * The error depends on what a position shows.  Background and padding are constant, so all their
 * positions have one error, which rounding does not average out; where the calibration items are
 * half padding, E[y - y'] is as much the padding's error as that of the content, and the corrected
 * model fails on items without padding (a text recognizer calibrated on padded lines: character
 * error 1.2 % to 9.2 % on lines of their own width).  So the means are taken per segment of each
 * axis of positions, and d is the value nearest to 0 within their range: the error shrinks in every
 * segment, or d is 0.
 *
 * In the second pass the probe adds d of the batches so far, so that later layers see inputs as
 * after the correction.  (The batch's own mean would be wrong: where a layer has few positions, as
 * after global pooling, it cancels all noise, and the following layers are corrected for inputs
 * that they never get.)  A third pass adds the second's result and measures what is left.
 */
#include "bias_correct.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"
#include "probe.h"

#define SEGMENTS 4                        /* of an axis of positions */
#define GROUPS (SEGMENTS * PARE_MAX_RANK) /* at most */
#define PARTS 8

enum pass { FLOAT, FIRST, LAST };

struct corrector {
    struct pare_probe probe;
    struct pare_arena *a;
    struct pare_layer *l;
    int axis;         /* of channels; -1: the shape is not known before the first batch */
    int64_t n;        /* channels */
    int groups;       /* of positions; 0: not known yet */
    double *sum;      /* (groups, n) means of a batch, then their differences */
    float *mean;      /* (room, groups, n) means of the float model, per batch */
    double *all;      /* (groups, n) sum of the differences over the batches of this pass */
    double *add;      /* (n) correction of the passes before */
    int64_t at, room; /* batches seen in this pass; batches that `mean` has room for */
    enum pass pass;
};

/* ---- one batch ------------------------------------------------------------------------------- */

/* The groups of positions: segments of each axis between batch and channels, or after them; one
 * group if there is no such axis. */
static int count_groups(const struct corrector *s, const struct pare_tensor *x)
{
    int n = 0;

    for (int i = 1; i < x->rank; i++)
        n += i != s->axis && x->dim[i] >= SEGMENTS ? SEGMENTS : 0;
    return n ? n : 1;
}

/* The sum of n elements, in a few parts that fill vectors. */
PARE_SIMD static double sum_of(const float *v, int64_t n)
{
    double part[PARTS] = { 0 }, sum = 0;
    int64_t k = 0;

    for (; k + PARTS <= n; k += PARTS)
        for (int i = 0; i < PARTS; i++)
            part[i] += (double)v[k + i];
    for (; k < n; k++)
        part[k % PARTS] += (double)v[k];
    for (int i = 0; i < PARTS; i++)
        sum += part[i];
    return sum;
}

/* The index of the next row, over all axes but the last. */
static void next_row(const struct pare_tensor *x, int64_t *index)
{
    for (int i = x->rank - 2; i >= 0 && ++index[i] == x->dim[i]; i--)
        index[i] = 0;
}

/* to (n) += the sums over the part from..to of axis `at`, or over all if at < 0; returns the number
 * of elements per channel. */
static double sum_segment(const struct corrector *s, const struct pare_tensor *x, int at,
                          int64_t from, int64_t to, double *sum)
{
    int64_t index[PARE_MAX_RANK] = { 0 }, last = x->dim[x->rank - 1], count = 0;
    bool whole = s->axis != x->rank - 1; /* the last axis is one of positions */
    int64_t first = whole && at == x->rank - 1 ? from : 0;
    int64_t n = whole && at == x->rank - 1 ? to - from : last, rows = pare_numel(x) / last;

    for (int64_t row = 0; row < rows; row++, next_row(x, index)) {
        const float *v = pare_f32(x) + row * last;

        if (at >= 0 && at < x->rank - 1 && (index[at] < from || index[at] >= to))
            continue;
        if (whole)
            sum[index[s->axis]] += sum_of(v + first, n);
        for (int64_t c = 0; !whole && c < last; c++)
            sum[c] += (double)v[c];
        count += whole ? n : last;
    }
    return (double)count / (double)s->n;
}

/* s->sum = the means of all groups over all processes' parts of the batch. */
static int group_means(const struct corrector *s, const struct pare_tensor *x, struct pare_err *err)
{
    double each[GROUPS], share = pare_compression_share(s->l->compression);
    int g = 0;

    memset(s->sum, 0, (size_t)s->groups * (size_t)s->n * sizeof(*s->sum));
    for (int i = 1; i < x->rank; i++)
        for (int k = 0; i != s->axis && x->dim[i] >= SEGMENTS && k < SEGMENTS; k++, g++)
            each[g] = sum_segment(s, x, i, x->dim[i] * k / SEGMENTS, x->dim[i] * (k + 1) / SEGMENTS,
                                  s->sum + g * s->n);
    if (!g)
        each[0] = sum_segment(s, x, -1, 0, 0, s->sum);
    PARE_TRY(pare_compression_merge(s->l->compression, PARE_MERGE_SUM, PARE_F64, s->sum,
                                    s->groups * s->n, err));
    for (int64_t c = 0; c < s->groups * s->n; c++)
        s->sum[c] /= each[c / s->n] / share;
    return 0;
}

/* The value nearest to 0 within the range of the groups' mean errors of a channel. */
static double common_error(const struct corrector *s, int64_t channel, double batches)
{
    double lo = s->all[channel], hi = lo;

    for (int g = 1; g < s->groups; g++) {
        double v = s->all[g * s->n + channel];

        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    return batches > 0 ? (lo > 0 ? lo : hi < 0 ? hi : 0) / batches : 0;
}

/* A model with a fixed batch sees more batches than were asked for. */
static int make_room(struct corrector *s, const struct pare_tensor *x, struct pare_err *err)
{
    int64_t room = s->room ? 2 * s->room : 8, each;
    float *more;

    if (!s->groups) {
        s->groups = count_groups(s, x);
        s->sum = pare_alloc(s->a, (size_t)(s->groups * s->n), sizeof(*s->sum));
        s->all = pare_alloc(s->a, (size_t)(s->groups * s->n), sizeof(*s->all));
    }
    if (s->at < s->room)
        return 0;
    each = s->groups * s->n;
    more = pare_alloc_raw(s->a, (size_t)room * (size_t)each, sizeof(*more));
    if (!more || !s->sum || !s->all)
        return pare_no_memory(err, "for bias correction");
    if (s->room)
        memcpy(more, s->mean, (size_t)(s->room * each) * sizeof(*more));
    s->mean = more;
    s->room = room;
    return 0;
}

/* Adds the correction so far; s->sum is not needed any more. */
static void add_channels(const struct corrector *s, float *y, int64_t rows, int64_t inner)
{
    for (int64_t c = 0; c < s->n; c++)
        s->sum[c] = s->add[c] + common_error(s, c, (double)s->at);
    for (int64_t i = 0; i < rows; i++) {
        float d = (float)s->sum[i % s->n];

        for (int64_t k = 0; k < inner; k++)
            y[i * inner + k] += d;
    }
}

static int see(void *user, const struct pare_tensor *x, float *y, struct pare_err *err)
{
    struct corrector *s = user;
    int64_t inner = 1;
    int axis = s->axis < 0 && x->rank >= 2 ? pare_layer_output_axis(s->l, x->rank) : s->axis;

    if (s->axis < 0 && (axis < 0 || x->dim[axis] != s->n))
        return 0; /* the bias is not one number per channel: no correction */
    s->axis = axis;
    for (int i = s->axis + 1; i < x->rank; i++)
        inner *= x->dim[i];
    if (s->axis >= x->rank || x->dim[s->axis] != s->n || !pare_numel(x))
        return pare_fail(err, PARE_ESHAPE,
                         "the output of layer '%s' does not have the channels of its bias",
                         s->l->info.name);
    if (s->pass == FLOAT)
        PARE_TRY(make_room(s, x, err));
    if (s->at >= s->room || s->groups != count_groups(s, x))
        return pare_fail(err, PARE_ESHAPE, "layer '%s' has other shapes than in float",
                         s->l->info.name);
    PARE_TRY(group_means(s, x, err));
    for (int64_t k = 0; k < s->groups * s->n; k++) {
        float *mean = &s->mean[s->at * s->groups * s->n + k];

        if (s->pass == FLOAT)
            *mean = (float)s->sum[k];
        else
            s->all[k] += (double)*mean - s->sum[k] - s->add[k % s->n];
    }
    s->at++;
    if (s->pass != FLOAT)
        add_channels(s, y, pare_numel(x) / inner, inner);
    return 0;
}

/* ---- correcting ------------------------------------------------------------------------------ */

/* Does another node read the bias? */
static bool is_shared(const struct pare_graph *g, const struct pare_value *bias)
{
    int readers = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            readers += g->node[i]->in[k] == bias;
    return readers > 1;
}

bool pare_bias_is_own(const struct pare_layer *l)
{
    return !is_shared(l->compression->model->graph, l->bias);
}

/* Does the output have the channels of the bias?  A bias that two layers share cannot correct
 * both. */
static bool is_correctable(const struct pare_layer *l, int *axis)
{
    const struct pare_tensor *y = l->info.out ? &l->info.out->t : NULL;

    if (!y || !l->quant->quantized[PARE_WEIGHT] || !l->bias ||
        is_shared(l->compression->model->graph, l->bias))
        return false;
    *axis = -1;
    if (y->dtype == PARE_NONE) /* unknown for the sizes that layers were found with */
        return true;
    if (y->dtype != PARE_F32 || y->rank < 2)
        return false;
    *axis = pare_layer_output_axis(l, y->rank);
    return pare_numel(&l->b) == y->dim[*axis];
}

static int list_correctors(struct pare_compression *r, struct pare_arena *a,
                           struct corrector **list, int *n, struct pare_err *err)
{
    *n = 0;
    *list = pare_alloc(a, (size_t)r->n_layers + 1, sizeof(**list));
    for (int i = 0; i < r->n_layers && *list; i++) {
        struct corrector *s = *list + *n;

        if (!is_correctable(&r->layer[i], &s->axis))
            continue;
        s->probe = (struct pare_probe){ "mean", see, s };
        s->a = a;
        s->l = &r->layer[i];
        s->n = pare_numel(&s->l->b);
        s->add = pare_alloc(a, (size_t)s->n, sizeof(*s->add));
        if (!s->add)
            return pare_no_memory(err, "for bias correction");
        ++*n;
    }
    return *list ? 0 : pare_no_memory(err, "for bias correction");
}

/* Ends a pass: its mean difference becomes part of the correction. */
static int next_pass(struct pare_compression *r, struct corrector *s, struct pare_err *err)
{
    double seen = (double)s->at;

    PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F64, s->all, s->groups * s->n, err));
    PARE_TRY(pare_dist_merge(r->dist, PARE_MERGE_SUM, PARE_F64, &seen, 1, err));
    for (int64_t c = 0; c < s->n && s->groups; c++)
        s->add[c] += common_error(s, c, seen);
    if (s->groups)
        memset(s->all, 0, (size_t)(s->groups * s->n) * sizeof(*s->all));
    s->at = 0;
    s->pass++;
    return 0;
}

static int run_passes(struct pare_compression *r, struct corrector *list, int n, int64_t batches,
                      struct pare_err *err)
{
    for (int i = 0; i < n; i++) {
        struct pare_value *from = pare_graph_find(r->model->graph, list[i].l->info.out->name);

        if (!from)
            return pare_fail(err, PARE_EUNSUPPORTED, "layer '%s' has no output",
                             list[i].l->info.name);
        PARE_TRY(pare_probe_insert(r->model->graph, &list[i].probe, from, err));
    }
    PARE_TRY(pare_graph_order(r->model->graph, err));
    for (int pass = FLOAT; pass <= LAST; pass++) {
        PARE_TRY(pass == FLOAT ? pare_float_pass(r, batches, err)
                               : pare_compression_forward_once(r, batches, err));
        for (int i = 0; i < n; i++)
            PARE_TRY(next_pass(r, &list[i], err));
    }
    return 0;
}

static int write_biases(struct pare_compression *r, const struct corrector *list, int n,
                        struct pare_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct corrector *s = &list[i];
        struct pare_layer *l = s->l;

        if (!l->quant->b_before.data) {
            PARE_TRY(
                pare_tensor_new(r->arena, &l->quant->b_before, PARE_F32, l->b.rank, l->b.dim, err));
            memcpy(l->quant->b_before.data, l->b.data, (size_t)s->n * sizeof(float));
        }
        for (int64_t c = 0; c < s->n; c++)
            pare_f32_mut(&l->b)[c] += (float)s->add[c];
    }
    return 0;
}

void pare_bias_restore(struct pare_compression *r, bool rounded)
{
    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];

        const struct pare_tensor *to = rounded && l->quant->rounded_bias ? &l->quant->b_rounded
                                                                         : &l->quant->b_before;

        if (l->quant->b_before.data)
            memcpy(l->b.data, to->data, (size_t)pare_numel(&l->b) * sizeof(float));
    }
}

int pare_bias_correct(struct pare_compression *r, int64_t batches, struct pare_err *err)
{
    struct pare_arena *a;
    struct corrector *list;
    int n, rc;

    if (!r->data)
        return pare_fail(err, PARE_ECONFIG,
                         "bias_correction needs data: use --data, or call "
                         "pare_compression_follow()");
    a = pare_arena_new(1 << 16);
    if (!a)
        return pare_no_memory(err, "for bias correction");
    pare_bias_restore(r, true);
    rc = list_correctors(r, a, &list, &n, err);
    if (!rc && n) {
        rc = run_passes(r, list, n, batches, err);
        pare_probes_remove(r->model->graph);
    }
    if (!rc)
        rc = write_biases(r, list, n, err);
    pare_arena_free(a);
    return rc ? pare_at(err, rc, "bias_correction") : pare_compression_write_weights(r, err);
}
