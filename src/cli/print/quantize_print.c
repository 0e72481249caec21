/* quantize_print.c - print the result of quantization: scales, ranges, noise, sizes, accuracy. */
#include "quantize_print.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"
#include "../../quant/qscale.h"
#include "../../tensor/tensor.h"

/* A quantized tensor of a layer: weight, input or output. */
struct site {
    int bits;
    char type[PARE_NUM_TEXT]; /* "int8", "int4" */
    int64_t scales;           /* 0: the quantizer has none */
    double lo, hi;            /* smallest and largest value the scales can represent */
    double db;                /* signal-to-noise ratio; NaN: unknown */
};

/* 10 log10(sum of x^2 / sum of (x - quantized x)^2); infinite if there is no error. */
static double decibels(const struct pare_noise *n)
{
    return n->signal > 0 ? 10 * log10(n->signal / n->noise) : NAN;
}

static void find_range(const struct pare_qscale *g, struct site *p)
{
    p->scales = g->n;
    for (int64_t i = 0; i < g->n; i++) {
        double lo = (double)g->scale[i] * (double)(g->qmin - g->zero[i]) + (double)g->offset;
        double hi = (double)g->scale[i] * (double)(g->qmax - g->zero[i]) + (double)g->offset;

        p->lo = !i || lo < p->lo ? lo : p->lo;
        p->hi = !i || hi > p->hi ? hi : p->hi;
    }
}

static void describe_weight(const struct pare_layer *l, struct site *p)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_noise n = { 0, 0 };
    struct pare_qscale g;
    struct pare_tensor q;
    struct pare_err err;

    for (int64_t i = 0; i < pare_numel(&l->w); i++) {
        double v = (double)pare_f32(&l->w)[i], d = v - (double)pare_f32(&l->weight->t)[i];

        n.signal += v * v;
        n.noise += d * d;
    }
    p->db = decibels(&n);
    if (a && !pare_qweight(l, a, &g, &q, &err)) {
        find_range(&g, p);
        snprintf(p->type, sizeof(p->type), "%s%d",
                 g.dtype == PARE_I8 || g.dtype == PARE_I16 || g.dtype == PARE_I4 ? "int" : "uint",
                 p->bits);
    }
    pare_arena_free(a);
    pare_layer_release(l);
}

static void describe_site(struct pare_layer *l, enum pare_quant_site site, struct pare_arena *a,
                          struct site *p)
{
    const struct pare_quant *q = &l->quant->site[site];
    struct pare_qscale g;
    struct pare_err err;

    *p = (struct site){ .bits = q->bits, .db = decibels(&l->quant->noise[site]) };
    snprintf(p->type, sizeof(p->type), "%s%d", q->has_sign ? "int" : "uint", q->bits);
    if (site == PARE_WEIGHT)
        describe_weight(l, p);
    else if (!pare_qscale_of(l, site, a, &g, &err))
        find_range(&g, p);
}

/* ---- accuracy budget ----------------------------------------------------------------------- */

void pare_budget_print(const struct pare_quantize_summary *v, const struct pare_budget_step *s,
                       FILE *f)
{
    if (!s->changes)
        fprintf(f, "accuracy may drop %g points from %.2f%%; as configured", v->drop,
                100 * v->before.top1);
    else
        fprintf(f, "%d change%s", s->changes, s->changes == 1 ? "" : "s");
    fprintf(f, ": accuracy %.2f%%, %s\n", 100 * s->accuracy, s->holds ? "high enough" : "too low");
    fflush(f);
}

