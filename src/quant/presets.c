/* presets.c - quantization presets: a quantizer and its rules by name.
 *
 * int8 quantizes weights and inputs of convolutions and linear layers, and outputs where an integer
 * runtime ends a fused operator (int8_regions.h).  All presets quantize large tables of embeddings.
 */
#include "presets.h"

#include <string.h>

#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../graph/pattern/pattern.h"
#include "../tensor/tensor.h"
#include "int8_regions.h"

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

/* What a preset does with a layer that has a weight; TABLE: its weights alone, in 8 bits; INNER:
 * its input is inside a written-out pattern, such as attention to constants, and stays float. */
enum choice { LEAVE, QUANTIZE, INNER, TABLE };

struct scan {
    struct pare_int8_scan flow;
    enum choice *choice; /* per layer */
};

/* A table of embeddings, read by Gather.  Small ones are often positions, such as the angles of
 * rotary embeddings, which a few steps do not represent. */
#define TABLE_SHARE 64 /* tables from 1/64 of all weights on */
#define TABLE_KEYS \
    "quant_bits=8 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight"

static int64_t all_weights(const struct pare_layer_info *list, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += list[i].params;
    return sum;
}

/* Does the weight have output channels, for a scale each?  A product with a constant of a batch of
 * matrices has none. */
static bool has_channels(const struct pare_layer_info *l)
{
    int out = -1, in = -1;

    if (l->node->op && l->node->op->axes)
        l->node->op->axes(l->node, &out, &in);
    return pare_root_axis(l->weight, out) >= 0;
}

/* Whether both weights of a recurrent layer have an axis for scales, or are not quantized. */
static bool has_scale_axes(const struct pare_node *n)
{
    const struct pare_op_weights *k = &n->op->layer;
    const int input[2] = { k->weight, k->second };

    for (int i = 0; i < 2; i++) {
        const struct pare_value *v = input[i] < n->n_in ? n->in[input[i]] : NULL;

        if (v && v->flags & PARE_V_CONST && pare_scale_axis(v, k->scale_axis) < 0)
            return false;
    }
    return true;
}

static enum choice choose(const struct pare_layer_info *l, int64_t all)
{
    const struct pare_value *root = l->weight ? pare_value_root(l->weight) : NULL;

    if (!root || root->t.dtype != PARE_F32 || root->maker)
        return LEAVE;
    if (l->node->op && l->node->op->layer.kind == PARE_LAYER_EMBEDDING)
        return pare_numel(&root->t) >= all / TABLE_SHARE ? TABLE : LEAVE;
    if (l->node->op && l->node->op->layer.second)
        return has_scale_axes(l->node) ? TABLE : LEAVE;
    if ((!l->in && !l->body) || !has_channels(l))
        return LEAVE;
    return pare_layer_is_product(l) ? QUANTIZE : LEAVE;
}

static bool is_integer(enum pare_dtype d)
{
    return d == PARE_I8 || d == PARE_U8 || d == PARE_I4 || d == PARE_U4 || d == PARE_I16 ||
           d == PARE_U16;
}

/* A sentence about layers whose weights are integers, as DequantizeLinear and integer operators
 * read them; NULL: there are none. */
static int find_integers(const struct scan *s, struct pare_arena *a, const char **note,
                         struct pare_err *err)
{
    const struct pare_layer_info *first = NULL;
    int more = -1;

    *note = NULL;
    for (int i = 0; i < s->flow.n; i++) {
        const struct pare_layer_info *l = &s->flow.layer[i];

        if (!l->weight || !is_integer(pare_value_root(l->weight)->t.dtype))
            continue;
        first = first ? first : l;
        more++;
    }
    if (!first)
        return 0;
    *note = more
                ? pare_sprintf(
                      a, "layer '%s' and %d more have integer weights already and stay as they are",
                      first->name, more)
                : pare_sprintf(a, "layer '%s' has integer weights already and stays as it is",
                               first->name);
    return *note ? 0 : pare_no_memory(err, "for a configuration");
}

static bool reads_inner(const struct pare_int8_scan *s, const struct pare_layer_info *l)
{
    return l->in && l->in->id < s->g->n_values && s->g->value[l->in->id] == l->in &&
           s->inner[l->in->id];
}

static bool is_left(const char *const *leave, const char *name)
{
    for (; leave && *leave; leave++)
        if (!strcmp(*leave, name))
            return true;
    return false;
}

static int find_layers(struct pare_graph *g, const char *const *leave, struct pare_arena *a,
                       struct scan *s, struct pare_err *err)
{
    struct pare_layer_info *list;
    int64_t all;
    int n;

