/* prune_state.h - state of pruning: options, target sparsity and units of layers, masks that are
 * due. */
#ifndef PARE_PRUNE_PRUNE_STATE_H
#define PARE_PRUNE_PRUNE_STATE_H

#include "../compress/compression.h"
#include "units.h"

struct pare_dependency_groups;
struct pare_removal_units;
struct pare_removed; /* removed_search.h */

/* The config_list keys of all pruners. */
struct pare_goal {
    double sparsity, sparsity_per_layer, total_sparsity; /* synonyms; -1: not specified */
    double max_sparsity_per_layer;
    const char *granularity;
    struct pare_ints block;
    int64_t heads, parts;
    const char *pattern; /* "2:4"; NULL: none */
};

/* The options of all pruners. */
struct pare_prune_settings {
    const char *mode; /* default, normal, row, global, balance, dependency_aware, global_aware */
    const char *normalize; /* default, none, mean, max, lamp; NULL: default */
    double min_keep;
    bool isomorphic;
    struct pare_ints balance_gran;
    const char *base; /* for pruners with PARE_USES_BASE */
    bool keep_constants;
};

/* compression->prune */
struct pare_prune_state {
    struct pare_prune_settings settings;
    const struct pare_dependency_groups *groups; /* dependency groups; NULL: not computed */
    struct pare_graph *graph;                    /* to find groups in; NULL: not made */
    struct pare_removal_units *units;            /* of `graph` */
    struct pare_removed *removed; /* what is masked with removed channels; NULL: nothing */
    bool following;               /* layers that are wrapped now are followers */
};

/* layer->prune */
struct pare_layer_prune {
    struct pare_goal goal;
    struct pare_units units;
    double config_sparsity; /* -1: the config specifies none */
    double sparsity;        /* the current target */
    int64_t n, m;           /* keep n of every m consecutive input channels; m 0: no pattern */
    bool due;               /* a new mask must be computed */
    bool follows;           /* its channels are removed with those of other layers (followers.h) */
};

#endif
