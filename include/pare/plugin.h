/* plugin.h - extend the library with pruners and quantizers.
 *
 * Whatever can be added is one const descriptor at the bottom of one file: a name, a table of
 * options, a few sizes and a few callbacks.  The core parses, checks ranges, allocates and
 * zeroes your structs and calls you.  You never parse, and never free what you are given.
 */
#ifndef PARE_PLUGIN_H
#define PARE_PLUGIN_H

#include <pare/option.h>

#include <pare/pruner.h>
#include <pare/quantizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shared objects ---------------------------------------------------------------------- */

/* Where a plugin puts what it offers.  The descriptors must stay where they are. */
struct pare_registry;
PARE_API int pare_add_pruner(struct pare_registry *g, const struct pare_pruner *p,
                             struct pare_err *err);

PARE_API int pare_add_quantizer(struct pare_registry *g, const struct pare_quantizer *q,
                                struct pare_err *err);

/* The one function that a plugin's .so exports; called once, when `--plugin x.so` or
 * pare_plugin_load() opens it. */
#define PARE_PLUGIN_INIT "pare_plugin_init"
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
int pare_plugin_init(struct pare_registry *g, struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
