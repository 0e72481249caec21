/* activation_stats.c - activation statistics per output channel, see activation_stats.h. */
#include "activation_stats.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "units.h"

/* clang-format off */
const struct pare_opt pare_activation_stats_opts[] = {
    PARE_INT("training_steps", offsetof(struct pare_activation_stats_opts, training_steps),
             "batches to observe before the masks are computed", 20, 1, 1e9),
    PARE_INT("statistics_batch_num",
             offsetof(struct pare_activation_stats_opts, statistics_batch_num),
             "older name of training_steps (0: use training_steps)", 0, 0, 1e9),
    PARE_CHOICE("activation", offsetof(struct pare_activation_stats_opts, activation),
                "activation applied to the layer's outputs first", "relu", "relu|relu6|gelu"),
    PARE_OPT_END
};
/* clang-format on */

/* ---- activations ----------------------------------------------------------------------------- */

static float relu(float x)
{
    return x > 0 ? x : 0;
}

static float relu6(float x)
{
    return x > 6 ? 6 : x > 0 ? x : 0;
}

static float gelu(float x)
{
    return 0.5f * x * (1 + erff(x * 0.70710678f));
}

pare_activation *pare_activation_find(const char *name)
{
    static const struct {
        const char *name;
        pare_activation *act;
    } all[] = { { "relu", relu }, { "relu6", relu6 }, { "gelu", gelu } };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!strcmp(all[i].name, name))
            return all[i].act;
    return NULL;
}

static void add_row(const float *x, int64_t n, pare_activation *act, double *sum, double *zeros)
{
    double total = 0;
    int64_t none = 0;

    for (int64_t i = 0; i < n; i++) {
        float y = act(x[i]);

        total += (double)y;
        none += y == 0;
    }
    *sum += total;
    *zeros += (double)none;
}

void pare_activation_stats_add(const struct pare_tensor *x, int axis, pare_activation *act,
                               double *sum, double *zeros)
{
    int64_t outer = 1, inner = 1, channels = x->dim[axis];

    for (int i = 0; i < x->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->dim[i];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t c = 0; c < channels; c++)
            add_row(pare_f32(x) + (o * channels + c) * inner, inner, act, sum + c, zeros + c);
}

/* ---- collecting ------------------------------------------------------------------------------ */

static int64_t batches_to_observe(const struct pare_compression *r)
{
    const struct pare_activation_stats_opts *o = pare_compression_conf(r);

    return o->statistics_batch_num ? o->statistics_batch_num : o->training_steps;
}

/* The layer's statistic: sums, zeros, and the number of elements per channel. */
static double *statistic(struct pare_layer *l, struct pare_err *err)
{
    const struct pare_activation_stats_layer *s = pare_layer_state(l);
    struct pare_tensor *t = pare_layer_statistic(l, "activity", PARE_MERGE_SUM, PARE_F64,
                                                 2 * s->channels + 1, err);

    return t ? t->data : NULL;
}

/* The channels of (N, C, H, W) are axis 1, those of a Linear's (N, ..., C) the last axis. */
static int add_batch(struct pare_layer *l, const struct pare_tensor *in,
                     const struct pare_tensor *out, void *user, struct pare_err *err)
{
    struct pare_compression *r = pare_layer_compression(l);
    const struct pare_activation_stats_opts *o = pare_compression_conf(r);
    struct pare_activation_stats_layer *s = pare_layer_state(l);
    struct pare_activation_stats_run *all = pare_compression_state(r);
    int axis = pare_layer_output_axis(l, out->rank);
    double *sum;

    (void)in;
    (void)user;
    all->seen = true;
    if (s->batches >= batches_to_observe(r))
        return 0;
    if (out->dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "layer '%s': its output is %s, expected float32",
                         pare_layer_name(l), pare_dtype_name(out->dtype));
    if (axis < 0 || axis >= out->rank || (s->batches && s->channels != out->dim[axis]))
        return pare_fail(err, PARE_ESHAPE,
                         "layer '%s': its output has %d dimensions and no axis of channels",
                         pare_layer_name(l), out->rank);
    s->channels = out->dim[axis];
    sum = statistic(l, err);
    if (!sum)
        return err->code;
    pare_activation_stats_add(out, axis, pare_activation_find(o->activation), sum,
                              sum + s->channels);
    sum[2 * s->channels] += s->channels ? (double)pare_numel(out) / (double)s->channels : 0;
    s->batches++;
    return 0;
}

