/* plugin.h - extend the library with pruners and quantizers.
 *
 * A plugin is a shared object with one exported function, pare_plugin_init(), which registers one
 * or more const descriptors: a name, tables of options, a few sizes and callbacks.  The library
 * parses the options, checks their ranges, allocates and zeroes the structs whose sizes the
 * descriptor names, and calls the callbacks.
 *
 * Compatibility.  Descriptors grow at the end only: a new field is appended, and 0 means that the
 * descriptor does not use it.  Each descriptor states the size of its struct, as the plugin was
 * compiled.  The library copies that many bytes and zeroes the rest, so a plugin compiled with an
 * older header keeps working.  A descriptor that is larger than the library's struct needs a newer
 * library and is refused, as is one whose `abi` differs: PARE_ABI changes when a field is removed
 * or gets another meaning.
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

/* The algorithms that plugins added.  It copies the descriptors; the strings, tables and functions
 * that they point to must stay valid as long as the registry.  Not thread-safe: add first, then
 * use it from as many threads as needed. */
struct pare_registry;

/* Register a->pruner or a->quantizer.  An error if a pruner or a quantizer has this name, built in
 * or added, or if the descriptor is incomplete. */
PARE_API int pare_add_pruner(struct pare_registry *g, const struct pare_algorithm *a,
                             struct pare_err *err);
PARE_API int pare_add_quantizer(struct pare_registry *g, const struct pare_algorithm *a,
                                struct pare_err *err);

/* The function that a plugin exports.  pare_plugin_load() (--plugin x.so) calls it once.  It
 * returns 0, or an error code after pare_fail(); then nothing that it added stays. */
#define PARE_PLUGIN_INIT "pare_plugin_init"
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
int pare_plugin_init(struct pare_registry *g, struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
