/* change.h - a model made from another by changing constants, attributes and nodes.
 *
 *     pare_change_new(m, &c, err);
 *     pare_change_const(c, "conv1.weight", &t, err);         smaller, say
 *     pare_change_int(c, node, "group", 16, err);
 *     pare_change_done(c, &model, err);                      nodes that nobody needs are gone
 *
 * The original is not touched.  The new model shares with it what did not change, so the original
 * must outlive it.  Contents of tensors are not copied: they must live in the new model's arena, or
 * outlive it otherwise.
 */
#ifndef PARE_ONNX_CHANGE_H
#define PARE_ONNX_CHANGE_H

#include "model.h"

struct pare_change;

int pare_change_new(const struct pare_model *m, struct pare_change **c, struct pare_err *err);

/* Memory that lives as long as the new model. */
struct pare_arena *pare_change_arena(struct pare_change *c);

/* The node stands in the main graph of the file, so that it can be changed: not in a function. */
bool pare_change_can(const struct pare_change *c, const struct pare_node *n);
bool pare_change_has(const struct pare_model *m, const struct pare_node *n); /* the same */

/* The constant of that name gets these contents, whether an initializer, a Constant or nodes that
 * compute it made it so far. */
int pare_change_const(struct pare_change *c, const char *name, const struct pare_tensor *t,
                      struct pare_err *err);

/* A new initializer; its name is `base`, or starts with it when that is taken. */
int pare_change_add(struct pare_change *c, const char *base, const struct pare_tensor *t,
                    const char **name, struct pare_err *err);

/* Input i of a node, which may be one more than it had. */
int pare_change_input(struct pare_change *c, const struct pare_node *n, int i, const char *name,
                      struct pare_err *err);

/* Leave out input i of a node; those behind it move up. */
int pare_change_leave_out(struct pare_change *c, const struct pare_node *n, int i,
                          struct pare_err *err);

/* Put a node of type `type` with inputs (what output 0 of n was, `with`) behind output 0 of n.  Who
 * used the output uses the new node's. */
int pare_change_behind(struct pare_change *c, const struct pare_node *n, const char *type,
                       const char *with, struct pare_err *err);

int pare_change_int(struct pare_change *c, const struct pare_node *n, const char *attr, int64_t v,
                    struct pare_err *err);
int pare_change_ints(struct pare_change *c, const struct pare_node *n, const char *attr,
                     const int64_t *v, int count, struct pare_err *err);

/* The shape that the file declares for the value does not hold any more. */
int pare_change_forget(struct pare_change *c, const char *name, struct pare_err *err);

/* The new model, without nodes and initializers that nothing needs, or an error; c is gone in any
 * case. */
int pare_change_done(struct pare_change *c, struct pare_model **model, struct pare_err *err);
void pare_change_drop(struct pare_change *c); /* no model; NULL is fine */

#endif
