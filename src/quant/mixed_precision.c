/* mixed_precision.c - a bound for what quantization may cost: the layers that hurt most get more bits, or
 * stay float.
 *
 * Who hurts is measured: with only this layer rounded, how far is the noise at the model's outputs
 * below the signal?  A batch is enough to say that, however many items judge() looks at.  Then a
 * climb is put together: the layer with the most noise goes up a rung, to the next of 2, 4 and 8
 * bits and from there to float, is measured again, and so on.  The accuracy is judged after 1, 2,
 * 4, ... rungs until it holds, then halfway between what does and what does not: the shortest
 * beginning of the climb is found by about 2 log2(rungs) judgements.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../data/data.h"
#include "bias_correct.h"
#include "quant_config.h"
#include "quant_method.h"

#define MOST_BITS 8 /* then float: a file of 16 bits is not run faster, nor by many */
#define MAX_OUT 16

struct rung {
    struct pare_layer *l;
    int before[PARE_QUANT_SITES], after[PARE_QUANT_SITES]; /* bits; 0: float */
};

/* How a place is rounded as asked; scale NULL: the quantizer has none. */
struct asked {
    struct pare_quant q;
    int64_t n;
    float *scale, *zero;
};

struct climb {
    struct pare_compression *r;
    const struct pare_budget *b;
    struct pare_budget_report *report;
    struct pare_arena *a;
    struct pare_tensor x, ref[MAX_OUT]; /* a batch, and what the float model makes of it */
    int n_out;
    double *noise, *first; /* by layer: relative to the signal; now, and as asked */
    bool *flags;           /* (layers, PARE_QUANT_SITES): saved while one layer is measured */
    struct asked *asked;   /* the same */
    struct rung *rung;
    int n, cap, at; /* rungs that are known; the most there can be; those in effect */
    bool ranges;    /* an input or output has other bits than when ranges were found */
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

/* More bits, or none at all. */
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

static struct pare_tensor *buffer(const struct pare_layer *l, int site, const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", pare_quant_site_name((enum pare_quant_site)site), what);
    for (struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, name) && b->t.dtype == PARE_F32)
            return &b->t;
    return NULL;
}

static int remember(struct climb *c, const struct pare_layer *l, int site, struct pare_err *err)
{
    const struct pare_tensor *s = buffer(l, site, "scale"), *z = buffer(l, site, "zero_point");
    struct asked *k = &c->asked[l->index * PARE_QUANT_SITES + site];

    k->q = l->quant->site[site];
    if (!s || !z || pare_numel(s) != pare_numel(z))
        return 0;
    k->n = pare_numel(s);
    k->scale = pare_alloc(c->a, 2 * (size_t)k->n, sizeof(float));
    if (!k->scale)
        return pare_no_memory(err, "to look for layers that cost accuracy");
    k->zero = k->scale + k->n;
    memcpy(k->scale, s->data, (size_t)k->n * sizeof(float));
    memcpy(k->zero, z->data, (size_t)k->n * sizeof(float));
    return 0;
}

/* Scales for other bits hold the range that was asked for:
 *     scale * (qmin - zero) ... scale * (qmax - zero).
 * Quantizers that make their scales anew do so at the next forward. */
static void refit(const struct climb *c, struct pare_layer *l, int site, int bits)
{
    const struct asked *k = &c->asked[l->index * PARE_QUANT_SITES + site];
    struct pare_tensor *s = buffer(l, site, "scale"), *z = buffer(l, site, "zero_point");

    pare_quant_set_bits(&l->quant->site[site], bits);
    for (int64_t i = 0; k->scale && s && z && i < k->n; i++) {
        double scale = (double)k->scale[i], zero = (double)k->zero[i];

        pare_f32(s)[i] = k->scale[i];
        pare_f32(z)[i] = k->zero[i];
        if (scale > 0 && bits != k->q.bits)
            pare_quant_fit(&l->quant->site[site], scale * ((double)k->q.qmin - zero),
                           scale * ((double)k->q.qmax - zero), pare_f32(s) + i, pare_f32(z) + i);
    }
}

static void set_bits(struct climb *c, struct pare_layer *l, const int bits[PARE_QUANT_SITES])
{
    for (int i = 0; i < PARE_QUANT_SITES; i++) {
        l->quant->quantized[i] = bits[i] != 0;
        if (!bits[i] || bits[i] == l->quant->site[i].bits)
            continue;
        refit(c, l, i, bits[i]);
        c->ranges |= i != PARE_WEIGHT;
    }
}

/* ---- measuring ----------------------------------------------------------------------------- */

