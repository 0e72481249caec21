/* cost_space.c - dependency groups and layers that a cost table is about. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost_table.h"

#include "../base/arena.h"
#include "../base/map.h"
#include "../compress/wrap.h"
#include "../graph/free_dims.h"
#include "../graph/layer.h"
#include "../graph/pattern/pattern.h"
#include "../graph/removal_units.h"
#include "../op/channels.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

#define MOST_UNITS (1 << 24)
#define CHAIN 4 /* nodes after a layer that are part of its key */

/* ---- units ----------------------------------------------------------------------------------- */

/* A node x * w of the analysis graph with known shapes. */
static bool open_node(const struct pare_node *n, struct pare_linear *l)
{
    memset(l, 0, sizeof(*l));
    return n->op && n->op->linear && n->op->linear(n, l) && n->in[l->x] && n->out[0] &&
           l->x_axis >= 0 && l->x_axis < n->in[l->x]->t.rank && l->y_axis >= 0 &&
           l->y_axis < n->out[0]->t.rank && n->in[l->w]->flags & PARE_V_CONST &&
           !(n->in[l->x]->flags & PARE_V_CONST) && l->groups > 0;
}

static void add_to_hash(uint64_t *h, int64_t what)
{
    uint64_t pair[2] = { *h, (uint64_t)what };

    *h = pare_hash(pair, sizeof(pair));
}

/* Extend the hash of each unit by the axis. */
static void hash_axis(const struct pare_cost_units *u, uint64_t *hash, const struct pare_value *v,
                      int axis, int64_t what)
{
    for (int64_t i = 0; i < v->t.dim[axis]; i++) {
        int64_t unit = pare_removal_unit(u->units, v, axis, i);

        if (unit >= 0)
            add_to_hash(&hash[unit], what);
    }
}

/* Units with the same hash are one group; those of no layer have hash 0. */
static int number_groups(struct pare_cost_units *u, struct pare_arena *a, const uint64_t *hash,
                         struct pare_err *err)
{
    struct pare_map seen = { 0 };
    int64_t *size = pare_alloc(a, (size_t)u->n + 1, sizeof(*size));
    int n = 0;

    if (!size)
        return pare_no_memory(err, "for dependency groups");
    for (int64_t i = 0; i < u->n; i++) {
        char *key = pare_sprintf(a, "%llx", (unsigned long long)hash[i]);
        int *number;

        u->group[i] = -1;
        if (!key)
            return pare_no_memory(err, "for dependency groups");
        if (!hash[i] || !pare_removal_unit_open(u->units, i))
            continue;
        number = pare_map_get(&seen, key);
        if (!number) {
            number = pare_alloc(a, 1, sizeof(*number));
            if (!number)
                return pare_no_memory(err, "for dependency groups");
            *number = n++;
            PARE_TRY(pare_map_set(&seen, a, key, number, err));
        }
        u->group[i] = *number;
        u->rank[i] = size[*number]++;
    }
    return 0;
}

int pare_cost_find_units(const struct pare_model *m, struct pare_arena *a,
                         struct pare_cost_units *u, struct pare_err *err)
{
    struct pare_all_sizes all = { 0 };
    struct pare_keep_sets *kept;
    const struct pare_io *io;
    uint64_t *hash;

