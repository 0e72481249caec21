/* speedup_report.c - channels, parameters and MACs of each layer; why channels are kept. */
#include <string.h>

#include "../base/arena.h"
#include "../graph/layer.h"
#include "speedup.h"

struct report {
    struct pare_speedup *s;
    struct pare_arena *arena;      /* the caller's */
    struct pare_layer_info *layer; /* of the smaller model */
    int n;
};

/* The number of output channels whose weights are all 0. */
static int64_t count_empty(const struct pare_linear_node *m)
{
    int64_t empty = 0;

    for (int64_t o = 0; o < m->O; o++) {
        int64_t i = o / m->Og * m->Ig, end = i + m->Ig;

        while (i < end && pare_linear_node_is_zero(m, o, i))
            i++;
        empty += i == end;
    }
    return empty;
}

static const char *unshrinkable_reason(const struct pare_speedup *s, const struct pare_value *v,
                                       int axis, struct pare_arena *a)
{
    int set = pare_keep_sets_set(s->kept, v, axis);

    for (const struct pare_unshrinkable *t = s->unshrinkable; t; t = t->next) {
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

static const char *const needed_by_others = "layers that read it, or are added to it, need them";

/* Why are empty channels kept?  A frozen axis, an unshrinkable node, or other layers. */
static const char *reason(const struct pare_speedup *s, const struct pare_linear_node *m,
                          const struct pare_speedup_layer *l, struct pare_arena *a)
{
    const struct pare_node *at;
    const char *why = pare_keep_sets_why(s->kept, m->y, m->l.y_axis, &at), *unshrinkable;

    if (l->out - l->out_left >= l->empty)
        return NULL;
    if (why)
        return at ? pare_sprintf(a, "%s at %s", why, at->name) : why;
    unshrinkable = unshrinkable_reason(s, m->y, m->l.y_axis, a);
    if (unshrinkable)
        return unshrinkable;
    if (s->opts->round_to > 1)
        return "their number is rounded up, or other layers need them";
    if (l->out - l->out_left + 1 == l->empty)
        return "one channel carries the constants of removed channels";
    return needed_by_others;
}

/* Mark the output channels that have a weight: axis `axis` of the constant has them, once for each
 * gate.  False: the constant is not known. */
static bool mark_weights(struct pare_arena *a, const struct pare_value *v, int axis, int64_t n,
                         uint8_t *used)
{
    struct pare_mark mark = pare_mark(a);
    struct pare_value copy = *v;
    struct pare_err err;
    int64_t inner = 1;
    bool known = v->flags & PARE_V_CONST && v->t.dtype == PARE_F32 && axis < v->t.rank &&
                 !pare_value_load(a, &copy, &err) && copy.t.data;

    for (int i = axis + 1; i < v->t.rank; i++)
        inner *= v->t.dim[i];
    for (int64_t e = 0, all = pare_numel(&v->t); e < all && known; e++)
        used[e / inner % v->t.dim[axis] % n] |= pare_f32(&copy.t)[e] != 0;
    pare_reset(a, mark);
    return known;
}

/* The number of output channels without weights, in both weights of a recurrent layer and its bias:
 * of a layer that is not a linear node of the main graph. */
static int64_t count_empty_rows(const struct pare_layer_info *i, int out, struct pare_arena *a)
{
    const struct pare_op_weights *k = &i->node->op->layer;
    int64_t n = i->weight->t.dim[out] / (k->gates ? k->gates : 1), empty = 0;
    uint8_t *used = n > 0 ? pare_alloc(a, (size_t)n, 1) : NULL;

    if (!used || !mark_weights(a, i->weight, out, n, used))
        return 0;
    if (k->second && (k->second >= i->node->n_in || !i->node->in[k->second] ||
                      !mark_weights(a, i->node->in[k->second], out, n, used)))
        return 0;
    if (k->second && i->bias && !mark_weights(a, i->bias, i->bias->t.rank - 1, n, used))
        return 0;
    for (int64_t o = 0; o < n; o++)
        empty += !used[o];
    return empty;
}

/* Why states of a recurrent layer without weights are kept. */
static const char *state_reason(const struct pare_speedup *s, const struct pare_layer_info *i,
                                const struct pare_value *y, struct pare_arena *a)
{
    const struct pare_op_weights *k = &i->node->op->layer;
    const struct pare_node *at;
    const char *why = k->not_zero ? k->not_zero(i->node) : NULL;

    if (why)
        return pare_sprintf(a, "%s, so masked states are not 0", why);
    why = pare_keep_sets_why(s->kept, y, y->t.rank - 1, &at);
    if (why)
        return at ? pare_sprintf(a, "%s at %s", why, at->name) : why;
    why = unshrinkable_reason(s, y, y->t.rank - 1, a);
    return why ? why : needed_by_others;
}

/* The first output that exists. */
static const struct pare_value *first_output(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            return n->out[i];
    return NULL;
}

/* Names of values are unique in one graph. */
static bool same_output(const struct pare_layer_info *a, const struct pare_layer_info *b)
{
    const char *x = pare_speedup_made(a->node), *y = pare_speedup_made(b->node);

    return *x && !strcmp(x, y) && !strcmp(a->body ? a->body : "", b->body ? b->body : "");
}

/* A layer that is not a linear node, for example an LSTM: the last axes of its input and output are
 * its channels. */
static void report_other(const struct pare_speedup *s, const struct pare_layer_info *i,
                         struct pare_speedup_layer *l, struct pare_arena *a)
{
    const struct pare_node *n = s->g->node[i->node->id];
    const struct pare_value *x = n->in[0], *y = first_output(n);
    int64_t rows = 0;
    int out = -1, in = -1;

    if (!n->op || !n->op->needed_channels || !y || !pare_keep_sets_asked(s->kept, n))
        return;
    if (n->op->axes)
        n->op->axes(n, &out, &in);
    l->in = x->t.dim[x->t.rank - 1];
    l->out = y->t.dim[y->t.rank - 1];
    l->in_left = pare_keep_sets_count(s->kept, x, x->t.rank - 1);
    l->out_left = pare_keep_sets_count(s->kept, y, y->t.rank - 1);
    for (int64_t c = 0; c < l->out; c++)
        l->empty += pare_constant_channel(s, y, y->t.rank - 1, c) == 0;
    rows = out >= 0 ? count_empty_rows(i, out, a) : 0;
    l->empty = rows > l->empty ? rows : l->empty;
    if (l->out - l->out_left < l->empty && !l->gone)
        l->why = state_reason(s, i, y, a);
}

/* A layer in a body, of which body_speedup.c has noted what was removed. */
static void report_body(const struct pare_speedup *s, const struct pare_layer_info *i,
                        struct pare_speedup_layer *l, struct pare_arena *a)
{
    const struct pare_op *op = i->node->op;
    const struct pare_body_layer *t = s->body_layers;
    int out = -1, in = -1;

    while (t && (strcmp(t->body, i->body) != 0 ||
                 (t->out && strcmp(t->out, pare_speedup_made(i->node)) != 0)))
        t = t->next;
    if (t && t->out) {
        l->in = t->l.in;
        l->in_left = t->l.in_left;
        l->out = t->l.out;
        l->out_left = t->l.out_left;
        l->empty = t->l.empty;
        l->why = t->l.why;
        l->coupled = t->l.coupled;
        return;
    }

    if (op && op->axes)
        op->axes(i->node, &out, &in);
    if (out < 0 || in < 0)
        return;
    l->in = l->in_left = i->weight->t.dim[in];
    l->out = l->out_left = i->weight->t.dim[out] / (op->layer.gates ? op->layer.gates : 1);
    l->empty = count_empty_rows(i, out, a);
    l->why = t && l->empty ? t->l.why : NULL;
}

static void report_channels(const struct report *t, const struct pare_layer_info *i,
                            struct pare_speedup_layer *l)
{
    const struct pare_node *n;
    struct pare_linear_node m;

    l->in = l->in_left = l->out = l->out_left = -1;
    if (i->body) {
        report_body(t->s, i, l, t->arena);
        return;
    }
    n = t->s->g->node[i->node->id];
    report_other(t->s, i, l, t->arena);
    if (!pare_linear_node_open(n, &m))
        return;
    l->in = m.C;
    l->out = m.O;
    l->in_left = pare_keep_sets_count(t->s->kept, m.x, m.l.x_axis);
    l->out_left = pare_keep_sets_count(t->s->kept, m.y, m.l.y_axis);
    l->empty = count_empty(&m);
    l->why = l->gone ? NULL : reason(t->s, &m, l, t->arena);
}

static int report_layer(const struct report *t, const struct pare_layer_info *i,
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
        if (same_output(&t->layer[k], i) || !strcmp(t->layer[k].name, i->name)) {
            l->gone = false;
            l->params_left = t->layer[k].params;
            l->macs_left = t->layer[k].macs;
            break;
        }
    report_channels(t, i, l);
    l->coupled |= l->why == needed_by_others;
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

/* Free dimensions that have one size only, if the caller did not set it; see r->one_size. */
static int name_one_sizes(const struct pare_speedup *s, struct pare_arena *a,
                          struct pare_speedup_report *r, struct pare_err *err)
{
    const struct pare_tensor *given = s->opts->in;
    const struct pare_io *io;
    int n = pare_model_inputs(s->from, &io);

    for (int i = 0; i < n; i++)
        for (int k = 0; k < io[i].rank; k++) {
            const char *sym = io[i].sym[k] ? io[i].sym[k] : "";
            bool set = given && given[i].rank > k && given[i].dim[k] >= 0;

            if (set || !pare_axis_has_one_size(s->before, io, i, k))
                continue;
            r->one_size = pare_sprintf(a, "%s%sdimension %d%s%s%s of input '%s' (%lld)",
                                       r->one_size ? r->one_size : "", r->one_size ? ", " : "", k,
                                       *sym ? " '" : "", sym, *sym ? "'" : "", io[i].name,
                                       (long long)s->before->in[i]->t.dim[k]);
            if (!r->one_size)
                return pare_no_memory(err, "for the report");
        }
    return 0;
}

int pare_speedup_fill_report(struct pare_speedup *s, struct pare_arena *a,
                             struct pare_speedup_report *r, struct pare_err *err)
{
    struct report t = { .s = s, .arena = a };
    struct pare_layer_info *was;
    struct pare_tensor *shapes;

    PARE_TRY(pare_layers(s->arena, s->after, &t.layer, &t.n, err));
    PARE_TRY(pare_layers(s->arena, s->before, &was, &r->n_layers, err));
    r->layer = pare_alloc(a, (size_t)r->n_layers + 1, sizeof(*r->layer));
    if (!r->layer)
        return pare_no_memory(err, "for the report");
    for (int i = 0; i < r->n_layers; i++)
        PARE_TRY(report_layer(&t, &was[i], &r->layer[i], err));
    PARE_TRY(sum_params(s->before, was, r->n_layers, &r->params, err));
    PARE_TRY(sum_params(s->after, t.layer, t.n, &r->params_left, err));
    r->in = shapes = pare_alloc(a, (size_t)s->before->n_in + 1, sizeof(*shapes));
    if (!shapes)
        return pare_no_memory(err, "for the report");
    for (int i = 0; i < s->before->n_in; i++) {
        shapes[i] = s->before->in[i]->t;
        shapes[i].data = NULL;
    }
    r->macs = sum_macs(s->before);
    r->macs_left = sum_macs(s->after);
    r->nodes = count_nodes(s->before);
    r->nodes_left = count_nodes(s->after);
    return name_one_sizes(s, a, r, err);
}
