/* simplify.h - a model with fewer nodes that computes the same for every size of its free
 * dimensions. */
#ifndef PARE_ONNX_SIMPLIFY_H
#define PARE_ONNX_SIMPLIFY_H

#include "model.h"

/* Nodes of one operator, bodies of If, Loop and Scan included. */
struct pare_op_count {
    const char *type;
    int before, after;
};

struct pare_simplified {
    struct pare_op_count *op; /* sorted by name */
    int n_ops, nodes, nodes_left;
};

/* What to do with a body of If, Loop or Scan that became smaller.  Both are models of their own;
 * given: shapes of the inputs that the body is called with.  PARE_ESHAPE: it cannot run alone.
 * Another error: the body stays as it is, except out of memory and cancellation. */
typedef int pare_simplify_check(void *user, const struct pare_model *body,
                                const struct pare_model *simple, const struct pare_tensor *given,
                                struct pare_err *err);

struct pare_simplify_opts {
    pare_simplify_check *check; /* called for each body; NULL: none */
    void *user;
};

/* Fold what does not depend on inputs, and run the graph rewrites that hold for every size, in
 * bodies as well.  Results of folding that are much larger than what they are computed from stay
 * nodes. */
int pare_model_simplify(const struct pare_model *m, const struct pare_simplify_opts *opts,
                        struct pare_model **out, struct pare_err *err);

/* Count the nodes of the file that m was read from, and of the simplified model. */
int pare_simplified_count(const struct pare_model *m, const struct pare_model *left,
                          struct pare_arena *a, struct pare_simplified *s, struct pare_err *err);

#endif