    pare_model_inputs(m, &io);
    PARE_TRY(pare_graph_all_sizes(a, m->graph, io, NULL, &all, err));
    PARE_TRY(pare_graph_canonical_axes(all.g, err));
    PARE_TRY(pare_graph_unshare(all.g, NULL, 0, err));
    PARE_TRY(pare_keep_sets_new(a, all.g, &kept, err));
    PARE_TRY(pare_removal_units_new(a, kept, &u->units, err));
    u->g = all.g;
    u->n = pare_removal_units_count(u->units);
    if (u->n > MOST_UNITS)
        return pare_fail(err, PARE_ELIMIT, "the model has more than %d channels", MOST_UNITS);
    hash = pare_alloc(a, (size_t)u->n + 1, sizeof(*hash));
    u->group = pare_alloc(a, (size_t)u->n + 1, sizeof(*u->group));
    u->rank = pare_alloc(a, (size_t)u->n + 1, sizeof(*u->rank));
    if (!hash || !u->group || !u->rank)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i < u->g->n_nodes; i++) {
        const struct pare_node *n = u->g->node[i];
        struct pare_linear l;

        if (!open_node(n, &l))
            continue;
        hash_axis(u, hash, n->in[l.x], l.x_axis, 2 * (int64_t)i);
        hash_axis(u, hash, n->out[0], l.y_axis, 2 * (int64_t)i + 1);
    }
    return number_groups(u, a, hash, err);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The full count, and multiples of 8 or 16, at most PARE_COST_CHOICES, evenly in the logarithm. */
static void list_choices(struct pare_cost_group *g)
{
    int64_t step = g->full <= 64 ? 8 : 16, all = (g->full - 1) / step; /* multiples below `full` */
    int most = PARE_COST_CHOICES - 2;                                  /* one more may be 0 */

    g->n_choices = 0;
    for (int64_t i = 1; i <= all && all <= most; i++)
        g->choice[g->n_choices++] = i * step;
    for (int i = 0; i < most && all > most; i++) {
        double x = (double)step * pow((double)g->full / (double)step, (double)i / most);
        int64_t c = (int64_t)(x / (double)step + 0.5) * step;

        if (c < g->full && (!g->n_choices || c > g->choice[g->n_choices - 1]))
            g->choice[g->n_choices++] = c;
    }
    g->choice[g->n_choices++] = g->full;
}

static int add_groups(const struct pare_cost_units *u, struct pare_cost_table *t,
                      struct pare_err *err)
{
    t->n_groups = 0;
    for (int64_t i = 0; i < u->n; i++)
        if (u->group[i] >= t->n_groups)
            t->n_groups = u->group[i] + 1;
    t->group = pare_alloc(t->arena, (size_t)t->n_groups + 1, sizeof(*t->group));
    if (!t->group)
        return pare_no_memory(err, "for dependency groups");
    for (int64_t i = 0; i < u->n; i++)
        if (u->group[i] >= 0)
            t->group[u->group[i]].full++;
    for (int i = 0; i < t->n_groups; i++)
        list_choices(&t->group[i]);
    return 0;
}

/* The layers that compute each group. */
static int list_producers(struct pare_cost_table *t, struct pare_err *err)
{
    for (int g = 0; g < t->n_groups; g++) {
        struct pare_cost_group *x = &t->group[g];

        x->layer = pare_alloc(t->arena, (size_t)t->n_layers + 1, sizeof(int));
        if (!x->layer)
            return pare_no_memory(err, "for dependency groups");
        for (int i = 0; i < t->n_layers; i++)
            for (int k = 0; k < t->layer[i].out.n; k++)
                if (t->layer[i].out.group[k] == g)
                    x->layer[x->n_layers++] = i;
        x->name = x->n_layers ? t->layer[x->layer[0]].name : "input";
    }
    return 0;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int fill_axis(const struct pare_cost_units *u, struct pare_cost_table *t,
                     const struct pare_value *v, int axis, struct pare_cost_axis *x,
                     struct pare_err *err)
{
    x->group = pare_alloc(t->arena, (size_t)t->n_groups + 1, sizeof(*x->group));
    x->times = pare_alloc(t->arena, (size_t)t->n_groups + 1, sizeof(*x->times));
    if (!x->group || !x->times)
        return pare_no_memory(err, "for dependency groups");
    for (int64_t i = 0; i < v->t.dim[axis]; i++) {
        int64_t unit = pare_removal_unit(u->units, v, axis, i);
        int g = unit < 0 ? -1 : u->group[unit], k = 0;

        if (g < 0) {
            x->fixed++;
            continue;
        }
        while (k < x->n && x->group[k] != g)
            k++;
        if (k == x->n)
            x->group[x->n++] = g;
        x->times[k]++;
    }
    for (int k = 0; k < x->n; k++)
        x->times[k] /= t->group[x->group[k]].full;
    return 0;
}

static bool same_axis(const struct pare_cost_axis *x, const struct pare_cost_axis *y)
{
    return x->n == 1 && y->n == 1 && !x->fixed && !y->fixed && x->group[0] == y->group[0];
}

static int consumers(const struct pare_graph *g, const struct pare_value *v,
                     const struct pare_node **one)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v) {
                *one = g->node[i];
                n++;
            }
    return n;
}

