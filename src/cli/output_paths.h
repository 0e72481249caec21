/* output_paths.h - reject output paths that would overwrite an input or another output. */
#ifndef PARE_CLI_OUTPUT_PATHS_H
#define PARE_CLI_OUTPUT_PATHS_H

#include "cli.h"

/* Check the files named by output options (pare_command.writes) against all other arguments and
 * options.  Called after a command line or a step of a recipe is parsed. */
int pare_output_paths_check(const struct pare_cli *c, struct pare_err *err);

/* Check them against the files of a loaded model and its external data.  `output`, if not NULL, is
 * the path of the model to write, which may be a default name. */
int pare_output_paths_model(const struct pare_cli *c, const struct pare_model *m,
                            const char *output, struct pare_err *err);

/* Check before hours of work that `path` can be written and is not the command's model. */
int pare_output_path_check(struct pare_cli *c, const char *path, struct pare_err *err);

/* MODEL-suffix.onnx, for a model MODEL.onnx; NULL: no memory. */
const char *pare_default_output(struct pare_arena *a, const char *model, const char *suffix);

#endif
