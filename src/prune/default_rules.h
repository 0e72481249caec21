/* default_rules.h - the config_list for a sparsity alone: every layer that a pruner can prune. */
#ifndef PARE_PRUNE_DEFAULT_RULES_H
#define PARE_PRUNE_DEFAULT_RULES_H

#include "../compress/config.h"
#include "prune_method.h"

/* A pruner that removes channels leaves out the layers that compute the model's outputs. */
int pare_default_rules(struct pare_model *m, const struct pare_algorithm *p, double sparsity,
                       struct pare_arena *a, struct pare_rules *r, struct pare_err *err);

#endif
