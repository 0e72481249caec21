/* microbatch_rule.c - the size of micro-batches without tuning.
 *
 * Every micro-batch reads all weights again, which favors few and large ones; the activations of
 * concurrent micro-batches must fit in the cache, which favors small ones.  With several threads,
 * each runs micro-batches of its own instead of waiting for the others after each layer.  The cost
 * is the number of bytes that come from memory, for a batch of B items in micro-batches of b on n
 * threads:
 *
 *     B / b * weights  +  B * activations * (1 - room / (n b alive)), where that is positive,
 *
 * with the most bytes that one item has alive and the bytes that it produces in all.  Weights that
 * stay in the cache cost less.
 */
#include "microbatch.h"

#include "../../base/cpu_cache.h"

#define ROOM 0.75       /* part of the cache for activations */
#define CACHED 0.3      /* cost of weights from the cache, relative to memory */
#define UNEVEN 1.15     /* the most that idle threads may prolong a run */
#define LEAST_MACS 1e7  /* of a batch; smaller ones are done before */
#define LEAST_BYTES 1e6 /* other threads have started */

#define MANY 64 /* inputs of a node that are searched for duplicates */

/* Bytes of the weights; bytes and MACs of one item. */
struct sizes {
    double weights, alive, made, macs;
};

static double bytes_of(const struct pare_value *v)
{
    struct pare_err err;
    size_t bytes;

    if (v->t.dtype == PARE_NONE || v->t.rank < 0 || pare_tensor_size(&v->t, NULL, &bytes, &err))
        return 0;
    return (double)bytes;
}

/* Memory of a graph's values, by value id. */
struct places {
    int *root; /* the value whose memory it uses */
    int *last; /* of a root: the last node that reads it; -1: none */
};

/* Elementwise results overwrite their input or need no memory at all, since a chain of them is one
 * step with the node before it.  Of two inputs, the first that is not read later. */
static int place_of(const struct places *l, const struct pare_node *n)
{
    double bytes = bytes_of(n->out[0]);
    bool pair = n->op && n->op->map2;

    for (int i = 0; i < n->n_in && n->op && (n->n_out == 1 || !n->out[1]); i++) {
        const struct pare_value *v = n->in[i];
        bool only = n->op->map || n->op->flags & PARE_OP_VIEW || (i == 0 && !n->op->macs);

        for (int k = 1; k < n->n_in && only && !pair; k++)
            only = !n->in[k] || pare_is_fixed(n->in[k]);
        if (v && !pare_is_fixed(v) && bytes_of(v) >= bytes && bytes_of(v) <= bytes &&
            (pair ? l->last[l->root[v->id]] <= n->id : only))
            return l->root[v->id];
    }
    return n->out[0]->id;
}

static void note_last(struct places *l, const struct pare_node *n, int at)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && l->last[l->root[n->in[k]->id]] < at)
            l->last[l->root[n->in[k]->id]] = at;
}

/* In two passes: the last reader of a root is known only after the first. */
static bool find_places(const struct pare_graph *g, struct pare_arena *a, struct places *l)
{
    l->root = pare_alloc(a, (size_t)g->n_values, sizeof(*l->root));
    l->last = pare_alloc(a, (size_t)g->n_values, sizeof(*l->last));
    if (!l->root || !l->last)
        return false;
    for (int i = 0; i < g->n_values; i++) {
        l->root[i] = i;
        l->last[i] = g->value[i]->flags & PARE_V_OUTPUT ? g->n_nodes : -1;
    }
    for (int i = 0; i < g->n_nodes; i++)
        note_last(l, g->node[i], i);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];
        int root = n->n_out && n->out[0] ? place_of(l, n) : -1;

        if (root >= 0 && root != n->out[0]->id) {
            l->root[n->out[0]->id] = root;
            if (l->last[n->out[0]->id] > l->last[root])
                l->last[root] = l->last[n->out[0]->id];
        }
    }
    return true;
}

