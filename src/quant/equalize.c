/* equalize.c - cross-layer equalization: rescale channels so that consecutive layers have equal
 * weight ranges.
 *
 * Where only f(a x) = a f(x), a > 0, lies between two layers, output channel i of the first may be
 * divided by any s_i > 0 when the second multiplies it back.  With
 *     s_i = sqrt(r1_i r2_i) / r2_i,    r1_i, r2_i the largest weights of channel i in both layers,
 * both have the range sqrt(r1_i r2_i): no channel wastes the range of a per-tensor scale (Nagel et
 * al. 2019).  A layer may be the first of one pair and the second of another, so this is repeated
 * until it converges.
 */
#include "equalize.h"

#include <math.h>
#include <string.h>
#include "../base/arena.h"
#include "../compress/wrap.h"

#define ROUNDS 50
#define SETTLED 1e-3 /* converged: no s differs from 1 by more */

struct pair {
    struct pare_tensor w1, b1, w2; /* the model's own memory; b1.data NULL: no bias */
    struct pare_linear l1, l2;
    int64_t n;     /* channels */
    int64_t inner; /* consecutive inputs of the second layer per channel, more than 1 after a
                    * Flatten */
};

struct scan {
    struct pare_model *m;
    struct pare_arena *a;
    struct pare_graph *g; /* a copy with shapes */
    struct pare_layer_info *layer;
    int n_layers;
    struct pair *pair;
    int n_pairs;
};

/* ---- finding pairs --------------------------------------------------------------------------- */

/* The node that reads v as its first input, if it is v's only consumer; else NULL. */
static struct pare_node *only_consumer(const struct scan *s, const struct pare_value *v)
{
    struct pare_node *n = pare_graph_only_consumer(s->g, v);

    return n && n->n_in && n->in[0] == v ? n : NULL;
}

/* If the only consumer of v commutes with positive scaling of channels, returns its output, else
 * NULL.  axis and inner tell where the channels are. */
static const struct pare_value *
scale_equivariant_next(const struct scan *s, const struct pare_value *v, int axis, int64_t *inner)
{
    const struct pare_node *n = only_consumer(s, v);
    const struct pare_value *to = n && n->n_out ? n->out[0] : NULL;

    if (!to || !n->op)
        return NULL;
    if (n->op->flags & PARE_OP_HOMOGENEOUS && (!(n->op->flags & PARE_OP_POOL) || axis == 1))
        return to;
    if (!(n->op->flags & PARE_OP_VIEW) || axis != 1 || v->t.rank < 2 || to->t.rank != 2 ||
        to->t.dim[0] != v->t.dim[0] || *inner != 1 || v->t.dim[1] < 1)
        return NULL;
    *inner = to->t.dim[1] / v->t.dim[1];
    return to;
}

static bool is_weight(const struct scan *s, const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 &&
           pare_graph_only_consumer(s->g, v);
}

/* Is this a layer that sums over channels with an unshared weight?  Only Conv may have groups. */
static bool is_linear(const struct scan *s, const struct pare_layer_info *i, struct pare_linear *l)
{
    const struct pare_node *n = i->node;

    return n->op && n->op->linear && n->op->linear(n, l) && l->outer == 1 && l->x_axis >= 0 &&
           l->w >= 0 && l->w < n->n_in && is_weight(s, n->in[l->w]) &&
           (l->groups == 1 || (l->w_out == 0 && l->w_in == 1));
}

/* Number of output channels; -1: the bias cannot be scaled with them. */
static int64_t scalable_channels(const struct scan *s, const struct pare_layer_info *i,
                                 const struct pare_linear *l)
{
    const struct pare_value *w = i->node->in[l->w];
    int64_t n = w->t.dim[l->w_out];

    if (l->after || l->adds || n < 1) /* a fused activation or sum would have to be scaled, too */
        return -1;
    if (i->node->n_in > 2 && i->node->in[2] && !i->bias)
        return -1;
    return !i->bias || (is_weight(s, i->bias) && pare_numel(&i->bias->t) == n) ? n : -1;
}

static int own_weight(struct scan *s, const struct pare_value *of, struct pare_tensor *t,
                      struct pare_err *err)
{
    struct pare_value *v = pare_graph_find(s->m->graph, of->name);

    if (!v)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is not an initializer of the main graph",
                         of->name);
    PARE_TRY(pare_model_own_scratch(s->m, v, err));
    *t = v->t;
    return 0;
}

static int add_pair(struct scan *s, const struct pare_layer_info *i,
                    const struct pare_layer_info *k, const struct pair *found, struct pare_err *err)
{
    struct pair *p = &s->pair[s->n_pairs];

    *p = *found;
    PARE_TRY(own_weight(s, i->node->in[p->l1.w], &p->w1, err));
    PARE_TRY(own_weight(s, k->node->in[p->l2.w], &p->w2, err));
    if (i->bias)
        PARE_TRY(own_weight(s, i->bias, &p->b1, err));
    s->n_pairs++;
    return 0;
}

/* Follows the output of layer i to the one layer that consumes it. */
static int find_pair(struct scan *s, const struct pare_layer_info *i, struct pare_err *err)
{
    struct pair p = { .inner = 1 };
    const struct pare_value *v = i->out;
    int axis;

    if (!is_linear(s, i, &p.l1))
        return 0;
    p.n = scalable_channels(s, i, &p.l1);
    axis = p.l1.y_axis;
    while (p.n > 0 && v) {
        const struct pare_node *u = only_consumer(s, v);

        for (int k = 0; k < s->n_layers && u; k++) {
            const struct pare_layer_info *to = &s->layer[k];

            if (to->node != u || !is_linear(s, to, &p.l2))
                continue;
            if (p.l2.x != 0 || p.l2.x_axis != axis ||
                u->in[p.l2.w]->t.dim[p.l2.w_in] * p.l2.groups != p.n * p.inner)
                return 0;
            return add_pair(s, i, to, &p, err);
        }
        v = scale_equivariant_next(s, v, axis, &p.inner);
    }
    return 0;
}

