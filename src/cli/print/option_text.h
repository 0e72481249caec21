/* option_text.h - option rows as text, for help, manual pages, completion and reference. */
#ifndef PARE_CLI_PRINT_OPTION_TEXT_H
#define PARE_CLI_PRINT_OPTION_TEXT_H

#include "../cli.h"

#define PARE_OPTION_TEXT 640

/* All write into buf and return it. */
const char *pare_option_name(const struct pare_opt *o, char *buf, size_t size);   /* --batch N */
const char *pare_option_dashed(const struct pare_opt *o, char *buf, size_t size); /* batch */
const char *pare_option_range(const struct pare_opt *o, char *buf, size_t size);  /* 0 to 64 */
const char *pare_option_default(const struct pare_opt *o, char *buf, size_t size);

/* The help text, range and default: "batch size (0 to 64; default: 1)". */
const char *pare_option_help(const struct pare_opt *o, char *buf, size_t size);

const char *pare_option_type(const struct pare_opt *o); /* "int" */

/* Call fn for every option of a command: its own (group is NULL), then those of its groups.  `same`
 * is set if the name occurred before. */
struct pare_option_at {
    const struct pare_option_group *group;
    const struct pare_opt *o;
    bool same;
};
typedef void pare_option_fn(const struct pare_option_at *at, void *user);
int pare_options_each(const struct pare_command *cmd, struct pare_arena *a, pare_option_fn *fn,
                      void *user, struct pare_err *err);

#endif
