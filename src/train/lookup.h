/* lookup.h - find one of a few things by what the user called it. */
#ifndef PARE_TRAIN_LOOKUP_H
#define PARE_TRAIN_LOOKUP_H

#include <pare/pare.h>

#define PARE_LOOKUP_MAX 256

/* Sets i to the index of `name`; an error with the nearest name, or all of them, when it is not
 * there.  `what` is "loss", "optimizer", ... */
int pare_lookup(const char *what, const char *name, const char *const *names, int n, int *i,
                struct pare_err *err);

#endif
