/* crash.h - the end of the process at once: a sentence, and nothing half written is left. */
#ifndef PARE_CLI_CRASH_H
#define PARE_CLI_CRASH_H

/* Removes the files that have no name yet, says `text`, and ends with 1.  May be called from a
 * signal handler, and while others hold the locks of stdio. */
_Noreturn void pare_crash_exit(const char *text);

/* From here on a mapped file that somebody makes shorter is no crash, and neither is oneDNN that
 * gets no memory.  `max_memory` is what to say of it then, as the user gave it, or NULL; it
 * is kept. */
void pare_crash_handlers_install(const char *max_memory);

#endif
