/* wrap.h - layers of a model become layers of a run. */
#ifndef PARE_COMPRESS_WRAP_H
#define PARE_COMPRESS_WRAP_H

#include "compression.h"

/* Fill r->layer with the layers that the config chooses. */
int pare_compression_wrap(struct pare_compression *r, const struct pare_config *c,
                          struct pare_err *err);

/* The layers of a model, and the copy of its graph that they are of, shaped for one item. */
int pare_model_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                      struct pare_layer_info **list, int *n, struct pare_err *err);

/* Is the type one of a list such as "Conv2d|Linear"? */
bool pare_type_listed(const char *types, const char *type);

#endif
