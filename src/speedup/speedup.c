/* speedup.c - a smaller model from one with channels of zeros. */
#include "speedup.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/sized.h"

#define MOST_TURNS 64

/* ---- the graph ------------------------------------------------------------------------------- */

/* A clone with all shapes.  What the model leaves free becomes 1, or more of it. */
static int infer(struct pare_speedup *s, int64_t batch, int64_t other, struct pare_graph **out,
                 struct pare_err *err)
{
    struct pare_graph *g = *out = pare_graph_clone(s->arena, s->from->graph, err);

    if (!g)
        return err->code;
    PARE_TRY(pare_graph_unshare(g, NULL, 0, err));
    for (int i = 0; i < g->n_in; i++) {
        struct pare_tensor *t = &g->in[i]->t;

        for (int k = 0; k < t->rank; k++)
            if (t->dim[k] < 0) {
                t->dim[k] = s->opts->in ? s->opts->in[i].dim[k] : 1;
                t->dim[k] *= k ? other : batch;
            }
        if (t->rank < 0 && s->opts->in)
            *t = s->opts->in[i];
        t->data = NULL;
    }
    return pare_graph_infer(g, true, err);
}

static bool is_free(const struct pare_speedup *s)
{
    for (int i = 0; i < s->from->graph->n_in; i++)
        for (int k = 0; k < s->from->graph->in[i]->t.rank; k++)
            if (s->from->graph->in[i]->t.dim[k] < 0)
                return true;
    return false;
}

static bool all_known(const struct pare_graph *g, const struct pare_graph *as)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->t.dtype == PARE_NONE && as->value[i]->t.dtype != PARE_NONE)
            return false;
    return true;
}

/* Once more with other sizes, to see what follows them: all of them, or only the batch. */
static int infer_more(struct pare_speedup *s, struct pare_err *err)
{
    for (int64_t other = 2; is_free(s) && other >= 1 && !s->more; other--) {
        struct pare_err ignored;

        if (infer(s, 2, other, &s->more, &ignored) || !all_known(s->more, s->g))
            s->more = NULL;
    }
    (void)err;
    return 0;
}

/* ---- who is there -------------------------------------------------------------------------- */

static bool is_const(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && !(n->out[k]->flags & PARE_V_CONST))
            return false;
    return true;
}

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v && v->id < g->n_values && g->value[v->id] == v;
}

static int find_live(struct pare_speedup *s, struct pare_err *err)
{
    const struct pare_graph *g = s->g;

    s->live = pare_alloc(s->arena, (size_t)g->n_nodes + 1, sizeof(*s->live));
    s->uses = pare_alloc(s->arena, (size_t)g->n_values + 1, sizeof(*s->uses));
    s->gone = pare_alloc(s->arena, (size_t)g->n_nodes + 1, sizeof(*s->gone));
    if (!s->live || !s->uses || !s->gone)
        return pare_no_memory(err, "to make the model smaller");
    for (int i = 0; i < g->n_out; i++)
        if (is_own(g, g->out[i]))
            s->uses[g->out[i]->id]++;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = g->node[i];
        bool needed = false;

        for (int k = 0; k < n->n_out; k++)
            needed |= n->out[k] && s->uses[n->out[k]->id];
        for (int k = 0; needed && k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (is_own(g, v))
                s->uses[v->id]++;
        }
        s->live[i] = needed && !is_const(n);
    }
    return 0;
}

/* Weights that are not aligned in the file are copied out of it: all that are looked at. */
static int load_weights(struct pare_speedup *s, struct pare_err *err)
{
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int k = 0; s->live[i] && k < s->g->node[i]->n_in; k++) {
            struct pare_value *v = s->g->node[i]->in[k];

            if (v && v->flags & PARE_V_CONST && v->raw && !v->t.data)
                PARE_TRY(pare_value_load(s->arena, v, err));
        }
    return 0;
}

static int list_ties(struct pare_speedup *s, struct pare_err *err)
{
    const struct pare_ties *t = pare_keep_sets_ties(s->kept);
    int at = 0;

    s->first_tie = pare_alloc(s->arena, (size_t)s->g->n_nodes + 2, sizeof(int));
    if (!s->first_tie)
        return pare_no_memory(err, "to make the model smaller");
    for (int i = 0; i <= s->g->n_nodes; i++) {
        while (at < t->n && t->tie[at].node->id < i)
            at++;
        s->first_tie[i] = at;
    }
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int prepare(struct pare_speedup *s, struct pare_err *err)
{
    PARE_TRY(infer(s, 1, 1, &s->g, err));
    PARE_TRY(infer_more(s, err));
    PARE_TRY(find_live(s, err));
    PARE_TRY(load_weights(s, err));
    return pare_speedup_widen(s, err);
}

/* What is one number where.  Every cut takes an input that is computed from a node, so there is
 * an end. */
static int look(struct pare_speedup *s, struct pare_err *err)
{
    bool again = true;

    while (again) {
        PARE_TRY(find_live(s, err));
        PARE_TRY(pare_keep_sets_new(s->arena, s->g, &s->kept, err));
        PARE_TRY(list_ties(s, err));
        PARE_TRY(pare_speedup_constants(s, err));
        PARE_TRY(pare_speedup_cut(s, &again, err));
    }
    return 0;
}

/* Every turn at least one more node is stuck, or there is a model. */
static int work(struct pare_speedup *s, struct pare_model **out, struct pare_err *err)
{
    PARE_TRY(prepare(s, err));
    for (int i = 0; i < MOST_TURNS && !*out; i++) {
        PARE_TRY(look(s, err));
        PARE_TRY(pare_speedup_needs(s, err));
        PARE_TRY(pare_speedup_shrink(s, out, err));
    }
    if (*out)
        return 0;
    return pare_fail(err, PARE_EUNSUPPORTED,
                     "%d nodes cannot be said with fewer channels, such as '%s': %s", MOST_TURNS,
                     s->g->node[s->stuck->node]->name, s->stuck->why);
}

int pare_speedup(const struct pare_model *masked, const struct pare_speedup_opts *opts,
                 struct pare_arena *a, struct pare_model **smaller, struct pare_speedup_report *r,
                 struct pare_err *err)
{
    struct pare_speedup_opts o;
    struct pare_speedup s = { .from = masked, .opts = &o };
    int rc;

    memset(r, 0, sizeof(*r));
    *smaller = NULL;
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    if (o.in && o.n_in != masked->n_in)
        return pare_fail(err, PARE_ECONFIG, "the shapes of %d inputs are given, the model has %d",
                         o.n_in, masked->n_in);
    s.arena = pare_arena_new(1 << 16);
    if (!s.arena)
        return pare_no_memory(err, "to make the model smaller");
    rc = work(&s, smaller, err);
    if (!rc)
        rc = pare_speedup_tell(&s, *smaller, a, r, err);
    pare_arena_free(s.arena);
    if (!rc && !s.opts->unverified)
        rc = pare_speedup_verify(masked, *smaller, s.opts, r, err);
    if (rc) {
        pare_model_free(*smaller);
        *smaller = NULL;
    } else {
        pare_model_borrow(*smaller, masked);
    }
    return rc;
}
