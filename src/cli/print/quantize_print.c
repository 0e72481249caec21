/* quantize_print.c - print the result of quantization: scales, ranges, noise, sizes, accuracy. */
#include "quantize_print.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"
#include "../../quant/quant_method.h"
#include "screen.h"

/* ---- accuracy budget ----------------------------------------------------------------------- */

void pare_budget_print(const struct pare_quantize_summary *v, const struct pare_budget_step *s,
                       FILE *f)
{
    if (!s->changes)
        fprintf(f, "accuracy may drop %g points from %.2f%%; as configured", v->drop,
                100 * pare_metrics_share(&v->before));
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

static void site_row(struct pare_table *t, const struct pare_layer *l, enum pare_quant_site site,
                     const struct pare_quantized_tensor *p, bool first)
{
    char range[64] = "-", scales[PARE_NUM_TEXT] = "-", db[PARE_NUM_TEXT] = "-";

    if (p->scales) {
        snprintf(range, sizeof(range), "%.4g to %.4g", p->lo, p->hi);
        pare_whole_text(p->scales, scales, sizeof(scales));
    }
    if (isinf(p->snr_db) && p->snr_db > 0)
        snprintf(db, sizeof(db), "exact");
    else if (!isnan(p->snr_db))
        snprintf(db, sizeof(db), "%.1f dB", p->snr_db);
    pare_table_row(t, first ? pare_layer_name(l) : "", first ? pare_layer_type(l) : "",
                   pare_quant_site_name(site), p->dtype, scales, range, db);
}

/* The rows of a layer; *any: it has some. */
static int layer_rows(struct pare_table *t, const struct pare_layer *l, bool *any,
                      struct pare_err *err)
{
    *any = false;
    for (int k = 0; k < PARE_QUANT_SITES; k++) {
        enum pare_quant_site site = (enum pare_quant_site)k;
        struct pare_quantized_tensor p;

        PARE_TRY(pare_layer_quantized(l, site, &p, err));
        if (p.bits)
            site_row(t, l, site, &p, !*any);
        *any |= p.bits > 0;
    }
    return 0;
}

#define FEW_DB 12.0   /* signal-to-noise ratio of a tensor that is worth a warning */
#define POOR_DB 15.0  /* of the outputs */
#define FEW_ITEMS 128 /* that calibration has seen; more are likely to show most values */
#define WORSE_DB 6.0  /* of the outputs, on items that calibration has not seen */
#define POOR_SHARE 10 /* percent of the weights: less is hardly anything */

static const char *site_name(enum pare_quant_site site)
{
    static const char *const name[] = { "weight", "input", "output" };

    return name[site];
}

static void warn_tensors(const char *what, const struct pare_worst_tensor *t, int n, FILE *f)
{
    fprintf(f, "%s:", what);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s %s of '%s' (%.1f dB)", i ? "," : "", site_name(t[i].site), t[i].layer,
                t[i].snr_db);
}

/* Also with --quiet and --json. */
static void print_warnings(const struct pare_quantize_summary *v, FILE *f)
{
    struct pare_quantize_check k;

    pare_compression_checked(v->compression, &k);
    if (v->note) {
        fprintf(f, "pare: warning: ");
        pare_put_clean(f, v->note);
        fprintf(f, "\n");
    }
    if (k.left_float) {
        fprintf(f, "pare: warning: %d tensor%s stay%s float, because 8 bits would destroy %s",
                k.left_float, k.left_float == 1 ? "" : "s", k.left_float == 1 ? "s" : "",
                k.left_float == 1 ? "it" : "them");
        warn_tensors("", k.destroyed, k.n_destroyed, f);
        fprintf(f, "%s\n", k.left_float > k.n_destroyed ? ", ..." : "");
    }
    if (k.snr_db < POOR_DB && !k.n_worst)
        fprintf(
            f,
            "pare: warning: the outputs have a signal-to-noise ratio of %.1f dB: train with "
            "quantized values (--epochs), leave layers float (\"exclude\" in a config_list), or "
            "use more bits\n",
            k.snr_db);
    if (k.n_worst && (k.snr_db < POOR_DB || k.worst[0].snr_db < FEW_DB)) {
        warn_tensors("pare: warning: most noise at", k.worst, k.n_worst, f);
        fprintf(f, "; leave these layers float (\"exclude\" in a config_list), or try --observer "
                   "percentile, mse or entropy, per_channel weights, --equalize or more bits\n");
    }
    if (k.snr_db - k.new_snr_db > WORSE_DB)
        fprintf(f,
                "pare: warning: the outputs have %.1f dB on items that calibration has not seen, "
                "%.1f dB on those that it has: the ranges clip values of other data; calibrate "
                "with more items (calibration_steps), of all kinds that the model will see\n",
                k.new_snr_db, k.snr_db);
    if (k.weights > 0 && 100 * k.weights < POOR_SHARE * k.all_weights)
        fprintf(f,
                "pare: warning: only %.1f%% of the weights are quantized; 'pare inspect' lists the "
                "layers, a config_list chooses them\n",
                100 * (double)k.weights / (double)k.all_weights);
}

