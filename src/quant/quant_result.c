/* quant_result.c - what quantization did to a layer: integer type, scales, range and
 * signal-to-noise ratio of its weight, input and output. */
#include <math.h>
#include <stdio.h>

#include "quant_state.h"

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "qscale.h"
#include "quant_check.h"

static void find_range(const struct pare_qscale *g, struct pare_quantized_tensor *p)
{
    p->scales = g->n;
    for (int64_t i = 0; i < g->n; i++) {
        double lo = (double)g->scale[i] * (double)(g->qmin - g->zero[i]) + (double)g->offset;
        double hi = (double)g->scale[i] * (double)(g->qmax - g->zero[i]) + (double)g->offset;

        p->lo = !i || lo < p->lo ? lo : p->lo;
        p->hi = !i || hi > p->hi ? hi : p->hi;
    }
}

/* The range of the values themselves: DoReFa's 2^bits values are stored as integers of a larger
 * type, which could represent more. */
static void find_values(const struct pare_tensor *t, struct pare_quantized_tensor *p)
{
    const float *v = pare_f32(t);

    for (int64_t i = 0, n = pare_numel(t); i < n; i++) {
        p->lo = !i || (double)v[i] < p->lo ? (double)v[i] : p->lo;
        p->hi = !i || (double)v[i] > p->hi ? (double)v[i] : p->hi;
    }
}

static int describe_weight(const struct pare_layer *l, struct pare_arena *a,
                           struct pare_quantized_tensor *p, struct pare_err *err)
{
    struct pare_noise n = { 0 };
    struct pare_qscale g;
    struct pare_tensor q;
    int rc;

    for (int64_t i = 0; i < pare_numel(&l->w); i++) {
        double v = (double)pare_f32(&l->w)[i], d = v - (double)pare_f32(&l->weight->t)[i];

        n.signal += v * v;
        n.noise += d * d;
    }
    p->snr_db = pare_noise_db(&n);
    rc = pare_qweight(l, a, &g, &q, err);
    if (!rc) {
        bool is_signed = g.dtype == PARE_I8 || g.dtype == PARE_I16 || g.dtype == PARE_I4;

        find_range(&g, p);
        if (g.qmax - g.qmin >= (int64_t)1 << p->bits)
            find_values(&l->weight->t, p);
        snprintf(p->dtype, sizeof(p->dtype), "%s%d", is_signed ? "int" : "uint", p->bits);
    }
    pare_layer_release(l);
    return rc;
}

int pare_layer_quantized(const struct pare_layer *l, enum pare_quant_site site,
                         struct pare_quantized_tensor *p, struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_quant *q = pare_layer_quant(l, site);
    struct pare_arena *a;
    struct pare_qscale g;
    int rc;

    *p = (struct pare_quantized_tensor){ .snr_db = NAN };
    if (!q)
        return 0;
    p->bits = q->bits;
    p->snr_db = pare_noise_db(&l->quant->noise[site]);
    snprintf(p->dtype, sizeof(p->dtype), "%s%d", q->has_sign ? "int" : "uint", q->bits);
    a = pare_arena_new(1 << 16);
    if (!a)
        return pare_no_memory(err, "to describe a layer");
    if (site == PARE_WEIGHT) {
        rc = describe_weight(l, a, p, err);
    } else {
        rc = pare_qscale_of(l, site, a, &g, err);
        if (!rc)
            find_range(&g, p);
    }
    pare_arena_free(a);
    return rc == PARE_ENOMEM ? rc : 0; /* any other error: the quantizer has no scales */
}

static int64_t count_weights(const struct pare_graph *g)
{
    int64_t n = 0;

    for (int i = 0; i < g->n_values; i++) {
        const struct pare_value *v = g->value[i];

        if (v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32)
            n += pare_numel(&v->t);
    }
    return n;
}

void pare_compression_checked(const struct pare_compression *c, struct pare_quantize_check *r)
{
    const struct pare_check *k = c->quant ? &c->quant->check : NULL;

    *r = (struct pare_quantize_check){ .snr_db = NAN, .cosine = NAN, .new_snr_db = NAN };
    if (!k || !k->done)
        return;
    r->snr_db = k->output_db;
    r->new_snr_db = k->new_db;
    r->all_seen = k->all_seen;
    r->unequal = k->unequal;
    r->runs = k->runs;
    r->cosine = k->cosine;
    r->observer = c->quant->observer;
    r->rounding = c->quant->rounded.how;
    r->rounding_choice = c->quant->rounded.choice;
    r->rounded = c->quant->rounded.layers;
    r->unrounded = c->quant->rounded.failed;
    r->rounding_error = !c->quant->rounded.by_data ? NAN
                        : c->quant->rounded.nearest > 0
                            ? c->quant->rounded.error / c->quant->rounded.nearest
                            : 1;
    r->left_float = k->left;
    r->n_worst = k->n_worst;
    r->all_weights = count_weights(c->model->graph);
    for (int i = 0; i < k->n_worst; i++)
        r->worst[i] = (struct pare_worst_tensor){ pare_layer_name(k->worst[i].layer),
                                                  k->worst[i].site, k->worst[i].db };
    for (int i = 0; i < c->n_layers; i++) {
        const struct pare_layer *l = &c->layer[i];

        r->weights += l->quant->quantized[PARE_WEIGHT] ? pare_numel(&l->w) : 0;
        for (int site = 0; site < PARE_QUANT_SITES; site++)
            if (l->quant->destroyed[site] && r->n_destroyed < PARE_CHECK_WORST)
                r->destroyed[r->n_destroyed++] = (struct pare_worst_tensor){
                    l->info.name, (enum pare_quant_site)site, l->quant->destroyed_db[site]
                };
    }
}

int pare_compression_equalized(const struct pare_compression *c)
{
    return c->quant && c->quant->settings.equalize ? c->quant->equalized : -1;
}
