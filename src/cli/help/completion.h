/* completion.h - print completion scripts for bash and zsh. */
#ifndef PARE_CLI_HELP_COMPLETION_H
#define PARE_CLI_HELP_COMPLETION_H

#include "../cli.h"

/* shell: "bash" or "zsh". */
int pare_completion_print(FILE *f, const char *shell, struct pare_arena *a, struct pare_err *err);

#endif
