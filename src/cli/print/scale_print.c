/* scale_print.c - scales and zero points of a quantized model, as a table and as JSON. */
#include "scale_print.h"

#include <string.h>

#include <jansson.h>

#include "../../op/quant/quant_family.h"
#include "../../tensor/tensor.h"

static const char *const site[] = { "weight", "input", "output" };

/* What is printed about a tensor. */
struct row {
    double scale[2], zero[2], range[2]; /* least and largest */
    bool zeros;                         /* zero points are known */
};

/* Zero points that are packed into bytes have other counts than the scales. */
static bool zeros_known(const struct pare_model_quant *q)
{
    return !q->zero_point.data || pare_numel(&q->zero_point) == pare_numel(&q->scale);
}

static double zero_at(const struct pare_model_quant *q, int64_t i)
{
    return q->zero_point.data ? pare_get(&q->zero_point, i) : 0;
}

static void widen(double *range, double v, bool first)
{
    range[0] = first || v < range[0] ? v : range[0];
    range[1] = first || v > range[1] ? v : range[1];
}

static bool summarize(const struct pare_model_quant *q, struct row *r)
{
    int lo, hi;

    if (q->dtype == PARE_NONE || !q->scale.data)
        return false;
    pare_quant_range(q->dtype, &lo, &hi);
    r->zeros = zeros_known(q);
    for (int64_t i = 0, n = pare_numel(&q->scale); i < n; i++) {
        double scale = pare_get(&q->scale, i), zero = r->zeros ? zero_at(q, i) : 0;

        widen(r->scale, scale, !i);
        widen(r->zero, zero, !i);
        widen(r->range, scale * (lo - zero), !i);
        widen(r->range, scale * (hi - zero), false);
    }
    return pare_numel(&q->scale) > 0;
}

/* "0.0123", or "0.001 to 0.02". */
static const char *span(const double *v, char *buf, size_t size)
{
    if (v[0] == v[1])
        snprintf(buf, size, "%.4g", v[0]);
    else
        snprintf(buf, size, "%.4g to %.4g", v[0], v[1]);
    return buf;
}

void pare_scales_print(struct pare_arena *a, const struct pare_layer_scales *list, int n)
{
    struct pare_table *t = pare_table_new(a, "lllrlrl");
    char count[PARE_NUM_TEXT], scale[64], zero[64], range[64];

    if (!n)
        return;
    pare_table_row(t, "layer", "tensor", "dtype", "scales", "scale", "zero point", "range");
    for (int i = 0; i < n; i++) {
        const char *name = list[i].name;

        for (int k = 0; k < 3; k++) {
            const struct pare_model_quant *q = &list[i].q[k];
            struct row r = { 0 };

            if (!summarize(q, &r))
                continue;
            pare_table_row(t, name, site[k], pare_dtype_name(q->dtype),
                           pare_whole_text(pare_numel(&q->scale), count, sizeof(count)),
                           span(r.scale, scale, sizeof(scale)),
                           r.zeros ? span(r.zero, zero, sizeof(zero)) : "packed",
                           r.zeros ? span(r.range, range, sizeof(range)) : "");
            name = "";
        }
    }
    pare_table_print(t, stdout);
    printf("\n");
}

static json_t *quant_json(const struct pare_model_quant *q, const struct row *r)
{
    json_t *scales = json_array(), *zeros = json_array(), *j;
    int lo, hi, bits = 0;

    pare_quant_range(q->dtype, &lo, &hi);
    while (bits < 32 && (int64_t)hi - lo >= (int64_t)1 << bits)
        bits++;
    for (int64_t i = 0, n = pare_numel(&q->scale); i < n; i++) {
        json_array_append_new(scales, pare_json_real(pare_get(&q->scale, i)));
        if (r->zeros)
            json_array_append_new(zeros, json_integer((json_int_t)zero_at(q, i)));
    }
    j = json_pack("{s:s, s:i, s:i, s:I, s:o, s:o}", "dtype", pare_dtype_name(q->dtype), "bits",
                  bits, "axis", q->axis, "group", (json_int_t)q->group, "scale", scales,
                  "zero_point", zeros);
    if (j && r->zeros) {
        json_object_set_new(j, "min", pare_json_real(r->range[0]));
        json_object_set_new(j, "max", pare_json_real(r->range[1]));
    }
    return j;
}

json_t *pare_scales_json(const struct pare_layer_scales *list, int n, const char *layer)
{
    json_t *all;
    int i = 0;

    while (i < n && strcmp(list[i].name, layer) != 0)
        i++;
    if (i == n)
        return NULL;
    all = json_object();
    for (int k = 0; k < 3; k++) {
        struct row r = { 0 };

        if (summarize(&list[i].q[k], &r))
            json_object_set_new(all, site[k], quant_json(&list[i].q[k], &r));
    }
    return all;
}
