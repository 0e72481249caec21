/* wrap.c - layers of a model become layers of a run: settings, masks, state. */
#include "wrap.h"

#include "../quant/quant_config.h"
#include "default_rules.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../tensor/tensor.h"

#define AT(field) offsetof(struct pare_goal, field)

const struct pare_opt pare_goal_keys[] = {
    PARE_FLOAT("sparsity", AT(sparsity), "part of the weights that goes", -1, 0, 0.999999999),
    PARE_FLOAT("sparsity_per_layer", AT(sparsity_per_layer), "the same under NNI's newer name", -1,
               0, 0.999999999),
    PARE_FLOAT("total_sparsity", AT(total_sparsity),
               "the same over all layers of the entry together, with mode=global", -1, 0,
               0.999999999),
    PARE_FLOAT("max_sparsity_per_layer", AT(max_sparsity_per_layer),
               "with mode=global, more of a layer never goes", 0.99, 1e-9, 1),
    PARE_CHOICE(
        "granularity", AT(granularity),
        "what goes as a whole; block_4x1: 4 output channels side by side at one input and tap",
        "default", "default|element|block|block_4x1|block_8x1|out_channel|in_channel|head"),
    PARE_INTS("block", AT(block),
              "of granularity block: its size along the last axes; -1: all of an axis", -1, 1e12),
    PARE_INT("heads", AT(heads), "of granularity head: how many there are", 0, 0, 1e9),
    PARE_INT(
        "parts", AT(parts),
        "of granularity head: how often the layer has them, such as 3 for queries, keys and values",
        1, 1, 1e6),
    PARE_OPT_END
};

/* ---- axes ------------------------------------------------------------------------------ */

/* The weight that the node gets may be made from the initializer, usually by a Transpose. */
static int root_axis(const struct pare_value *v, int axis)
{
    while (axis >= 0 && v->maker) {
        const struct pare_node *n = v->maker;
        const struct pare_value *from = n->n_in ? n->in[0] : NULL;

        if (!from || !(from->flags & PARE_V_CONST))
            return axis;
        if (!strcmp(n->type, "Transpose")) {
            const struct pare_opt *o = pare_opt_find(n->op->attrs, "perm");
            const struct pare_ints *perm = (const void *)((const char *)n->attr + o->offset);

            axis = perm->n ? (int)perm->v[axis] : from->t.rank - 1 - axis;
        } else if (!pare_same_shape(&from->t, &v->t)) {
            return -1;
        }
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
    l->out_axis = root_axis(l->info.weight, out);
    l->in_axis = root_axis(l->info.weight, in);
}

/* ---- goals ------------------------------------------------------------------------------ */

static int set_goal(struct pare_layer *l, struct pare_err *err)
{
    struct pare_goal *g = &l->goal;
    const double all[] = { g->sparsity, g->sparsity_per_layer, g->total_sparsity };
    int given = 0;

    l->asked = -1;
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0) {
            l->asked = all[i];
            given++;
        }
    if (given > 1)
        return pare_fail(err, PARE_ECONFIG,
                         "sparsity, sparsity_per_layer and total_sparsity are three names for one "
                         "thing, give only one of them");
    l->goal.sparsity = given ? l->asked : -1;
    return 0;
}

static int set_units(struct pare_layer *l, struct pare_err *err)
{
    const struct pare_compression *r = l->run;
    const struct pare_pruner *p = r->pruner[1] ? r->pruner[1] : r->pruner[0];
    const char *own = p->granularity ? p->granularity : "element";
    struct pare_grain g = {
        .name = strcmp(l->goal.granularity, "default") ? l->goal.granularity : own,
        .block = l->goal.block,
        .heads = l->goal.heads,
        .parts = l->goal.parts,
        .out_axis = l->out_axis,
        .in_axis = l->in_axis,
    };

    return pare_units_make(&l->w, &g, &l->units, err);
}

static int make_conf(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *r = l->run;
    struct pare_quant_conf quant = { .bits = 0 };
    const struct pare_opt *table[1 + PARE_COMPRESSION_PRUNERS] = { r->quantizer ? pare_quant_keys
                                                                                : pare_goal_keys };
    void *into[1 + PARE_COMPRESSION_PRUNERS] = { r->quantizer ? (void *)&quant : &l->goal };
    int n = 1;

    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++) {
        const struct pare_pruner *p = r->pruner[i];

        l->state[i] = pare_alloc(r->arena, p->layer_size ? p->layer_size : 1, 1);
        l->conf[i] = pare_alloc(r->arena, p->conf_size ? p->conf_size : 1, 1);
        if (!l->state[i] || !l->conf[i])
            return pare_no_memory(err, "for the layers of a compression");
        if (!p->keys)
            continue;
        table[n] = p->keys;
        into[n++] = l->conf[i];
    }
    PARE_TRY(pare_entry_apply(l->entry, table, into, n, r->arena, err));
    return pare_at(err, r->quantizer ? pare_quant_make(l, &quant, err) : set_goal(l, err), "%s",
                   l->entry->where);
}

/* ---- weights ----------------------------------------------------------------------------- */

