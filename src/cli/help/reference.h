/* reference.h - print docs/config.md: all keys, settings and options. */
#ifndef PARE_CLI_HELP_REFERENCE_H
#define PARE_CLI_HELP_REFERENCE_H

#include "../cli.h"

int pare_reference_print(FILE *f, struct pare_arena *a, struct pare_err *err);

#endif
