/* option_text.h - lines of option tables in words, for help, manual, completion and reference. */
#ifndef PARE_CLI_VIEW_OPTION_TEXT_H
#define PARE_CLI_VIEW_OPTION_TEXT_H

#include "../cli.h"

#define PARE_OPTION_TEXT 320

/* All write into buf and return it. */
const char *pare_option_name(const struct pare_opt *o, char *buf, size_t size);   /* --batch N */
const char *pare_option_dashed(const struct pare_opt *o, char *buf, size_t size); /* batch */
const char *pare_option_range(const struct pare_opt *o, char *buf, size_t size);  /* 0 to 64 */
const char *pare_option_default(const struct pare_opt *o, char *buf, size_t size);
const char *pare_option_brackets(const struct pare_opt *o, char *buf,
                                 size_t size); /* (1; 0 to 64) */

const char *pare_option_type(const struct pare_opt *o); /* "int" */

/* Call fn for every option of a command: its own, then those of its parts (part is NULL for its
 * own).  `same` is set for one whose name came before. */
struct pare_option_at {
    const struct pare_option_group *part;
    const struct pare_opt *o;
    bool same;
};
typedef void pare_option_fn(const struct pare_option_at *at, void *user);
int pare_options_each(const struct pare_command *cmd, struct pare_arena *a, pare_option_fn *fn,
                      void *user, struct pare_err *err);

#endif
