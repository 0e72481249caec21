/* sensitivity.c - accuracy of the model when one layer at a time is pruned. */
#include "sensitivity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../dist/dist.h"
#include "../onnx/model.h"
#include "layer_filter.h"
#include "../compress/method.h"
#include "../compress/wrap.h"
#include "../prune/default_rules.h"
#include "../prune/prune_state.h"

static const double usual[] = { 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9 };

/* ---- the layers ------------------------------------------------------------------------------ */

/* The fraction of the layer's units that are all zeros; -1: out of memory. */
static double zero_fraction(struct pare_compression *r, const struct pare_layer *l,
                            struct pare_err *err)
{
    struct pare_mark m = pare_mark(r->scratch);
    float *sum = pare_alloc(r->scratch, (size_t)l->prune->units.n, sizeof(*sum));
    int64_t zeros = 0;

    if (!sum) {
        pare_no_memory(err, "for a sensitivity analysis");
        return -1;
    }
    pare_units_sum(&l->prune->units, &l->w, 1, sum);
    for (int64_t i = 0; i < l->prune->units.n; i++)
        zeros += sum[i] == 0;
    pare_reset(r->scratch, m);
    return l->prune->units.n ? (double)zeros / (double)l->prune->units.n : 0;
}

static int select_layers(struct pare_sensitivity *s, struct pare_compression *r,
                         struct pare_err *err)
{
    size_t n = (size_t)r->n_layers;
    int named = 0;

    s->name = pare_alloc(s->arena, n, sizeof(*s->name));
    s->type = pare_alloc(s->arena, n, sizeof(*s->type));
    s->already = pare_alloc(s->arena, n, sizeof(*s->already));
    if (!s->name || !s->type || !s->already)
        return pare_no_memory(err, "for a sensitivity analysis");
    for (int i = 0; i < r->n_layers; i++)
        if (!r->layer[i].is_second) /* it is pruned with the first weight */
            s->name[named++] = r->layer[i].info.name;
    PARE_TRY(pare_layer_filter_check(&s->o.layers, s->name, named, "this pruner can prune", err));
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *l = &r->layer[i];

        if (l->is_second || !pare_layer_filter(&s->o.layers, l->info.name))
            continue;
        s->name[s->n_layers] = pare_strdup(s->arena, l->info.name);
        s->type[s->n_layers] = pare_strdup(s->arena, l->info.torch);
        s->already[s->n_layers] = zero_fraction(r, l, err);
        if (!s->name[s->n_layers] || !s->type[s->n_layers])
            return pare_no_memory(err, "for a sensitivity analysis");
        if (s->already[s->n_layers++] < 0)
            return err->code;
    }
    return 0;
}

/* Lists the layers: all that a compression with this pruner wraps. */
static int find_layers(struct pare_sensitivity *s, const struct pare_algorithm *p,
                       struct pare_err *err)
{
    struct pare_compression_opts ro = { .pruner = s->o.pruner,
                                        .settings = s->o.settings,
                                        .registry = s->o.registry,
                                        .threads = s->o.threads };
    struct pare_rules rules;
    struct pare_compression *r;
    struct pare_graph *g;
    int rc;

    PARE_TRY(pare_model_shapes(s->copy, s->arena, &g, err));
    PARE_TRY(pare_default_rules(g, p, 0.5, s->arena, &rules, err));
    ro.rule = rules.rule;
    ro.n_rules = rules.n;
    PARE_TRY(pare_compression_open(&pare_method_prune, s->copy, &ro, g, &r, err));
    rc = select_layers(s, r, err);
    pare_compression_free(r);
    return rc;
}

/* ---- setup ----------------------------------------------------------------------------------- */

static int check_pruner(const struct pare_sensitivity_setup *o, const struct pare_algorithm **p,
                        struct pare_err *err)
{
    PARE_TRY(pare_find_pruner(o->registry, o->pruner, p, err));
    if ((*p)->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS | PARE_USES_BASE))
        return pare_fail(
            err, PARE_ECONFIG,
            "pruner %s needs training or data to score weights; use a pruner that needs only "
            "weights: l1, l2, fpgm or level",
            o->pruner);
    return 0;
}

static int set_sparsities(struct pare_sensitivity *s, struct pare_err *err)
{
    const struct pare_floats *f = &s->o.sparsity;
    int n = f->n ? f->n : (int)(sizeof(usual) / sizeof(*usual));

    s->sparsity = pare_alloc(s->arena, (size_t)n, sizeof(*s->sparsity));
    if (!s->sparsity)
        return pare_no_memory(err, "for a sensitivity analysis");
    memcpy(s->sparsity, f->n ? f->v : usual, (size_t)n * sizeof(*s->sparsity));
    s->n_sparsities = n;
    for (int i = 0; i < n; i++) {
        if (!(s->sparsity[i] > 0 && s->sparsity[i] < 1))
            return pare_fail(err, PARE_ECONFIG,
                             "the sparsity is %g, expected more than 0 and less than 1",
                             s->sparsity[i]);
        if (i && s->sparsity[i] <= s->sparsity[i - 1])
            return pare_fail(err, PARE_ECONFIG, "sparsities must be ascending, but %g follows %g",
                             s->sparsity[i], s->sparsity[i - 1]);
    }
    return 0;
}