/* ---- scaling --------------------------------------------------------------------------------- */

/* Maps row (o, i) of a weight (outer, size of axis, contiguous rest) to its channel. */
struct side {
    struct pare_tensor *w;
    int64_t outer, size, rest;
    int64_t groups, inner; /* of the second layer */
    bool second;
};

static struct side side_of(struct pair *p, bool second)
{
    struct side d = { .w = second ? &p->w2 : &p->w1, .outer = 1, .rest = 1, .second = second };
    int axis = second ? p->l2.w_in : p->l1.w_out;

    d.groups = second ? p->l2.groups : 1;
    d.inner = second ? p->inner : 1;
    d.size = d.w->dim[axis];
    for (int i = 0; i < d.w->rank; i++) {
        d.outer *= i < axis ? d.w->dim[i] : 1;
        d.rest *= i > axis ? d.w->dim[i] : 1;
    }
    return d;
}

/* With convolution groups, output o of the second layer reads only the inputs of its group. */
static int64_t channel_of(const struct side *d, int64_t o, int64_t i)
{
    int64_t group = d->groups > 1 ? o / (d->outer / d->groups) : 0;

    return (group * d->size + i) / d->inner;
}

/* r[c] = the largest magnitude of channel c; infinite if a weight is not finite. */
static void largest_weights(const struct side *d, float *r, int64_t n)
{
    const float *w = pare_f32(d->w);

    for (int64_t c = 0; c < n; c++)
        r[c] = 0;
    for (int64_t o = 0; o < d->outer; o++)
        for (int64_t i = 0; i < d->size; i++, w += d->rest) {
            int64_t c = channel_of(d, o, i);

            for (int64_t k = 0; k < d->rest; k++)
                r[c] = fabsf(w[k]) > r[c] ? fabsf(w[k]) : w[k] == w[k] ? r[c] : INFINITY;
        }
}

static void scale_rows(const struct side *d, const double *s)
{
    float *w = pare_f32_mut(d->w);

    for (int64_t o = 0; o < d->outer; o++)
        for (int64_t i = 0; i < d->size; i++, w += d->rest) {
            double by = s[channel_of(d, o, i)];

            for (int64_t k = 0; k < d->rest; k++)
                w[k] = (float)(d->second ? (double)w[k] * by : (double)w[k] / by);
        }
}

/* Channels whose weights are all 0, or not finite, on either side are not scaled. */
static double channel_scale(double r1, double r2)
{
    double s = sqrt(r1 * r2) / r2;

    return r1 > 0 && r2 > 0 && isfinite(r1) && isfinite(r2) && s > 1e-6 && s < 1e6 ? s : 1;
}

/* Returns the largest distance of an s from 1. */
static double equalize_pair(struct pair *p, float *r, double *s)
{
    struct side d1 = side_of(p, false), d2 = side_of(p, true);
    double most = 0;

    largest_weights(&d1, r, p->n);
    largest_weights(&d2, r + p->n, p->n);
    for (int64_t c = 0; c < p->n; c++) {
        s[c] = channel_scale((double)r[c], (double)r[p->n + c]);
        most = fabs(s[c] - 1) > most ? fabs(s[c] - 1) : most;
    }
    if (most < SETTLED)
        return most;
    scale_rows(&d1, s);
    scale_rows(&d2, s);
    for (int64_t c = 0; p->b1.data && c < p->n; c++)
        pare_f32_mut(&p->b1)[c] = (float)((double)pare_f32(&p->b1)[c] / s[c]);
    return most;
}

static int equalize_all(struct scan *s, struct pare_err *err)
{
    int64_t most = 1;
    double *by, moved = 1;
    float *r;

    PARE_TRY(pare_model_layers(s->m, s->a, &s->g, &s->layer, &s->n_layers, err));
    s->pair = pare_alloc(s->a, (size_t)s->n_layers + 1, sizeof(*s->pair));
    if (!s->pair)
        return pare_no_memory(err, "for equalization");
    for (int i = 0; i < s->n_layers; i++) {
        PARE_TRY(pare_at(err, find_pair(s, &s->layer[i], err), "layer '%s'", s->layer[i].name));
        most = s->n_pairs && s->pair[s->n_pairs - 1].n > most ? s->pair[s->n_pairs - 1].n : most;
    }
    by = pare_alloc(s->a, (size_t)most, sizeof(*by));
    r = pare_alloc(s->a, 2 * (size_t)most, sizeof(*r));
    if (!by || !r)
        return pare_no_memory(err, "for equalization");
    for (int round = 0; round < ROUNDS && moved >= SETTLED; round++) {
        moved = 0;
        for (int i = 0; i < s->n_pairs; i++) {
            double d = equalize_pair(&s->pair[i], r, by);

            moved = d > moved ? d : moved;
        }
    }
    return 0;
}

int pare_model_equalize(struct pare_model *m, int *pairs, struct pare_err *err)
{
    struct scan s = { .m = m, .a = pare_arena_new(1 << 16) };
    int rc = s.a ? equalize_all(&s, err) : pare_no_memory(err, "for equalization");

    *pairs = s.n_pairs;
    pare_arena_free(s.a);
    return rc;
}