    PARE_TRY(pare_layers_all(a, g, &list, &n, err));
    s->flow = (struct pare_int8_scan){ .g = g, .layer = list, .n = n };
    s->flow.chosen = pare_alloc(a, (size_t)n + 1, sizeof(*s->flow.chosen));
    s->flow.rounded = pare_alloc(a, (size_t)n + 1, sizeof(*s->flow.rounded));
    s->flow.inner = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*s->flow.inner));
    s->choice = pare_alloc(a, (size_t)n + 1, sizeof(*s->choice));
    if (!s->flow.chosen || !s->flow.rounded || !s->flow.inner || !s->choice)
        return pare_no_memory(err, "for a configuration");
    PARE_TRY(pare_graph_inner_values(g, s->flow.inner, err));
    all = all_weights(list, n);
    for (int i = 0; i < n; i++) {
        s->choice[i] = is_left(leave, list[i].name) ? LEAVE : choose(&list[i], all);
        if (s->choice[i] == QUANTIZE && reads_inner(&s->flow, &list[i]))
            s->choice[i] = INNER;
        s->flow.chosen[i] = s->choice[i] == QUANTIZE && !list[i].body;
    }
    return 0;
}

/* The kinds of rules: weight and input; these and the output; output alone; convolutions; weights
 * alone: tables of embeddings, layers in bodies; the first and the last layer. */
enum kind { BOTH, ALL, OUTPUT, CONVS, TABLES, ENDS, KINDS };

/* Is it the first or the last layer whose weight and input are quantized? */
static bool is_end(const struct scan *s, int i)
{
    int first = 0, last = s->flow.n - 1;

    while (first < i && !s->flow.chosen[first])
        first++;
    while (last > i && !s->flow.chosen[last])
        last--;
    return first == i || last == i;
}

static enum kind kind_of(const struct pare_preset *p, const struct scan *s, int i)
{
    if (s->choice[i] == TABLE)
        return TABLES;
    if (s->choice[i] == INNER && (p->outputs || p->dynamic))
        return p->dynamic ? KINDS : TABLES;
    if (s->choice[i] == LEAVE)
        return s->flow.rounded[i] ? OUTPUT : KINDS;
    if (p->outputs && s->flow.layer[i].body) /* activations in bodies stay float */
        return TABLES;
    if (p->ends && is_end(s, i))
        return ENDS;
    if (p->convs && s->flow.layer[i].node->op->layer.kind == PARE_LAYER_CONV)
        return CONVS;
    return s->flow.rounded[i] ? ALL : BOTH;
}

static int make_rules(const struct pare_preset *p, struct scan *s, struct pare_arena *a,
                      struct pare_rules *r, struct pare_err *err)
{
    const char *keys[KINDS] = { p->keys,    pare_sprintf(a, "%s,output", p->keys),
                                p->outputs, p->convs,
                                TABLE_KEYS, p->ends };
    const char **name[KINDS];
    int n[KINDS] = { 0 };

    r->rule = pare_alloc(a, KINDS, sizeof(*r->rule));
    for (int k = 0; k < KINDS; k++) {
        name[k] = pare_alloc(a, (size_t)s->flow.n + 1, sizeof(**name));
        if (!name[k] || !r->rule || !keys[ALL])
            return pare_no_memory(err, "for a configuration");
    }
    if (p->outputs)
        PARE_TRY(pare_int8_regions(&s->flow, a, err));
    for (int i = 0; i < s->flow.n; i++) {
        enum kind k = kind_of(p, s, i);

        if (k < KINDS && keys[k])
            name[k][n[k]++] = s->flow.layer[i].name;
    }
    r->n = 0;
    for (int k = 0; k < KINDS; k++)
        if (n[k])
            r->rule[r->n++] = (struct pare_rule){ .op_names = name[k], .keys = keys[k] };
    PARE_TRY(find_integers(s, a, &r->note, err));
    if (n[BOTH] + n[ALL] + n[CONVS] + n[TABLES] + n[ENDS]) /* not only outputs */
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "the model has no convolution, linear layer or large table of embeddings "
                     "with float32 weights, so nothing would be quantized%s%s",
                     r->note ? "; " : "", r->note ? r->note : "");
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

const struct pare_preset *pare_half_preset(const char *name)
{
    const struct pare_preset *p;
    struct pare_err err;

    return name && !pare_find_preset(name, &p, &err) && p->half != PARE_NONE ? p : NULL;
}

bool pare_preset_is_dynamic(const char *name)
{
    const struct pare_preset *p;
    struct pare_err err;

    return name && !pare_find_preset(name, &p, &err) && p->dynamic;
}

const char *pare_preset_settings(const char *name)
{
    const struct pare_preset *p;
    struct pare_err err;

    return name && !pare_find_preset(name, &p, &err) ? p->settings : NULL;
}

int pare_preset_part(const struct pare_preset_part *part, struct pare_graph *g,
                     struct pare_arena *a, const char **quantizer, struct pare_rules *rules,
                     struct pare_err *err)
{
    const struct pare_preset *p;
    struct scan s;

    PARE_TRY(pare_find_preset(part->preset, &p, err));
    if (p->half != PARE_NONE)
        return pare_fail(err, PARE_ECONFIG, "preset %s converts to half precision and has no rules",
                         part->preset);
    *quantizer = p->quantizer;
    PARE_TRY(find_layers(g, part->leave, a, &s, err));
    return make_rules(p, &s, a, rules, err);
}

int pare_preset(const char *name, struct pare_graph *g, struct pare_arena *a,
                const char **quantizer, struct pare_rules *rules, struct pare_err *err)
{
    return pare_preset_part(&(struct pare_preset_part){ .preset = name }, g, a, quantizer, rules,
                            err);
}
