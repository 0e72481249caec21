/* default_rules.h - the config_list for a single sparsity: every layer that a pruner can prune. */
#ifndef PARE_PRUNE_DEFAULT_RULES_H
#define PARE_PRUNE_DEFAULT_RULES_H

#include "../compress/config.h"
#include "prune_method.h"

/* g: the model's graph with the shapes of one item.  For a pruner that removes channels, excludes
 * the layers that compute the model's outputs. */
int pare_default_rules(struct pare_graph *g, const struct pare_algorithm *p, double sparsity,
                       struct pare_arena *a, struct pare_rules *r, struct pare_err *err);

#endif