/* "x32x32" of all dimensions but one. */
static void add_dims(char *to, size_t size, const char *name, const struct pare_tensor *t, int but)
{
    size_t at = strlen(to);

    at += (size_t)snprintf(to + at, size - at, " %s", name);
    for (int i = 1; i < t->rank && at + 24 < size; i++)
        if (i != but)
            at += (size_t)snprintf(to + at, size - at, "%lld,", (long long)t->dim[i]);
    if (to[at - 1] == ',')
        to[at - 1] = '\0';
}

/* Everything that the time depends on, except channels and format. */
static const char *make_key(struct pare_cost_table *t, const struct pare_graph *g,
                            const struct pare_node *n, const struct pare_linear *l,
                            const struct pare_cost_layer *y)
{
    char key[512];
    const struct pare_value *v = n->out[0];
    size_t at = (size_t)snprintf(key, sizeof(key) - 256, "%s w%g g%lld", n->type, y->taps,
                                 y->depthwise ? -1LL : (long long)l->groups);

    add_dims(key, sizeof(key) - 256, "x", &n->in[l->x]->t, l->x_axis);
    add_dims(key, sizeof(key) - 256, "y", &n->out[0]->t, l->y_axis);
    at = strlen(key);
    for (int i = 0; i < CHAIN && at < sizeof(key) - 128; i++) {
        const struct pare_node *next = NULL;

        if (consumers(g, v, &next) != 1 || (next->op && next->op->linear))
            break;
        at += (size_t)snprintf(key + at, sizeof(key) - at, " >%.32s", next->type);
        v = next->out[0];
    }
    snprintf(key + at, sizeof(key) - at, " b%lld t%d", (long long)t->batch, t->threads);
    return pare_strdup(t->arena, key);
}

static int fill_layer(const struct pare_cost_units *u, struct pare_cost_table *t,
                      const struct pare_graph *g, const struct pare_layer_info *info,
                      struct pare_err *err)
{
    const struct pare_node *n = info->node, *an = u->g->node[n->id];
    struct pare_cost_layer *y = &t->layer[t->n_layers];
    struct pare_linear l, al;

    if (!pare_layer_is_product(info) || info->body || !open_node(n, &l) || !open_node(an, &al) ||
        n->in[l.w]->t.dtype != PARE_F32)
        return 0;
    *y = (struct pare_cost_layer){ .name = pare_strdup(t->arena, info->name), .groups = l.groups };
    y->cin = n->in[l.x]->t.dim[l.x_axis];
    y->cout = n->out[0]->t.dim[l.y_axis];
    if (y->cin < 1 || y->cout < 1 || y->cin != an->in[al.x]->t.dim[al.x_axis])
        return 0;
    PARE_TRY(fill_axis(u, t, an->in[al.x], al.x_axis, &y->in, err));
    PARE_TRY(fill_axis(u, t, an->out[0], al.y_axis, &y->out, err));
    y->in_group = y->in.n == 1 ? y->in.group[0] : -1;
    y->out_group = y->out.n == 1 ? y->out.group[0] : -1;
    y->depthwise = l.groups == y->cin && l.groups > 1 && same_axis(&y->in, &y->out);
    y->taps = (double)pare_numel(&n->in[l.w]->t) * (double)l.groups /
              ((double)y->cin * (double)y->cout);
    y->macs = info->macs > 0 ? info->macs * (double)t->batch : 0;
    y->positions = (double)pare_numel(&n->out[0]->t) / (double)y->cout * (double)t->batch;
    y->formats = t->formats;
    y->key = make_key(t, g, n, &l, y);
    y->light_key = pare_sprintf(t->arena, "after %.200s b%lld t%d", info->name, (long long)t->batch,
                                t->threads);
    if (!y->name || !y->key || !y->light_key)
        return pare_no_memory(err, "for the layers");
    t->n_layers++;
    return 0;
}