static void count_node(const struct places *l, const struct pare_node *n, double *now,
                       struct sizes *s)
{
    double made = 0;

    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && !pare_is_fixed(n->out[k]) && l->root[n->out[k]->id] == n->out[k]->id)
            made += bytes_of(n->out[k]);
    if (n->op && n->op->macs && made > 0)
        s->macs += n->op->macs(n);
    s->made += made;
    *now += made;
    s->alive = *now > s->alive ? *now : s->alive;
}

/* Subtract what no later node reads. */
static void free_inputs(const struct places *l, const struct pare_graph *g,
                        const struct pare_node *n, double *now)
{
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k] ? g->value[l->root[n->in[k]->id]] : NULL;
        bool gone = v && !pare_is_fixed(v) && l->last[v->id] == n->id;

        for (int j = k > MANY ? k - MANY : 0; j < k && gone; j++)
            gone = !n->in[j] || l->root[n->in[j]->id] != v->id;
        *now -= gone ? bytes_of(v) : 0;
    }
}

static bool measure(const struct pare_plan *p, struct sizes *s)
{
    const struct pare_graph *g = p->graph;
    struct pare_mark m = pare_mark(p->scratch);
    double now = 0, batch = (double)g->in[0]->t.dim[0];
    struct places l;
    bool ok = find_places(g, p->scratch, &l);

    *s = (struct sizes){ 0 };
    for (int i = 0; i < g->n_values && ok; i++)
        if (pare_is_fixed(g->value[i]) && l.last[i] >= 0)
            s->weights += bytes_of(g->value[i]);
    for (int i = 0; i < g->n_in && ok; i++)
        now += bytes_of(g->in[i]);
    s->alive = now;
    for (int i = 0; i < g->n_nodes && ok; i++) {
        count_node(&l, g->node[i], &now, s);
        free_inputs(&l, g, g->node[i], &now);
    }
    s->alive /= batch;
    s->made /= batch;
    pare_reset(p->scratch, m);
    return ok;
}

static double cost(const struct sizes *s, double batch, double items, double threads)
{
    double cache = (double)pare_cache_bytes(), room = ROOM * cache;
    double parts = batch / items, side = parts < threads ? parts : threads;
    double alive = side * items * s->alive;
    double weights = parts * s->weights * (s->weights > cache / 2 ? 1 : CACHED);

    return weights + (alive > room ? 2 * batch * s->made * (1 - room / alive) : 0);
}

/* Do all threads have about the same amount of work? */
static bool is_even(int64_t parts, int threads)
{
    int64_t turns = (parts + threads - 1) / threads;

    return parts >= threads && (double)(turns * threads) <= UNEVEN * (double)parts;
}

bool pare_microbatch_fits(const struct pare_plan *p, int64_t items)
{
    int64_t batch = p->graph->in[0]->t.dim[0];

    return items == batch || (batch % items == 0 && is_even(batch / items, p->backend.threads));
}

static bool is_small(const struct pare_plan *p, const struct sizes *s)
{
    return s->macs < LEAST_MACS && s->made * (double)p->graph->in[0]->t.dim[0] < LEAST_BYTES;
}

bool pare_microbatch_pays(const struct pare_plan *p)
{
    struct sizes s;

    return measure(p, &s) && !is_small(p, &s);
}

/* With several threads, each gets micro-batches of its own where the batch allows. */
int64_t pare_microbatch_rule(const struct pare_plan *p)
{
    int64_t batch = p->graph->in[0]->t.dim[0], best = batch;
    int threads = p->backend.threads;
    double least = 0;
    struct sizes s;

    if (!measure(p, &s) || is_small(p, &s))
        return batch;
    for (int64_t items = threads > 1 ? batch / 2 : batch; items > 0; items--) {
        double c = pare_microbatch_fits(p, items) ? cost(&s, (double)batch, (double)items, threads)
                                                  : 0;

        if (c > 0 && (least <= 0 || c < least)) {
            least = c;
            best = items;
        }
    }
    return best;
}
