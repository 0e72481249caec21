/* removed_search.c - normalizations and constants after channels that can be removed: find and wrap
 * them. */
#include "removed_search.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../op/op.h"
#include "../tensor/tensor.h"
#include "dependency_groups.h"
#include "removed_channels.h"

#define MOST_SCANNED ((int64_t)1 << 22) /* elements of a constant operand */

struct search {
    struct pare_removed *r;
    const struct pare_config *config;
    struct pare_layer_info *info;
    int n;
    int *layer_of; /* by node id: 1 + a wrapped layer; 0: none */
    int *info_of;  /* by node id: 1 + index of info; 0: none */
    int *owner;    /* by value id: 1 + the wrapped layer whose weight it is, negative: bias */
};

/* ---- what masks what ------------------------------------------------------------------------- */

/* Nodes of the model that read an initializer, except those that compute constants from it. */
static int readers(const struct pare_compression *c, const char *name)
{
    const struct pare_graph *g = c->graph;
    int count = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_cap; k++) {
            const struct pare_node *n = g->node[i];
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            count += v && !pare_node_known(n) && !strcmp(pare_value_root(v)->name, name);
        }
    return count;
}

static const char *root_name(const struct pare_value *v)
{
    return v ? pare_value_root(v)->name : "";
}

static bool same_params(const struct pare_layer_info *a, const struct pare_layer_info *b)
{
    return !strcmp(root_name(a->weight), root_name(b->weight)) &&
           !strcmp(root_name(a->bias), root_name(b->bias));
}

static int find_owners(struct search *s, struct pare_err *err)
{
    const struct pare_compression *c = s->r->c;
    const struct pare_graph *g = s->r->g;

    s->layer_of = pare_alloc(c->scratch, (size_t)g->n_nodes + 1, sizeof(int));
    s->info_of = pare_alloc(c->scratch, (size_t)g->n_nodes + 1, sizeof(int));
    s->owner = pare_alloc(c->scratch, (size_t)g->n_values + 1, sizeof(int));
    if (!s->layer_of || !s->info_of || !s->owner)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i < s->n; i++)
        if (!s->info[i].body)
            s->info_of[s->info[i].node->id] = 1 + i;
    for (int i = 0; i < c->n_layers; i++) {
        const struct pare_layer_info *l = &c->layer[i].info;
        const struct pare_value *w = l->weight ? pare_map_get(&g->names, root_name(l->weight))
                                               : NULL;
        const struct pare_value *b = c->layer[i].bias ? pare_map_get(&g->names, root_name(l->bias))
                                                      : NULL;

        if (w)
            s->owner[w->id] = 1 + i;
        if (b)
            s->owner[b->id] = -1 - i;
        for (int k = 0; k < s->n && !c->layer[i].is_second; k++)
            if (!s->info[k].body && !strcmp(root_name(s->info[k].weight), root_name(l->weight)))
                s->layer_of[s->info[k].node->id] = 1 + i;
    }
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_float(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_F32 && v->t.rank >= 0;
}

/* The axis of the output that has the channels of the scale; -1: none. */
static int scaled_axis(const struct search *s, const struct pare_node *n)
{
    const struct pare_value *w = n->in[n->op->layer.weight];

    for (int i = s->r->first_tie[n->id]; i < s->r->first_tie[n->id + 1]; i++) {
        const struct pare_tied *t = &s->r->ties->tie[i];

        if (t->kind == PARE_TIE_SAME && t->a == w && t->b == n->out[0])
            return t->bx;
        if (t->kind == PARE_TIE_SAME && t->b == w && t->a == n->out[0])
            return t->ax;
    }
    return -1;
}

