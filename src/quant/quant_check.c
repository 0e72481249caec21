/* quant_check.c - the checker that runs after quantization: signal-to-noise ratio of each quantized
 * tensor on calibration data, error of the outputs, tensors that quantization destroys.
 *
 * A few outliers can have all of the signal: a mask of -1e9 is represented exactly while all scores
 * round to 0, and the ratio is still infinite.  So the ratio of the inner values, those within
 * INNER steps of 0, is measured as well.
 */
#include "quant_check.h"

#include <math.h>
#include <string.h>

#include "../tensor/tensor.h"
#include "quant_config.h"
#include "quant_method.h"
#include "rounding/weight_rounding.h"

#define LEAST 6.0       /* dB of all values: less is destroyed */
#define LEAST_INNER 3.0 /* dB of the inner values */
#define INNER_PART 0.1  /* share of the values other than 0 that makes inner values count */
#define DESIGNED \
    -1.0         /* dB: rounding cannot make more noise than signal, DoReFa and BNN map
                          weights to other values by design */
#define ROUNDS 4 /* a tensor that becomes float may uncover another one */

double pare_noise_db(const struct pare_noise *n)
{
    return n->signal > 0 ? 10 * log10(n->signal / n->noise) : NAN;
}

static double inner_db(const struct pare_noise *n)
{
    return n->inner_signal > 0 ? 10 * log10(n->inner_signal / n->inner_noise) : INFINITY;
}

/* The ratio of all values, or of the inner ones if they count and it is less. */
static double least_db(const struct pare_layer *l, enum pare_quant_site site)
{
    const struct pare_noise *n = &l->quant->noise[site];
    double db = pare_noise_db(n), inner = inner_db(n);

    return n->inner > INNER_PART * n->nonzero && !(db < inner) ? inner : db;
}

static bool is_destroyed(const struct pare_layer *l, enum pare_quant_site site)
{
    const struct pare_noise *n = &l->quant->noise[site];

    if ((site == PARE_WEIGHT && pare_is_rounded(l)) || !l->quant->quantized[site] ||
        l->quant->site[site].bits < 8 || pare_noise_db(n) < DESIGNED)
        return false;
    return pare_noise_db(n) < LEAST ||
           (n->inner > INNER_PART * n->nonzero && inner_db(n) < LEAST_INNER);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void weight_noise(struct pare_layer *l)
{
    struct pare_noise n = { 0 };

    for (int64_t i = 0; i < pare_numel(&l->w); i++) {
        double v = (double)pare_f32(&l->w)[i], d = v - (double)pare_f32(&l->weight->t)[i];

        n.signal += v * v;
        n.noise += d * d;
    }
    l->quant->noise[PARE_WEIGHT] = n;
    pare_layer_release(l);
}

static void clear_noise(struct pare_compression *c)
{
    for (int i = 0; i < c->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++)
            if (k != PARE_WEIGHT)
                c->layer[i].quant->noise[k] = (struct pare_noise){ 0 };
}

static int measure(struct pare_compression *c, struct pare_output_trial *t, struct pare_err *err)
{
    struct pare_output_error e = { .noise = NAN, .cosine = NAN };
    int rc;

    clear_noise(c);
    pare_quant_measure_noise(c, true);
    rc = t ? pare_output_trial_run(t, &e, err)
           : pare_compression_forward_once(c, pare_check_batches(c), err);
    pare_quant_measure_noise(c, false);
    if (rc)
        return rc;
    c->quant->check.output_db = t ? -10 * log10(e.noise) : NAN;
    c->quant->check.cosine = e.cosine;
    c->quant->check.unequal = e.unequal;
    c->quant->check.runs = e.runs;
    return pare_quant_merge_noise(c, err);
}

/* Makes destroyed tensors float; returns their number. */
static int leave_destroyed(struct pare_compression *c)
{
    int n = 0;

    for (int i = 0; i < c->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++)
            if (is_destroyed(&c->layer[i], (enum pare_quant_site)k)) {
                c->layer[i].quant->quantized[k] = false;
                c->layer[i].quant->destroyed[k] = true;
                c->layer[i].quant->destroyed_db[k] = least_db(&c->layer[i],
                                                              (enum pare_quant_site)k);
                n++;
            }
    return n;
}

/* ---- the worst ------------------------------------------------------------------------------- */

/* Keeps the three tensors with the least ratio, the worst first. */
static void note_worst(struct pare_check *k, const struct pare_layer *l, enum pare_quant_site site)
{
    double db = least_db(l, site);
    int at = k->n_worst;

    if (!(db < INFINITY) || db < DESIGNED)
        return;
    while (at > 0 && k->worst[at - 1].db > db)
        at--;
    if (at == PARE_WORST)
        return;
    k->n_worst += k->n_worst < PARE_WORST;
    for (int i = k->n_worst - 1; i > at; i--)
        k->worst[i] = k->worst[i - 1];
    k->worst[at] = (struct pare_check_worst){ l, site, db };
}

static int none_left(struct pare_compression *c, struct pare_err *err)
{
    for (int i = 0; i < c->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++)
            if (c->layer[i].quant->quantized[k])
                return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "quantization would destroy every tensor that the configuration chooses "
                     "(signal-to-noise ratio below %g dB); choose other layers, or use an observer "
                     "such as percentile, or per_channel",
                     LEAST);
}

