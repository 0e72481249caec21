/* cost_branches.c - residual branches that can be removed as a whole: a group without channels.
 *
 * In a residual block the channels between its layers are a group of their own.  Without any of
 * them, what reads them is constant, and the block is its shortcut (depth pruning).  That is the
 * count 0 of the group, one choice more.
 */
#include <string.h>

#include "cost_table.h"

#include "../base/arena.h"
#include "../graph/removal_units.h"
#include "../op/channels.h"
#include "../op/op.h"

/* ---- groups ---------------------------------------------------------------------------------- */

/* Does the layer read the group, and compute another one? */
static bool reads(const struct pare_cost_layer *l, int g)
{
    for (int k = 0; k < l->in.n; k++)
        if (l->in.group[k] == g)
            return l->out_group != g;
    return false;
}

/* The group that the layer adds its output to, if all that it reads is group g; -1: none. */
static int joined_group(const struct pare_cost_table *t, const struct pare_cost_layer *l, int g)
{
    if (l->in_group != g || l->in.fixed || l->out_group < 0 || l->out.fixed)
        return -1;
    for (int k = 0; k < t->group[l->out_group].n_layers; k++)
        if (!reads(&t->layer[t->group[l->out_group].layer[k]], g))
            return l->out_group;
    return -1;
}

/* Do all layers that read the group add their outputs to those of others? */
static bool is_branch(const struct pare_cost_table *t, int g)
{
    int n = 0;

    for (int i = 0; i < t->n_layers; i++) {
        if (!reads(&t->layer[i], g))
            continue;
        n++;
        if (joined_group(t, &t->layer[i], g) < 0)
            return false;
    }
    return n > 0;
}

/* The layer that remains if all branches of its group are removed: the first that is not the end of
 * a branch, else the first. */
static int anchor_of(const struct pare_cost_group *h, const struct pare_cost_table *t,
                     const bool *branch)
{
    for (int k = 0; k < h->n_layers; k++) {
        const struct pare_cost_layer *l = &t->layer[h->layer[k]];

        if (l->in_group < 0 || !branch[l->in_group])
            return h->layer[k];
    }
    return h->n_layers ? h->layer[0] : -1;
}

static void add_zero(struct pare_cost_group *g)
{
    if (g->n_choices >= PARE_COST_CHOICES || !g->choice[0])
        return;
    memmove(g->choice + 1, g->choice, (size_t)g->n_choices * sizeof(*g->choice));
    g->choice[0] = 0;
    g->n_choices++;
}

int pare_cost_find_branches(struct pare_cost_table *t, struct pare_arena *a, struct pare_err *err)
{
    bool *branch = pare_alloc(a, (size_t)t->n_groups + 1, sizeof(*branch));
    bool *needed = pare_alloc(a, (size_t)t->n_groups + 1, sizeof(*needed));

    if (!branch || !needed)
        return pare_no_memory(err, "for dependency groups");
    for (int g = 0; g < t->n_groups; g++)
        branch[g] = is_branch(t, g);
    for (int h = 0; h < t->n_groups; h++) {
        int anchor = anchor_of(&t->group[h], t, branch);

        if (anchor >= 0 && t->layer[anchor].in_group >= 0)
            needed[t->layer[anchor].in_group] = true;
    }
    for (int g = 0; g < t->n_groups; g++)
        if (branch[g] && !needed[g])
            add_zero(&t->group[g]);
    return 0;
}

int pare_cost_check_branches(const struct pare_model *m, struct pare_cost_table *t,
                             struct pare_err *err)
{
    int64_t *count = pare_alloc(t->arena, (size_t)t->n_groups + 1, sizeof(*count));
    struct pare_model *small = NULL;
    struct pare_err ignored;
    bool any = false;

    if (!count)
        return pare_no_memory(err, "for dependency groups");
    for (int g = 0; g < t->n_groups; g++) {
        count[g] = t->group[g].choice[0] ? t->group[g].full : 0;
        any |= !count[g];
    }
    if (!any)
        return 0;
    if (!pare_cost_build(m, t, count, NULL, &small, &ignored)) {
        pare_model_free(small);
        return 0;
    }
    for (int g = 0; g < t->n_groups; g++)
        if (!t->group[g].choice[0])
            memmove(t->group[g].choice, t->group[g].choice + 1,
                    (size_t)--t->group[g].n_choices * sizeof(*t->group[g].choice));
    return 0;
}

/* ---- constants of a removed branch ----------------------------------------------------------- */

static int count_readers(const struct pare_graph *g, const struct pare_value *v,
                         const struct pare_node **one)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_cap; k++)
            if (v == (k < g->node[i]->n_in ? g->node[i]->in[k]
                                           : g->node[i]->cap[k - g->node[i]->n_in])) {
                *one = g->node[i];
                n++;
            }
    for (int i = 0; i < g->n_out; i++)
        n += 2 * (g->out[i] == v);
    return n;
}

/* Are all channels that the node reads in groups without channels? */
static bool reads_nothing(const struct pare_cost_units *u, const struct pare_node *n,
                          const int64_t *count)
{
    struct pare_linear l = { 0 };
    const struct pare_value *x;

    if (!n->op || !n->op->linear || !n->op->linear(n, &l) || !n->in[l.x] || l.x_axis < 0 ||
        l.x_axis >= n->in[l.x]->t.rank)
        return false;
    x = n->in[l.x];
    for (int64_t i = 0; i < x->t.dim[l.x_axis]; i++) {
        int64_t unit = pare_removal_unit(u->units, x, l.x_axis, i);

        if (unit < 0 || u->group[unit] < 0 || count[u->group[unit]] > 0)
            return false;
    }
    return x->t.dim[l.x_axis] > 0;
}

/* Zero the constants of one node, except for matrices: zero times them is zero. */
static int zero_constants(struct pare_model *m, const struct pare_node *n, struct pare_err *err)
{
    for (int k = 0; k < n->n_in; k++) {
        struct pare_value *v = n->in[k] ? pare_map_get(&m->graph->names, n->in[k]->name) : NULL;
        const struct pare_node *one;

        if (!v || !(v->flags & PARE_V_CONST) || v->maker || v->t.dtype != PARE_F32 ||
            v->t.rank != 1 || count_readers(m->graph, v, &one) != 1)
            continue;
        PARE_TRY(pare_model_own(m, v, err));
        memset(v->t.data, 0, (size_t)v->t.dim[0] * sizeof(float));
    }
    return 0;
}

static int computed_inputs(const struct pare_node *n)
{
    int sum = 0;

    for (int k = 0; k < n->n_in; k++)
        sum += n->in[k] && !(n->in[k]->flags & PARE_V_CONST);
    return sum;
}

int pare_cost_zero_branches(struct pare_model *m, const struct pare_cost_units *u,
                            const int64_t *count, struct pare_err *err)
{
    for (int i = 0; i < u->g->n_nodes; i++) {
        const struct pare_node *n = u->g->node[i];

        if (!reads_nothing(u, n, count))
            continue;
        do { /* from the layer to the node that adds the shortcut */
            const struct pare_value *y = n->out[0];

            PARE_TRY(zero_constants(m, n, err));
            if (!y || count_readers(u->g, y, &n) != 1)
                break;
        } while (n->op && !n->op->linear && computed_inputs(n) == 1);
    }
    return 0;
}
