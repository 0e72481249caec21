/* mixed_precision.c - mixed precision within an accuracy bound: give the most sensitive layers more
 * bits, or leave them float.
 *
 * A layer's sensitivity is the noise-to-signal ratio at the model's outputs with only this layer
 * quantized; one batch is enough to measure it.  The changes form a list: the layer with the most
 * noise gets the next of 2, 4 and 8 bits, and after that float; it is measured again, and so on.
 * The accuracy is evaluated with the first 1, 2, 4, ... changes until it meets the bound, then by
 * bisection: about 2 log2(changes) evaluations find the shortest sufficient prefix of the list.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/sized.h"
#include "../data/data.h"
#include "bias_correct.h"
#include "quant_config.h"
#include "quant_method.h"

#define MOST_BITS \
    8 /* the next step is float: 16-bit models are not faster, and few runtimes run
                     * them */

struct change {
    struct pare_layer *l;
    int before[PARE_QUANT_SITES], after[PARE_QUANT_SITES]; /* bits; 0: float */
};

/* A quantization point as requested; scale NULL: the quantizer has none. */
struct requested {
    struct pare_quant q;
    int64_t n;
    float *scale, *zero;
};

struct bit_search {
    struct pare_compression *r;
    const struct pare_budget *b;
    struct pare_budget_report *report;
    struct pare_arena *a;
    struct pare_tensor in[PARE_DATA_INPUTS],
        ref[PARE_DATA_OUTPUTS]; /* a batch, and the float model's outputs for it */
    int n_out;
    double *noise, *first;       /* per layer, relative to the signal: current, and as requested */
    bool *flags;                 /* (layers, PARE_QUANT_SITES): saved while one layer is measured */
    struct requested *requested; /* (layers, PARE_QUANT_SITES) */
    struct change *change;
    int n, cap, at; /* known changes; their maximum number; changes in effect */
    bool ranges;    /* bits of an input or output changed since the ranges were found */
};

/* ---- bits ---------------------------------------------------------------------------------- */

static void bits_of(const struct pare_layer *l, int bits[PARE_QUANT_SITES])
{
    for (int i = 0; i < PARE_QUANT_SITES; i++)
        bits[i] = l->quant->quantized[i] ? l->quant->site[i].bits : 0;
}

static bool is_float(const int bits[PARE_QUANT_SITES])
{
    return !bits[PARE_WEIGHT] && !bits[PARE_INPUT] && !bits[PARE_OUTPUT];
}

/* Raises the bits; if they cannot be raised, makes the layer float. */
static void next_bits(const struct pare_layer *l, int bits[PARE_QUANT_SITES])
{
    int most = l->compression->quant->quantizer->max_bits
                   ? l->compression->quant->quantizer->max_bits
                   : 16;
    bool raised = false;

    for (int i = 0; i < PARE_QUANT_SITES; i++) {
        int up = bits[i] < 2 ? 2 : bits[i] < 4 ? 4 : MOST_BITS;

        if (!bits[i] || bits[i] >= MOST_BITS || up > most)
            continue;
        bits[i] = up;
        raised = true;
    }
    for (int i = 0; i < PARE_QUANT_SITES && !raised; i++)
        bits[i] = 0;
}

static struct pare_tensor *point_buffer(const struct pare_layer *l, int site, const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", pare_quant_site_name((enum pare_quant_site)site), what);
    for (struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, name) && b->t.dtype == PARE_F32)
            return &b->t;
    return NULL;
}

static int save_requested(struct bit_search *c, const struct pare_layer *l, int site,
                          struct pare_err *err)
{
    const struct pare_tensor *s = point_buffer(l, site, "scale"),
                             *z = point_buffer(l, site, "zero_point");
    struct requested *k = &c->requested[l->index * PARE_QUANT_SITES + site];

    k->q = l->quant->site[site];
    if (!s || !z || pare_numel(s) != pare_numel(z))
        return 0;
    k->n = pare_numel(s);
    k->scale = pare_alloc(c->a, 2 * (size_t)k->n, sizeof(float));
    if (!k->scale)
        return pare_no_memory(err, "for mixed precision");
    k->zero = k->scale + k->n;
    memcpy(k->scale, s->data, (size_t)k->n * sizeof(float));
    memcpy(k->zero, z->data, (size_t)k->n * sizeof(float));
    return 0;
}

/* Sets scales for other bits that hold the requested range:
 *     scale * (qmin - zero) ... scale * (qmax - zero).
 * Quantizers that recompute their scales do so at the next forward pass. */
