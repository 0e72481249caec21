/* presets.c - quantization presets: a quantizer and its rules by name.
 *
 * int8 quantizes weights and inputs of convolutions and linear layers, and outputs where an integer
 * runtime ends a fused operator: after an activation if there is one, after additions and
 * concatenations, and after average pooling.
 */
#include "presets.h"

#include <string.h>

#include "../base/arena.h"
#include "../onnx/fold_norm.h"

#define PRESET(id, name) extern const struct pare_preset pare_preset_##id;
#include "preset/presets.def"
#undef PRESET

static const struct pare_preset *const presets[] = {
#define PRESET(id, name) &pare_preset_##id,
#include "preset/presets.def"
#undef PRESET
};

const char *const pare_preset_names[] = {
#define PRESET(id, name) name,
#include "preset/presets.def"
#undef PRESET
    NULL
};

const char pare_preset_list[] =
#define PRESET(id, name) "|" name
#include "preset/presets.def"
#undef PRESET
    ;

struct scan {
    const struct pare_graph *g;
    const struct pare_layer_info *layer;
    int n;
    bool *chosen;  /* per layer: quantize weight and input */
    bool *rounded; /* per layer: quantize the output */
};

/* Additions, concatenations and average pooling of images: the residual sums of transformers have
 * too large a range for 8 bits. */
static bool is_join(const struct pare_layer_info *l)
{
    return !l->weight && l->node->op && l->node->op->flags & PARE_OP_INT8_JOIN && l->out &&
           l->out->t.dtype == PARE_F32 && l->out->t.rank == 4 && l->in;
}

/* The consumer of a layer's output, or of the normalization that is folded into the layer. */
static const struct pare_node *next_consumer(const struct scan *s, const struct pare_layer_info *l)
{
    const struct pare_node *u = pare_graph_only_consumer(s->g, l->out);

    return u && pare_norm_folds(s->g, u) ? pare_graph_only_consumer(s->g, u->out[0]) : u;
}

/* If an activation follows a layer, its output is quantized instead of the layer's. */
static void mark_outputs(const struct scan *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct pare_layer_info *l = &s->layer[i];
        const struct pare_node *u;

        if (!s->chosen[i] && !is_join(l))
            continue;
        u = next_consumer(s, l);
        s->rounded[i] = true;
        for (int k = 0; k < s->n && u && u->op && u->op->flags & PARE_OP_FUSED_ACT; k++)
            if (s->layer[k].node == u) {
                s->rounded[i] = false;
                s->rounded[k] = true;
            }
    }
}

static int find_layers(const struct pare_model *m, struct pare_arena *a, struct scan *s,
                       struct pare_err *err)
{
    struct pare_graph *g = pare_graph_clone(a, m->graph, err);
    struct pare_layer_info *list;

    if (!g)
        return err->code;
    pare_graph_bind(g, 1);
    PARE_TRY(pare_graph_infer(g, true, err));
    PARE_TRY(pare_layers_all(a, g, &list, &s->n, err));
    s->chosen = pare_alloc(a, (size_t)s->n + 1, sizeof(*s->chosen));
    s->rounded = pare_alloc(a, (size_t)s->n + 1, sizeof(*s->rounded));
    if (!s->chosen || !s->rounded)
        return pare_no_memory(err, "for a configuration");
    for (int i = 0; i < s->n; i++)
        s->chosen[i] = list[i].weight && list[i].in &&
                       (!strncmp(list[i].torch, "Conv", 4) || !strcmp(list[i].torch, "Linear")) &&
                       pare_value_root(list[i].weight)->t.dtype == PARE_F32 &&
                       !pare_value_root(list[i].weight)->maker;
    s->g = g;
    s->layer = list;
    return 0;
}

#define KINDS 4

static int make_rules(const struct pare_preset *p, const struct scan *s, struct pare_arena *a,
                      struct pare_rules *r, struct pare_err *err)
{
    /* the four kinds of rules: weight and input; these and the output; output alone;
     * convolutions */
    const char *keys[KINDS] = { p->keys, pare_sprintf(a, "%s,output", p->keys), p->outputs,
                                p->convs };
    const char **name[KINDS];
    int n[KINDS] = { 0 };

    r->rule = pare_alloc(a, KINDS, sizeof(*r->rule));
    for (int k = 0; k < KINDS; k++) {
        name[k] = pare_alloc(a, (size_t)s->n + 1, sizeof(**name));
        if (!name[k] || !r->rule || !keys[1])
            return pare_no_memory(err, "for a configuration");
    }
    if (p->outputs)
        mark_outputs(s);
    for (int i = 0; i < s->n; i++)
        if (s->chosen[i] || s->rounded[i]) {
            bool conv = p->convs && !strncmp(s->layer[i].torch, "Conv", 4);
            int k = !s->chosen[i] ? 2 : conv ? 3 : s->rounded[i];

            name[k][n[k]++] = s->layer[i].name;
        }
    r->n = 0;
    for (int k = 0; k < KINDS; k++)
        if (n[k])
            r->rule[r->n++] = (struct pare_rule){ .op_names = name[k], .keys = keys[k] };
    if (!r->n)
        return pare_fail(err, PARE_ECONFIG,
                         "the model has no convolution or linear layer with float32 weights");
    return 0;
}

int pare_find_preset(const char *name, const struct pare_preset **p, struct pare_err *err)
{
    for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++)
        if (!strcmp(presets[i]->name, name)) {
            *p = presets[i];
            return 0;
        }
    return pare_fail(err, PARE_ECONFIG, "preset '%.64s' is unknown, expected one of %s", name,
                     PARE_PRESETS);
}

bool pare_preset_is_dynamic(const char *name)
{
    const struct pare_preset *p;
    struct pare_err err;

    return name && !pare_find_preset(name, &p, &err) && p->dynamic;
}

int pare_preset(const char *name, const struct pare_model *m, struct pare_arena *a,
                const char **quantizer, struct pare_rules *rules, struct pare_err *err)
{
    const struct pare_preset *p;
    struct scan s;

    PARE_TRY(pare_find_preset(name, &p, err));
    *quantizer = p->quantizer;
    PARE_TRY(find_layers(m, a, &s, err));
    return make_rules(p, &s, a, rules, err);
}
