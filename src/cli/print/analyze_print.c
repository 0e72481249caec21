/* analyze_print.c - print the results of pare analyze as tables, CSV or JSON.
 *
 * JSON:
 *     "count": {"flops": N, "params": N, "layers": [{"name", "type", "flops", "params", ...}]}
 *     "sensitivity": {LAYER: {SPARSITY: METRIC}}  next to "base" and "metric"
 *     "quantization": {LAYER: {BITS: {"output_snr_db", "output_cosine", ...}}}
 */
#include "analyze_print.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"
#include "../../io/file.h"
#include "../../tensor/tensor.h"

/* ---- CSV -------------------------------------------------------------------------- */

/* CSV text that grows. */
struct csv {
    struct pare_arena *arena;
    struct pare_bytes *part;
    int n, cap;
    bool broken; /* out of memory */
};

static void csv_put(struct csv *s, const char *text)
{
    struct pare_bytes *list = text && !s->broken
                                  ? pare_grow(s->arena, s->part, s->n, &s->cap, sizeof(*list))
                                  : NULL;

    s->broken |= !list;
    if (!list)
        return;
    s->part = list;
    s->part[s->n++] = (struct pare_bytes){ text, strlen(text) };
}

/* Quote a name that contains commas, quotes or line breaks. */
static void csv_put_name(struct csv *s, const char *name)
{
    char *out = pare_alloc(s->arena, 2 * strlen(name) + 3, 1), *at = out;

    if (out && strpbrk(name, ",\"\r\n")) {
        *at++ = '"';
        for (const char *p = name; *p; p++) {
            if (*p == '"')
                *at++ = '"';
            *at++ = *p;
        }
        *at = '"';
        name = out;
    }
    csv_put(s, out ? name : NULL);
}

static int csv_save(struct csv *s, const char *path, struct pare_err *err)
{
    int rc = s->broken ? pare_no_memory(err, "for a table")
                       : pare_file_write_parts(path, s->part, s->n, err);

    pare_arena_free(s->arena);
    return rc;
}

static int csv_new(struct csv *s, struct pare_err *err)
{
    *s = (struct csv){ .arena = pare_arena_new(1 << 12) };
    return s->arena ? 0 : pare_no_memory(err, "for a table");
}

/* ---- counts ------------------------------------------------------------------------- */

void pare_count_print(const struct pare_count_report *n, struct pare_arena *a)
{
    struct pare_table *t = pare_table_new(a, "lLLlrr");
    char w[PARE_SHAPE_TEXT], out[PARE_SHAPE_TEXT], f[PARE_NUM_TEXT], p[PARE_NUM_TEXT];

    pare_table_row(t, "layer", "type", "weight", "output", "FLOPs", "params");
    for (int i = 0; i < n->n_layers; i++) {
        const struct pare_count_layer *l = &n->layer[i];

        pare_table_row(t, l->name, l->type,
                       l->weight.dtype ? pare_shape_text(&l->weight, w, sizeof(w)) : "",
                       l->out.dtype ? pare_shape_text(&l->out, out, sizeof(out)) : "?",
                       l->macs < 0 ? "?" : pare_whole_text((int64_t)l->macs, f, sizeof(f)),
                       pare_whole_text(l->params, p, sizeof(p)));
    }
    pare_table_print(t, stdout);
    printf("\nFLOPs   %s\nparams  %s\n", pare_whole_text((int64_t)n->macs, f, sizeof(f)),
           pare_whole_text(n->params, p, sizeof(p)));
    if (n->unknown)
        printf("layers of unknown shape, not counted: %d\n", n->unknown);
}

json_t *pare_count_json(const struct pare_count_report *n, bool full)
{
    json_t *rows = json_array();

    for (int i = 0; i < n->n_layers; i++) {
        const struct pare_count_layer *l = &n->layer[i];

        json_array_append_new(
            rows,
            json_pack("{s:o, s:s, s:o, s:o, s:o, s:I}", "name", pare_json_text(l->name), "type",
                      l->type, "weight", l->weight.dtype ? pare_json_dims(&l->weight) : json_null(),
                      "output", l->out.dtype ? pare_json_dims(&l->out) : json_null(), "flops",
                      pare_json_whole(l->macs), "params", (json_int_t)l->params));
    }
    return json_pack("{s:s, s:o, s:I, s:o}", "mode", full ? "full" : "default", "flops",
                     pare_json_whole(n->macs), "params", (json_int_t)n->params, "layers", rows);
}

/* ---- sensitivity --------------------------------------------------------------------- */

static const char *metric_text(struct pare_arena *a, double v, const struct pare_metric_value *m)
{
    if (isnan(v))
        return "-";
    return m->percent ? pare_sprintf(a, "%.2f%%", 100 * v) : pare_sprintf(a, "%.4f", v);
}

void pare_sensitivity_print(const struct pare_sensitivity_report *s, struct pare_arena *a,
                            const struct pare_metric_value *metric)
{
    int cols = s->n_sparsities + 2;
    char *align = pare_alloc(a, (size_t)cols + 1, 1);
    const char **cell = pare_alloc(a, (size_t)cols, sizeof(*cell));
    struct pare_table *t;

    if (!align || !cell)
        return;
    memset(align, 'r', (size_t)cols);
    align[0] = align[1] = 'l';
    t = pare_table_new(a, align);
    cell[0] = "layer";
    cell[1] = "type";
    for (int k = 0; k < s->n_sparsities; k++)
        cell[k + 2] = pare_sprintf(a, "%g", s->sparsity[k]);
    pare_table_cells(t, cell);
    for (int i = 0; i < s->n_layers; i++) {
        cell[0] = s->name[i];
        cell[1] = s->type[i];
        for (int k = 0; k < s->n_sparsities; k++)
            cell[k + 2] = metric_text(a, s->metric[i * s->n_sparsities + k], metric);
        pare_table_cells(t, cell);
    }
    pare_table_print(t, stdout);
    printf("\nunpruned: %s %s\n", metric->name, metric_text(a, s->base, metric));
}

