/* wrap.c - wrap layers of a model: axes, masks, config keys, state of algorithms. */
#include "wrap.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../graph/free_dims.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "method.h"

/* ---- axes ------------------------------------------------------------------------------ */

int pare_root_axis(const struct pare_value *v, int axis)
{
    while (axis >= 0 && v->maker) {
        const struct pare_node *n = v->maker;
        const struct pare_value *from = n->n_in ? n->in[0] : NULL;
        struct pare_index_map m;

        if (!from || !(from->flags & PARE_V_CONST))
            return axis;
        if (n->out[0] == v && pare_index_map(n, 0, &m) && pare_numel(&from->t) == pare_numel(&v->t))
            axis = m.axis[axis];
        else if (!pare_same_shape(&from->t, &v->t))
            return -1;
        v = from;
    }
    return axis;
}

/* The axis that a view of other rank keeps: with the same size, and as many elements before it. */
static int axis_before_view(const struct pare_tensor *from, const struct pare_tensor *to, int axis)
{
    int64_t before = 1, at = 1;

    for (int i = 0; i < axis; i++)
        before *= to->dim[i];
    for (int i = 0; i < from->rank; at *= from->dim[i++])
        if (at == before && from->dim[i] == to->dim[axis])
            return i;
    return -1;
}

int pare_scale_axis(const struct pare_value *v, int axis)
{
    while (axis >= 0 && v->maker) {
        const struct pare_node *n = v->maker;
        const struct pare_value *from = n->n_in ? n->in[0] : NULL;
        struct pare_index_map m;

        if (!from || !(from->flags & PARE_V_CONST))
            return axis;
        if (n->out[0] == v && pare_index_map(n, 0, &m) && pare_numel(&from->t) == pare_numel(&v->t))
            axis = m.axis[axis];
        else if (n->op && n->op->flags & PARE_OP_VIEW)
            axis = axis_before_view(&from->t, &v->t, axis);
        else if (!n->op || !(n->op->flags & PARE_OP_COPIES) || from->t.rank != v->t.rank)
            return -1;
        v = from;
    }
    return axis;
}

static void find_axes(struct pare_layer *l)
{
    const struct pare_node *n = l->info.node;
    int out = -1, in = -1;

    if (n->op && n->op->axes)
        n->op->axes(n, &out, &in);
    else
        out = l->info.channels - 1;
    l->out_axis = pare_root_axis(l->info.weight, out);
    l->in_axis = pare_root_axis(l->info.weight, in);
}

/* ---- one layer --------------------------------------------------------------------------- */

/* Fill the structs of the layer's keys: the method's, and those of each algorithm. */
static int make_conf(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *c = l->compression;
    void *keys = pare_alloc(c->arena, 1, c->method->keys_size);
    const struct pare_opt *table[1 + PARE_MAX_ALGORITHMS] = { c->method->keys };
    void *into[1 + PARE_MAX_ALGORITHMS] = { keys };
    int n = 1;

    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++) {
        const struct pare_algorithm *a = c->algorithm[i];

        l->state[i] = pare_alloc(c->arena, a->layer_size ? a->layer_size : 1, 1);
        l->conf[i] = pare_alloc(c->arena, a->conf_size ? a->conf_size : 1, 1);
        if (!l->state[i] || !l->conf[i])
            return pare_no_memory(err, "for the layers of a compression");
        if (!a->keys)
            continue;
        table[n] = a->keys;
        into[n++] = l->conf[i];
    }
    if (!keys)
        return pare_no_memory(err, "for the layers of a compression");
    PARE_TRY(pare_entry_apply(l->entry, table, into, n, c->arena, err));
    return pare_at(err, c->method->wrap_layer(l, keys, err), "%s", l->entry->where);
}

static int take_initializer(struct pare_compression *c, const struct pare_value *from,
                            struct pare_value **v, struct pare_tensor *t, struct pare_tensor *mask,
                            struct pare_err *err)
{
    const char *name = pare_value_root(from)->name;

    *v = pare_graph_find(c->model->graph, name);
    if (!*v)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "its weight '%s' is not an initializer of the model", name);
    if ((*v)->t.dtype == PARE_I8 || (*v)->t.dtype == PARE_U8 || (*v)->t.dtype == PARE_I4 ||
        (*v)->t.dtype == PARE_U4)
        return pare_fail(
            err, PARE_EUNSUPPORTED,
            "its weight '%s' is %s: the model is quantized already; prune and quantize "
            "the float model",
            name, pare_dtype_name((*v)->t.dtype));
    if ((*v)->t.dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "its weight '%s' is %s, only float32 is compressed; floats of other "
                         "types are if the model is loaded with pare_load_opts.widen",
                         name, pare_dtype_name((*v)->t.dtype));
    PARE_TRY((c->paged ? pare_model_own_scratch : pare_model_own)(c->model, *v, err));
    *t = (*v)->t;
    if (!c->method->paged)
        return pare_mask_new(c, t, mask, err);
    pare_model_release(c->model, t->data, (size_t)pare_numel(t) * sizeof(float));
    return 0;
}

