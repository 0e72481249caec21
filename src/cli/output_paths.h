/* output_paths.h - what a command writes is nothing that it reads, and nothing twice. */
#ifndef PARE_CLI_OUTPUT_PATHS_H
#define PARE_CLI_OUTPUT_PATHS_H

#include "cli.h"

/* The files that options name for writing (pare_command.writes), against all that the command was
 * given.  Called when a command line or a step of a recipe has been parsed. */
int pare_output_paths_check(const struct pare_cli *c, struct pare_err *err);

/* The same against the files that a model and its weights are in, once it is loaded.  `output`, if
 * not NULL, is the model that will be written, which may have its name from us. */
int pare_output_paths_model(const struct pare_cli *c, const struct pare_model *m,
                            const char *output, struct pare_err *err);

#endif
