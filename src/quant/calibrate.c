/* calibrate.c - forward passes that a quantizer observes; sites that hold the same values. */
#include <string.h>

#include "../base/arena.h"
#include "quant_config.h"

#define NONE (-1) /* the site has no fake-quant node, or several */

/* The value that a fake-quant node reads, before all fake-quant nodes in a row. */
static const struct pare_value *observed_value(const struct pare_node *n)
{
    enum pare_quant_site site;
    const struct pare_value *v = n->in[0];

    while (v->maker && pare_quant_site_of(v->maker, &site))
        v = v->maker->in[0];
    return v;
}

static bool same_quant(const struct pare_quant *a, const struct pare_quant *b)
{
    return a->bits == b->bits && a->has_sign == b->has_sign && a->symmetric == b->symmetric &&
           a->axis == b->axis && a->qmin == b->qmin && a->qmax == b->qmax;
}

/* only[place]: the fake-quant node of a site, if there is exactly one. */
static void find_single_nodes(const struct pare_compression *r, int *only)
{
    const struct pare_graph *g = r->model->graph;
    enum pare_quant_site site;

    for (int i = 0; i < r->n_layers * PARE_QUANT_SITES; i++)
        only[i] = NONE;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_layer *l = pare_quant_site_of(g->node[i], &site);
        int *o = l ? &only[l->index * PARE_QUANT_SITES + (int)site] : NULL;

        if (o && l->compression == r)
            *o = *o == NONE ? i : g->n_nodes;
    }
    for (int i = 0; i < r->n_layers * PARE_QUANT_SITES; i++)
        if (only[i] == g->n_nodes)
            only[i] = NONE;
}

/* The first site with the same values and quantization in graph order; possibly the site itself. */
static int first_point(const struct pare_compression *r, const int *only, int place)
{
    const struct pare_graph *g = r->model->graph;
    const struct pare_layer *l = &r->layer[place / PARE_QUANT_SITES];
    const struct pare_value *from;
    int best = place;

    if (only[place] == NONE || !l->quant->quantized[place % PARE_QUANT_SITES])
        return place;
    from = observed_value(g->node[only[place]]);
    for (int i = 0; i < r->n_layers * PARE_QUANT_SITES; i++) {
        const struct pare_layer *o = &r->layer[i / PARE_QUANT_SITES];

        if (only[i] != NONE && only[i] < only[best] && o->quant->quantized[i % PARE_QUANT_SITES] &&
            observed_value(g->node[only[i]]) == from &&
            same_quant(&l->quant->site[place % PARE_QUANT_SITES],
                       &o->quant->site[i % PARE_QUANT_SITES]))
            best = i;
    }
    return best;
}

/* If allocation fails, each site collects its own statistics. */
static void find_twins(struct pare_compression *r)
{
    int n = r->n_layers * PARE_QUANT_SITES,
        *only = pare_alloc_raw(r->arena, (size_t)n, sizeof(*only));
    int *twin = pare_alloc_raw(r->arena, (size_t)n, sizeof(*twin));

    if (!only || !twin)
        return;
    find_single_nodes(r, only);
    for (int i = 0; i < n; i++)
        twin[i] = first_point(r, only, i);
    r->quant->twin = twin;
}

bool pare_layer_twin(const struct pare_layer *l, enum pare_quant_site site, struct pare_layer **of,
                     enum pare_quant_site *of_site)
{
    struct pare_compression *r = l->compression;
    int place = l->index * PARE_QUANT_SITES + (int)site, to;

    if (site == PARE_WEIGHT)
        return false;
    if (!r->quant->twin)
        find_twins(r);
    to = r->quant->twin ? r->quant->twin[place] : place;
    if (of)
        *of = &r->layer[to / PARE_QUANT_SITES];
    if (of_site)
        *of_site = (enum pare_quant_site)(to % PARE_QUANT_SITES);
    return to != place;
}

int pare_compression_observe(struct pare_compression *r, int64_t batches, bool in_parts,
                             struct pare_err *err)
{
    PARE_ERR(err);
    int rc;

    r->in_parts = in_parts;
    pare_fake_quant_observe(r, true);
    rc = pare_compression_forward_once(r, batches, err);
    pare_fake_quant_observe(r, false);
    r->in_parts = false;
    r->quant->observed = batches;
    return rc;
}
