/* narrow_model.c - models with fewer channels and other formats, for timing: weights do not
 * matter. */
#include <string.h>

#include "cost_table.h"

#include <pare/compress.h>
#include <pare/data.h>

#include "../base/arena.h"
#include "../base/rng.h"
#include "../compress/wrap.h"
#include "../graph/removal_units.h"
#include "../quant/presets.h"
#include "../speedup/speedup.h"
#include "../tensor/tensor.h"

#define ITEMS 2 /* random inputs that scales come from */

/* ---- channels -------------------------------------------------------------------------------- */

static bool is_removed(const struct pare_cost_units *u, const struct pare_value *v, int axis,
                       int64_t i, const int64_t *count)
{
    int64_t unit = pare_removal_unit(u->units, v, axis, i);

    return unit >= 0 && u->group[unit] >= 0 && u->rank[unit] >= count[u->group[unit]];
}

/* Zero the removed indices of an axis. */
static void zero_axis(const struct pare_cost_units *u, const struct pare_value *v,
                      struct pare_tensor *t, int axis, const int64_t *count)
{
    int64_t outer = 1, inner = 1, dim = t->dim[axis];
    float *x = t->data;

    for (int i = 0; i < axis; i++)
        outer *= t->dim[i];
    for (int i = axis + 1; i < t->rank; i++)
        inner *= t->dim[i];
    for (int64_t i = 0; i < dim; i++)
        for (int64_t o = 0; is_removed(u, v, axis, i, count) && o < outer; o++)
            memset(x + (o * dim + i) * inner, 0, (size_t)inner * sizeof(*x));
}

static bool any_removed(const struct pare_cost_units *u, const struct pare_value *v,
                        const int64_t *count)
{
    for (int axis = 0; axis < v->t.rank; axis++)
        for (int64_t i = 0; i < v->t.dim[axis]; i++)
            if (is_removed(u, v, axis, i, count))
                return true;
    return false;
}

/* Zero the removed channels in all weights, and what is left of branches without channels.
 * Copies of shared constants have the name of the original. */
int pare_cost_zero(struct pare_model *m, const struct pare_cost_units *u, const int64_t *count,
                   struct pare_err *err)
{
    for (int i = 0; i < u->g->n_values; i++) {
        const struct pare_value *v = u->g->value[i];
        struct pare_value *to;

        if (!(v->flags & PARE_V_CONST) || v->maker || v->t.dtype != PARE_F32 || v->t.rank < 1 ||
            !any_removed(u, v, count))
            continue;
        to = pare_map_get(&m->graph->names, v->name);
        if (!to || to->maker || to->t.dtype != PARE_F32 || to->t.rank != v->t.rank)
            continue;
        PARE_TRY(pare_model_own(m, to, err));
        for (int axis = 0; axis < v->t.rank; axis++)
            zero_axis(u, v, &to->t, axis, count);
    }
    return pare_cost_zero_branches(m, u, count, err);
}

static int narrow(const struct pare_model *m, const struct pare_cost_table *t, struct pare_arena *a,
                  const int64_t *count, struct pare_model **out, struct pare_err *err)
{
    struct pare_speedup_opts so = { .unverified = true, .threads = t->threads };
    struct pare_speedup_report r;
    struct pare_cost_units u = { 0 };
    struct pare_model *copy;
    bool full = true;
    int rc;

    PARE_TRY(pare_model_duplicate(m, &copy, err));
    for (int i = 0; i < t->n_groups; i++)
        full &= count[i] >= t->group[i].full;
    if (full) {
        *out = copy;
        return 0;
    }
    rc = pare_cost_find_units(copy, a, &u, err);
    if (!rc)
        rc = pare_cost_zero(copy, &u, count, err);
    if (!rc)
        rc = pare_speedup(copy, &so, a, out, &r, err);
    pare_model_free(copy);
    return rc;
}

/* ---- formats --------------------------------------------------------------------------------- */

