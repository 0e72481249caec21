/* registry.h - algorithms by name: built-in ones, and those that plugins added.
 *
 * Built-in algorithms are lists of a method; a registry has the added ones only.  Every function
 * takes NULL for an empty registry, except where it adds.
 */
#ifndef PARE_COMPRESS_REGISTRY_H
#define PARE_COMPRESS_REGISTRY_H

#include <pare/compress.h>
#include <pare/plugin.h>

struct pare_method;

/* The i-th algorithm of a method, built-in ones first; NULL past the end. */
const struct pare_algorithm *pare_algorithm_at(const struct pare_registry *g,
                                               const struct pare_method *m, int i);

/* By name; an unknown name is an error that contains the nearest one. */
int pare_find_algorithm(const struct pare_registry *g, const struct pare_method *m,
                        const char *name, const struct pare_algorithm **a, struct pare_err *err);

/* Check a descriptor and add a copy of it. */
int pare_registry_add(struct pare_registry *g, const struct pare_method *m,
                      const struct pare_algorithm *a, struct pare_err *err);

/* A copy of a descriptor of `size` bytes as one of `full` bytes; the rest is 0.  NULL on error:
 * size is 0 or greater than full.  `what` names the struct for messages. */
void *pare_descriptor_copy(struct pare_registry *g, const void *d, uint32_t size, size_t full,
                           const char *what, struct pare_err *err);

#endif
