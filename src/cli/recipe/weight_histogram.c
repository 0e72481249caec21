/* weight_histogram.c - histograms of each layer's weights before and after, for the run record. */
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "run_record.h"
#include "../../base/arena.h"
#include "../../graph/free_dims.h"
#include "../../graph/layer.h"
#include "../../onnx/model.h"
#include "../../tensor/tensor.h"

#define BINS 41 /* odd: the middle one is around 0 */

struct side {
    struct pare_arena *arena;
    struct pare_model *m;
    struct pare_layer_info *layer;
    int n;
};

static int open_side(const char *path, struct side *s, struct pare_err *err)
{
    struct pare_graph *g;

    s->arena = pare_arena_new(1 << 16);
    if (!s->arena)
        return pare_no_memory(err, "for histograms");
    PARE_TRY(pare_model_load(path, &s->m, err));
    PARE_TRY(pare_graph_infer_ones(s->arena, s->m->graph, s->m->in, &g, err));
    return pare_layers(s->arena, g, &s->layer, &s->n, err);
}

static void close_side(struct side *s)
{
    pare_model_free(s->m);
    pare_arena_free(s->arena);
}

static const struct pare_layer_info *find_layer(const struct side *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->layer[i].name, name))
            return &s->layer[i];
    return NULL;
}

/* The weight's values; data is NULL if they cannot be read, and then there is no histogram. */
static struct pare_tensor weight_of(const struct side *s, const struct pare_layer_info *l)
{
    struct pare_value v = *l->weight;
    struct pare_err ignored;

    if (pare_value_load(s->arena, &v, &ignored) || v.t.dtype == PARE_STR)
        v.t.data = NULL;
    return v.t;
}

static double max_abs(const struct pare_tensor *t)
{
    double most = 0;

    for (int64_t i = 0; t->data && i < pare_numel(t); i++) {
        double v = fabs(pare_get(t, i));

        most = v > most ? v : most;
    }
    return most;
}

static json_t *histogram(const struct pare_tensor *t, double range)
{
    int64_t bin[BINS] = { 0 };
    json_t *list;

    if (!t->data)
        return json_null();
    for (int64_t i = 0; i < pare_numel(t); i++) {
        double at = (pare_get(t, i) / range + 1) / 2 * BINS;

        if (isfinite(at))
            bin[at < 0 ? 0 : at >= BINS ? BINS - 1 : (int)at]++;
    }
    list = json_array();
    for (int i = 0; i < BINS; i++)
        json_array_append_new(list, json_integer(bin[i]));
    return list;
}

int pare_weight_bins(const char *before, const char *after, json_t **bins, struct pare_err *err)
{
    struct side a = { 0 }, b = { 0 };
    int rc = open_side(before, &a, err);

    *bins = json_object();
    if (!rc)
        rc = open_side(after, &b, err);
    for (int i = 0; !rc && i < a.n; i++) {
        struct pare_mark ma = pare_mark(a.arena), mb = pare_mark(b.arena);
        const struct pare_layer_info *then = find_layer(&b, a.layer[i].name);
        struct pare_tensor x = weight_of(&a, &a.layer[i]), y = { .data = NULL };
        double range;

        if (then)
            y = weight_of(&b, then);
        range = fmax(max_abs(&x), max_abs(&y));
        if (range > 0 && isfinite(range))
            json_object_set_new(*bins, a.layer[i].name,
                                json_pack("{s:f, s:o, s:o}", "range", range, "before",
                                          histogram(&x, range), "after", histogram(&y, range)));
        pare_reset(a.arena, ma);
        pare_reset(b.arena, mb);
    }
    close_side(&a);
    close_side(&b);
    return rc;
}
