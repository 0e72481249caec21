/* activation_stats.c - how active the channels of a layer's output are, see activation_stats.h. */
#include "activation_stats.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
const struct pare_opt pare_activation_stats_opts[] = {
    PARE_INT("training_steps", offsetof(struct pare_activation_stats_opts, training_steps), "batches to look at before the masks are made", 20, 1, 1e9),
    PARE_INT("statistics_batch_num", offsetof(struct pare_activation_stats_opts, statistics_batch_num), "the same under its older name", 0, 0, 1e9),
    PARE_CHOICE("activation", offsetof(struct pare_activation_stats_opts, activation), "what outputs are put through first", "relu", "relu|relu6|gelu"),
    PARE_OPT_END
};
/* clang-format on */

/* ---- numbers ------------------------------------------------------------------------------ */

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

/* ---- collecting ----------------------------------------------------------------------------- */

static int64_t wanted(const struct pare_compression *r)
{
    const struct pare_activation_stats_opts *o = pare_compression_conf(r);

    return o->statistics_batch_num ? o->statistics_batch_num : o->training_steps;
}

/* Sums, zeros, and how many numbers each channel had. */
static double *numbers(struct pare_layer *l, struct pare_err *err)
{
    const struct pare_activation_stats_layer *s = pare_layer_state(l);
    struct pare_tensor *t = pare_layer_statistic(l, "activity", PARE_MERGE_SUM, PARE_F64,
                                                 2 * s->channels + 1, err);

    return t ? t->data : NULL;
}

/* Of (N, C, H, W) the channels are axis 1, of (N, ..., C) of a Linear the last. */
static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *err)
{
    struct pare_compression *r = pare_layer_compression(l);
    const struct pare_activation_stats_opts *o = pare_compression_conf(r);
    struct pare_activation_stats_layer *s = pare_layer_state(l);
    struct pare_activation_stats_run *all = pare_compression_state(r);
    int axis = strncmp(pare_layer_type(l), "Conv", 4) ? out->rank - 1 : 1;
    double *sum;

    (void)in;
    (void)user;
    all->seen = true;
    if (s->batches >= wanted(r))
        return 0;
    if (out->dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "layer '%s': its output is %s, expected float32",
                         pare_layer_name(l), pare_dtype_name(out->dtype));
    if (axis < 0 || axis >= out->rank || (s->batches && s->channels != out->dim[axis]))
        return pare_fail(err, PARE_ESHAPE,
                         "layer '%s': its output has %d dimensions, channels are not found in it",
                         pare_layer_name(l), out->rank);
    s->channels = out->dim[axis];
    sum = numbers(l, err);
    if (!sum)
        return err->code;
    pare_activation_stats_add(out, axis, pare_activation_find(o->activation), sum,
                              sum + s->channels);
    sum[2 * s->channels] += s->channels ? (double)pare_numel(out) / (double)s->channels : 0;
    s->batches++;
    return 0;
}

static int attach(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);

    s->collecting = true;
    return pare_add_collector(r, collect, NULL, &s->collector, err);
}

static int begin(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);

    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        struct pare_activation_stats_layer *a = pare_layer_state(l);
        double *sum = a->channels ? numbers(l, err) : NULL;

        if (a->channels && !sum)
            return err->code;
        if (sum)
            memset(sum, 0, (2 * (size_t)a->channels + 1) * sizeof(*sum));
        a->batches = 0;
    }
    s->answered = 0;
    return s->collecting ? 0 : attach(r, err);
}

static int end(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);

    if (!s->collecting)
        return 0;
    s->collecting = false;
    return pare_remove_collector(r, s->collector, err);
}

/* ---- the pruners ---------------------------------------------------------------------------- */

/* Channels go, not parts of them. */
static int check(const struct pare_layer *l, struct pare_err *err)
{
    const struct pare_units *u = pare_layer_units(l);
    int axis = pare_layer_out_axis(l);

    if (axis >= 0 && u->grid[axis] == u->n)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "layer '%s': outputs tell about output channels or heads, use granularity "
                     "out_channel or head",
                     pare_layer_name(l));
}

/* Without data of its own, a run waits for the batches that training brings. */
int pare_activation_stats_start(struct pare_compression *r, struct pare_err *err)
{
    int rc;

    for (int i = 0; i < pare_compression_layers(r); i++)
        PARE_TRY(check(pare_compression_layer(r, i), err));
    PARE_TRY(begin(r, err));
    rc = pare_compression_forward(r, wanted(r), err);
    return rc == PARE_ECONFIG ? 0 : rc;
}

/* After going on from a checkpoint the collector is another process's. */
int pare_activation_stats_before_step(struct pare_compression *r, struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);
    bool lost = s->collecting && !s->seen;

    s->seen = false;
    return lost ? attach(r, err) : 0;
}

void pare_activation_stats_stop(struct pare_compression *r)
{
    struct pare_err err;

    end(r, &err);
}

/* A ConvTranspose with groups has a weight axis for the channels of one group: its element stands
 * for a channel of each. */
static void spread(const struct pare_layer *l, const double *x, int64_t channels, float *score)
{
    const struct pare_units *u = pare_layer_units(l);
    int axis = pare_layer_out_axis(l);
    int64_t size = pare_layer_weight(l)->dim[axis];

    memset(score, 0, (size_t)u->n * sizeof(*score));
    for (int64_t c = 0; c < channels; c++)
        score[c % size / u->block[axis]] += (float)(x[c] * (double)u->n / (double)channels);
}

int pare_activation_stats_score(struct pare_compression *r, struct pare_layer *l,
                                pare_activation_stats_value *value, float *score,
                                struct pare_err *err)
{
    struct pare_activation_stats_run *s = pare_compression_state(r);
    const struct pare_activation_stats_layer *a = pare_layer_state(l);
    int64_t now = pare_compression_steps(r) + 1;
    double *sum, *x;

    if (a->batches < wanted(r))
        return PARE_NOT_YET;
    if (s->answered && s->answered != now) {
        PARE_TRY(begin(r, err));
        return PARE_NOT_YET;
    }
    sum = numbers(l, err);
    x = pare_alloc(pare_compression_scratch(r), (size_t)a->channels, sizeof(*x));
    if (!sum || !x)
        return pare_no_memory(err, "for the channels of layer '%s'", pare_layer_name(l));
    for (int64_t c = 0; c < a->channels; c++)
        x[c] = value(sum[c], sum[a->channels + c], sum[2 * a->channels]);
    spread(l, x, a->channels, score);
    s->answered = now;
    return end(r, err);
}