/* Add a hidden layer, or another use of it; -1: no memory. */
static int add_hidden(struct pare_removed *r, const struct pare_layer_info *l, int64_t n)
{
    struct pare_hidden *h;

    for (int i = 0; i < r->n_hidden; i++)
        if (same_params(&r->hidden[i].info, l)) {
            r->hidden[i].uses++;
            r->shared = true;
            return i;
        }
    h = &r->hidden[r->n_hidden];
    *h = (struct pare_hidden){ .info = *l, .layer = -1, .uses = 1, .n = n };
    h->info.shared = false;
    h->gone = pare_alloc(r->c->arena, (size_t)n + 1, 1);
    return h->gone ? r->n_hidden++ : -1;
}

static int open_norm(struct search *s, const struct pare_node *n, struct pare_removed_step *to,
                     struct pare_err *err)
{
    const struct pare_layer_info *l = s->info_of[n->id] ? &s->info[s->info_of[n->id] - 1] : NULL;
    int out = -1, in = -1, axis = l ? scaled_axis(s, n) : -1;

    if (axis < 0 || !l->weight || !n->op->axes)
        return 0;
    n->op->axes(n, &out, &in);
    out = pare_root_axis(l->weight, out);
    if (out < 0 || pare_value_root(l->weight)->t.dim[out] != n->out[0]->t.dim[axis] ||
        pare_numel(&pare_value_root(l->weight)->t) != n->out[0]->t.dim[axis] ||
        (l->bias && pare_numel(&l->bias->t) != n->out[0]->t.dim[axis]))
        return 0;
    to->axis = axis;
    to->kind = PARE_REMOVED_NORM;
    if (to->layer >= 0 || pare_config_excludes(s->config, l))
        return 0;
    to->hidden = add_hidden(s->r, l, n->out[0]->t.dim[axis]);
    return to->hidden < 0 ? pare_no_memory(err, "for masks") : 0;
}

static void open_sum(const struct search *s, const struct pare_node *n,
                     struct pare_removed_step *to)
{
    struct pare_linear *l = &to->sum;
    const struct pare_value *x, *y = n->out[0];

    if (!n->op->linear(n, l) || !(n->in[l->w]->flags & PARE_V_CONST)) {
        to->kind = n->n_in == 2 && n->op->flags & PARE_OP_PRODUCT ? PARE_REMOVED_PRODUCT
                                                                  : PARE_REMOVED_OTHER;
        to->axes = ~0u;
        return;
    }
    x = n->in[l->x];
    if (l->adds || (l->after && l->after(n, 0) != 0) || l->groups < 1 || l->x_axis < 0 ||
        l->x_axis >= x->t.rank || l->y_axis < 0 || l->y_axis >= y->t.rank)
        return;
    to->kind = PARE_REMOVED_SUM;
    if (to->layer >= 0)
        to->alone = readers(s->r->c, root_name(s->r->c->layer[to->layer].info.weight)) == 1;
}

/* f(0, c) = 0 for all elements of the constant c, which is operand k; or for samples. */
static bool absorbs(const struct pare_node *n, int k)
{
    static const float any[] = { -1e30f, -2.5f, -1, -0.3f, 0, 0.7f, 1, 3, 1e30f };
    const struct pare_value *v = n->in[k];
    bool constant = v->flags & PARE_V_CONST && v->t.data && pare_numel(&v->t) <= MOST_SCANNED;
    const float *x = constant ? v->t.data : any, zero = 0;
    int64_t count = constant ? pare_numel(&v->t) : (int64_t)(sizeof(any) / sizeof(*any));
    float y = 0;

    for (int64_t i = 0; i < count && y == 0; i++)
        n->op->map2(n, k ? &zero : x + i, 0, k ? x + i : &zero, 0, &y, 1);
    return y == 0;
}

/* A constant with one element per channel that is added to a computed value, and to nothing else:
 * its axis, else -1. */