static void print_check(const struct pare_quantize_summary *v)
{
    struct pare_quantize_check k;
    char text[512];

    pare_compression_checked(v->compression, &k);
    snprintf(text, sizeof(text),
             "outputs on calibration data: SNR %.1f dB, cosine %.4f to the float model's%s%s%s",
             k.snr_db, k.cosine, k.observer ? " (observer " : "", k.observer ? k.observer : "",
             k.observer ? ")" : "");
    if (!isnan(k.cosine))
        pare_put_paragraph(stdout, text);
    if (k.rounding && isnan(k.rounding_error))
        printf("rounding %s: %d layers, without data\n", k.rounding, k.rounded);
    else if (k.rounding)
        printf("rounding %s: %d layers, output error %.3g of rounding to nearest%s\n", k.rounding,
               k.rounded, k.rounding_error,
               k.unrounded ? "; layers with constant inputs are rounded to nearest" : "");
    if (k.rounding_choice)
        pare_put_paragraph(stdout, k.rounding_choice);
    if (!isnan(k.new_snr_db))
        printf("outputs on items that calibration has not seen: SNR %.1f dB\n", k.new_snr_db);
    snprintf(text, sizeof(text),
             "calibration has seen all %lld items: how well the ranges fit other data is not known",
             (long long)k.all_seen);
    if (isnan(k.new_snr_db) && k.all_seen && k.all_seen < FEW_ITEMS)
        pare_put_paragraph(stdout, text);
    snprintf(text, sizeof(text),
             "in %d of %d runs the quantized model has another number of output rows; these are "
             "not compared",
             k.unequal, k.runs);
    if (k.unequal)
        pare_put_paragraph(stdout, text);
}

static json_t *tensors_json(const struct pare_worst_tensor *t, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:o}", "layer", pare_json_text(t[i].layer),
                                        "tensor", site_name(t[i].site), "signal_to_noise_db",
                                        pare_json_real(t[i].snr_db)));
    return list;
}

static json_t *check_json(const struct pare_quantize_summary *v)
{
    struct pare_quantize_check k;

    pare_compression_checked(v->compression, &k);
    return json_pack("{s:o, s:o, s:o, s:s?, s:i, s:o, s:o, s:I, s:i, s:s?, s:o, s:s?}",
                     "signal_to_noise_db", pare_json_real(k.snr_db),
                     "signal_to_noise_db_of_new_items", pare_json_real(k.new_snr_db), "cosine",
                     pare_json_real(k.cosine), "observer", k.observer, "left_float", k.left_float,
                     "destroyed", tensors_json(k.destroyed, k.n_destroyed), "worst",
                     tensors_json(k.worst, k.n_worst), "quantized_weights", (json_int_t)k.weights,
                     "unequal_runs", k.unequal, "rounding", k.rounding, "rounding_error",
                     pare_json_real(k.rounding ? k.rounding_error : NAN), "rounding_choice",
                     k.rounding_choice);
}

