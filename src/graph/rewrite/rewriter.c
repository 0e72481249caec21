/* rewriter.c - run the rewrites on a graph until nothing changes; uses, readers and replacements of
 * values. */
#include <stdlib.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "../pattern/pattern.h"
#include "rewrite.h"

#define MOST_ROUNDS 12 /* each takes linear time */

#define REWRITE(name) extern const struct pare_rewrite pare_rewrite_##name;
#include "rewrites.def"
#undef REWRITE

const struct pare_rewrite *const pare_rewrites[] = {
#define REWRITE(name) &pare_rewrite_##name,
#include "rewrites.def"
#undef REWRITE
    NULL
};

#define N_REWRITES ((int)(sizeof(pare_rewrites) / sizeof(*pare_rewrites)) - 1)

static int no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "to rewrite the graph");
}

/* Values of graphs around a body belong to others. */
static bool is_own(const struct pare_rewriter *r, const struct pare_value *v)
{
    return v && v->id < r->g->n_values && r->g->value[v->id] == v;
}

/* ---- which rewrites run ---------------------------------------------------------------------- */

/* Does the text "-a,-b" or "none" switch the rewrite off? */
static bool text_names(const char *text, const char *name)
{
    size_t n = strlen(name);

    if (!strcmp(text, "none"))
        return true;
    for (const char *s = text; s && *s; s = strchr(s, ','), s += s != NULL)
        if (*s == '-' && !strncmp(s + 1, name, n) && (!s[n + 1] || s[n + 1] == ','))
            return true;
    return false;
}

static bool is_off(const struct pare_rewrite_opts *o, const struct pare_rewrite *w)
{
    const char *text = o->without ? NULL : getenv("PARE_REWRITES");

    if ((o->varying ? !w->any_shape : w->file_only) || (o->train && !w->trains) ||
        (!o->varying && w->late && !o->late))
        return true;
    for (const char *const *s = o->without; s && *s; s++)
        if (!strcmp(*s, w->name) || !strcmp(*s, "all") ||
            (w->any_shape && !strcmp(*s, "any_shape")))
            return true;
    return text && text_names(text, w->name);
}

/* ---- tables ---------------------------------------------------------------------------------- */

unsigned pare_rewrite_free_axes(const struct pare_rewriter *r, const struct pare_value *v)
{
    unsigned axes = r->opts->unknown_sizes && !(v->flags & PARE_V_CONST) ? ~0u : 0;

    for (int a = 0; r->files && a < v->t.rank; a++)
        if (pare_axis_is_free(r->g, v, a))
            axes |= 1u << a;
    return axes;
}

static void add_use(const struct pare_rewriter *r, const struct pare_value *v, struct pare_node *n)
{
    if (is_own(r, v)) {
        r->reader[v->id] = r->uses[v->id] ? NULL : n;
        r->uses[v->id]++;
    }
}

/* Count the uses of all values. */
static void count(const struct pare_rewriter *r)
{
    const struct pare_graph *g = r->g;

    for (int i = 0; i < g->n_values; i++) {
        r->uses[i] = 0;
        r->reader[i] = NULL;
        r->alias[i] = NULL;
        r->pinned[i] |= (g->value[i]->flags & PARE_V_OUTPUT) != 0;
    }
    for (int i = 0; i < g->n_out; i++)
        if (is_own(r, g->out[i]))
            r->pinned[g->out[i]->id] = true;
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in; k++)
            add_use(r, n->in[k], n);
        for (int k = 0; k < n->n_cap; k++)
            if (is_own(r, n->cap[k]))
                r->pinned[n->cap[k]->id] = true;
    }
}

/* ---- uses ------------------------------------------------------------------------------------ */

/* Does anything need a result of the node? */
static bool is_needed(const struct pare_rewriter *r, const struct pare_node *n)
{
    if (!n->op || n->op->flags & (PARE_OP_LEARNS | PARE_OP_OBSERVES) || n->n_cap)
        return true;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && (r->uses[n->out[k]->id] || r->pinned[n->out[k]->id]))
            return true;
    return false;
}

static struct pare_value *resolve(const struct pare_rewriter *r, struct pare_value *v)
{
    while (is_own(r, v) && r->alias[v->id])
        v = r->alias[v->id];
    return v;
}