/* A batch of its own: the loader's is gone with it. */
static int load_batch(struct climb *c, struct pare_err *err)
{
    struct pare_compression *r = c->r;
    struct pare_loader_opts o = { .train = true, .batch = r->batch, .seed = 1 };
    const struct pare_batch *b = NULL;
    struct pare_loader *loader = NULL;
    const struct pare_io *io;
    int rc;

    if (!r->data)
        return pare_fail(err, PARE_ECONFIG, "there is no data to measure layers with");
    if (pare_model_inputs(r->model, &io) > 0)
        o.input = &io[0];
    rc = pare_loader_new(r->data, &o, &loader, err);
    if (!rc)
        rc = pare_loader_next(loader, &b, err);
    if (!rc && b)
        rc = pare_tensor_new(c->a, &c->x, b->x.dtype, b->x.rank, b->x.dim, err);
    if (!rc && b)
        memcpy(c->x.data, b->x.data, (size_t)pare_numel(&b->x) * pare_dtype_size(b->x.dtype));
    pare_loader_free(loader);
    return rc || b ? rc : pare_fail(err, PARE_ECONFIG, "the data has no item");
}

/* sum (y - reference)^2 / sum reference^2 over the outputs that are floats.  Numbers that are not
 * finite count as the worst there can be. */
static double compare(const struct climb *c, const struct pare_tensor *out)
{
    double signal = 0, noise = 0;

    for (int k = 0; k < c->n_out; k++)
        for (int64_t i = 0; c->ref[k].dtype == PARE_F32 && i < pare_numel(&c->ref[k]); i++) {
            double v = (double)pare_f32(&c->ref[k])[i], d = v - (double)pare_f32(&out[k])[i];

            signal += v * v;
            noise += d * d;
        }
    if (!isfinite(noise))
        return INFINITY;
    return signal > 0 ? noise / signal : noise > 0 ? INFINITY : 0;
}

static int copy_out(struct climb *c, const struct pare_tensor *out, struct pare_err *err)
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

/* The batch through the model as it is.  noise NULL: this is the reference. */
static int run_model(struct climb *c, double *noise, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = c->r->threads, .batch = c->x.dim[0], .in = &c->x };
    struct pare_tensor out[MAX_OUT];
    struct pare_plan *plan;
    int rc;

    PARE_TRY(pare_plan_new(c->r->model, &o, &plan, err));
    c->n_out = plan->graph->n_out;
    if (c->n_out > MAX_OUT)
        rc = pare_fail(err, PARE_ELIMIT, "the model has more than %d outputs", MAX_OUT);
    else
        rc = pare_plan_run(plan, &c->x, out, err);
    if (!rc && noise)
        *noise = compare(c, out);
    else if (!rc)
        rc = copy_out(c, out, err);
    pare_plan_free(plan);
    return rc;
}

/* Only l is rounded; NULL: nothing is. */
static int measure(struct climb *c, struct pare_layer *l, double *noise, struct pare_err *err)
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

static int measure_all(struct climb *c, struct pare_err *err)
{
    PARE_TRY(load_batch(c, err));
    if (pare_compression_steps(c->r) == 0)
        pare_bias_restore(c->r); /* what was made for all layers does not fit one */
    PARE_TRY(measure(c, NULL, NULL, err));
    for (int i = 0; i < c->r->n_layers; i++) {
        PARE_TRY(measure(c, &c->r->layer[i], &c->noise[i], err));
        c->first[i] = c->noise[i];
    }
    return 0;
}

/* ---- climbing ------------------------------------------------------------------------------ */

/* The first n rungs are in effect. */
static void move_to(struct climb *c, int n)
{
    for (; c->at < n; c->at++)
        set_bits(c, c->rung[c->at].l, c->rung[c->at].after);
    for (; c->at > n; c->at--)
        set_bits(c, c->rung[c->at - 1].l, c->rung[c->at - 1].before);
}

/* One more rung, for the layer with the most noise; *more is false when all are float. */
static int extend(struct climb *c, bool *more, struct pare_err *err)
{
    struct pare_layer *worst = NULL;
    struct rung *g = &c->rung[c->n];
    int bits[PARE_QUANT_SITES];

    move_to(c, c->n);
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
    move_to(c, ++c->n);
    if (is_float(g->after))
        return 0;
    return measure(c, worst, &c->noise[worst->index], err);
}

/* The model becomes what the bits say.  Ranges that were found without training, from data, are
 * found again where they may depend on the bits. */
static int settle(struct climb *c, struct pare_err *err)
{
    struct pare_compression *r = c->r;
    const struct pare_algorithm *p = r->algorithm[0];

    if (c->ranges && p->start && !(p->flags & PARE_LEARNS) && r->data && !r->quant->calibration &&
        pare_compression_steps(r) == 0)
        PARE_TRY(pare_quant_restart(r, err));
    c->ranges = false;
    if (r->quant->settings.bias_correction && pare_compression_steps(r) == 0)
        return pare_bias_correct(r, r->quant->settings.correction_steps, err);
    return pare_compression_write_weights(r, err);
}