/* "weight 8 instead of 4, input 8 instead of 4 bits", "float instead of weight 8, input 8 bits". */
static void change_text(const struct pare_budget_layer *l, char *to, size_t size)
{
    bool first = true, is_float = true;

    for (int k = 0; k < PARE_QUANT_SITES; k++)
        is_float &= !l->bits[k];
    to[0] = 0;
    for (int k = 0; k < PARE_QUANT_SITES; k++) {
        size_t at = strlen(to);
        const char *lead = !first ? ", " : is_float ? "float instead of " : "";

        if (!l->asked[k])
            continue;
        if (is_float)
            snprintf(to + at, size - at, "%s%s %d", lead,
                     pare_quant_site_name((enum pare_quant_site)k), l->asked[k]);
        else
            snprintf(to + at, size - at, "%s%s %d instead of %d", lead,
                     pare_quant_site_name((enum pare_quant_site)k), l->bits[k], l->asked[k]);
        first = false;
    }
    snprintf(to + strlen(to), size - strlen(to), " bits");
}

static int print_changes(const struct pare_quantize_summary *v, struct pare_arena *a,
                         struct pare_err *err)
{
    struct pare_table *t = v->budget.n_layers ? pare_table_new(a, "lrl") : NULL;

    if (!v->budget.n_layers)
        return 0;
    if (!t)
        return pare_no_memory(err, "for a table");
    printf("\n");
    pare_table_row(t, "changed layer", "SNR at the output", "change");
    for (int i = 0; i < v->budget.n_layers; i++) {
        const struct pare_budget_layer *l = &v->budget.layer[i];
        char text[160], db[PARE_NUM_TEXT];

        change_text(l, text, sizeof(text));
        snprintf(db, sizeof(db), "%.1f dB", l->noise_db);
        pare_table_row(t, l->name, db, text);
    }
    pare_table_print(t, stdout);
    return 0;
}

static json_t *sites_json(const int bits[PARE_QUANT_SITES])
{
    json_t *o = json_object();

    for (int k = 0; k < PARE_QUANT_SITES; k++)
        if (bits[k])
            json_object_set_new(o, pare_quant_site_name((enum pare_quant_site)k),
                                json_integer(bits[k]));
    return o;
}

static json_t *budget_json(const struct pare_quantize_summary *v)
{
    json_t *steps = json_array(), *changed = json_array();

    for (int i = 0; i < v->budget.n_steps; i++) {
        const struct pare_budget_step *s = &v->budget.step[i];

        json_array_append_new(steps, json_pack("{s:i, s:o, s:b}", "changes", s->changes, "accuracy",
                                               pare_json_real(s->accuracy), "enough", s->holds));
    }
    for (int i = 0; i < v->budget.n_layers; i++) {
        const struct pare_budget_layer *l = &v->budget.layer[i];

        json_array_append_new(changed,
                              json_pack("{s:o, s:o, s:o, s:o}", "name", pare_json_text(l->name),
                                        "signal_to_noise_db", pare_json_real(l->noise_db), "asked",
                                        sites_json(l->asked), "bits", sites_json(l->bits)));
    }
    return json_pack("{s:o, s:o, s:o}", "accuracy_drop", pare_json_real(v->drop), "steps", steps,
                     "changed", changed);
}

/* ---- text ---------------------------------------------------------------------------------- */

static void site_row(struct pare_table *t, struct pare_layer *l, enum pare_quant_site site,
                     bool first, struct pare_arena *a)
{
    char range[64] = "-", scales[PARE_NUM_TEXT] = "-", db[PARE_NUM_TEXT] = "-";
    struct site p;

    describe_site(l, site, a, &p);
    if (p.scales) {
        snprintf(range, sizeof(range), "%.4g to %.4g", p.lo, p.hi);
        pare_whole_text(p.scales, scales, sizeof(scales));
    }
    if (isinf(p.db))
        snprintf(db, sizeof(db), "exact");
    else if (!isnan(p.db))
        snprintf(db, sizeof(db), "%.1f dB", p.db);
    pare_table_row(t, first ? l->info.name : "", first ? l->info.torch : "",
                   pare_quant_site_name(site), p.type, scales, range, db);
}