static void rescale(const struct bit_search *c, struct pare_layer *l, int site, int bits)
{
    const struct requested *k = &c->requested[l->index * PARE_QUANT_SITES + site];
    struct pare_tensor *s = point_buffer(l, site, "scale"),
                       *z = point_buffer(l, site, "zero_point");

    pare_quant_set_bits(&l->quant->site[site], bits);
    for (int64_t i = 0; k->scale && s && z && i < k->n; i++) {
        double scale = (double)k->scale[i], zero = (double)k->zero[i];

        pare_f32_mut(s)[i] = k->scale[i];
        pare_f32_mut(z)[i] = k->zero[i];
        if (scale > 0 && bits != k->q.bits)
            pare_quant_fit(&l->quant->site[site], scale * ((double)k->q.qmin - zero),
                           scale * ((double)k->q.qmax - zero), pare_f32_mut(s) + i,
                           pare_f32_mut(z) + i);
    }
}

static void set_bits(struct bit_search *c, struct pare_layer *l, const int bits[PARE_QUANT_SITES])
{
    for (int i = 0; i < PARE_QUANT_SITES; i++) {
        l->quant->quantized[i] = bits[i] != 0;
        if (!bits[i] || bits[i] == l->quant->site[i].bits)
            continue;
        rescale(c, l, i, bits[i]);
        c->ranges |= i != PARE_WEIGHT;
    }
}

/* ---- measuring ----------------------------------------------------------------------------- */

/* Copies one batch: the loader's own is freed with it. */
static int load_batch(struct bit_search *c, struct pare_err *err)
{
    struct pare_compression *r = c->r;
    struct pare_loader_opts o = { .train = true, .batch = r->batch, .seed = 1 };
    const struct pare_batch *b = NULL;
    struct pare_loader *loader = NULL;
    const struct pare_io *io;
    int rc;

    if (!r->data)
        return pare_fail(err, PARE_ECONFIG, "mixed precision needs data to measure layers with");
    o.n_inputs = pare_model_inputs(r->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    rc = pare_loader_new(r->data, &o, &loader, err);
    if (!rc)
        rc = pare_loader_next(loader, &b, err);
    for (int k = 0; !rc && b && k < b->n_in; k++) {
        const struct pare_tensor *x = &b->in[k];

        rc = pare_tensor_new(c->a, &c->in[k], x->dtype, x->rank, x->dim, err);
        if (!rc)
            memcpy(c->in[k].data, x->data, (size_t)pare_numel(x) * pare_dtype_size(x->dtype));
    }
    pare_loader_free(loader);
    return rc || b ? rc : pare_fail(err, PARE_ECONFIG, "the data has no items");
}

/* sum (y - reference)^2 / sum reference^2 over the float outputs; infinite if an output is not
 * finite.  An output of another shape (other objects were found) counts as 0. */
static double compare(const struct bit_search *c, const struct pare_tensor *out)
{
    double signal = 0, noise = 0;

    for (int k = 0; k < c->n_out; k++) {
        bool same = pare_same_shape(&c->ref[k], &out[k]);

        for (int64_t i = 0; c->ref[k].dtype == PARE_F32 && i < pare_numel(&c->ref[k]); i++) {
            double v = (double)pare_f32(&c->ref[k])[i];
            double d = v - (same ? (double)pare_f32(&out[k])[i] : 0);

            signal += v * v;
            noise += d * d;
        }
    }
    if (!isfinite(noise))
        return INFINITY;
    return signal > 0 ? noise / signal : noise > 0 ? INFINITY : 0;
}

static int copy_out(struct bit_search *c, const struct pare_tensor *out, struct pare_err *err)
{
    for (int k = 0; k < c->n_out; k++) {
        c->ref[k] = out[k];
        if (out[k].dtype != PARE_F32)
            continue;
        PARE_TRY(pare_tensor_new(c->a, &c->ref[k], PARE_F32, out[k].rank, out[k].dim, err));
        memcpy(c->ref[k].data, out[k].data, (size_t)pare_numel(&out[k]) * sizeof(float));
    }
    return 0;
}

/* Runs the batch through the current model.  noise NULL: stores the outputs as the reference. */
static int run_model(struct bit_search *c, double *noise, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = c->r->threads, .batch = c->in[0].dim[0], .in = c->in };
    struct pare_tensor out[PARE_DATA_OUTPUTS];
    struct pare_plan *plan;
    int rc;

    PARE_TRY(pare_plan_make(c->r->model, &o, &plan, err));
    c->n_out = plan->graph->n_out;
    if (c->n_out > PARE_DATA_OUTPUTS)
        rc = pare_fail(err, PARE_ELIMIT, "the model has more than %d outputs", PARE_DATA_OUTPUTS);
    else
        rc = pare_plan_execute(plan, c->in, out, err);
    if (!rc && noise)
        *noise = compare(c, out);
    else if (!rc)
        rc = copy_out(c, out, err);
    pare_plan_free(plan);
    return rc;
}