static int wrap(struct pare_compression *c, const struct pare_layer_info *info,
                const struct pare_entry *entry, struct pare_layer *l, struct pare_err *err)
{
    l->compression = c;
    l->index = c->n_layers;
    l->info = *info;
    l->entry = entry;
    if (info->weight)
        PARE_TRY(take_initializer(c, info->weight, &l->weight, &l->w, &l->mask, err));
    if (info->bias && pare_value_root(info->bias)->t.dtype == PARE_F32)
        PARE_TRY(take_initializer(c, info->bias, &l->bias, &l->b, &l->bias_mask, err));
    if (info->weight)
        find_axes(l);
    return make_conf(l, err);
}

/* The second weight of a recurrent layer, which the same rule holds for: a layer "NAME.R". */
static int wrap_second(struct pare_compression *c, struct pare_layer *l, struct pare_err *err)
{
    struct pare_layer *r = &c->layer[c->n_layers];
    const struct pare_node *n = l->info.node;
    int k = n->op && l->info.weight ? n->op->layer.second : 0;
    struct pare_layer_info info = l->info;

    if (!k || k >= n->n_in || !n->in[k] || !(n->in[k]->flags & PARE_V_CONST) ||
        pare_value_root(n->in[k])->t.dtype != PARE_F32)
        return 0;
    info.name = pare_sprintf(c->arena, "%s.R", l->info.name);
    if (!info.name)
        return pare_no_memory(err, "for the layers of a compression");
    info.weight = n->in[k];
    info.bias = NULL;
    if (c->method->all_layers) /* activations are quantized with the first weight */
        info.in = NULL;
    r->is_second = true;
    PARE_TRY(wrap(c, &info, l->entry, r, err));
    l->has_second = true;
    c->n_layers++;
    return 0;
}

/* Both weights of a layer, or neither. */
static int wrap_weights(struct pare_compression *c, const struct pare_layer_info *info,
                        const struct pare_entry *e, struct pare_err *err)
{
    int n = c->n_layers, rc = wrap(c, info, e, &c->layer[n], err);

    if (rc)
        return rc;
    c->n_layers++;
    rc = wrap_second(c, &c->layer[n], err);
    if (rc) {
        c->layer[n + 1] = (struct pare_layer){ 0 };
        c->n_layers = n;
    }
    return rc;
}

/* ---- which layers ---------------------------------------------------------------------------- */

bool pare_type_listed(const char *types, const char *type)
{
    size_t n = strlen(type);

    for (const char *p = types; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (!strncmp(p, type, n) && (p[n] == '|' || !p[n]))
            return true;
    return false;
}

bool pare_layer_listed(const char *types, const struct pare_layer_info *l)
{
    static const char *const kinds[] = { [PARE_LAYER_RECURRENT] = "recurrent" };
    size_t kind = l->node->op ? (size_t)l->node->op->layer.kind : 0;

    return pare_type_listed(types, l->torch) || pare_type_listed(types, l->type) ||
           (kind < sizeof(kinds) / sizeof(kinds[0]) && kinds[kind] &&
            pare_type_listed(types, kinds[kind]));
}

static int check_type(const struct pare_compression *c, const struct pare_layer_info *l,
                      struct pare_err *err)
{
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++) {
        const char *types = c->algorithm[i]->types;

        if (types && !pare_layer_listed(types, l))
            return pare_fail(err, PARE_ECONFIG, "layer '%s' is %s, %s works on %s", l->name,
                             l->torch, c->algorithm[i]->name, types);
    }
    return 0;
}

int pare_model_shapes(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                      struct pare_err *err)
{
    return pare_graph_infer_ones(a, m->graph, m->in, g, err);
}

int pare_model_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                      struct pare_layer_info **list, int *n, struct pare_err *err)
{
    PARE_TRY(pare_model_shapes(m, a, g, err));
    return pare_layers(a, *g, list, n, err);
}

static int find_layers(struct pare_compression *c, struct pare_layer_info **list, int *n,
                       struct pare_err *err)
{
    if (!c->graph)
        PARE_TRY(pare_model_shapes(c->model, c->arena, &c->graph, err));
    return (c->method->all_layers ? pare_layers_all : pare_layers)(c->arena, c->graph, list, n,
                                                                   err);
}

/* Leave a layer as it is that no entry names and that the algorithm does not support. */
static int skip(struct pare_compression *c, const struct pare_layer_info *info,
                const struct pare_entry *e, struct pare_err *first, struct pare_err *err)
{
    struct pare_skipped *s = &c->skipped[c->n_skipped];
    size_t n = strlen(e->where);
    bool at = !strncmp(err->msg, e->where, n) && !strncmp(err->msg + n, ": ", 2);

    s->name = pare_strdup(c->arena, info->name);
    s->why = pare_strdup(c->arena, err->msg + (at ? n + 2 : 0));
    if (!s->name || !s->why)
        return pare_no_memory(err, "for the layers of a compression");
    if (!c->n_skipped++) {
        *first = *err;
        pare_at(first, first->code, "layer '%s'", info->name);
    }
    c->layer[c->n_layers] = (struct pare_layer){ 0 };
    *err = (struct pare_err){ 0 };
    return 0;
}

