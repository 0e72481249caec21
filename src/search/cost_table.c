/* cost_table.c - latency, size and MACs of a model as functions of channel counts and formats. */
#include "cost_table.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

#include "cost_samples.h"

#include "../base/arena.h"

const char *const pare_cost_format_names[PARE_COST_FORMATS] = { "float32", "int8" };

#define ALL_FORMATS ((1u << PARE_COST_FORMATS) - 1)

/* ---- predictions ----------------------------------------------------------------------------- */

int64_t pare_cost_axis_count(const struct pare_cost_axis *x, const int64_t *count)
{
    int64_t sum = x->fixed;

    for (int i = 0; i < x->n; i++)
        sum += x->times[i] * count[x->group[i]];
    return sum;
}

double pare_cost_light(const struct pare_cost_table *t, int layer, int64_t cout,
                       enum pare_cost_format f)
{
    return pare_cost_curve_at(pare_cost_samples_find(t->samples, t->layer[layer].light_key,
                                                     pare_cost_format_names[f]),
                              1, cout);
}

double pare_cost_time(const struct pare_cost_table *t, int layer, int64_t cin, int64_t cout,
                      enum pare_cost_format f)
{
    double us;

    if (cin < 1 || cout < 1) /* the layer is removed */
        return 0;
    us = pare_cost_curve_at(pare_cost_samples_find(t->samples, t->layer[layer].key,
                                                   pare_cost_format_names[f]),
                            cin, cout) +
         pare_cost_light(t, layer, cout, f);

    return t->scale[f] > 0 ? t->scale[f] * us : us;
}

/* ---- conversions between formats ------------------------------------------------------------- */

unsigned pare_cost_at_border(const struct pare_cost_table *t, int layer,
                             const enum pare_cost_format *format)
{
    const struct pare_cost_layer *l = &t->layer[layer];
    unsigned bits = 0;

    for (int k = 0; format && k < l->n_next; k++)
        bits |= format[l->next[k]] != format[layer] ? 1u : 0;
    for (int k = 0; format && k < l->n_prev; k++)
        bits |= format[l->prev[k]] != format[layer] ? 2u : 0;
    return bits;
}

const char *pare_cost_border_name(enum pare_cost_format own, unsigned bits)
{
    static const char *const name[PARE_COST_FORMATS][4] = {
        { "float32", "float32 before other", "float32 after other", "float32 between others" },
        { "int8", "int8 before other", "int8 after other", "int8 between others" },
    };

    return name[own][bits & 3u];
}

/* What the layer and the steps after it take in addition: of layers with the same key, or the mean
 * of all. */
static double border_at(const struct pare_cost_table *t, int layer, int64_t cout,
                        enum pare_cost_format own, unsigned bits)
{
    const struct pare_cost_layer *l = &t->layer[layer];
    const struct pare_cost_curve *c;

    if (!bits)
        return 0;
    c = pare_cost_samples_find(t->samples, l->key, pare_cost_border_name(own, bits));
    if (c)
        return pare_cost_curve_line(c, cout);
    return bits & 1u ? t->border_us[own] + t->border[own] * l->positions * (double)cout : 0;
}

double pare_cost_border(const struct pare_cost_table *t, int layer, int64_t cout,
                        enum pare_cost_format own, enum pare_cost_format next)
{
    return border_at(t, layer, cout, own, own != next);
}

double pare_cost_sum(const struct pare_cost_table *t, const int64_t *count,
                     const enum pare_cost_format *format)
{
    double sum = 0;

    for (int i = 0; i < t->n_layers; i++) {
        int64_t cin = pare_cost_axis_count(&t->layer[i].in, count);
        int64_t cout = pare_cost_axis_count(&t->layer[i].out, count);

        sum += pare_cost_time(t, i, cin, cout, format ? format[i] : PARE_COST_F32) +
               border_at(t, i, cout, format ? format[i] : PARE_COST_F32,
                         pare_cost_at_border(t, i, format));
    }
    return sum;
}

struct pare_cost pare_cost_predict(const struct pare_cost_table *t, const int64_t *count,
                                   const enum pare_cost_format *format)
{
    struct pare_cost c = { t->fixed + t->alpha * pare_cost_sum(t, count, format), t->bytes_fixed,
                           0 };
    bool float32 = true;

    for (int i = 0; format && i < t->n_layers; i++)
        float32 &= format[i] == PARE_COST_F32;
    c.bytes += float32 ? t->bytes_norm : 0;
    for (int i = 0; i < t->n_layers; i++) {
        int64_t cin = pare_cost_axis_count(&t->layer[i].in, count);
        int64_t cout = pare_cost_axis_count(&t->layer[i].out, count);

        c.bytes += pare_cost_bytes(t, i, cin, cout, format ? format[i] : PARE_COST_F32);
        if (format && pare_cost_at_border(t, i, format) & 1u)
            c.bytes += t->bytes_border[format[i]];
        c.bytes += float32 ? t->bytes_norm_channel * (double)cout : 0;
        c.macs += pare_cost_macs(t, i, cin, cout);
    }
    return c;
}

