/* scale_print.c - scales and zero points of a quantized model, as a table and as JSON. */
#include "scale_print.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../graph/layer.h"
#include "../../op/quant/quant_family.h"
#include "../../tensor/tensor.h"

static const char *const site[] = { "weight", "input", "output" };

/* What is printed about a tensor. */
struct row {
    double scale[2], zero[2], range[2]; /* least and largest */
    bool scales;                        /* scales are known */
    bool zeros;                         /* zero points are known, too */
};

static bool zeros_known(const struct pare_model_quant *q)
{
    int64_t n = pare_numel(&q->zero_point);

    return !q->zero_point.data || n == 1 || n == pare_numel(&q->scale);
}

static double zero_at(const struct pare_model_quant *q, int64_t i)
{
    return q->zero_point.data ? pare_get(&q->zero_point, pare_numel(&q->zero_point) > 1 ? i : 0)
                              : 0;
}

static void widen(double *range, double v, bool first)
{
    range[0] = first || v < range[0] ? v : range[0];
    range[1] = first || v > range[1] ? v : range[1];
}

/* False: the tensor is float. */
static bool summarize(const struct pare_model_quant *q, struct row *r)
{
    int lo, hi;

    *r = (struct row){ .scales = q->scale.data && pare_numel(&q->scale) };
    if (q->dtype == PARE_NONE)
        return false;
    pare_quant_range(q->dtype, &lo, &hi);
    r->zeros = r->scales && zeros_known(q);
    for (int64_t i = 0, n = r->scales ? pare_numel(&q->scale) : 0; i < n; i++) {
        double scale = pare_get(&q->scale, i), zero = r->zeros ? zero_at(q, i) : 0;

        widen(r->scale, scale, !i);
        widen(r->zero, zero, !i);
        widen(r->range, scale * (lo - zero), !i);
        widen(r->range, scale * (hi - zero), false);
    }
    return true;
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

/* "500", or with groups "2,000 of 64". */
static const char *count_text(const struct pare_model_quant *q, char *buf, size_t size)
{
    char count[PARE_NUM_TEXT];

    pare_whole_text(pare_numel(&q->scale), count, sizeof(count));
    if (q->group)
        snprintf(buf, size, "%s of %lld", count, (long long)q->group);
    else
        snprintf(buf, size, "%s", count);
    return buf;
}

void pare_scales_print(struct pare_arena *a, const struct pare_layer_scales *list, int n)
{
    struct pare_table *t = pare_table_new(a, "lllRlrl");
    char count[64], scale[64], zero[64], range[64];

    if (!n)
        return;
    pare_table_row(t, "layer", "tensor", "dtype", "scales", "scale", "zero point", "range");
    for (int i = 0; i < n; i++) {
        const char *name = list[i].name;

        for (int k = 0; k < 3; k++) {
            const struct pare_model_quant *q = &list[i].q[k];
            struct row r;

            if (!summarize(q, &r))
                continue;
            pare_table_row(t, name, site[k], pare_dtype_name(q->dtype),
                           r.scales ? count_text(q, count, sizeof(count)) : "",
                           r.scales     ? span(r.scale, scale, sizeof(scale))
                           : q->dynamic ? "dynamic"
                                        : "not found",
                           r.zeros ? span(r.zero, zero, sizeof(zero)) : "",
                           r.zeros ? span(r.range, range, sizeof(range)) : "");
            name = "";
        }
    }
    pare_table_print(t, stdout);
    printf("\n");
}

/* Zero points of MatMulNBits may be fractions. */
static json_t *zero_json(double zero)
{
    return fabs(zero) < 1e9 && zero == rint(zero) ? json_integer((json_int_t)zero)
                                                  : pare_json_real(zero);
}

static json_t *quant_json(const struct pare_model_quant *q, const struct row *r)
{
    json_t *scales, *zeros, *j;
    int lo, hi, bits = 0;

    pare_quant_range(q->dtype, &lo, &hi);
    while (bits < 32 && (int64_t)hi - lo >= (int64_t)1 << bits)
        bits++;
    j = json_pack("{s:s, s:i, s:b}", "dtype", pare_dtype_name(q->dtype), "bits", bits, "dynamic",
                  q->dynamic);
    if (!j || !r->scales)
        return j;
    scales = json_array();
    zeros = json_array();
    for (int64_t i = 0, n = pare_numel(&q->scale); i < n; i++) {
        json_array_append_new(scales, pare_json_real(pare_get(&q->scale, i)));
        if (r->zeros)
            json_array_append_new(zeros, zero_json(zero_at(q, i)));
    }
    json_object_set_new(j, "axis", json_integer(q->axis));
    json_object_set_new(j, "group", json_integer((json_int_t)q->group));
    json_object_set_new(j, "scale", scales);
    json_object_set_new(j, "zero_point", zeros);
    if (r->zeros) {
        json_object_set_new(j, "min", pare_json_real(r->range[0]));
        json_object_set_new(j, "max", pare_json_real(r->range[1]));
    }
    return j;
}

static void set_json(json_t *all, const struct pare_layer_scales *s, bool second)
{
    for (int k = 0; k < 3; k++) {
        struct row r;

        if (summarize(&s->q[k], &r))
            json_object_set_new(all, second ? "recurrence" : site[k], quant_json(&s->q[k], &r));
    }
}

/* Is it the second weight of this layer? */
static bool is_second(const struct pare_layer_scales *s, const char *layer)
{
    size_t n = strlen(layer);

    return !strncmp(s->name, layer, n) && !strcmp(s->name + n, ".R");
}

json_t *pare_scales_json(const struct pare_layer_scales *list, int n, const char *layer)
{
    json_t *all = NULL;

    for (int i = 0; i < n; i++) {
        bool second = is_second(&list[i], layer);

        if (strcmp(list[i].name, layer) != 0 && !second)
            continue;
        all = all ? all : json_object();
        set_json(all, &list[i], second);
    }
    return all;
}

void pare_half_weights_print(const struct pare_model *m, const struct pare_layer_info *layer, int n)
{
    static const enum pare_dtype types[] = { PARE_F16, PARE_BF16 };

    for (int k = 0; k < 2; k++) {
        int half = 0;

        for (int i = 0; i < n; i++) {
            const struct pare_value *w = layer[i].weight ? pare_value_root(layer[i].weight) : NULL;

            half += w && (w->t.dtype == types[k] || pare_model_stored_type(m, w->name) == types[k]);
        }
        if (half)
            printf(", weights of %d layer%s %s", half, half == 1 ? "" : "s",
                   pare_dtype_name(types[k]));
    }
}
