/* resource_limits.h - limits of memory and time: --max-memory and --timeout. */
#ifndef PARE_CLI_RESOURCE_LIMITS_H
#define PARE_CLI_RESOURCE_LIMITS_H

#include <signal.h>

#include <pare/plugin.h>

struct pare_resource_limits {
    const char *max_memory; /* "512M"; NULL: the machine's memory */
    double timeout;         /* seconds; 0: none */
};

/* Start enforcing the limits. */
int pare_resource_limits_start(const struct pare_resource_limits *g, struct pare_err *err);

/* The command has finished.  Does not return if the timeout came first. */
void pare_resource_limits_end(void);

/* Training has started: on timeout set *stop, so that it writes a checkpoint, before exiting.
 * NULL: training has ended. */
void pare_resource_limits_training(volatile sig_atomic_t *stop);

/* Text to append to an error message if a limit caused the error, else "". */
const char *pare_resource_limits_note(const struct pare_resource_limits *g, int code, char *buf,
                                      size_t size);
#define PARE_RESOURCE_LIMITS_TEXT 128

#endif
