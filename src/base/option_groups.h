/* option_groups.h - settings that belong to several option tables at once.
 *
 * Training has an optimizer, a schedule, a loss, ...: parts that are chosen by name and bring their
 * own options.  Whoever sets options just names them; here each finds the part that it is for.  In
 * names, - and _ are the same.
 */
#ifndef PARE_BASE_OPTION_GROUPS_H
#define PARE_BASE_OPTION_GROUPS_H

#include "options.h"

struct pare_option_group {
    const char *kind; /* "optimizer" */
    const char *name; /* "sgd"; NULL when there is only one of its kind */
    const struct pare_opt *opts;
    void *into; /* the zeroed struct to fill; NULL: not chosen */
};

/* The option that a setting of this name would be for, or NULL. */
const struct pare_opt *pare_option_group_find(const struct pare_option_group *p, const char *name);

/* Fill one part with the settings that are for it; others are left alone. */
int pare_option_group_fill(const struct pare_option_group *p, const struct pare_given *g, int n,
                           struct pare_arena *a, struct pare_err *err);

/* Every setting must be for exactly one of the chosen parts. */
int pare_option_groups_check(const struct pare_option_group *p, int n_parts,
                             const struct pare_given *g, int n, struct pare_err *err);

#endif
