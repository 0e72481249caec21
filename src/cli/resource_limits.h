/* resource_limits.h - how much memory and time a command may take: --max-memory and --timeout. */
#ifndef PARE_CLI_RESOURCE_LIMITS_H
#define PARE_CLI_RESOURCE_LIMITS_H

#include <signal.h>

#include <pare/plugin.h>

struct pare_resource_limits {
    const char *max_memory; /* "512M"; NULL: what the machine has */
    double timeout;         /* seconds; 0: none */
};

extern const struct pare_opt pare_resource_limits_opts[]; /* of every command that works */

/* From here on the limits hold. */
int pare_resource_limits_start(const struct pare_resource_limits *g, struct pare_err *err);

/* The work is over.  When time was over first, this does not return. */
void pare_resource_limits_end(void);

/* While a training runs, it is asked to stop, which writes a checkpoint, before the process is
 * ended.  NULL: it does not run any more. */
void pare_resource_limits_training(volatile sig_atomic_t *stop);

/* What a limit has to do with this error: text for the end of the message, or "". */
const char *pare_resource_limits_note(const struct pare_resource_limits *g, int code, char *buf,
                                      size_t size);
#define PARE_RESOURCE_LIMITS_TEXT 128

#endif