static int check_stop(const struct pare_sensitivity_setup *o, struct pare_err *err)
{
    static const char *const modes[] = { "none", "minimize", "maximize", "dropped", "raised" };

    if (!o->early_stop)
        return 0;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(modes[i], o->early_stop))
            return 0;
    return pare_fail(
        err, PARE_ECONFIG,
        "early stop '%.40s' is unknown, expected minimize, maximize, dropped or raised",
        o->early_stop);
}

static int init_sensitivity(struct pare_sensitivity *s, const struct pare_model *m,
                            struct pare_err *err)
{
    const struct pare_algorithm *p;
    void *bytes;
    size_t len;

    PARE_TRY(check_pruner(&s->o, &p, err));
    PARE_TRY(check_stop(&s->o, err));
    PARE_TRY(set_sparsities(s, err));
    PARE_TRY(pare_model_pack(m, s->arena, &bytes, &len, err));
    PARE_TRY(pare_model_parse(bytes, len, NULL, &s->copy, err));
    PARE_TRY(find_layers(s, p, err));
    s->metric = pare_alloc(s->arena, (size_t)s->n_layers * (size_t)s->n_sparsities,
                           sizeof(*s->metric));
    if (!s->metric)
        return pare_no_memory(err, "for a sensitivity analysis");
    for (int i = 0; i < s->n_layers * s->n_sparsities; i++)
        s->metric[i] = NAN;
    return s->o.measure(s->o.user, s->copy, &s->base, err);
}

int pare_sensitivity_new(const struct pare_model *m, const struct pare_sensitivity_setup *o,
                         struct pare_sensitivity **sense, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_sensitivity *s = a ? pare_alloc(a, 1, sizeof(*s)) : NULL;
    int rc;

    *sense = NULL;
    if (!s) {
        pare_arena_free(a);
        return pare_no_memory(err, "for a sensitivity analysis");
    }
    s->arena = a;
    s->o = *o;
    rc = init_sensitivity(s, m, err);
    if (rc)
        pare_sensitivity_free(s);
    else
        *sense = s;
    return rc;
}

void pare_sensitivity_free(struct pare_sensitivity *s)
{
    if (!s)
        return;
    pare_model_free(s->copy);
    pare_arena_free(s->arena);
}

/* ---- measuring ------------------------------------------------------------------------------- */

int pare_sensitivity_item(struct pare_sensitivity *s, int item, struct pare_err *err)
{
    int layer = item / s->n_sparsities;
    double part = s->sparsity[item % s->n_sparsities], already = s->already[layer];
    double sparsity = already + (1 - already) * part;
    const char *names[] = { s->name[layer], NULL };
    char keys[64];
    struct pare_rule rule = { .op_names = names, .keys = keys };
    struct pare_compression_opts ro = { .pruner = s->o.pruner,
                                        .settings = s->o.settings,
                                        .registry = s->o.registry,
                                        .rule = &rule,
                                        .n_rules = 1,
                                        .seed = s->o.seed,
                                        .threads = s->o.threads };
    struct pare_compression *r;
    int rc;

    snprintf(keys, sizeof(keys), "sparsity=%.17g", sparsity < 0.999999999 ? sparsity : 0.999999999);
    PARE_TRY(pare_compression_open(&pare_method_prune, s->copy, &ro, NULL, &r, err));
    rc = pare_compression_compress(r, err);
    if (!rc)
        rc = s->o.measure(s->o.user, s->copy, &s->metric[item], err);
    pare_compression_restore(r);
    pare_compression_free(r);
    if (!rc && s->o.say)
        s->o.say(s->o.user, s, item);
    return pare_at(err, rc, "layer '%s' at sparsity %g", s->name[layer], part);
}

bool pare_sensitivity_stops(const struct pare_sensitivity *s, double metric)
{
    const char *mode = s->o.early_stop ? s->o.early_stop : "none";
    double v = s->o.early_stop_value;

    if (!strcmp(mode, "minimize"))
        return metric < v;
    if (!strcmp(mode, "maximize"))
        return metric > v;
    if (!strcmp(mode, "dropped"))
        return metric < s->base - v;
    return !strcmp(mode, "raised") && metric > s->base + v;
}

int pare_sensitivity_layer(struct pare_sensitivity *s, int layer, struct pare_err *err)
{
    for (int k = 0; k < s->n_sparsities; k++) {
        int item = layer * s->n_sparsities + k;

        PARE_TRY(pare_sensitivity_item(s, item, err));
        if (pare_sensitivity_stops(s, s->metric[item]))
            break;
    }
    return 0;
}

static int measure_work_item(void *user, int64_t i, void *result, struct pare_err *err)
{
    struct pare_sensitivity *s = user;

    PARE_TRY(pare_sensitivity_layer(s, (int)i, err));
    memcpy(result, s->metric + i * s->n_sparsities, (size_t)s->n_sparsities * sizeof(double));
    return 0;
}

int pare_sensitivity_run(struct pare_sensitivity *s, struct pare_err *err)
{
    size_t row = (size_t)s->n_sparsities * sizeof(double);
    struct pare_work w = { .n = s->n_layers, .size = row, .fn = measure_work_item, .user = s };

    w.results = pare_alloc(s->arena, (size_t)s->n_layers, row);
    if (!w.results)
        return pare_no_memory(err, "for a sensitivity analysis");
    PARE_TRY(pare_dist_work(s->o.dist, &w, err));
    memcpy(s->metric, w.results, (size_t)s->n_layers * row);
    return 0;
}
