/* option_groups.h - distribute settings among several option tables.
 *
 * Training has an optimizer, a schedule, a loss, ...: each is chosen by name and has its own option
 * table, an option group.  A setting has only a name; these functions find the group that it
 * belongs to.  In names, - and _ are equivalent.
 */
#ifndef PARE_BASE_OPTION_GROUPS_H
#define PARE_BASE_OPTION_GROUPS_H

#include "options.h"

struct pare_option_group {
    const char *kind; /* "optimizer" */
    const char *name; /* "sgd"; NULL if there is only one of its kind */
    const struct pare_opt *opts;
    void *into; /* the zeroed struct to fill; NULL: the group is not chosen */
};

/* The option of this group that a setting of this name belongs to, or NULL. */
const struct pare_opt *pare_option_group_find(const struct pare_option_group *p, const char *name);

/* Fill one group with the settings that belong to it; ignore the others. */
int pare_option_group_fill(const struct pare_option_group *p, const struct pare_given *g, int n,
                           struct pare_arena *a, struct pare_err *err);

/* Check that every setting belongs to exactly one of the chosen groups. */
int pare_option_groups_check(const struct pare_option_group *p, int n_parts,
                             const struct pare_given *g, int n, struct pare_err *err);

/* Split "lr=0.1 epochs=3 flip" into settings; a word without '=' means "true".  NULL is "".  Texts
 * and list are in the arena. */
int pare_given_split(const char *text, struct pare_arena *a, struct pare_given **g, int *n,
                     struct pare_err *err);

/* The settings of `words`, which may be NULL, then the pairs: of two with the same name, the last
 * one counts. */
int pare_given_join(const struct pare_given *pair, int n_pairs, const char *words,
                    struct pare_arena *a, struct pare_given **g, int *n, struct pare_err *err);

#endif
