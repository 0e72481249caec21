/* named.h - find one of a few things by what the user called it. */
#ifndef PARE_TRAIN_NAMED_H
#define PARE_TRAIN_NAMED_H

#include <pare/pare.h>

#define PARE_NAMED_MAX 256

/* Sets i to the index of `name`; an error with the nearest name, or all of them, when it is not
 * there.  `what` is "loss", "optimizer", ... */
int pare_find_named(const char *what, const char *name, const char *const *names, int n, int *i,
                    struct pare_err *err);

#endif