static int table_axis(const struct search *s, const struct pare_node *n, int k)
{
    const struct pare_value *v = n->in[k], *x = n->in[!k];
    int axis = -1, more = n->out[0]->t.rank - v->t.rank;

    if (!(v->flags & PARE_V_CONST) || v->maker || x->flags & PARE_V_CONST || !*v->name ||
        v->t.rank < 1 || readers(s->r->c, v->name) != 1)
        return -1;
    for (int i = 0; i < v->t.rank; i++)
        if (v->t.dim[i] > 1) {
            if (axis >= 0)
                return -1;
            axis = i;
        }
    return axis >= 0 && more >= 0 && n->out[0]->t.dim[axis + more] == v->t.dim[axis] ? axis : -1;
}

static int open_table(struct search *s, struct pare_node *n, struct pare_removed_step *to, int k,
                      struct pare_err *err)
{
    int axis = table_axis(s, n, k);
    struct pare_layer_info l = { .name = n->in[k]->name,
                                 .type = n->type,
                                 .torch = "Parameter",
                                 .node = n,
                                 .weight = n->in[k],
                                 .params = pare_numel(&n->in[k]->t),
                                 .channels = axis + 1 };

    if (axis < 0 || pare_config_excludes(s->config, &l))
        return 0;
    to->table = k;
    to->axis = axis + n->out[0]->t.rank - n->in[k]->t.rank;
    to->hidden = add_hidden(s->r, &l, n->in[k]->t.dim[axis]);
    return to->hidden < 0 ? pare_no_memory(err, "for masks") : 0;
}

static int open_pair(struct search *s, struct pare_node *n, struct pare_removed_step *to,
                     struct pare_err *err)
{
    const float zero = 0;
    float y = 1;

    n->op->map2(n, &zero, 0, &zero, 0, &y, 1);
    to->kind = PARE_REMOVED_PAIR;
    to->both = y == 0;
    for (int k = 0; k < 2; k++) {
        const struct pare_value *v = n->in[k];

        to->absorbs[!k] = absorbs(n, k);
        if (v->flags & PARE_V_CONST && !v->maker)
            to->masked[k] = s->owner[v->id];
        if (v->flags & PARE_V_CONST && to->both && !to->masked[k] && !to->absorbs[!k])
            PARE_TRY(open_table(s, n, to, k, err));
    }
    return 0;
}

/* The axes of outputs along which a channel of zeros stays one. */
static unsigned moved_axes(const struct pare_node *n)
{
    unsigned axes = 0;

    for (int axis = 0; axis < PARE_MAX_RANK; axis++)
        if (n->op->constant_channel(n, axis, 0, 0) == 0)
            axes |= 1u << axis;
    return axes;
}

static int open_node(struct search *s, struct pare_node *n, struct pare_err *err)
{
    struct pare_removed_step *to = &s->r->step[n->id];
    const struct pare_op *op = n->op;
    const float zero = 0;
    float y = 1;

    to->layer = s->layer_of[n->id] - 1;
    to->hidden = -1;
    if (!op || n->replaced || !n->n_in || !n->n_out || !is_float(n->out[0]) ||
        n->out[0]->flags & PARE_V_CONST || !is_float(n->in[0]))
        return 0;
    if (op->layer.norm)
        return open_norm(s, n, to, err);
    if (op->linear)
        open_sum(s, n, to);
    else if (op->map && !op->constant_channel) {
        op->map(n, &zero, &y, 1);
        to->kind = y == 0 ? PARE_REMOVED_MAP : PARE_REMOVED_OTHER;
    } else if (op->map2 && n->n_in == 2 && is_float(n->in[1]) && n->version >= 7)
        return open_pair(s, n, to, err);
    else if (op->constant_channel) {
        to->kind = PARE_REMOVED_MOVED;
        to->axes = moved_axes(n);
        to->masked[0] = n->in[0]->flags & PARE_V_CONST ? s->owner[n->in[0]->id] : 0;
    }
    return 0;
}

/* ---- wrap ------------------------------------------------------------------------------------ */