static const char *number_text(double v, char *buf, size_t size)
{
    snprintf(buf, size, "%.12g", v);
    return buf;
}

json_t *pare_sensitivity_json(const struct pare_sensitivity_report *s, const char *pruner,
                              const struct pare_metric_value *metric)
{
    json_t *layers = json_object(), *sparsities = json_array();
    char key[PARE_NUM_TEXT];

    for (int k = 0; k < s->n_sparsities; k++)
        json_array_append_new(sparsities, json_real(s->sparsity[k]));
    for (int i = 0; i < s->n_layers; i++) {
        json_t *one = json_object();

        for (int k = 0; k < s->n_sparsities; k++) {
            double v = s->metric[i * s->n_sparsities + k];

            if (!isnan(v))
                json_object_set_new(one, number_text(s->sparsity[k], key, sizeof(key)),
                                    pare_json_real(v));
        }
        json_object_set_new_nocheck(layers, s->name[i], one);
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "pruner", pruner, "metric", metric->name, "base",
                     pare_json_real(s->base), "sparsities", sparsities, "sensitivity", layers);
}

int pare_sensitivity_csv(const struct pare_sensitivity_report *s, const char *path,
                         struct pare_err *err)
{
    struct csv out;

    PARE_TRY(csv_new(&out, err));
    csv_put(&out, "layername");
    for (int k = 0; k < s->n_sparsities; k++)
        csv_put(&out, pare_sprintf(out.arena, ",%.12g", s->sparsity[k]));
    csv_put(&out, "\n");
    for (int i = 0; i < s->n_layers; i++) {
        csv_put_name(&out, s->name[i]);
        for (int k = 0; k < s->n_sparsities; k++) {
            double v = s->metric[i * s->n_sparsities + k];

            if (!isnan(v)) /* a row ends where --early-stop ended it */
                csv_put(&out, pare_sprintf(out.arena, ",%.9g", v));
        }
        csv_put(&out, "\n");
    }
    return csv_save(&out, path, err);
}

/* ---- quantization ---------------------------------------------------------------------- */

static const char *db_text(struct pare_arena *a, double db)
{
    return isinf(db) && db > 0 ? "exact" : isnan(db) ? "-" : pare_sprintf(a, "%.1f dB", db);
}

static const char *cosine_text(struct pare_arena *a, double v)
{
    return isnan(v) ? "-" : pare_sprintf(a, "%.6f", v);
}

void pare_quant_error_print(const struct pare_quant_error_report *q, struct pare_arena *a)
{
    struct pare_table *t = pare_table_new(a, "llrrrrrr");

    pare_table_row(t, "layer", "type", "bits", "weight", "output", "cosine", "model", "cosine");
    for (int i = 0; i < q->n_layers * q->n_bits; i++) {
        const struct pare_quant_error *e = &q->item[i];
        bool first = i % q->n_bits == 0;
        int l = i / q->n_bits;

        pare_table_row(t, first ? q->name[l] : "", first ? q->type[l] : "",
                       pare_sprintf(a, "%lld", (long long)q->bits[i % q->n_bits]),
                       db_text(a, e->weight_db), db_text(a, e->out_db), cosine_text(a, e->out_cos),
                       db_text(a, e->end_db), cosine_text(a, e->end_cos));
    }
    pare_table_print(t, stdout);
}

json_t *pare_quant_error_json(const struct pare_quant_error_report *q, bool weights_only)
{
    json_t *layers = json_object();

    for (int i = 0; i < q->n_layers; i++) {
        json_t *one = json_object();

        for (int k = 0; k < q->n_bits; k++) {
            const struct pare_quant_error *e = &q->item[i * q->n_bits + k];
            char bits[PARE_NUM_TEXT];

            snprintf(bits, sizeof(bits), "%lld", (long long)q->bits[k]);
            json_object_set_new(one, bits,
                                json_pack("{s:o, s:o, s:o, s:o, s:o}", "weight_snr_db",
                                          pare_json_real(e->weight_db), "output_snr_db",
                                          pare_json_real(e->out_db), "output_cosine",
                                          pare_json_real(e->out_cos), "model_snr_db",
                                          pare_json_real(e->end_db), "model_cosine",
                                          pare_json_real(e->end_cos)));
        }
        json_object_set_new_nocheck(layers, q->name[i], one);
    }
    return json_pack("{s:b, s:o}", "weights_only", (int)weights_only, "quantization", layers);
}

int pare_quant_error_csv(const struct pare_quant_error_report *q, const char *path,
                         struct pare_err *err)
{
    struct csv out;

    PARE_TRY(csv_new(&out, err));
    csv_put(&out, "layername,bits,weight_snr_db,output_snr_db,output_cosine,model_snr_db,"
                  "model_cosine\n");
    for (int i = 0; i < q->n_layers * q->n_bits; i++) {
        const struct pare_quant_error *e = &q->item[i];

        csv_put_name(&out, q->name[i / q->n_bits]);
        csv_put(&out, pare_sprintf(out.arena, ",%lld,%.9g,%.9g,%.9g,%.9g,%.9g\n",
                                   (long long)q->bits[i % q->n_bits], e->weight_db, e->out_db,
                                   e->out_cos, e->end_db, e->end_cos));
    }
    return csv_save(&out, path, err);
}