/* ---- consumers ------------------------------------------------------------------------------- */

static void link_pair(struct pare_cost_table *t, int from, int to)
{
    struct pare_cost_layer *l = &t->layer[from];
    int k = 0;

    while (k < l->n_next && l->next[k] != to)
        k++;
    if (k == l->n_next && from != to) {
        l->next[l->n_next++] = to;
        t->layer[to].prev[t->layer[to].n_prev++] = from;
    }
}

/* Which layers read each other's outputs.  A node without weights that joins outputs, such as an
 * addition, belongs to the last layer before it, so that one reads those of the others. */
static int link_layers(struct pare_cost_table *t, const struct pare_graph *g, struct pare_arena *a,
                       const int *layer_of, struct pare_err *err)
{
    int *source = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*source)); /* by value, from 1 */

    for (int i = 0; i < t->n_layers; i++) {
        t->layer[i].next = pare_alloc(t->arena, (size_t)t->n_layers + 1, sizeof(int));
        t->layer[i].prev = pare_alloc(t->arena, (size_t)t->n_layers + 1, sizeof(int));
        if (!t->layer[i].next || !t->layer[i].prev)
            return pare_no_memory(err, "for the layers");
    }
    if (!source)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];
        int last = layer_of[i] + 1;

        for (int k = 0; k < n->n_in && layer_of[i] < 0; k++)
            if (n->in[k] && n->in[k]->id < g->n_values && source[n->in[k]->id] > last)
                last = source[n->in[k]->id];
        for (int k = 0; k < n->n_in && last; k++)
            if (n->in[k] && n->in[k]->id < g->n_values && source[n->in[k]->id])
                link_pair(t, source[n->in[k]->id] - 1, last - 1);
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] && n->out[k]->id < g->n_values)
                source[n->out[k]->id] = last;
    }
    return 0;
}

static int find_space(const struct pare_model *m, struct pare_cost_table *t, struct pare_arena *a,
                      struct pare_err *err)
{
    struct pare_cost_units u = { 0 };
    struct pare_layer_info *list;
    struct pare_graph *g;
    int n, *layer_of;

    PARE_TRY(pare_cost_find_units(m, a, &u, err));
    PARE_TRY(pare_model_find_layers(m, a, &g, &list, &n, err));
    PARE_TRY(add_groups(&u, t, err));
    t->layer = pare_alloc(t->arena, (size_t)n + 1, sizeof(*t->layer));
    layer_of = pare_alloc(a, (size_t)g->n_nodes + 1, sizeof(*layer_of));
    if (!t->layer || !layer_of)
        return pare_no_memory(err, "for the layers");
    for (int i = 0; i < g->n_nodes; i++)
        layer_of[i] = -1;
    for (int i = 0; i < n; i++) {
        int before = t->n_layers;

        PARE_TRY(fill_layer(&u, t, g, &list[i], err));
        if (t->n_layers > before)
            layer_of[list[i].node->id] = before;
    }
    if (!t->n_layers)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the model has no convolution or linear layer with float32 weights");
    PARE_TRY(link_layers(t, g, a, layer_of, err));
    PARE_TRY(list_producers(t, err));
    return pare_cost_find_branches(t, a, err);
}

int pare_cost_space(const struct pare_model *m, struct pare_cost_table *t, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    int rc = a ? find_space(m, t, a, err) : pare_no_memory(err, "for the layers");

    pare_arena_free(a);
    return rc;
}