void pare_cost_refit(struct pare_cost_table *t, double predicted_us, double measured_us)
{
    if (!(predicted_us > 0) || !(measured_us > 0))
        return;
    t->fixed *= measured_us / predicted_us;
    t->alpha *= measured_us / predicted_us;
}

void pare_cost_refit_format(struct pare_cost_table *t, const int64_t *count,
                            const enum pare_cost_format *format, double measured_us)
{
    enum pare_cost_format f = PARE_COST_F32;
    double share = 0, rest = pare_cost_predict(t, count, format).us, factor;

    for (int i = 0; i < t->n_layers; i++)
        f = format[i] == PARE_COST_INT8 ? PARE_COST_INT8 : f;
    for (int i = 0; i < t->n_layers; i++)
        if (format[i] == f)
            share += t->alpha * pare_cost_time(t, i, pare_cost_axis_count(&t->layer[i].in, count),
                                               pare_cost_axis_count(&t->layer[i].out, count), f);
    if (!(share > 0) || !(measured_us > 0))
        return;
    factor = (measured_us - (rest - share)) / share;
    factor = factor < 0.5 ? 0.5 : factor > 2 ? 2 : factor;
    t->scale[f] = (t->scale[f] > 0 ? t->scale[f] : 1) * factor;
}

/* ---- making a table -------------------------------------------------------------------------- */

/* Which formats have times; a layer without times of float32 is an error. */
static int check_layers(struct pare_cost_table *t, struct pare_err *err)
{
    for (int i = 0; i < t->n_layers; i++) {
        struct pare_cost_layer *l = &t->layer[i];

        l->formats = 0;
        for (int f = 0; f < PARE_COST_FORMATS; f++)
            if (t->formats & 1u << f &&
                pare_cost_samples_find(t->samples, l->key, pare_cost_format_names[f]))
                l->formats |= 1u << f;
        if (!l->formats)
            return pare_fail(err, PARE_EFORMAT,
                             "has no times of layer '%s', whose key is \"%s\": it is a table of "
                             "another model, batch (b) or number of threads (t)",
                             l->name, l->key);
    }
    return 0;
}

static int read_times(const struct pare_model *m, const char *path, struct pare_cost_table *t,
                      struct pare_err *err)
{
    const struct pare_cost_opts few = { .threads = t->threads, .untuned = true };
    bool found;

    PARE_TRY(pare_cost_samples_read(t->samples, path, err));
    pare_cost_samples_fit(t->samples);
    PARE_TRY(pare_at(err, check_layers(t, err), "%s", path));
    PARE_TRY(pare_cost_whole_load(t, &found, err));
    return found ? 0 : pare_cost_profile_sizes(m, &few, t, err);
}

static int measure(const struct pare_model *m, const struct pare_cost_opts *o,
                   struct pare_cost_table *t, struct pare_err *err)
{
    const char *cached = o->cache && !o->timer ? pare_cost_cache_file(t, o->cache, true) : NULL;
    struct pare_err ignored;

    if (cached && !o->write_table && !access(cached, R_OK)) {
        if (!read_times(m, cached, t, &ignored))
            return 0;
        *t->samples = (struct pare_cost_samples){ .arena = t->arena };
    }
    PARE_TRY(pare_cost_profile(m, o, t, err));
    PARE_TRY(check_layers(t, err));
    PARE_TRY(pare_cost_whole_save(t, err));
    if (cached)
        pare_cost_samples_write(t->samples, cached, &ignored); /* a cache may fail */
    return 0;
}

int pare_cost_table_measure(const struct pare_model *m, const struct pare_cost_opts *opts,
                            struct pare_arena *a, struct pare_cost_table **out,
                            struct pare_err *err)
{
    struct pare_cost_table *t = pare_alloc(a, 1, sizeof(*t));

    *out = NULL;
    if (!t || !(t->samples = pare_alloc(a, 1, sizeof(*t->samples))))
        return pare_no_memory(err, "for a table of times");
    t->arena = t->samples->arena = a;
    t->formats = opts->formats ? opts->formats & ALL_FORMATS : ALL_FORMATS;
    t->batch = opts->batch > 0 ? opts->batch : 1;
    t->threads = opts->threads > 0 ? opts->threads : omp_get_max_threads();
    t->alpha = 1;
    t->error_median = t->error_worst = -1;
    PARE_TRY(pare_cost_space(m, t, err));
    PARE_TRY(pare_cost_check_branches(m, t, err));
    PARE_TRY(opts->read_table ? read_times(m, opts->read_table, t, err) : measure(m, opts, t, err));
    if (opts->write_table)
        PARE_TRY(pare_cost_samples_write(t->samples, opts->write_table, err));
    *out = t;
    return 0;
}