static void print_totals(const struct pare_quantize_summary *v)
{
    const struct pare_export *f = v->files;
    char before[PARE_NUM_TEXT], after[PARE_NUM_TEXT], part[PARE_NUM_TEXT];
    int layers = 0;

    for (int i = 0; i < v->run->n_layers; i++) {
        const bool *q = v->run->layer[i].quant->quantized;

        layers += q[PARE_WEIGHT] || q[PARE_INPUT] || q[PARE_OUTPUT];
    }
    printf("\n%d layers quantized; %s instead of %s (%s)\n", layers,
           pare_bytes_text(v->bytes_after, after, sizeof(after)),
           pare_bytes_text(v->bytes_before, before, sizeof(before)),
           pare_percent_text(v->bytes_after, v->bytes_before, part, sizeof(part)));
    if (v->run->quant->settings.equalize)
        printf("%d pairs of layers equalized\n", v->run->quant->equalized);
    pare_metrics_print("float:", &v->before);
    pare_metrics_print("fake-quantized:", &v->rounded);
    pare_metrics_print("quantized file:", &v->after);
    printf("%s: quantized model\n", f->onnx);
    if (f->model)
        printf("%s: parameters\n", f->model);
    if (f->calibration)
        printf("%s: scales and ranges\n", f->calibration);
}

int pare_quantize_print(const struct pare_quantize_summary *v, struct pare_arena *a, bool quiet,
                        struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "llllrlr");

    if (!t)
        return pare_no_memory(err, "for a table");
    if (quiet)
        return 0;
    pare_table_row(t, "layer", "type", "tensor", "dtype", "scales", "range", "SNR");
    for (int i = 0; i < v->run->n_layers; i++) {
        bool first = true;

        for (int k = 0; k < PARE_QUANT_SITES; k++)
            if (v->run->layer[i].quant->quantized[k]) {
                site_row(t, &v->run->layer[i], (enum pare_quant_site)k, first, a);
                first = false;
            }
    }
    pare_table_print(t, stdout);
    PARE_TRY(print_changes(v, a, err));
    print_totals(v);
    return 0;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *layer_json(struct pare_layer *l, struct pare_arena *a)
{
    json_t *o = json_pack("{s:o, s:s}", "name", pare_json_text(l->info.name), "type",
                          l->info.torch);

    for (int k = 0; k < PARE_QUANT_SITES && o; k++) {
        struct site p;

        if (!l->quant->quantized[k])
            continue;
        describe_site(l, (enum pare_quant_site)k, a, &p);
        json_object_set_new(o, pare_quant_site_name((enum pare_quant_site)k),
                            json_pack("{s:i, s:s, s:I, s:o, s:o, s:o}", "bits", p.bits, "integers",
                                      p.type, "scales", (json_int_t)p.scales, "min",
                                      p.scales ? pare_json_real(p.lo) : json_null(), "max",
                                      p.scales ? pare_json_real(p.hi) : json_null(),
                                      "signal_to_noise_db", pare_json_real(p.db)));
    }
    return o;
}

int pare_quantize_json(struct pare_cli *c, const struct pare_quantize_summary *v,
                       struct pare_err *err)
{
    json_t *layers = json_array(), *all;

    for (int i = 0; i < v->run->n_layers; i++)
        json_array_append_new(layers, layer_json(&v->run->layer[i], c->arena));
    all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:s?}", "quantizer",
                    v->run->algorithm[0]->name, "layers", layers, "before",
                    pare_metrics_json(&v->before), "rounded", pare_metrics_json(&v->rounded),
                    "integers", pare_metrics_json(&v->after), "bytes_before",
                    pare_json_whole(v->bytes_before), "bytes_after",
                    pare_json_whole(v->bytes_after), "output", pare_json_text(v->files->onnx),
                    "model_out", v->files->model, "calibration", v->files->calibration);
    if (all && v->run->quant->settings.equalize)
        json_object_set_new(all, "equalized_pairs", json_integer(v->run->quant->equalized));
    if (all && v->drop >= 0)
        json_object_set_new(all, "budget", budget_json(v));
    if (all && v->history)
        json_object_set(all, "history", v->history);
    return pare_json_result(c, all, err);
}
