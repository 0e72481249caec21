/* lookup.h - find a loss, optimizer or schedule by name. */
#ifndef PARE_TRAIN_LOOKUP_H
#define PARE_TRAIN_LOOKUP_H

#include <pare/pare.h>

#define PARE_LOOKUP_MAX 256

/* Set i to the index of `name`; an error with the closest name, or all of them, if there is none.
 * `what` is "loss", "optimizer", ... */
int pare_lookup(const char *what, const char *name, const char *const *names, int n, int *i,
                struct pare_err *err);

#endif
