/* followers.c - followers: normalizations, embeddings and tables masked with coupled layers. */
#include "followers.h"

#include <string.h>

#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../graph/free_dims.h"
#include "../graph/removal_units.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "dependency_groups.h"
#include "removed_channels.h"

struct search {
    struct pare_compression *c;
    const struct pare_config *config;
    struct pare_graph *g;             /* c->prune->graph */
    struct pare_layer_info *info;     /* layers, then tables */
    const struct pare_value **weight; /* of c->layer, then of `info`, in g */
    int n;                            /* of `info` */
    bool *leads;                      /* by removal unit: a layer that is ranked has a part of it */
};

/* ---- tables ---------------------------------------------------------------------------------- */

/* Do zeros make zeros: does the node move elements, or add or multiply them? */
static bool keeps_zeros(const struct pare_node *n)
{
    const float zero = 0;
    float y = 1;

    if (n->op && n->op->map2 && n->n_in == 2 && n->version >= 7)
        n->op->map2(n, &zero, 0, &zero, 0, &y, 1);
    return y == 0 || (n->op && n->op->constant_channel == pare_constant_channel_same);
}

/* By value: a consumer, or NULL; whether one does something else than to add or move it. */
static void find_users(const struct pare_graph *g, struct pare_node **user, bool *other)
{
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (!v || v->id >= g->n_values || g->value[v->id] != v)
                continue;
            other[v->id] |= k >= n->n_in || n->replaced || n->n_parts || !keeps_zeros(n);
            user[v->id] = n;
        }
    }
}

static bool is_table(const struct pare_value *v)
{
    return v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 && v->t.rank > 1 &&
           pare_numel(&v->t) > 1;
}

/* Append the tables to s->info. */
static int add_tables(struct search *s, struct pare_err *err)
{
    size_t n = (size_t)s->g->n_values + 1;
    struct pare_node **user = pare_alloc(s->c->scratch, n, sizeof(*user));
    bool *other = pare_alloc(s->c->scratch, n, sizeof(*other));
    struct pare_layer_info *list = pare_alloc(s->c->arena, n + (size_t)s->n, sizeof(*list));

    if (!user || !other || !list)
        return pare_no_memory(err, "for dependency groups");
    memcpy(list, s->info, (size_t)s->n * sizeof(*list));
    s->info = list;
    find_users(s->g, user, other);
    for (int i = 0; i < s->g->n_values; i++) {
        struct pare_value *v = s->g->value[i];

        if (is_table(v) && user[i] && !other[i])
            s->info[s->n++] = (struct pare_layer_info){ .name = v->name,
                                                        .type = user[i]->type,
                                                        .torch = "Parameter",
                                                        .node = user[i],
                                                        .weight = v,
                                                        .params = pare_numel(&v->t) };
    }
    return 0;
}

/* ---- which of them follow -------------------------------------------------------------------- */

static bool is_wrapped(const struct pare_compression *c, const struct pare_layer_info *l)
{
    const char *name = pare_value_root(l->weight)->name;

    for (int i = 0; i < c->n_layers; i++)
        if (!strcmp(pare_value_root(c->layer[i].info.weight)->name, name))
            return true;
    return false;
}

static bool may_follow(const struct search *s, const struct pare_layer_info *l)
{
    bool table = !strcmp(l->torch, "Parameter");

    return l->node->op && (table || l->node->op->layer.follows) && !l->body && l->weight &&
           !l->shared && !is_wrapped(s->c, l) && !pare_config_excludes(s->config, l);
}

/* Is an index of the axis in a removal unit that a ranked layer leads? */
static bool is_led(const struct search *s, const struct pare_value *v, int axis)
{
    const struct pare_removal_units *u = s->c->prune->units;

    for (int64_t i = 0; axis >= 0 && axis < v->t.rank && i < v->t.dim[axis]; i++) {
        int64_t unit = pare_removal_unit(u, v, axis, i);

        if (unit >= 0 && s->leads[unit] && pare_removal_unit_open(u, unit))
            return true;
    }
    return false;
}

