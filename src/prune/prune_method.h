/* prune_method.h - pruning as a compression method: built-in pruners and their options. */
#ifndef PARE_PRUNE_PRUNE_METHOD_H
#define PARE_PRUNE_PRUNE_METHOD_H

#include "../base/option_groups.h"
#include "../compress/registry.h"

extern const struct pare_algorithm *const pare_pruners[]; /* built-in pruners; ends with NULL */
/* Searches for the sparsity of each layer, which pare_prune() runs; src/search/ defines them.  The
 * list ends with NULL. */
extern const struct pare_algorithm *const pare_searches[];
bool pare_is_search(const struct pare_algorithm *a);

/* The i-th built-in pruner or search; NULL past the end. */
const struct pare_algorithm *pare_pruner_at(int i);

extern const struct pare_opt pare_prune_options[]; /* options of struct
                                                           * pare_prune_settings */
extern const struct pare_opt pare_goal_keys[];     /* config keys of struct pare_goal */

/* Finds a pruner by name; the error for an unknown name contains the nearest one.  g may be
 * NULL. */
int pare_find_pruner(const struct pare_registry *g, const char *name,
                     const struct pare_algorithm **p, struct pare_err *err);

/* Index in c->algorithm of the pruner that computes the masks. */
int pare_compression_ranker(const struct pare_compression *c);

/* How units are ranked: the option `mode`, or else the pruner's default. */
const char *pare_prune_mode(const struct pare_compression *c);

/* Are coupled channels ranked together? */
bool pare_prune_by_groups(const struct pare_compression *c);

/* The option groups of a pruner: those of all pruners, its own and, if it uses a base pruner, those
 * of all possible ones.  NULL: of every built-in pruner. */
int pare_prune_option_groups(struct pare_arena *a, const char *pruner,
                             struct pare_option_group **group, int *n, struct pare_err *err);

#endif
