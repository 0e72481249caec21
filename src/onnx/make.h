/* make.h - a model from scratch, node by node.
 *
 *     pare_make_new("lenet", &k, err);
 *     x = pare_make_input(k, "input", 4, (int64_t[]){ -1, 1, 28, 28 });
 *     w = pare_make_weight(k, "conv1.weight", 4, dim, &t);       ... fill t ...
 *     x = pare_make_node(k, "Conv", "conv1", x, w, NULL);
 *     pare_make_ints(k, "kernel_shape", 2, (int64_t[]){ 5, 5 });
 *     pare_make_output(k, "output", 2, (int64_t[]){ -1, 10 });
 *     pare_make_done(k, &model, err);
 *
 * The first error is kept and everything after it does nothing, so only the last call is asked.
 * Names are copied; where one is returned, it is NULL after an error.
 */
#ifndef PARE_ONNX_MAKE_H
#define PARE_ONNX_MAKE_H

#include <pare/pare.h>

struct pare_make;

/* Operator set 17, file format 8. */
int pare_make_new(const char *name, struct pare_make **make, struct pare_err *err);

/* float32; a dimension of -1 is free, and called "N" when it is the first. */
const char *pare_make_input(struct pare_make *k, const char *name, int rank, const int64_t *dim);

/* Initializers.  *t is the memory to fill, zeroed; its data is NULL after an error. */
const char *pare_make_weight(struct pare_make *k, const char *name, int rank, const int64_t *dim,
                             struct pare_tensor *t);
const char *pare_make_shape(struct pare_make *k, const char *name, int n, const int64_t *v);
const char *pare_make_number(struct pare_make *k, const char *name, float v);

/* A node; inputs are names, NULL ends them.  Returns its output, which has the node's name. */
const char *pare_make_node(struct pare_make *k, const char *type, const char *name, ...);

/* The last node has n outputs instead: name.0, name.1, ...  Returns the i-th. */
const char *pare_make_split(struct pare_make *k, int n, int i);

/* Attributes of the last node. */
void pare_make_int(struct pare_make *k, const char *name, int64_t v);
void pare_make_float(struct pare_make *k, const char *name, float v);
void pare_make_ints(struct pare_make *k, const char *name, int n, const int64_t *v);

/* What the last node makes is an output of the model, and is called so. */
void pare_make_output(struct pare_make *k, const char *name, int rank, const int64_t *dim);

/* Keep an error of one's own. */
void pare_make_fail(struct pare_make *k, const struct pare_err *err);

/* The model, or the first error.  k is gone in any case. */
int pare_make_done(struct pare_make *k, struct pare_model **model, struct pare_err *err);

#endif