static int judge(struct climb *c, bool *holds, struct pare_err *err)
{
    struct pare_budget_report *p = c->report;
    struct pare_budget_step *s = &p->step[p->n_steps];

    PARE_TRY(settle(c, err));
    s->changes = c->at;
    PARE_TRY(c->b->judge(c->b->user, &s->accuracy, err));
    *holds = s->holds = s->accuracy >= c->b->least;
    if (s->holds || !p->n_steps)
        p->accuracy = s->accuracy;
    p->n_steps++;
    if (c->b->say)
        c->b->say(c->b->user, s);
    return 0;
}

/* lo rungs are too few, hi are known to do. */
static int halve(struct climb *c, int lo, int hi, struct pare_err *err)
{
    while (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        bool holds;

        move_to(c, mid);
        PARE_TRY(judge(c, &holds, err));
        if (holds)
            hi = mid;
        else
            lo = mid;
    }
    if (c->at == hi)
        return 0;
    move_to(c, hi);
    return settle(c, err);
}

static int search(struct climb *c, struct pare_err *err)
{
    bool holds, more = true;
    int lo = 0;

    PARE_TRY(judge(c, &holds, err));
    if (!holds)
        PARE_TRY(measure_all(c, err));
    for (int want = 1; !holds && more; want *= 2) {
        while (c->n < want && more)
            PARE_TRY(extend(c, &more, err));
        if (c->n == lo)
            break; /* all are float already */
        move_to(c, c->n);
        PARE_TRY(judge(c, &holds, err));
        if (holds)
            return halve(c, lo, c->at, err);
        lo = c->at;
    }
    if (holds)
        return 0;
    c->report->met = false;
    move_to(c, 0);
    return settle(c, err);
}

/* ---- all ----------------------------------------------------------------------------------- */

static double decibels(double noise)
{
    return -10 * log10(noise);
}

/* The layers that are not as asked, in the order in which they were first changed. */
static int list_changes(struct climb *c, struct pare_err *err)
{
    struct pare_budget_report *p = c->report;

    p->layer = pare_alloc(c->r->arena, (size_t)c->r->n_layers, sizeof(*p->layer));
    if (!p->layer)
        return pare_no_memory(err, "to look for layers that cost accuracy");
    for (int i = 0; i < c->at; i++) {
        const struct pare_layer *l = c->rung[i].l;
        struct pare_budget_layer *to = p->layer;

        while (to < p->layer + p->n_layers && to->name != l->info.name)
            to++;
        if (to == p->layer + p->n_layers) {
            to->name = l->info.name;
            to->type = l->info.torch;
            to->noise_db = decibels(c->first[l->index]);
            memcpy(to->asked, c->rung[i].before, sizeof(to->asked));
            p->n_layers++;
        }
        memcpy(to->bits, c->rung[i].after, sizeof(to->bits));
    }
    return 0;
}

static int make(struct climb *c, struct pare_err *err)
{
    size_t n = (size_t)c->r->n_layers;

    c->cap = 4 * c->r->n_layers; /* 1, 2, 4, 8 bits, float */
    c->noise = pare_alloc(c->a, n, sizeof(*c->noise));
    c->first = pare_alloc(c->a, n, sizeof(*c->first));
    c->flags = pare_alloc(c->a, n * PARE_QUANT_SITES, sizeof(*c->flags));
    c->rung = pare_alloc(c->a, (size_t)c->cap + 1, sizeof(*c->rung));
    /* 0, the powers of two, and as many halvings */
    c->report->step = pare_alloc(c->r->arena, 80, sizeof(*c->report->step));
    c->asked = pare_alloc(c->a, n * PARE_QUANT_SITES, sizeof(*c->asked));
    if (!c->noise || !c->first || !c->flags || !c->rung || !c->report->step || !c->asked)
        return pare_no_memory(err, "to look for layers that cost accuracy");
    for (int i = 0; i < c->r->n_layers * PARE_QUANT_SITES; i++)
        PARE_TRY(remember(c, &c->r->layer[i / PARE_QUANT_SITES], i % PARE_QUANT_SITES, err));
    return 0;
}

int pare_compression_mixed_precision(struct pare_compression *r, const struct pare_budget *b,
                                     struct pare_budget_report *report, struct pare_err *err)
{
    struct climb c = { .r = r, .b = b, .report = report };
    int rc;

    *report = (struct pare_budget_report){ .met = true };
    if (!r->quant || !r->started)
        return pare_fail(err, PARE_ECONFIG,
                         "a bound for lost accuracy is for quantizers, once they are started");
    c.a = pare_arena_new(1 << 16);
    rc = c.a ? make(&c, err) : pare_no_memory(err, "to look for layers that cost accuracy");
    if (!rc)
        rc = search(&c, err);
    if (!rc)
        rc = list_changes(&c, err);
    pare_arena_free(c.a);
    return rc;
}
