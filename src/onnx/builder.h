/* builder.h - build a model node by node.
 *
 *     pare_builder_new("lenet", &k, err);
 *     x = pare_builder_input(k, "input", 4, (int64_t[]){ -1, 1, 28, 28 });
 *     w = pare_builder_weight(k, "conv1.weight", 4, dim, &t);       ... fill t ...
 *     x = pare_builder_node(k, "Conv", "conv1", x, w, NULL);
 *     pare_builder_ints(k, "kernel_shape", 2, (int64_t[]){ 5, 5 });
 *     pare_builder_output(k, "output", 2, (int64_t[]){ -1, 10 });
 *     pare_builder_done(k, &model, err);
 *
 * The first error is kept and later calls do nothing, so only pare_builder_done() needs a check.
 * Names are copied.  Functions that return a name return NULL after an error.
 */
#ifndef PARE_ONNX_BUILDER_H
#define PARE_ONNX_BUILDER_H

#include <pare/pare.h>

struct pare_builder;

/* Opset 17, IR version 8. */
int pare_builder_new(const char *name, struct pare_builder **make, struct pare_err *err);

/* A float32 input.  A dimension of -1 is free; if it is the first, it is named "N". */
const char *pare_builder_input(struct pare_builder *k, const char *name, int rank,
                               const int64_t *dim);

/* Initializers.  The caller fills *t, which is zeroed; t->data is NULL after an error. */
const char *pare_builder_weight(struct pare_builder *k, const char *name, int rank,
                                const int64_t *dim, struct pare_tensor *t);
const char *pare_builder_shape(struct pare_builder *k, const char *name, int n, const int64_t *v);
const char *pare_builder_number(struct pare_builder *k, const char *name, float v);

/* Add a node; the inputs are names, ended by NULL.  Returns its output, named like the node. */
const char *pare_builder_node(struct pare_builder *k, const char *type, const char *name, ...);

/* Give the last node n outputs: name.0, name.1, ...  Returns the i-th. */
const char *pare_builder_split(struct pare_builder *k, int n, int i);

/* Attributes of the last node. */
void pare_builder_int(struct pare_builder *k, const char *name, int64_t v);
void pare_builder_float(struct pare_builder *k, const char *name, float v);
void pare_builder_ints(struct pare_builder *k, const char *name, int n, const int64_t *v);

/* Make the last node's output an output of the model, of this name. */
void pare_builder_output(struct pare_builder *k, const char *name, int rank, const int64_t *dim);

/* Record an error of the caller. */
void pare_builder_fail(struct pare_builder *k, const struct pare_err *err);

/* Finish the model, or return the first error.  Frees k, also on failure. */
int pare_builder_done(struct pare_builder *k, struct pare_model **model, struct pare_err *err);

#endif
