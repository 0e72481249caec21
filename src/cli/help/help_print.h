/* help_print.h - help on commands, operators, pruners and quantizers, printed to stdout. */
#ifndef PARE_CLI_HELP_HELP_PRINT_H
#define PARE_CLI_HELP_HELP_PRINT_H

#include <pare/plugin.h>

#include "../cli.h"

/* The functions of struct pare_topics. */
int pare_help_on_command(struct pare_cli *c, const struct pare_registry *g, const char *name,
                         struct pare_err *err);
int pare_help_op(struct pare_cli *c, const struct pare_registry *g, const char *name,
                 struct pare_err *err);
int pare_help_pruner(struct pare_cli *c, const struct pare_registry *g, const char *name,
                     struct pare_err *err);
int pare_help_quantizer(struct pare_cli *c, const struct pare_registry *g, const char *name,
                        struct pare_err *err);

/* Add a row of name, type and help for each option, to a table of three columns. */
void pare_help_settings(struct pare_table *t, struct pare_arena *a, const struct pare_opt *opts);

#endif
