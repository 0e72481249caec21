/* followers.c - followers: normalizations and embeddings that are masked with coupled layers. */
#include "followers.h"

#include <string.h>

#include "../base/arena.h"
#include "../compress/wrap.h"
#include "../op/operator.h"
#include "dependency_groups.h"

static bool is_wrapped(const struct pare_compression *c, const struct pare_layer_info *l)
{
    const char *name = pare_value_root(l->weight)->name;

    for (int i = 0; i < c->n_layers; i++)
        if (!strcmp(pare_value_root(c->layer[i].info.weight)->name, name))
            return true;
    return false;
}

static bool may_follow(const struct pare_compression *c, const struct pare_config *config,
                       const struct pare_layer_info *l)
{
    return l->node->op && l->node->op->layer.follows && !l->body && l->weight && !l->shared &&
           !is_wrapped(c, l) && !pare_config_excludes(config, l);
}

/* Wrap all layers that may follow; one that cannot be compressed stays as it is. */
static int wrap_candidates(struct pare_compression *c, const struct pare_config *config,
                           struct pare_err *err)
{
    struct pare_layer_info *info;
    struct pare_layer *list;
    int n;

    PARE_TRY(pare_graph_to_group(c, c->arena, &c->prune->graph, err));
    PARE_TRY(pare_layers(c->arena, c->prune->graph, &info, &n, err));
    list = pare_alloc(c->arena, (size_t)(c->n_layers + n), sizeof(*list));
    if (!list)
        return pare_no_memory(err, "for the layers of a compression");
    memcpy(list, c->layer, (size_t)c->n_layers * sizeof(*list));
    c->layer = list;
    for (int i = 0; i < n; i++) {
        int rc = may_follow(c, config, &info[i])
                     ? pare_compression_wrap_one(c, &info[i], list[0].entry, err)
                     : 0;

        if (rc && rc != PARE_EUNSUPPORTED)
            return rc;
        if (rc)
            *err = (struct pare_err){ 0 };
    }
    return 0;
}

/* Drop the followers that are in no dependency group, and number the layers again. */
static int drop_others(struct pare_compression *c, struct pare_err *err)
{
    int *now = pare_alloc(c->arena, (size_t)c->n_layers, sizeof(*now)), n = 0;
    const struct pare_dependency_groups *d;

    if (!now)
        return pare_no_memory(err, "for dependency groups");
    PARE_TRY(pare_compression_groups(c, &d, err));
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->list[i].n_layers; k++)
            now[d->list[i].layer[k]] = 1;
    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (l->prune->follows && !now[i])
            continue;
        now[i] = n;
        l->index = n;
        l->unseen = l->prune->follows;
        c->layer[n++] = *l;
    }
    c->n_layers = n;
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->list[i].n_layers; k++)
            d->list[i].layer[k] = now[d->list[i].layer[k]];
    return 0;
}

int pare_followers_add(struct pare_compression *c, const struct pare_config *config,
                       struct pare_err *err)
{
    int rc;

    c->prune->following = true;
    rc = wrap_candidates(c, config, err);
    c->prune->following = false;
    PARE_TRY(rc);
    rc = drop_others(c, err);
    c->prune->graph = NULL; /* constants that layers share are separate in it now */
    return rc;
}
