/* speedup.c - pare_speedup(): build a smaller model from one with zeroed channels. */
#include "speedup.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/sized.h"
#include "../graph/pattern/pattern.h"

#define MIN_ROUNDS 64
#define SIZES 5 /* that are tried if a model does not run with those that inference accepts */
#define MOST_ELEMENTS ((double)(1 << 25)) /* of all inputs, in attempts with larger sizes */

/* ---- graphs with shapes ---------------------------------------------------------------------- */

/* The model's graph with shapes, and the clone to analyze.  Integers that follow a free dimension
 * are constants of it: what is written into the model is checked (shrink_attrs.c). */
static int infer(struct pare_speedup *s, struct pare_err *err)
{
    const struct pare_size_arenas a = { s->graphs, s->others, s->arena, s->arena };
    const struct pare_io *io;
    struct pare_all_sizes all;

    pare_model_inputs(s->from, &io);
    PARE_TRY(pare_graph_all_sizes_in(&a, s->from->graph, io, s->opts->in, &all, err));
    s->before = all.first;
    s->g = all.g;
    s->varying = all.varying;
    return pare_graph_canonical_axes(s->g, err);
}

/* ---- live nodes ------------------------------------------------------------------------------ */

static bool is_constant(const struct pare_node *n)
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
    s->removed = pare_alloc(s->arena, (size_t)g->n_nodes + 1, sizeof(*s->removed));
    if (!s->live || !s->uses || !s->removed)
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
        s->live[i] = needed && !is_constant(n);
    }
    return 0;
}

/* Copy constants of live nodes that are not aligned in the file. */
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

/* ---- all steps ------------------------------------------------------------------------------- */

static int prepare(struct pare_speedup *s, struct pare_err *err)
{
    PARE_TRY(infer(s, err));
    PARE_TRY(pare_graph_unshare(s->g, NULL, 0, err));
    PARE_TRY(find_live(s, err));
    PARE_TRY(load_weights(s, err));
    return pare_speedup_widen(s, err);
}

/* Find constant channels until no constant branch is left.  It ends because every cut removes a
 * computed input. */
static int analyze(struct pare_speedup *s, struct pare_err *err)
{
    bool again = true;

    while (again) {
        PARE_TRY(find_live(s, err));
        PARE_TRY(pare_keep_sets_new(s->arena, s->g, &s->kept, err));
        PARE_TRY(list_ties(s, err));
        PARE_TRY(pare_speedup_find_constants(s, err));
        PARE_TRY(pare_speedup_cut_branches(s, &again, err));
    }
    return 0;
}

/* Each round finds at least one more unshrinkable node or shape to store, or builds the model. */
static int work(struct pare_speedup *s, struct pare_model **out, struct pare_err *err)
{
    int rounds;

    PARE_TRY(prepare(s, err));
    rounds = s->g->n_nodes > MIN_ROUNDS ? s->g->n_nodes : MIN_ROUNDS;
    for (int i = 0; i < rounds && !*out; i++) {
        PARE_TRY(analyze(s, err));
        PARE_TRY(pare_speedup_find_needed(s, err));
        PARE_TRY(pare_speedup_shrink(s, out, err));
    }
    if (*out)
        return 0;
    return pare_fail(err, PARE_EUNSUPPORTED, "%d nodes cannot be shrunk, for example '%s': %s",
                     rounds, s->g->node[s->unshrinkable->node]->name, s->unshrinkable->why);
}

/* Free the graphs for other sizes, whose constants may be larger than the weights. */
static void drop_others(struct pare_speedup *s)
{
    struct pare_graph *const kept[2] = { s->before, s->after };

    for (int i = 0; i < 2; i++)
        if (kept[i])
            memset(kept[i]->other, 0, sizeof(kept[i]->other));
    pare_arena_free(s->others);
    s->others = NULL;
}

/* Make the smaller model and the report, or infer the shapes of the one to compare with. */
static int make(struct pare_speedup *s, struct pare_arena *a, struct pare_model **smaller,
                struct pare_speedup_report *r, struct pare_err *err)
{
    if (s->rewritten) {
        PARE_TRY(infer(s, err));
        return pare_speedup_infer_after(s, s->rewritten, err);
    }
    PARE_TRY(work(s, smaller, err));
    PARE_TRY(pare_speedup_bodies(s, a, smaller, err));
    return pare_speedup_fill_report(s, a, r, err);
}

/* Shrink and verify with the input shapes of the options. */
static int attempt(struct pare_speedup *s, struct pare_arena *a, struct pare_model **smaller,
                   struct pare_speedup_report *r, struct pare_err *err)
{
    int rc;