/* Does a channel follow, and is it masked at no other place? */
static bool is_led(const struct pare_compression *c, const struct pare_hidden *h)
{
    const struct pare_layer_info *l = &h->info;

    return memchr(h->gone, 1, (size_t)h->n) && readers(c, root_name(l->weight)) == h->uses &&
           (!l->bias || readers(c, root_name(l->bias)) == h->uses);
}

static int wrap_hidden(struct pare_removed *r, struct pare_err *err)
{
    struct pare_compression *c = r->c;
    struct pare_layer *list = pare_alloc(c->arena, (size_t)(c->n_layers + r->n_hidden),
                                         sizeof(*list));
    int rc = 0;

    if (!list)
        return pare_no_memory(err, "for the layers of a compression");
    memcpy(list, c->layer, (size_t)c->n_layers * sizeof(*list));
    c->layer = list;
    c->prune->following = true;
    for (int i = 0; i < r->n_hidden && !rc; i++) {
        if (!is_led(c, &r->hidden[i]))
            continue;
        rc = pare_compression_wrap_one(c, &r->hidden[i].info, list[0].entry, err);
        if (rc == PARE_EUNSUPPORTED) { /* it cannot be masked and stays as it is */
            *err = (struct pare_err){ 0 };
            rc = 0;
        } else if (!rc) {
            struct pare_layer *l = &list[c->n_layers - 1];

            r->hidden[i].layer = c->n_layers - 1;
            l->unseen = true;
            l->prune->due = false;
            c->n_hidden++;
        }
    }
    c->prune->following = false;
    return rc;
}

static int find_ties(struct pare_removed *r, struct pare_err *err)
{
    struct pare_keep_sets *kept;
    int at = 0;

    PARE_TRY(pare_keep_sets_new(r->c->arena, r->g, &kept, err));
    r->ties = pare_keep_sets_ties(kept);
    r->first_tie = pare_alloc(r->c->arena, (size_t)r->g->n_nodes + 2, sizeof(int));
    if (!r->first_tie)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i <= r->g->n_nodes; i++) {
        while (at < r->ties->n && r->ties->tie[at].node->id < i)
            at++;
        r->first_tie[i] = at;
    }
    return 0;
}

static int add(struct search *s, struct pare_err *err)
{
    struct pare_removed *r = s->r;
    size_t nodes = (size_t)r->g->n_nodes + 1;

    PARE_TRY(find_ties(r, err));
    PARE_TRY(pare_layers(r->c->arena, r->g, &s->info, &s->n, err));
    PARE_TRY(find_owners(s, err));
    r->step = pare_alloc(r->c->arena, nodes, sizeof(*r->step));
    r->hidden = pare_alloc(r->c->arena, nodes, sizeof(*r->hidden));
    r->zero = pare_alloc(r->c->arena, (size_t)r->g->n_values + 1, sizeof(*r->zero));
    if (!r->step || !r->hidden || !r->zero)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i < r->g->n_nodes; i++)
        PARE_TRY(open_node(s, r->g->node[i], err));
    r->all = true;
    PARE_TRY(pare_removed_find(r, err));
    r->all = false;
    PARE_TRY(wrap_hidden(r, err));
    r->c->prune->removed = r->c->n_hidden ? r : NULL;
    return 0;
}

int pare_removed_channels_add(struct pare_compression *c, const struct pare_config *config,
                              struct pare_graph *g, struct pare_err *err)
{
    struct pare_mark m = pare_mark(c->scratch);
    struct search s = { .config = config };
    bool any = false;
    int rc;

    for (int i = 0; i < c->n_layers; i++)
        any |= pare_layer_by_channels(&c->layer[i]);
    if (!any)
        return 0;
    s.r = pare_alloc(c->arena, 1, sizeof(*s.r));
    if (!s.r)
        return pare_no_memory(err, "for dependency groups");
    s.r->c = c;
    s.r->g = g;
    rc = add(&s, err);
    pare_reset(c->scratch, m);
    return rc;
}