bool pare_layer_is_named(const struct pare_layer *l)
{
    return l->entry->op_names.n > 0;
}

const char *pare_compression_skipped(const struct pare_compression *c, int i, const char **why)
{
    if (i < 0 || i >= c->n_skipped)
        return NULL;
    *why = c->skipped[i].why;
    return c->skipped[i].name;
}

/* Wrap one layer; *first: why the first layer that is skipped is. */
static int wrap_or_skip(struct pare_compression *c, const struct pare_layer_info *info,
                        const struct pare_entry *e, struct pare_err *first, struct pare_err *err)
{
    int rc;

    PARE_TRY(check_type(c, info, err));
    rc = wrap_weights(c, info, e, err);
    if (rc == PARE_EUNSUPPORTED && c->method->skips_layers && e->op_names.n <= 0)
        return skip(c, info, e, first, err);
    return pare_at(err, rc, "layer '%s'", info->name);
}

int pare_compression_wrap_one(struct pare_compression *c, const struct pare_layer_info *info,
                              const struct pare_entry *e, struct pare_err *err)
{
    struct pare_layer *l = &c->layer[c->n_layers];
    int rc = wrap(c, info, e, l, err);

    if (rc)
        *l = (struct pare_layer){ 0 };
    else
        c->n_layers++;
    return pare_at(err, rc, "layer '%s'", info->name);
}

/* ---- tied layers ------------------------------------------------------------------------- */

static const struct pare_layer *wrapped(const struct pare_compression *c, const char *name)
{
    for (int i = 0; i < c->n_layers; i++)
        if (!strcmp(c->layer[i].info.name, name))
            return &c->layer[i];
    return NULL;
}

static bool was_skipped(const struct pare_compression *c, const char *name)
{
    for (int i = 0; i < c->n_skipped; i++)
        if (!strcmp(c->skipped[i].name, name))
            return true;
    return false;
}

static bool any_wrapped_by(const struct pare_compression *c, const struct pare_entry *e)
{
    for (int i = 0; i < c->n_layers; i++)
        if (c->layer[i].entry == e)
            return true;
    return false;
}

/* Layer i uses the weight of an earlier one and is not wrapped: note it if it is named, or if the
 * earlier one is not wrapped either.  An error if its entry names layers and wraps none. */
static int skip_tied(struct pare_compression *c, const struct pare_layer_info *info, int i,
                     const struct pare_entry *e, struct pare_err *first, struct pare_err *err)
{
    const struct pare_value *w = pare_value_root(info[i].weight);
    int k = 0;

    while (k < i && (!info[k].weight || pare_value_root(info[k].weight) != w))
        k++;
    if (wrapped(c, info[k].name) && e->op_names.n <= 0)
        return 0;
    pare_fail(err, PARE_EUNSUPPORTED,
              wrapped(c, info[k].name)
                  ? "it uses the weight of layer '%s', and what is done to that holds for both"
              : was_skipped(c, info[k].name)
                  ? "it uses the weight of layer '%s', which is skipped"
                  : "it uses the weight of layer '%s': choose that layer instead",
              info[k].name);
    if (!wrapped(c, info[k].name) && e->op_names.n > 0 && !any_wrapped_by(c, e))
        return pare_at(err, err->code, "layer '%s'", info[i].name);
    return skip(c, &info[i], e, first, err);
}

int pare_compression_wrap(struct pare_compression *c, const struct pare_config *config,
                          struct pare_err *err)
{
    struct pare_err first = { 0 };
    struct pare_layer_info *info;
    int n;

    PARE_TRY(find_layers(c, &info, &n, err));
    PARE_TRY(pare_config_check(config, info, n, err));
    c->layer = pare_alloc(c->arena, 2 * (size_t)n, sizeof(*c->layer));
    c->skipped = pare_alloc(c->arena, (size_t)n + 1, sizeof(*c->skipped));
    if (!c->layer || !c->skipped)
        return pare_no_memory(err, "for the layers of a compression");
    for (int i = 0; i < n; i++) {
        const struct pare_entry *e = pare_config_match(config, &info[i]);

        if (e && !info[i].shared)
            PARE_TRY(wrap_or_skip(c, &info[i], e, &first, err));
    }
    for (int i = 0; i < n; i++) {
        const struct pare_entry *e = info[i].shared ? pare_config_match(config, &info[i]) : NULL;

        if (e)
            PARE_TRY(skip_tied(c, info, i, e, &first, err));
    }
    if (!c->n_layers && c->n_skipped) {
        *err = first;
        return err->code;
    }
    if (!c->n_layers)
        return pare_fail(err, PARE_ECONFIG,
                         "the configuration chooses no layer, so nothing would change");
    return 0;
}
