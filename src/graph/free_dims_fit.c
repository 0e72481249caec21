/* free_dims_fit.c - sizes of free dimensions that weights fix: channels, tables of positions. */
#include "free_dims_search.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../op/op.h"
#include "../tensor/tensor.h"

#define LARGEST_FIT (1 << 15) /* size of a free dimension that a weight fixes */
#define ROUNDS 8              /* nodes whose inputs are fitted to their weights */

static int count_unknown(const struct pare_graph *g)
{
    int n = 0;

    for (int i = 0; i < g->n_values; i++)
        n += g->value[i]->t.dtype == PARE_NONE;
    return n;
}

/* The first node that rejects its inputs, whose shapes are known.  NULL: there is none. */
static const struct pare_node *first_failed(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];
        struct pare_err why = { 0 };
        int rc = 0;
        bool ready = n->op && n->n_out && n->out[0] && n->out[0]->t.dtype == PARE_NONE;

        for (int k = 0; k < n->n_in; k++)
            ready &= !n->in[k] || n->in[k]->t.dtype != PARE_NONE;
        if (ready)
            rc = pare_node_infer(n, &why);
        if (ready && rc)
            for (int k = 0; k < n->n_out; k++)
                if (n->out[k])
                    n->out[k]->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
        if (rc && rc != PARE_EDYNAMIC)
            return n;
    }
    return NULL;
}

/* Sizes with which an axis of size `is` has size `should`, if it grows with dimension d, or with
 * the product of all dimensions (d < 0).  False: none are whole numbers. */
static bool scale_sizes(const struct pare_free_search *s, const int64_t *size, int d, int64_t is,
                        int64_t should, int64_t *now)
{
    const double root = sqrt((double)should / (double)is);
    bool any = false;

    memcpy(now, size, PARE_FREE_DIMS * sizeof(*now));
    for (int i = 0; i < s->n; i++) {
        if (s->dim[i].batch || s->dim[i].given >= 0 || (d >= 0 && i != d))
            continue;
        if (size[i] > LARGEST_FIT || should > LARGEST_FIT * is)
            return false;
        if (d >= 0 && size[i] * should % is)
            return false;
        now[i] = d >= 0 ? size[i] * should / is : llround((double)size[i] * root);
        any |= now[i] != size[i];
        if (now[i] < 1 || now[i] > LARGEST_FIT)
            return false;
    }
    return any;
}

/* Infer with these sizes; replace *out if fewer shapes are unknown. */
static int try_fit(const struct pare_free_search *s, const int64_t *now, struct pare_graph **out,
                   int64_t *size, bool *better, struct pare_err *err)
{
    struct pare_mark m = pare_mark(s->arena);
    struct pare_graph *g;
    int rc = pare_free_infer(s, now, &g, err);

    if (rc || count_unknown(g) >= count_unknown(*out)) {
        pare_reset(s->arena, m);
        return rc == PARE_ENOMEM ? rc : 0;
    }
    *out = g;
    *better = true;
    memcpy(size, now, PARE_FREE_DIMS * sizeof(*size));
    return 0;
}

/* Sizes with which the node accepts its inputs: axis i of input x gets the size of axis j of
 * input y, such as the channels of a weight or the length of a table of positions. */
static int fit_node(const struct pare_free_search *s, const struct pare_tensor *x,
                    const struct pare_tensor *y, struct pare_graph **out, int64_t *size,
                    bool *better, struct pare_err *err)
{
    int64_t now[PARE_FREE_DIMS];

    for (int i = 0; i < x->rank; i++)
        for (int j = 0; j < y->rank; j++)
            for (int d = -1; d < s->n && x->dim[i] > 0; d++) {
                if (x->dim[i] == y->dim[j] || y->dim[j] <= 1 ||
                    !scale_sizes(s, size, d, x->dim[i], y->dim[j], now))
                    continue;
                PARE_TRY(try_fit(s, now, out, size, better, err));
                if (*better)
                    return 0;
            }
    return 0;
}

/* A dimension may be declared free although a weight fixes its size. */
int pare_free_fit(const struct pare_free_search *s, struct pare_graph **out, int64_t *size,
                  struct pare_err *err)
{
    bool better = s->n > 0;

    for (int round = 0; round < ROUNDS && better && (*out)->failed; round++) {
        const struct pare_node *n = first_failed(*out);

        better = false;
        for (int k = 0; n && k < n->n_in && !better; k++)
            for (int w = 0; w < n->n_in && !better; w++)
                if (w != k && n->in[k] && n->in[w] && !(n->in[k]->flags & PARE_V_CONST))
                    PARE_TRY(fit_node(s, &n->in[k]->t, &n->in[w]->t, out, size, &better, err));
    }
    return 0;
}
