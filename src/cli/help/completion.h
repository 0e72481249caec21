/* completion.h - scripts by which shells complete commands, options and values. */
#ifndef PARE_CLI_HELP_COMPLETION_H
#define PARE_CLI_HELP_COMPLETION_H

#include "../cli.h"

/* shell: "bash" or "zsh". */
int pare_completion_print(FILE *f, const char *shell, struct pare_arena *a, struct pare_err *err);

#endif