/* Random data for the model's inputs; arrays are in the arena. */
static int random_data(const struct pare_model *m, struct pare_graph *g, struct pare_arena *a,
                       struct pare_data **data, struct pare_err *err)
{
    const struct pare_io *io;
    int n = pare_model_inputs(m, &io);
    struct pare_tensor *in = pare_alloc(a, (size_t)n + 1, sizeof(*in));
    bool *given = pare_alloc(a, (size_t)n + 1, sizeof(*given));
    struct pare_input *input = pare_alloc(a, (size_t)n + 1, sizeof(*input));
    struct pare_sample s = { .arena = a, .io = io, .in = in, .given = given, .n = n };

    if (!in || !given || !input)
        return pare_no_memory(err, "for random inputs");
    for (int i = 0; i < n; i++) {
        in[i] = g->in[i]->t;
        in[i].data = NULL;
        if (in[i].rank < 1 || in[i].dim[0] != 1)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "input '%s' has no batch dimension, so that int8 cannot be measured",
                             io[i].name);
        in[i].dim[0] = ITEMS;
        PARE_TRY(pare_tensor_alloc(a, &in[i], err));
    }
    PARE_TRY(pare_sample_fill(&s, g, 1, err));
    for (int i = 0; i < n; i++)
        input[i] = (struct pare_input){ .name = io[i].name, .t = in[i] };
    return pare_data_from_arrays(&(struct pare_arrays){ .n = ITEMS,
                                                        .input = input,
                                                        .n_inputs = n,
                                                        .batch = ITEMS,
                                                        .ordered = true },
                                 data, err);
}

/* The rules of preset int8, and one more that leaves the float layers alone. */
int pare_cost_rules(const struct pare_cost_table *t, const enum pare_cost_format *format,
                    struct pare_graph *g, struct pare_arena *a, struct pare_rules *rules,
                    struct pare_err *err)
{
    const char **name = pare_alloc(a, (size_t)t->n_layers + 1, sizeof(*name)), *quantizer;
    int n = 0;

    if (!name)
        return pare_no_memory(err, "for a configuration");
    for (int i = 0; i < t->n_layers; i++)
        if (format[i] == PARE_COST_F32)
            name[n++] = t->layer[i].name;
    return pare_preset_part(&(struct pare_preset_part){ "int8", name }, g, a, &quantizer, rules,
                            err);
}

static int quantize(struct pare_model *m, const struct pare_cost_table *t, struct pare_arena *a,
                    const enum pare_cost_format *format, struct pare_model **out,
                    struct pare_err *err)
{
    struct pare_quantize_opts qo = { .quantizer = "ptq",
                                     .settings = "observer=minmax weight_observer=minmax",
                                     .tuning.settings = "threads=1" };
    struct pare_model *folded;
    struct pare_rules rules = { 0 };
    struct pare_graph *g;
    int rc;

    PARE_TRY(pare_model_fold(m, &folded, err));
    rc = pare_model_shapes(folded, a, &g, err);
    if (!rc)
        rc = pare_cost_rules(t, format, g, a, &rules, err);
    if (!rc) {
        qo.rule = rules.rule;
        qo.n_rules = rules.n;
        rc = random_data(folded, g, a, &qo.tuning.data, err);
    }
    if (!rc)
        rc = pare_quantize(folded, &qo, out, NULL, err);
    pare_data_free(qo.tuning.data);
    pare_model_free(folded);
    return rc;
}

int pare_cost_build(const struct pare_model *m, const struct pare_cost_table *t,
                    const int64_t *count, const enum pare_cost_format *format,
                    struct pare_model **out, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *small = NULL;
    bool any = false;
    int rc = a ? narrow(m, t, a, count, &small, err) : pare_no_memory(err, "for a model");

    for (int i = 0; format && i < t->n_layers; i++)
        any |= format[i] != PARE_COST_F32;
    *out = small;
    if (!rc && any) {
        rc = quantize(small, t, a, format, out, err);
        pare_model_free(small);
    }
    pare_arena_free(a);
    return rc;
}