static void discard(struct pare_rewriter *r, struct pare_node *n)
{
    n->replaced = true;
    if (r->n_release < r->cap_release)
        r->release[r->n_release++] = n;
}

static void drop_use(struct pare_rewriter *r, const struct pare_value *v)
{
    struct pare_node *maker = v->maker;

    if (!is_own(r, v) || --r->uses[v->id] > 0 || !maker || maker->replaced || is_needed(r, maker))
        return;
    discard(r, maker);
}

/* Nodes that became useless do not read their inputs any more. */
static void release_all(struct pare_rewriter *r)
{
    while (r->n_release) {
        const struct pare_node *n = r->release[--r->n_release];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k])
                drop_use(r, resolve(r, n->in[k]));
    }
}

static void resolve_inputs(const struct pare_rewriter *r, const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        n->in[k] = resolve(r, n->in[k]);
}

void pare_rewrite_input(struct pare_rewriter *r, struct pare_node *n, int k, struct pare_value *v)
{
    struct pare_value *old = resolve(r, n->in[k]);

    v = resolve(r, v);
    if (v)
        add_use(r, v, n);
    n->in[k] = v;
    if (old) {
        drop_use(r, old);
        release_all(r);
    }
    r->changes++;
}

struct pare_node *pare_rewrite_reader(struct pare_rewriter *r, const struct pare_value *v)
{
    struct pare_node *n = is_own(r, v) && r->uses[v->id] == 1 && !r->pinned[v->id]
                              ? r->reader[v->id]
                              : NULL;

    if (n)
        resolve_inputs(r, n);
    return n;
}

/* Let the maker of `to` make `from` instead, whose own maker has no other result that is needed. */
static bool take_over(struct pare_rewriter *r, struct pare_value *from, struct pare_value *to)
{
    struct pare_node *maker = to->maker, *old = from->maker;

    if (!is_own(r, to) || !maker || maker->replaced || to->flags & (PARE_V_CONST | PARE_V_INPUT) ||
        r->pinned[to->id])
        return false;
    for (int k = 0; k < old->n_out; k++)
        if (old->out[k] && old->out[k] != from &&
            (r->uses[old->out[k]->id] || r->pinned[old->out[k]->id]))
            return false;
    discard(r, old);
    for (int k = 0; k < maker->n_out; k++)
        if (maker->out[k] == to)
            maker->out[k] = from;
    from->maker = maker;
    r->alias[to->id] = from;
    r->uses[from->id] += r->uses[to->id];
    r->uses[to->id] = 0;
    r->reader[from->id] = NULL;
    return true;
}

bool pare_rewrite_replace(struct pare_rewriter *r, struct pare_value *from, struct pare_value *to)
{
    struct pare_node *maker = from->maker;
    struct pare_node *reader = r->uses[from->id] == 1 ? r->reader[from->id] : NULL;
    int moved = r->uses[from->id];

    to = resolve(r, to);
    if (to == from || (r->pinned[from->id] && !take_over(r, from, to)))
        return false;
    r->changes++;
    if (!r->pinned[from->id]) {
        r->alias[from->id] = to;
        r->uses[from->id] = 0;
        if (is_own(r, to)) {
            r->reader[to->id] = r->uses[to->id] ? NULL : reader;
            r->uses[to->id] += moved;
        }
    }
    if (!maker->replaced && !is_needed(r, maker))
        discard(r, maker);
    release_all(r);
    return true;
}

void pare_rewrite_absorb(struct pare_rewriter *r, struct pare_node *m, struct pare_node *n)
{
    struct pare_value *between = m->out[0], *y = n->out[0];

    between->maker = NULL;
    m->out[0] = y;
    y->maker = m;
    r->changes++;
    discard(r, n);
    release_all(r);
}

void pare_rewrite_drop_unused(struct pare_rewriter *r, const struct pare_op *op)
{
    count(r);
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct pare_node *n = r->g->node[i];

        if (n->op == op && !n->replaced && !is_needed(r, n)) {
            discard(r, n);
            release_all(r);
        }
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool is_known(const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && (n->in[k]->t.dtype == PARE_NONE || !pare_is_tensor(&n->in[k]->t)))
            return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && (n->out[k]->t.dtype == PARE_NONE || !pare_is_tensor(&n->out[k]->t)))
            return false;
    return true;
}

