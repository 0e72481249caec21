/* layer_filter.h - select layers by name or regular expression for an analysis. */
#ifndef PARE_ANALYZE_LAYER_FILTER_H
#define PARE_ANALYZE_LAYER_FILTER_H

#include <pare/option.h>

/* Is the layer listed, by its name or by "re:" and a pattern?  An empty list selects all layers. */
bool pare_layer_filter(const struct pare_strs *list, const char *layer);

/* Checks that every list entry matches one of the n layers; `what` completes "no layer that ..." in
 * the error. */
int pare_layer_filter_check(const struct pare_strs *list, const char *const *layer, int n,
                            const char *what, struct pare_err *err);

#endif
