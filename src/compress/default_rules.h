/* default_rules.h - what can be set of a compression, for command lines and help. */
#ifndef PARE_COMPRESS_DEFAULT_RULES_H
#define PARE_COMPRESS_DEFAULT_RULES_H

#include "../base/option_groups.h"
#include "compression.h"

extern const struct pare_opt pare_prune_options[]; /* of struct pare_prune_settings */
extern const struct pare_opt pare_quant_options[]; /* of struct pare_quant_settings */
extern const struct pare_opt pare_goal_keys[];     /* of struct pare_goal: config_list keys */

/* The parts whose options a pruner's run takes: those of all, its own, and, where it works over
 * another, those of all that it could work over.  NULL: of every built-in pruner. */
int pare_prune_option_groups(struct pare_arena *a, const char *pruner,
                             struct pare_option_group **part, int *n, struct pare_err *err);

/* The same of quantizers. */
int pare_quantize_option_groups(struct pare_arena *a, const char *quantizer,
                                struct pare_option_group **part, int *n, struct pare_err *err);

/* A config_list for a sparsity alone: everything that the pruner can prune, but of those that
 * remove channels not the layers that make the model's outputs. */
struct pare_rules {
    struct pare_rule *rule;
    int n;
};
int pare_default_rules(struct pare_model *m, const struct pare_pruner *p, double sparsity,
                       struct pare_arena *a, struct pare_rules *r, struct pare_err *err);

/* How many elements the masks of a run remove. */
int64_t pare_mask_zeros(const struct pare_tensor *mask);

#endif
