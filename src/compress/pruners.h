/* pruners.h - the pruners there are: built in, and of plugins. */
#ifndef PARE_COMPRESS_PRUNERS_H
#define PARE_COMPRESS_PRUNERS_H

#include <pare/compress.h>
#include <pare/plugin.h>

extern const struct pare_pruner *const pare_pruners[]; /* built in; ends with NULL */

/* The i-th of all, built-in ones first; NULL past the end.  g may be NULL. */
const struct pare_pruner *pare_pruner_at(const struct pare_registry *g, int i);

/* By name; an error that names the nearest one when there is none. */
int pare_find_pruner(const struct pare_registry *g, const char *name, const struct pare_pruner **p,
                     struct pare_err *err);

#endif
