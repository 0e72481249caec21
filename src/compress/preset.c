/* preset.c - usual ways to quantize, by name.
 *
 * Of an output that goes, through activations, poolings and the like, only into inputs that are
 * rounded themselves, nothing is gained by rounding it: a runtime computes convolution, activation
 * and rounding in one.
 */
#include "preset.h"

#include <string.h>

#include "../base/arena.h"

static const struct preset {
    const char *name, *quantizer, *keys;
    bool outputs; /* are rounded where `keys` alone would leave them as they are */
} presets[] = {
    { "int8", "ptq",
      "quant_bits=8 quant_dtype.weight=int quant_scheme.weight=per_channel_symmetric "
      "quant_dtype.input=uint quant_scheme.input=per_tensor_affine "
      "quant_dtype.output=uint quant_scheme.output=per_tensor_affine quant_types=weight,input",
      true },
    { "int8-weights", "qat",
      "quant_bits=8 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight", false },
    { "w4", "qat",
      "quant_bits=4 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight", false },
};

/* Nodes with one input that matters, behind which the same numbers, or some of them, come out. */
static bool passes_on(const struct pare_node *n)
{
    static const char *const types[] = { "Relu",      "Clip",    "LeakyRelu",
                                         "MaxPool",   "Flatten", "BatchNormalization",
                                         "Reshape",   "Squeeze", "Unsqueeze",
                                         "Transpose", "Dropout", "Identity" };

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (!strcmp(n->type, types[i]))
            return true;
    return false;
}

struct scan {
    const struct pare_graph *g;
    const struct pare_layer_info *layer;
    int n;
    const bool *chosen;
};

static bool is_chosen(const struct scan *s, const struct pare_node *n)
{
    for (int i = 0; i < s->n; i++)
        if (s->chosen[i] && s->layer[i].node == n)
            return true;
    return false;
}

/* Is all that v is used for rounded anyway?  Only forward, so depth is the length of a chain. */
static bool rounded_later(const struct scan *s, const struct pare_value *v, int depth)
{
    int users = 0;

    for (int i = 0; i < s->g->n_out; i++)
        if (s->g->out[i] == v)
            return false;
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int k = 0; k < s->g->node[i]->n_in; k++) {
            const struct pare_node *n = s->g->node[i];

            if (n->in[k] != v)
                continue;
            users++;
            if (k == 0 && is_chosen(s, n))
                continue;
            if (k || !passes_on(n) || depth == 0 || !rounded_later(s, n->out[0], depth - 1))
                return false;
        }
    return users > 0;
}

static int find_layers(const struct pare_model *m, struct pare_arena *a, struct scan *s,
                       struct pare_err *err)
{
    struct pare_graph *g = pare_graph_clone(a, m->graph, err);
    struct pare_layer_info *list;
    bool *chosen;

    if (!g)
        return err->code;
    pare_graph_bind(g, 1);
    PARE_TRY(pare_graph_infer(g, true, err));
    PARE_TRY(pare_layers(a, g, &list, &s->n, err));
    chosen = pare_alloc(a, (size_t)s->n + 1, sizeof(*chosen));
    if (!chosen)
        return pare_fail(err, PARE_ENOMEM, "no memory for a configuration");
    for (int i = 0; i < s->n; i++)
        chosen[i] = (!strncmp(list[i].torch, "Conv", 4) || !strcmp(list[i].torch, "Linear")) &&
                    pare_value_root(list[i].weight)->t.dtype == PARE_F32 &&
                    !pare_value_root(list[i].weight)->maker && list[i].in;
    s->g = g;
    s->layer = list;
    s->chosen = chosen;
    return 0;
}

static int make_rules(const struct preset *p, const struct scan *s, struct pare_arena *a,
                      struct pare_rules *r, struct pare_err *err)
{
    const char **name[2];
    int n[2] = { 0, 0 };

    r->rule = pare_alloc(a, 2, sizeof(*r->rule));
    for (int k = 0; k < 2; k++) {
        name[k] = pare_alloc(a, (size_t)s->n + 1, sizeof(**name));
        if (!name[k] || !r->rule)
            return pare_fail(err, PARE_ENOMEM, "no memory for a configuration");
    }
    for (int i = 0; i < s->n; i++)
        if (s->chosen[i]) {
            int k = p->outputs && !rounded_later(s, s->layer[i].out, 64);

            name[k][n[k]++] = s->layer[i].name;
        }
    r->n = 0;
    for (int k = 0; k < 2; k++)
        if (n[k])
            r->rule[r->n++] = (struct pare_rule){
                .op_names = name[k],
                .keys = k ? pare_sprintf(a, "%s,output", p->keys) : p->keys,
            };
    if (!r->n)
        return pare_fail(err, PARE_ECONFIG,
                         "the model has no convolution or linear layer with float32 weights");
    return 0;
}

int pare_preset(const char *name, const struct pare_model *m, struct pare_arena *a,
                const char **quantizer, struct pare_rules *rules, struct pare_err *err)
{
    const struct preset *p = NULL;
    struct scan s;

    for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++)
        if (!strcmp(presets[i].name, name))
            p = &presets[i];
    if (!p)
        return pare_fail(err, PARE_ECONFIG, "preset '%.64s' is not one of %s", name, PARE_PRESETS);
    *quantizer = p->quantizer;
    PARE_TRY(find_layers(m, a, &s, err));
    return make_rules(p, &s, a, rules, err);
}