/* Measures the noise with only l quantized; NULL: with no layer quantized. */
static int measure_noise(struct bit_search *c, struct pare_layer *l, double *noise,
                         struct pare_err *err)
{
    struct pare_compression *r = c->r;
    int rc;

    for (int i = 0; i < r->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++) {
            c->flags[i * PARE_QUANT_SITES + k] = r->layer[i].quant->quantized[k];
            r->layer[i].quant->quantized[k] &= l == &r->layer[i];
        }
    rc = pare_compression_write_weights(r, err);
    if (!rc)
        rc = run_model(c, noise, err);
    for (int i = 0; i < r->n_layers; i++)
        for (int k = 0; k < PARE_QUANT_SITES; k++)
            r->layer[i].quant->quantized[k] = c->flags[i * PARE_QUANT_SITES + k];
    return pare_at(err, rc, "layer '%s'", l ? l->info.name : "none");
}

static int measure_all(struct bit_search *c, struct pare_err *err)
{
    PARE_TRY(load_batch(c, err));
    if (pare_compression_steps(c->r) == 0)
        pare_bias_restore(c->r, false); /* a correction for all layers does not fit one */
    PARE_TRY(measure_noise(c, NULL, NULL, err));
    for (int i = 0; i < c->r->n_layers; i++) {
        PARE_TRY(measure_noise(c, &c->r->layer[i], &c->noise[i], err));
        c->first[i] = c->noise[i];
    }
    return 0;
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Puts the first n changes into effect. */
static void apply_changes(struct bit_search *c, int n)
{
    for (; c->at < n; c->at++)
        set_bits(c, c->change[c->at].l, c->change[c->at].after);
    for (; c->at > n; c->at--)
        set_bits(c, c->change[c->at - 1].l, c->change[c->at - 1].before);
}

/* Appends a change of the layer with the most noise; *more is false if all layers are float. */
static int append_change(struct bit_search *c, bool *more, struct pare_err *err)
{
    struct pare_layer *worst = NULL;
    struct change *g = &c->change[c->n];
    int bits[PARE_QUANT_SITES];

    apply_changes(c, c->n);
    for (int i = 0; i < c->r->n_layers; i++) {
        bits_of(&c->r->layer[i], bits);
        if (!is_float(bits) && (!worst || c->noise[i] > c->noise[worst->index]))
            worst = &c->r->layer[i];
    }
    *more = worst && c->n < c->cap;
    if (!*more)
        return 0;
    g->l = worst;
    bits_of(worst, g->before);
    memcpy(g->after, g->before, sizeof(g->after));
    next_bits(worst, g->after);
    apply_changes(c, ++c->n);
    if (is_float(g->after))
        return 0;
    return measure_noise(c, worst, &c->noise[worst->index], err);
}

/* Updates the model to the current bits.  Ranges that were calibrated without training are
 * calibrated again if they may depend on the bits. */
static int update_model(struct bit_search *c, struct pare_err *err)
{
    struct pare_compression *r = c->r;
    const struct pare_algorithm *p = r->algorithm[0];

    if (c->ranges && p->start && !(p->flags & PARE_LEARNS) && r->data && !r->quant->calibration &&
        pare_compression_steps(r) == 0)
        PARE_TRY(pare_quant_restart(r, err));
    c->ranges = false;
    return pare_quant_correct(r, err);
}

static int evaluate(struct bit_search *c, bool *holds, struct pare_err *err)
{
    struct pare_budget_report *p = c->report;
    struct pare_budget_step *s = &p->step[p->n_steps];

    PARE_TRY(update_model(c, err));
    s->changes = c->at;
    PARE_TRY(c->b->evaluate(c->b->user, &s->accuracy, err));
    *holds = s->holds = s->accuracy >= c->b->least;
    if (s->holds || !p->n_steps)
        p->accuracy = s->accuracy;
    p->n_steps++;
    if (c->b->on_step)
        c->b->on_step(c->b->user, s);
    return 0;
}

/* Bisects: lo changes are too few, hi are enough. */
static int bisect(struct bit_search *c, int lo, int hi, struct pare_err *err)
{
    while (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        bool holds;

        apply_changes(c, mid);
        PARE_TRY(evaluate(c, &holds, err));
        if (holds)
            hi = mid;
        else
            lo = mid;
    }
    if (c->at == hi)
        return 0;
    apply_changes(c, hi);
    return update_model(c, err);
}

static int search_changes(struct bit_search *c, struct pare_err *err)
{
    bool holds, more = true;
    int lo = 0;

    PARE_TRY(evaluate(c, &holds, err));
    if (!holds)
        PARE_TRY(measure_all(c, err));
    for (int want = 1; !holds && more; want *= 2) {
        while (c->n < want && more)
            PARE_TRY(append_change(c, &more, err));
        if (c->n == lo)
            break; /* all layers are float already */
        apply_changes(c, c->n);
        PARE_TRY(evaluate(c, &holds, err));
        if (holds)
            return bisect(c, lo, c->at, err);
        lo = c->at;
    }
    if (holds)
        return 0;
    c->report->met = false;
    apply_changes(c, 0);
    return update_model(c, err);
}

/* ---- setup and report ------------------------------------------------------------------------ */

static double decibels(double noise)
{
    return -10 * log10(noise);
}

/* Lists the changed layers, in the order of their first change. */
static int list_changes(struct bit_search *c, struct pare_err *err)
{
    struct pare_budget_report *p = c->report;

    p->layer = pare_alloc(c->r->arena, (size_t)c->r->n_layers, sizeof(*p->layer));
    if (!p->layer)
        return pare_no_memory(err, "for mixed precision");
    for (int i = 0; i < c->at; i++) {
        const struct pare_layer *l = c->change[i].l;
        struct pare_budget_layer *to = p->layer;

        while (to < p->layer + p->n_layers && to->name != l->info.name)
            to++;
        if (to == p->layer + p->n_layers) {
            to->name = l->info.name;
            to->type = l->info.torch;
            to->noise_db = decibels(c->first[l->index]);
            memcpy(to->asked, c->change[i].before, sizeof(to->asked));
            p->n_layers++;
        }
        memcpy(to->bits, c->change[i].after, sizeof(to->bits));
    }
    return 0;
}

static int init_search(struct bit_search *c, struct pare_err *err)
{
    size_t n = (size_t)c->r->n_layers;

    c->cap = 4 * c->r->n_layers; /* 1, 2, 4, 8 bits, float */
    c->noise = pare_alloc(c->a, n, sizeof(*c->noise));
    c->first = pare_alloc(c->a, n, sizeof(*c->first));
    c->flags = pare_alloc(c->a, n * PARE_QUANT_SITES, sizeof(*c->flags));
    c->change = pare_alloc(c->a, (size_t)c->cap + 1, sizeof(*c->change));
    /* no change, the powers of two, and as many bisections */
    c->report->step = pare_alloc(c->r->arena, 80, sizeof(*c->report->step));
    c->requested = pare_alloc(c->a, n * PARE_QUANT_SITES, sizeof(*c->requested));
    if (!c->noise || !c->first || !c->flags || !c->change || !c->report->step || !c->requested)
        return pare_no_memory(err, "for mixed precision");
    for (int i = 0; i < c->r->n_layers * PARE_QUANT_SITES; i++)
        PARE_TRY(save_requested(c, &c->r->layer[i / PARE_QUANT_SITES], i % PARE_QUANT_SITES, err));
    return 0;
}

int pare_compression_mixed_precision(struct pare_compression *r, const struct pare_budget *b,
                                     struct pare_budget_report *report, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_budget o;
    struct bit_search c = { .r = r, .b = &o, .report = report };
    int rc;

    *report = (struct pare_budget_report){ .met = true };
    PARE_TRY(pare_sized_copy(&o, sizeof(o), b, err));
    if (!r->quant || !r->started)
        return pare_fail(err, PARE_ECONFIG, "an accuracy bound needs a quantizer that is started");
    c.a = pare_arena_new(1 << 16);
    rc = c.a ? init_search(&c, err) : pare_no_memory(err, "for mixed precision");
    if (!rc)
        rc = search_changes(&c, err);
    if (!rc)
        rc = list_changes(&c, err);
    pare_arena_free(c.a);
    return rc;
}
