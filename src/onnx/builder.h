/* builder.h - a model from scratch, node by node.
 *
 *     pare_builder_new("lenet", &k, err);
 *     x = pare_builder_input(k, "input", 4, (int64_t[]){ -1, 1, 28, 28 });
 *     w = pare_builder_weight(k, "conv1.weight", 4, dim, &t);       ... fill t ...
 *     x = pare_builder_node(k, "Conv", "conv1", x, w, NULL);
 *     pare_builder_ints(k, "kernel_shape", 2, (int64_t[]){ 5, 5 });
 *     pare_builder_output(k, "output", 2, (int64_t[]){ -1, 10 });
 *     pare_builder_done(k, &model, err);
 *
 * The first error is kept and everything after it does nothing, so only the last call is asked.
 * Names are copied; where one is returned, it is NULL after an error.
 */
#ifndef PARE_ONNX_BUILDER_H
#define PARE_ONNX_BUILDER_H

#include <pare/pare.h>

struct pare_builder;

/* Operator set 17, file format 8. */
int pare_builder_new(const char *name, struct pare_builder **make, struct pare_err *err);

/* float32; a dimension of -1 is free, and called "N" when it is the first. */
const char *pare_builder_input(struct pare_builder *k, const char *name, int rank,
                               const int64_t *dim);

/* Initializers.  *t is the memory to fill, zeroed; its data is NULL after an error. */
const char *pare_builder_weight(struct pare_builder *k, const char *name, int rank,
                                const int64_t *dim, struct pare_tensor *t);
const char *pare_builder_shape(struct pare_builder *k, const char *name, int n, const int64_t *v);
const char *pare_builder_number(struct pare_builder *k, const char *name, float v);

/* A node; inputs are names, NULL ends them.  Returns its output, which has the node's name. */
const char *pare_builder_node(struct pare_builder *k, const char *type, const char *name, ...);

/* The last node has n outputs instead: name.0, name.1, ...  Returns the i-th. */
const char *pare_builder_split(struct pare_builder *k, int n, int i);

/* Attributes of the last node. */
void pare_builder_int(struct pare_builder *k, const char *name, int64_t v);
void pare_builder_float(struct pare_builder *k, const char *name, float v);
void pare_builder_ints(struct pare_builder *k, const char *name, int n, const int64_t *v);

/* What the last node makes is an output of the model, and is called so. */
void pare_builder_output(struct pare_builder *k, const char *name, int rank, const int64_t *dim);

/* Keep an error of one's own. */
void pare_builder_fail(struct pare_builder *k, const struct pare_err *err);

/* The model, or the first error.  k is gone in any case. */
int pare_builder_done(struct pare_builder *k, struct pare_model **model, struct pare_err *err);

#endif
