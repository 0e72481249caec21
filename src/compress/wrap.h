/* wrap.h - wrap layers of a model: from graph nodes to struct pare_layer. */
#ifndef PARE_COMPRESS_WRAP_H
#define PARE_COMPRESS_WRAP_H

#include "compression.h"

/* Fill c->layer with the layers that the config chooses. */
int pare_compression_wrap(struct pare_compression *c, const struct pare_config *config,
                          struct pare_err *err);

/* Add a layer to c->layer, which has room for it, under the config_list entry of another one. */
int pare_compression_wrap_one(struct pare_compression *c, const struct pare_layer_info *info,
                              const struct pare_entry *e, struct pare_err *err);

/* A clone of the model's graph with the shapes of one item; free dimensions are 1, or of a size
 * that the nodes accept. */
int pare_model_shapes(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                      struct pare_err *err);

/* The layers of a model, and the clone of its graph that they refer to, with the shapes of one
 * item. */
int pare_model_layers(const struct pare_model *m, struct pare_arena *a, struct pare_graph **g,
                      struct pare_layer_info **list, int *n, struct pare_err *err);

/* Is the type in a list such as "Conv2d|Linear"? */
bool pare_type_listed(const char *types, const char *type);

/* Does a list of types contain the layer's PyTorch or ONNX type, or its kind, "recurrent"? */
bool pare_layer_listed(const char *types, const struct pare_layer_info *l);

/* Follow a weight to its initializer, usually through a Transpose: the same axis there.  -1: none.
 */
int pare_root_axis(const struct pare_value *weight, int axis);

/* The same for an axis of scales: it may also be sliced and concatenated, as exporters reorder the
 * gates of recurrent layers, since scales belong to the elements of the initializer. */
int pare_scale_axis(const struct pare_value *weight, int axis);

#endif
