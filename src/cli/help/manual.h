/* manual.h - print manual pages: pare(1), and pare-COMMAND(1) for each command. */
#ifndef PARE_CLI_HELP_MANUAL_H
#define PARE_CLI_HELP_MANUAL_H

#include "../cli.h"

void pare_manual_all(FILE *f);
int pare_manual_command(FILE *f, const struct pare_command *cmd, struct pare_arena *a,
                        struct pare_err *err);

#endif