static void print_totals(const struct pare_quantize_summary *v, int layers)
{
    const struct pare_export *f = v->files;
    char before[PARE_NUM_TEXT], after[PARE_NUM_TEXT], part[PARE_NUM_TEXT];
    int equalized = pare_compression_equalized(v->compression);

    printf("\n%d layer%s quantized; %s instead of %s (%s)\n", layers, layers == 1 ? "" : "s",
           pare_bytes_text(v->bytes_after, after, sizeof(after)),
           pare_bytes_text(v->bytes_before, before, sizeof(before)),
           pare_percent_text(v->bytes_after, v->bytes_before, part, sizeof(part)));
    print_check(v);
    if (equalized >= 0)
        printf("%d pairs of layers equalized\n", equalized);
    if (v->smoothed_choice)
        pare_put_paragraph(stdout, v->smoothed_choice);
    if (v->smoothed >= 0)
        printf("inputs of %d layer%s smoothed\n", v->smoothed, v->smoothed == 1 ? "" : "s");
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
    struct pare_table *t = pare_table_new(a, "lLllRlr");
    int layers = 0;

    if (!t)
        return pare_no_memory(err, "for a table");
    print_warnings(v, stderr);
    if (quiet)
        return 0;
    pare_table_row(t, "layer", "type", "tensor", "dtype", "scales", "range", "SNR");
    for (int i = 0; i < pare_compression_layers(v->compression); i++) {
        bool any;

        PARE_TRY(layer_rows(t, pare_compression_layer(v->compression, i), &any, err));
        layers += any;
    }
    pare_table_print(t, stdout);
    PARE_TRY(print_changes(v, a, err));
    print_totals(v, layers);
    return 0;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *tensor_json(const struct pare_quantized_tensor *p)
{
    return json_pack("{s:i, s:s, s:I, s:o, s:o, s:o}", "bits", p->bits, "integers", p->dtype,
                     "scales", (json_int_t)p->scales, "min",
                     p->scales ? pare_json_real(p->lo) : json_null(), "max",
                     p->scales ? pare_json_real(p->hi) : json_null(), "signal_to_noise_db",
                     pare_json_real(p->snr_db));
}

static int layer_json(const struct pare_layer *l, json_t *layers, struct pare_err *err)
{
    json_t *o = json_pack("{s:o, s:s}", "name", pare_json_text(pare_layer_name(l)), "type",
                          pare_layer_type(l));
    int rc = json_array_append_new(layers, o) ? pare_no_memory(err, "for the result") : 0;

    for (int k = 0; k < PARE_QUANT_SITES && !rc; k++) {
        enum pare_quant_site site = (enum pare_quant_site)k;
        struct pare_quantized_tensor p;

        rc = pare_layer_quantized(l, site, &p, err);
        if (!rc && p.bits)
            json_object_set_new(o, pare_quant_site_name(site), tensor_json(&p));
    }
    return rc;
}

int pare_quantize_json(struct pare_cli *c, const struct pare_quantize_summary *v,
                       struct pare_err *err)
{
    int equalized = pare_compression_equalized(v->compression), rc = 0;
    json_t *layers = json_array(), *all;

    for (int i = 0; i < pare_compression_layers(v->compression) && !rc; i++)
        rc = layer_json(pare_compression_layer(v->compression, i), layers, err);
    if (rc) {
        json_decref(layers);
        return rc;
    }
    print_warnings(v, stderr);
    all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:s?}", "quantizer",
                    pare_compression_algorithm(v->compression), "layers", layers, "before",
                    pare_metrics_json(&v->before), "rounded", pare_metrics_json(&v->rounded),
                    "integers", pare_metrics_json(&v->after), "bytes_before",
                    pare_json_whole(v->bytes_before), "bytes_after",
                    pare_json_whole(v->bytes_after), "output", pare_json_text(v->files->onnx),
                    "model_out", v->files->model, "calibration", v->files->calibration);
    if (all)
        json_object_set_new(all, "check", check_json(v));
    if (all && equalized >= 0)
        json_object_set_new(all, "equalized_pairs", json_integer(equalized));
    if (all && v->smoothed_choice)
        json_object_set_new(all, "smoothed_choice", pare_json_text(v->smoothed_choice));
    if (all && v->smoothed >= 0)
        json_object_set_new(all, "smoothed_layers", json_integer(v->smoothed));
    if (all && v->drop >= 0)
        json_object_set_new(all, "budget", budget_json(v));
    if (all && v->history)
        json_object_set(all, "history", v->history);
    return pare_json_result(c, all, err);
}