int pare_mask_new(struct pare_compression *r, const struct pare_tensor *of,
                  struct pare_tensor *mask, struct pare_err *err)
{
    if (mask->data)
        return 0;
    PARE_TRY(pare_tensor_new(r->arena, mask, PARE_BOOL, of->rank, of->dim, err));
    memset(mask->data, 1, (size_t)pare_numel(of));
    return 0;
}

static int take(struct pare_compression *r, const struct pare_value *from, struct pare_value **v,
                struct pare_tensor *t, struct pare_tensor *mask, struct pare_err *err)
{
    const char *name = pare_value_root(from)->name;

    *v = pare_graph_find(r->model->graph, name);
    if (!*v)
        return pare_fail(err, PARE_EUNSUPPORTED, "its weight '%s' is no initializer of the model",
                         name);
    if ((*v)->t.dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "its weight '%s' is %s, only float32 is pruned",
                         name, pare_dtype_name((*v)->t.dtype));
    PARE_TRY((r->quantizer ? pare_model_own_scratch : pare_model_own)(r->model, *v, err));
    *t = (*v)->t;
    if (r->quantizer) /* it has no weight to remove, as a rule */
        pare_model_release(r->model, t->data, (size_t)pare_numel(t) * sizeof(float));
    else
        PARE_TRY(pare_mask_new(r, t, mask, err));
    return 0;
}

static int wrap(struct pare_compression *r, const struct pare_layer_info *info,
                const struct pare_entry *entry, struct pare_layer *l, struct pare_err *err)
{
    l->run = r;
    l->index = r->n_layers;
    l->info = *info;
    l->entry = entry;
    l->due = true;
    if (info->weight)
        PARE_TRY(take(r, info->weight, &l->weight, &l->w, &l->mask, err));
    if (info->weight && r->keep_zeros)
        PARE_TRY(pare_mask_new(r, &l->w, &l->mask, err));
    for (int64_t i = 0; info->weight && r->keep_zeros && i < pare_numel(&l->w); i++)
        ((uint8_t *)l->mask.data)[i] = pare_f32(&l->w)[i] != 0;
    if (info->bias && pare_value_root(info->bias)->t.dtype == PARE_F32)
        PARE_TRY(take(r, info->bias, &l->bias, &l->b, &l->bias_mask, err));
    if (info->weight)
        find_axes(l);
    PARE_TRY(make_conf(l, err));
    l->sparsity = l->asked;
    if (r->quantizer)
        return 0;
    return pare_at(err, set_units(l, err), "%s", entry->where);
}

/* ---- which ------------------------------------------------------------------------------- */

bool pare_type_listed(const char *types, const char *type)
{
    size_t n = strlen(type);

    for (const char *p = types; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (!strncmp(p, type, n) && (p[n] == '|' || !p[n]))
            return true;
    return false;
}

static int check_type(const struct pare_compression *r, const struct pare_layer_info *l,
                      struct pare_err *err)
{
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++) {
        const char *types = r->pruner[i]->types;

        if (types && !pare_type_listed(types, l->torch) && !pare_type_listed(types, l->type))
            return pare_fail(err, PARE_ECONFIG, "layer '%s' is %s, %s works on %s", l->name,
                             l->torch, r->pruner[i]->name, types);
    }
    return 0;
}

static int shapes(struct pare_arena *a, const struct pare_model *m, struct pare_graph **g,
                  struct pare_err *err)
{
    *g = pare_graph_clone(a, m->graph, err);
    if (!*g)
        return err->code;
    pare_graph_bind(*g, 1);
    return pare_graph_infer(*g, true, err);
}

int pare_model_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                      struct pare_layer_info **list, int *n, struct pare_err *err)
{
    PARE_TRY(shapes(a, m, g, err));
    return pare_layers(a, *g, list, n, err);
}

static int find_layers(struct pare_compression *r, struct pare_layer_info **list, int *n,
                       struct pare_err *err)
{
    struct pare_graph *g;

    PARE_TRY(shapes(r->arena, r->model, &g, err));
    r->graph = g;
    return (r->quantizer ? pare_layers_all : pare_layers)(r->arena, g, list, n, err);
}

int pare_compression_wrap(struct pare_compression *r, const struct pare_config *c,
                          struct pare_err *err)
{
    struct pare_layer_info *info;
    int n;

    PARE_TRY(find_layers(r, &info, &n, err));
    PARE_TRY(pare_config_check(c, info, n, err));
    r->layer = pare_alloc(r->arena, (size_t)n, sizeof(*r->layer));
    if (!r->layer)
        return pare_no_memory(err, "for the layers of a compression");
    for (int i = 0; i < n; i++) {
        const struct pare_entry *e = pare_config_match(c, &info[i]);

        if (!e || info[i].shared)
            continue;
        PARE_TRY(check_type(r, &info[i], err));
        PARE_TRY(pare_at(err, wrap(r, &info[i], e, &r->layer[r->n_layers], err), "layer '%s'",
                         info[i].name));
        r->n_layers++;
    }
    if (!r->n_layers)
        return pare_fail(err, PARE_ECONFIG,
                         "the configuration chooses no layer, so nothing would change");
    return 0;
}