/* Does it follow?  Sets the axis of the channels of a table, the last one that is led. */
static bool follows(const struct search *s, struct pare_layer_info *l)
{
    const struct pare_value *v = pare_map_get(&s->g->names, pare_value_root(l->weight)->name);
    int out = -1, in = -1;

    if (!v || !may_follow(s, l))
        return false;
    if (l->node->op->layer.follows && l->node->op->axes) {
        l->node->op->axes(l->node, &out, &in);
        return is_led(s, v, pare_root_axis(l->weight, out));
    }
    for (int axis = v->t.rank - 1; axis >= 0 && !l->channels; axis--)
        if (v->t.dim[axis] > 1 && is_led(s, v, axis))
            l->channels = 1 + axis;
    return l->channels > 0;
}

static int find_units(struct search *s, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    const struct pare_value **ranked;

    PARE_TRY(pare_layer_weights(c, s->g, &ranked, err));
    s->weight = pare_alloc(c->scratch, (size_t)(c->n_layers + s->n), sizeof(*s->weight));
    if (!s->weight)
        return pare_no_memory(err, "for dependency groups");
    memcpy(s->weight, ranked, (size_t)c->n_layers * sizeof(*ranked));
    for (int i = 0; i < s->n; i++)
        s->weight[c->n_layers + i] = pare_map_get(&s->g->names,
                                                  pare_value_root(s->info[i].weight)->name);
    PARE_TRY(pare_graph_units(c, s->g, s->weight, c->n_layers + s->n, &c->prune->units, err));
    s->leads = pare_alloc(c->scratch, (size_t)pare_removal_units_count(c->prune->units),
                          sizeof(*s->leads));
    if (!s->leads)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i < c->n_layers; i++)
        for (int64_t u = 0;
             ranked[i] && pare_layer_by_channels(&c->layer[i]) && u < c->layer[i].prune->units.n;
             u++) {
            int64_t unit = pare_removal_unit(c->prune->units, ranked[i], c->layer[i].out_axis, u);

            if (unit >= 0)
                s->leads[unit] = true;
        }
    return 0;
}

/* Wrap all that follow; one that cannot be compressed stays as it is. */
static int wrap_followers(struct search *s, struct pare_err *err)
{
    struct pare_compression *c = s->c;
    struct pare_layer *list = pare_alloc(c->arena, (size_t)(c->n_layers + s->n), sizeof(*list));
    int rc = 0;

    if (!list)
        return pare_no_memory(err, "for the layers of a compression");
    memcpy(list, c->layer, (size_t)c->n_layers * sizeof(*list));
    c->layer = list;
    c->prune->following = true;
    for (int i = 0; i < s->n && !rc; i++) {
        if (!follows(s, &s->info[i]))
            continue;
        rc = pare_compression_wrap_one(c, &s->info[i], list[0].entry, err);
        if (!rc)
            list[c->n_layers - 1].unseen = true;
        if (rc == PARE_EUNSUPPORTED) {
            *err = (struct pare_err){ 0 };
            rc = 0;
        }
    }
    c->prune->following = false;
    return rc;
}

/* Layers that are wrapped refer to nodes of all->g. */
static int add(struct search *s, struct pare_all_sizes *all, struct pare_err *err)
{
    struct pare_prune_state *p = s->c->prune;
    const struct pare_dependency_groups *d;

    PARE_TRY(pare_graph_to_group(s->c, s->c->arena, all, err));
    s->g = p->graph = all->g;
    PARE_TRY(pare_layers(s->c->arena, s->g, &s->info, &s->n, err));
    PARE_TRY(add_tables(s, err));
    PARE_TRY(find_units(s, err));
    PARE_TRY(wrap_followers(s, err));
    PARE_TRY(pare_compression_groups(s->c, &d, err));
    return p->settings.keep_constants ? 0 : pare_removed_channels_add(s->c, s->config, s->g, err);
}

int pare_followers_add(struct pare_compression *c, const struct pare_config *config,
                       struct pare_err *err)
{
    struct pare_mark m = pare_mark(c->scratch);
    struct search s = { .c = c, .config = config };
    struct pare_all_sizes all = { 0 };
    int rc = add(&s, &all, err);

    if (all.g)
        pare_all_sizes_forget(&all);
    c->prune->graph = NULL;
    c->prune->units = NULL;
    pare_reset(c->scratch, m);
    return rc;
}