static int measure_once(struct pare_compression *c, struct pare_err *err)
{
    struct pare_output_trial *t = NULL;
    int rc = pare_output_trial_begin(c, &t, err);

    if (!rc)
        rc = measure(c, t, err);
    pare_output_trial_end(t);
    return rc;
}

/* The biases are corrected again after tensors became float: the correction was for their
 * noise. */
static int check_values(struct pare_compression *c, bool leave, struct pare_err *err)
{
    for (int i = 0; i < ROUNDS; i++) {
        int n;

        PARE_TRY(measure_once(c, err));
        n = leave && i + 1 < ROUNDS ? leave_destroyed(c) : 0;
        if (!n)
            break;
        c->quant->check.left += n;
        PARE_TRY(none_left(c, err));
        PARE_TRY(pare_quant_correct(c, err));
    }
    return 0;
}

/* The outputs on batches that calibration has not seen, if there are any: ranges that fit the
 * calibration data may clip the values of others. */
static int check_new_items(struct pare_compression *c, struct pare_err *err)
{
    int64_t size = c->batch ? c->batch : c->data->opts.batch;
    struct pare_output_error e = { .noise = NAN };
    struct pare_output_trial *t = NULL;
    int rc;

    if (!c->quant->observed || size < 1)
        return 0;
    if (c->data->n / size <= c->quant->observed) {
        c->quant->check.all_seen = c->data->n;
        return 0;
    }
    c->first_batch = c->quant->observed;
    rc = pare_output_trial_begin(c, &t, err);
    if (!rc && t)
        rc = pare_output_trial_run(t, &e, err);
    pare_output_trial_end(t);
    c->first_batch = 0;
    c->quant->check.new_db = -10 * log10(e.noise);
    return rc;
}

int pare_quant_check(struct pare_compression *c, bool leave, struct pare_err *err)
{
    struct pare_check *k = &c->quant->check;

    *k = (struct pare_check){ .output_db = NAN, .cosine = NAN, .new_db = NAN };
    for (int i = 0; i < c->n_layers; i++)
        if (c->layer[i].quant->quantized[PARE_WEIGHT])
            weight_noise(&c->layer[i]);
    if (c->data)
        PARE_TRY(check_values(c, leave, err));
    if (c->data)
        PARE_TRY(check_new_items(c, err));
    for (int i = 0; i < c->n_layers; i++)
        for (int site = 0; site < PARE_QUANT_SITES; site++)
            if (c->layer[i].quant->quantized[site] &&
                !(site == PARE_WEIGHT && pare_is_rounded(&c->layer[i])))
                note_worst(k, &c->layer[i], (enum pare_quant_site)site);
    k->done = true;
    return 0;
}