    memset(r, 0, sizeof(*r));
    *smaller = NULL;
    s->arena = pare_arena_new(1 << 16);
    s->graphs = pare_arena_new(1 << 16);
    s->others = pare_arena_new(1 << 16);
    rc = s->arena && s->graphs && s->others ? make(s, a, smaller, r, err)
                                            : pare_no_memory(err, "to make the model smaller");
    if (!rc && !s->opts->unverified)
        rc = pare_speedup_second(s, s->rewritten ? s->rewritten : *smaller, err);
    pare_arena_free(s->arena);
    s->arena = NULL;
    pare_model_release_all(s->from); /* the analysis read all weights, plans read few of them */
    if (!rc && !s->opts->unverified)
        rc = pare_speedup_verify(s, s->rewritten ? s->rewritten : *smaller, a, r, err);
    drop_others(s);
    if (rc) {
        pare_arena_free(s->graphs);
        pare_model_free(*smaller);
        *smaller = NULL;
    }
    return rc;
}

/* Are these inputs so large that a run would take minutes? */
static bool is_large(const struct pare_tensor *in, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) {
        double elements = 1;

        for (int k = 0; k < in[i].rank; k++)
            elements *= in[i].dim[k] < 0 ? 1 : (double)in[i].dim[k];
        sum += elements;
    }
    return sum > MOST_ELEMENTS;
}

/* Windows in the bodies of If and Loop may be larger than the inputs, which only a run tells. */
static int attempt_larger(struct pare_speedup *s, struct pare_speedup_opts *o, struct pare_arena *a,
                          struct pare_model **smaller, struct pare_speedup_report *r,
                          struct pare_err *err)
{
    static const int64_t size[SIZES] = { 256, 512, 576, 1024, 16000 };
    const struct pare_model *masked = s->from;
    const struct pare_tensor *given = o->in;
    struct pare_err first = *err;
    const struct pare_io *io;
    int rc = PARE_ESHAPE;

    o->n_in = pare_model_inputs(masked, &io);
    for (int i = 0; i < 2 * SIZES && rc == PARE_ESHAPE; i++) {
        struct pare_tensor *in;
        bool any;

        PARE_TRY(pare_graph_free_sizes(a, masked->graph, io, given, size[i % SIZES], i >= SIZES,
                                       &in, &any, err));
        if (!any)
            break;
        if (is_large(in, o->n_in))
            continue;
        o->in = in;
        *s = (struct pare_speedup){ .from = masked, .opts = o, .rewritten = s->rewritten };
        rc = attempt(s, a, smaller, r, err);
        if (rc == PARE_ESHAPE && !s->too_small)
            return rc;
    }
    if (rc == PARE_ESHAPE)
        *err = first;
    return rc;
}

int pare_speedup_run(const struct pare_model *masked, const struct pare_speedup_opts *opts,
                     struct pare_arena *a, struct pare_model **smaller,
                     struct pare_speedup_report *r, struct pare_speedup_graphs *graphs,
                     struct pare_err *err)
{
    struct pare_speedup_opts o;
    struct pare_speedup s = { .from = masked, .opts = &o };
    int rc;

    memset(r, 0, sizeof(*r));
    *smaller = NULL;
    *graphs = (struct pare_speedup_graphs){ NULL, NULL, NULL };
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    if ((o.in || o.n_more) && o.n_in != masked->n_in)
        return pare_fail(err, PARE_ECONFIG, "the shapes of %d inputs are given, the model has %d",
                         o.n_in, masked->n_in);
    rc = attempt(&s, a, smaller, r, err);
    if (rc == PARE_ESHAPE && s.too_small && !o.feed)
        rc = attempt_larger(&s, &o, a, smaller, r, err);
    if (!rc)
        *graphs = (struct pare_speedup_graphs){ s.graphs, s.before, s.after };
    return rc;
}

int pare_speedup(const struct pare_model *masked, const struct pare_speedup_opts *opts,
                 struct pare_arena *a, struct pare_model **smaller, struct pare_speedup_report *r,
                 struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_speedup_graphs graphs;
    int rc = pare_speedup_run(masked, opts, a, smaller, r, &graphs, err);

    pare_arena_free(graphs.arena);
    return rc;
}

int pare_verify_rewritten(const struct pare_model *m, const struct pare_model *rewritten,
                          const struct pare_speedup_opts *opts, struct pare_arena *a,
                          struct pare_speedup_report *r, struct pare_err *err)
{
    struct pare_speedup_opts o = *opts;
    struct pare_speedup s = { .from = m, .opts = &o, .rewritten = rewritten };
    struct pare_model *none;
    int rc = attempt(&s, a, &none, r, err);

    if (rc == PARE_ESHAPE && s.too_small)
        rc = attempt_larger(&s, &o, a, &none, r, err);
    if (!rc)
        pare_arena_free(s.graphs);
    return rc;
}
