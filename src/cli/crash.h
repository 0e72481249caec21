/* crash.h - exit at once with a message and remove unfinished files. */
#ifndef PARE_CLI_CRASH_H
#define PARE_CLI_CRASH_H

/* Remove temporary files, print `text` to stderr and exit with 1.  Safe in a signal handler and
 * while other threads hold stdio locks. */
_Noreturn void pare_crash_exit(const char *text);

/* Handle truncated mapped files and out-of-memory failures of oneDNN with pare_crash_exit().
 * `max_memory` is the value of --max-memory for the message, or NULL; the pointer is kept. */
void pare_crash_handlers_install(const char *max_memory);

#endif