/* Results that are constants need no change: no step computes them. */
static bool is_folded(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && !(n->out[k]->flags & PARE_V_CONST))
            return false;
    return true;
}

/* Offer all nodes to the rewrites that are not off. */
static int walk(struct pare_rewriter *r, const bool *off, int *counts, struct pare_err *err)
{
    const int n_nodes = r->g->n_nodes;

    for (int i = 0; i < n_nodes; i++) {
        struct pare_node *n = r->g->node[i];

        if (!n->replaced)
            resolve_inputs(r, n);
        if (!n->op || is_folded(n))
            continue;
        for (int k = 0; k < N_REWRITES && !n->replaced; k++) {
            const struct pare_rewrite *w = pare_rewrites[k];

            if (off[k] || !w->node || !(w->shapeless || is_known(n)))
                continue;
            r->changes = 0;
            PARE_TRY(w->node(r, n, err));
            counts[k] += r->changes;
        }
    }
    return 0;
}

/* Remove what was replaced, and sort. */
static int tidy(struct pare_rewriter *r, struct pare_err *err)
{
    for (int i = 0; i < r->g->n_nodes; i++)
        resolve_inputs(r, r->g->node[i]);
    pare_graph_drop_replaced(r->g);
    if (r->added)
        PARE_TRY(pare_graph_order(r->g, err));
    r->added = false;
    return 0;
}

static int start_round(struct pare_rewriter *r, struct pare_err *err)
{
    const int had = r->known;

    PARE_TRY(pare_rewrite_grow(r, err));
    for (; r->known < r->g->n_values; r->known++)
        if (!had)
            r->free_axes[r->known] = pare_rewrite_free_axes(r, r->g->value[r->known]);
    for (int i = 0; i < r->g->n_nodes && !r->version; i++)
        r->version = r->g->node[i]->op && !r->g->node[i]->op->domain ? r->g->node[i]->version : 0;
    r->cap_release = r->g->n_nodes * 2 + 64;
    r->release = pare_alloc(r->scratch, (size_t)r->cap_release, sizeof(struct pare_node *));
    if (!r->release)
        return no_memory(err);
    r->n_release = 0;
    count(r);
    return 0;
}

static int total(const int *counts)
{
    int sum = 0;

    for (int k = 0; k < N_REWRITES; k++)
        sum += counts[k];
    return sum;
}

static int run_round(struct pare_rewriter *r, const bool *off, int *counts, struct pare_err *err)
{
    PARE_TRY(start_round(r, err));
    PARE_TRY(walk(r, off, counts, err));
    PARE_TRY(tidy(r, err));
    for (int k = 0; k < N_REWRITES; k++) {
        if (off[k] || !pare_rewrites[k]->graph)
            continue;
        PARE_TRY(start_round(r, err));
        r->changes = 0;
        PARE_TRY(pare_rewrites[k]->graph(r, err));
        counts[k] += r->changes;
        if (r->changes)
            PARE_TRY(tidy(r, err));
    }
    return 0;
}

int pare_graph_rewrite(struct pare_graph *g, const struct pare_rewrite_opts *opts, int *counts,
                       struct pare_err *err)
{
    struct pare_rewriter r = { .g = g, .opts = opts, .files = opts->varying != NULL };
    int own[N_REWRITES] = { 0 }, before = -1, rc = 0;
    bool off[N_REWRITES], any = false;

    for (int k = 0; k < N_REWRITES; k++) {
        off[k] = is_off(opts, pare_rewrites[k]);
        any |= !off[k];
    }
    r.scratch = any ? pare_arena_new(1 << 16) : NULL;
    if (any && !r.scratch)
        return no_memory(err);
    for (int i = 0; any && i < MOST_ROUNDS && !rc && total(own) != before; i++) {
        before = total(own);
        rc = run_round(&r, off, own, err);
    }
    for (int k = 0; counts && k < N_REWRITES; k++)
        counts[k] = own[k];
    pare_arena_free(r.scratch);
    return rc;
}
