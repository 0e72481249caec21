/* speedup_report.c - what became of each layer, and why some stayed. */
#include <string.h>

#include "../base/arena.h"
#include "../graph/layer.h"
#include "speedup.h"

struct telling {
    struct pare_speedup *s;
    struct pare_arena *arena;      /* the caller's */
    struct pare_layer_info *layer; /* of the smaller model */
    int n;
};

/* A constant of the node that is as long as nothing else: which of its outputs are empty? */
static int64_t count_empty(const struct pare_sum *m)
{
    int64_t empty = 0;

    for (int64_t o = 0; o < m->O; o++) {
        int64_t i = o / m->Og * m->Ig, end = i + m->Ig;

        while (i < end && pare_sum_zero(m, o, i))
            i++;
        empty += i == end;
    }
    return empty;
}

static const char *stuck_of(const struct pare_speedup *s, const struct pare_value *v, int axis,
                            struct pare_arena *a)
{
    int set = pare_keep_sets_set(s->kept, v, axis);

    for (const struct pare_stuck *t = s->stuck; t; t = t->next) {
        const struct pare_node *n = s->g->node[t->node];

        for (int k = 0; k < n->n_in + n->n_out; k++) {
            const struct pare_value *w = k < n->n_in ? n->in[k] : n->out[k - n->n_in];

            for (int i = 0; w && i < w->t.rank; i++)
                if (pare_keep_sets_set(s->kept, w, i) == set)
                    return pare_sprintf(a, "%s: %s", n->name, t->why);
        }
    }
    return NULL;
}

/* Why do empty channels stay?  A frozen axis, a node that is stuck, or other layers. */
static const char *reason(const struct pare_speedup *s, const struct pare_sum *m,
                          const struct pare_speedup_layer *l, struct pare_arena *a)
{
    const struct pare_node *who;
    const char *why = pare_keep_sets_why(s->kept, m->y, m->l.y_axis, &who), *stuck;

    if (l->out - l->out_left >= l->empty)
        return NULL;
    if (why)
        return who ? pare_sprintf(a, "%s at %s", why, who->name) : why;
    stuck = stuck_of(s, m->y, m->l.y_axis, a);
    if (stuck)
        return stuck;
    if (s->opts->round_to > 1)
        return "their number is rounded up, or other layers need them";
    if (l->out - l->out_left + 1 == l->empty)
        return "one channel carries the constants of those that went";
    return "layers that are added to it or read it need them";
}

/* A layer with weights of its own kind, such as an LSTM: the last axes of what goes in and what
 * comes out are its channels. */
static void tell_own(const struct pare_speedup *s, const struct pare_node *n,
                     struct pare_speedup_layer *l, struct pare_arena *a)
{
    const struct pare_value *x = n->in[0], *y = n->n_out ? n->out[0] : NULL;
    const struct pare_node *who;
    const char *why;

    if (!n->op || !n->op->needs || !y || !pare_keep_sets_asked(s->kept, n))
        return;
    l->in = x->t.dim[x->t.rank - 1];
    l->out = y->t.dim[y->t.rank - 1];
    l->in_left = pare_keep_sets_count(s->kept, x, x->t.rank - 1);
    l->out_left = pare_keep_sets_count(s->kept, y, y->t.rank - 1);
    for (int64_t i = 0; i < l->out; i++)
        l->empty += pare_constant_channel(s, y, y->t.rank - 1, i) == 0;
    why = pare_keep_sets_why(s->kept, y, y->t.rank - 1, &who);
    if (l->out - l->out_left < l->empty && !l->gone)
        l->why = why && who ? pare_sprintf(a, "%s at %s", why, who->name)
                 : why      ? why
                            : "layers that are added to it or read it need them";
}

static void tell_channels(const struct telling *t, const struct pare_layer_info *i,
                          struct pare_speedup_layer *l)
{
    const struct pare_node *n = t->s->g->node[i->node->id];
    struct pare_sum m;

    l->in = l->in_left = l->out = l->out_left = -1;
    tell_own(t->s, n, l, t->arena);
    if (!pare_sum_open(n, &m))
        return;
    l->in = m.C;
    l->out = m.O;
    l->in_left = pare_keep_sets_count(t->s->kept, m.x, m.l.x_axis);
    l->out_left = pare_keep_sets_count(t->s->kept, m.y, m.l.y_axis);
    l->empty = count_empty(&m);
    l->why = l->gone ? NULL : reason(t->s, &m, l, t->arena);
}

static int tell_layer(const struct telling *t, const struct pare_layer_info *i,
                      struct pare_speedup_layer *l, struct pare_err *err)
{
    *l = (struct pare_speedup_layer){ .name = pare_strdup(t->arena, i->name),
                                      .type = pare_strdup(t->arena, i->torch),
                                      .params = i->params,
                                      .macs = i->macs,
                                      .gone = true };
    if (!l->name || !l->type)
        return pare_no_memory(err, "for the report");
    for (int k = 0; k < t->n; k++)
        if (!strcmp(t->layer[k].node->out[0]->name, i->node->out[0]->name) ||
            !strcmp(t->layer[k].name, i->name)) {
            l->gone = false;
            l->params_left = t->layer[k].params;
            l->macs_left = t->layer[k].macs;
            break;
        }
    tell_channels(t, i, l);
    return 0;
}

static double sum_macs(const struct pare_graph *g)
{
    double sum = 0;

    for (int i = 0; i < g->n_nodes; i++) {
        double m = pare_node_macs(g->node[i]);

        sum += m > 0 ? m : 0;
    }
    return sum;
}

static int sum_params(const struct pare_graph *g, const struct pare_layer_info *l, int n,
                      int64_t *params, struct pare_err *err)
{
    PARE_TRY(pare_loose_params(g, l, n, params, err));
    for (int i = 0; i < n; i++)
        *params += l[i].params;
    return 0;
}

static int count_nodes(const struct pare_graph *g)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        n += !pare_node_known(g->node[i]);
    return n;
}

int pare_speedup_tell(struct pare_speedup *s, struct pare_arena *a, struct pare_speedup_report *r,
                      struct pare_err *err)
{
    struct telling t = { .s = s, .arena = a };
    struct pare_layer_info *was;

    PARE_TRY(pare_layers(s->arena, s->now, &t.layer, &t.n, err));
    PARE_TRY(pare_layers(s->arena, s->was, &was, &r->n_layers, err));
    r->layer = pare_alloc(a, (size_t)r->n_layers + 1, sizeof(*r->layer));
    if (!r->layer)
        return pare_no_memory(err, "for the report");
    for (int i = 0; i < r->n_layers; i++)
        PARE_TRY(tell_layer(&t, &was[i], &r->layer[i], err));
    PARE_TRY(sum_params(s->was, was, r->n_layers, &r->params, err));
    PARE_TRY(sum_params(s->now, t.layer, t.n, &r->params_left, err));
    r->macs = sum_macs(s->was);
    r->macs_left = sum_macs(s->now);
    r->nodes = count_nodes(s->was);
    r->nodes_left = count_nodes(s->now);
    return 0;
}
