/* cost_size.c - bytes and multiply-accumulates of layers as functions of channel counts. */
#include <math.h>

#include "cost_samples.h"
#include "cost_table.h"

#include "../base/arena.h"

#define TERMS 8

static double weights_of(const struct pare_cost_layer *l, int64_t cin, int64_t cout)
{
    if (l->depthwise)
        return l->taps * (double)cout;
    return l->taps * (double)cin * (double)cout / (double)l->groups;
}

double pare_cost_bytes(const struct pare_cost_table *t, int layer, int64_t cin, int64_t cout,
                       enum pare_cost_format f)
{
    static const double size[PARE_COST_FORMATS] = { 4, 1 };

    if (cin < 1 || cout < 1) /* the layer is removed */
        return 0;
    return size[f] * weights_of(&t->layer[layer], cin, cout) + t->bytes_channel[f] * (double)cout +
           t->bytes_layer[f];
}

double pare_cost_macs(const struct pare_cost_table *t, int layer, int64_t cin, int64_t cout)
{
    const struct pare_cost_layer *l = &t->layer[layer];

    return l->macs * weights_of(l, cin, cout) / weights_of(l, l->cin, l->cout);
}

/* What a file has in addition to weights, by least squares: a constant, bytes per int8 layer, bytes
 * per output channel of float32 and of int8 layers; and what normalizations take in models without
 * int8 layers, in others they are folded: a constant, bytes per output channel.  Conversions at
 * borders between formats have nodes and scales, too. */
int pare_cost_fit_bytes(struct pare_cost_table *t, const struct pare_cost_file *f, int n,
                        struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    double *x = a ? pare_alloc(a, (size_t)n * TERMS + 1, sizeof(*x)) : NULL;
    double *y = a ? pare_alloc(a, (size_t)n + 1, sizeof(*y)) : NULL;
    double *w = a ? pare_alloc(a, (size_t)n + 1, sizeof(*w)) : NULL, fit[TERMS];

    if (!x || !y || !w) {
        pare_arena_free(a);
        return pare_no_memory(err, "for sizes of files");
    }
    t->bytes_fixed = 0;
    for (int k = 0; k < PARE_COST_FORMATS; k++)
        t->bytes_layer[k] = t->bytes_channel[k] = 0;
    for (int i = 0; i < n; i++) {
        double *row = x + (size_t)i * TERMS, channels = 0;

        y[i] = f[i].bytes;
        w[i] = f[i].bytes > 0 ? 1 / (f[i].bytes * f[i].bytes) : 1;
        row[0] = 100;
        for (int k = 0; k < t->n_layers; k++) {
            enum pare_cost_format own = f[i].format ? f[i].format[k] : PARE_COST_F32;
            int64_t cin = pare_cost_axis_count(&t->layer[k].in, f[i].count);
            int64_t cout = pare_cost_axis_count(&t->layer[k].out, f[i].count);

            y[i] -= pare_cost_bytes(t, k, cin, cout, own);
            if (cin < 1 || cout < 1)
                continue;
            row[1] += own == PARE_COST_INT8;
            row[own == PARE_COST_INT8 ? 3 : 2] += (double)cout;
            channels += (double)cout;
            row[6 + own] += pare_cost_at_border(t, k, f[i].format) & 1u;
        }
        row[4] = row[1] > 0 ? 0 : 100;
        row[5] = row[1] > 0 ? 0 : channels;
    }
    pare_cost_solve_positive(x, y, w, n, TERMS, fit);
    t->bytes_fixed = 100 * fit[0];
    t->bytes_layer[PARE_COST_INT8] = fit[1];
    t->bytes_channel[PARE_COST_F32] = fit[2];
    t->bytes_channel[PARE_COST_INT8] = fit[3];
    t->bytes_norm = 100 * fit[4];
    t->bytes_norm_channel = fit[5];
    t->bytes_border[PARE_COST_F32] = fit[6];
    t->bytes_border[PARE_COST_INT8] = fit[7];
    pare_arena_free(a);
    return 0;
}
