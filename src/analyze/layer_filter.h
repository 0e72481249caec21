/* layer_filter.h - layers by name, as people list them for an analysis. */
#ifndef PARE_ANALYZE_LAYER_FILTER_H
#define PARE_ANALYZE_LAYER_FILTER_H

#include <pare/option.h>

/* Is the layer listed, by its name or by "re:" and a pattern?  An empty list has all. */
bool pare_layer_filter(const struct pare_strs *list, const char *layer);

/* Whatever is listed must match one of the n layers; `what` says of which kind they are. */
int pare_layer_filter_check(const struct pare_strs *list, const char *const *layer, int n,
                            const char *what, struct pare_err *err);

#endif
