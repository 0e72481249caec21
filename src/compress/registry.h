/* registry.h - the pruners there are: built in, and of plugins. */
#ifndef PARE_COMPRESS_REGISTRY_H
#define PARE_COMPRESS_REGISTRY_H

#include <pare/compress.h>
#include <pare/plugin.h>

extern const struct pare_pruner *const pare_pruners[]; /* built in; ends with NULL */

/* The i-th of all, built-in ones first; NULL past the end.  g may be NULL. */
const struct pare_pruner *pare_pruner_at(const struct pare_registry *g, int i);

/* The same of quantizers. */
extern const struct pare_quantizer *const pare_quantizers[];
const struct pare_quantizer *pare_quantizer_at(const struct pare_registry *g, int i);
int pare_find_quantizer(const struct pare_registry *g, const char *name,
                        const struct pare_quantizer **q, struct pare_err *err);

/* By name; an error that names the nearest one when there is none. */
int pare_find_pruner(const struct pare_registry *g, const char *name, const struct pare_pruner **p,
                     struct pare_err *err);

#endif