static int attach_collector(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);

    s->collecting = true;
    return pare_add_collector(r, add_batch, NULL, &s->collector, err);
}

static int restart_statistics(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);

    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        struct pare_activation_stats_layer *a = pare_layer_state(l);
        double *sum = a->channels ? statistic(l, err) : NULL;

        if (a->channels && !sum)
            return err->code;
        if (sum)
            memset(sum, 0, (2 * (size_t)a->channels + 1) * sizeof(*sum));
        a->batches = 0;
    }
    s->answered = 0;
    return s->collecting ? 0 : attach_collector(r, err);
}

static int stop_collecting(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);

    if (!s->collecting)
        return 0;
    s->collecting = false;
    return pare_remove_collector(r, s->collector, err);
}

/* ---- the pruners' callbacks ------------------------------------------------------------------ */

/* Activations score whole output channels only. */
static int check_units(const struct pare_layer *l, struct pare_err *err)
{
    const struct pare_units *u = pare_layer_units(l);

    if (pare_units_of_channel(u, pare_layer_weight(l), pare_layer_out_axis(l), 0) == 0)
        return 0;
    return pare_fail(
        err, PARE_ECONFIG,
        "layer '%s': activations score output channels or heads; use granularity out_channel or "
        "head",
        pare_layer_name(l));
}

/* A compression without data observes the batches of the training instead. */
int pare_activation_stats_start(struct pare_compression *r, struct pare_err *err)
{
    int rc;

    for (int i = 0; i < pare_compression_layers(r); i++)
        PARE_TRY(check_units(pare_compression_layer(r, i), err));
    PARE_TRY(restart_statistics(r, err));
    rc = pare_compression_forward(r, batches_to_observe(r), err);
    return rc == PARE_ECONFIG ? 0 : rc;
}

/* The collector of a resumed compression belonged to another process: attach it again. */
int pare_activation_stats_before_step(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);
    bool lost = s->collecting && !s->seen;

    s->seen = false;
    return lost ? attach_collector(r, err) : 0;
}

void pare_activation_stats_stop(struct pare_compression *r)
{
    struct pare_err err;

    stop_collecting(r, &err);
}

/* The weight axis of a grouped ConvTranspose has the channels of one convolution group: each of its
 * elements stands for one channel of every group, whose values are averaged. */
static void score_units(const struct pare_layer *l, const double *x, int64_t channels, float *score)
{
    const struct pare_units *u = pare_layer_units(l);
    const struct pare_tensor *w = pare_layer_weight(l);
    int axis = pare_layer_out_axis(l);

    memset(score, 0, (size_t)u->n * sizeof(*score));
    for (int64_t c = 0; c < channels; c++)
        score[pare_units_of_channel(u, w, axis, c)] += (float)(x[c] * (double)u->n /
                                                               (double)channels);
}

int pare_activation_stats_score(struct pare_compression *r, struct pare_layer *l,
                                pare_activation_stats_value *value, float *score,
                                struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);
    const struct pare_activation_stats_layer *a = pare_layer_state(l);
    int64_t now = pare_compression_steps(r) + 1;
    double *sum, *x;

    if (a->batches < batches_to_observe(r))
        return PARE_NOT_YET;
    if (s->answered && s->answered != now) {
        PARE_TRY(restart_statistics(r, err));
        return PARE_NOT_YET;
    }
    sum = statistic(l, err);
    x = pare_alloc(pare_compression_scratch(r), (size_t)a->channels, sizeof(*x));
    if (!sum || !x)
        return pare_no_memory(err, "for the channels of layer '%s'", pare_layer_name(l));
    for (int64_t c = 0; c < a->channels; c++)
        x[c] = value(sum[c], sum[a->channels + c], sum[2 * a->channels]);
    score_units(l, x, a->channels, score);
    s->answered = now;
    return stop_collecting(r, err);
}
