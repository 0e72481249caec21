/* edit.h - copy-on-write editor: a new model with nodes and initializers of a loaded one changed.
 *
 * An edit starts as a copy of the model that shares every protobuf message with it.  Each function
 * copies only the messages that it changes; the original model is never modified.
 *
 *     pare_edit_new(model, &e, err);
 *     pare_edit_constant(e, "w_quantized", &q, err);
 *     pare_edit_drop_constant(e, "w", err);              no node or initializer makes "w" now
 *     pare_edit_insert(e, &(struct pare_edit_node){ ..., .out = "w" }, err);
 *     pare_edit_save(e, "new.onnx", err);                or pare_edit_model(e, &changed, err)
 *     pare_edit_free(e);
 *
 * Lifetimes: the edit and the model made from it share the original's weights and hold a reference
 * to it.  The elements of tensors and the strings that are passed in are not copied: they must live
 * as long as the edit and its model; pare_edit_arena() is memory that does.
 *
 * Nodes of functions are left as they are; those of bodies are reached by pare_edit_of_node().
 */
#ifndef PARE_ONNX_EDIT_H
#define PARE_ONNX_EDIT_H

#include "model.h"

struct pare_edit;

int pare_edit_new(const struct pare_model *m, struct pare_edit **edit, struct pare_err *err);
void pare_edit_free(struct pare_edit *e); /* NULL is allowed */

/* Memory that is freed with the edit, or with the model made from it. */
struct pare_arena *pare_edit_arena(struct pare_edit *e);

/* Build the edited model.  Frees the edit, also on failure. */
int pare_edit_model(struct pare_edit *e, struct pare_model **model, struct pare_err *err);

/* Write the edited model to a file, without building its graph. */
int pare_edit_save(struct pare_edit *e, const char *path, struct pare_err *err);

/* ---- names and operator sets ----------------------------------------------------------------- */

/* Reserve the name base + ending, or base + ending + "_2", "_3", ... if it is taken by a value or a
 * node of the main graph or of a subgraph.  NULL: no memory. */
const char *pare_edit_name(struct pare_edit *e, const char *base, const char *ending);

/* Raise the opset of the standard operators to at least `version` (upgrade/opset_upgrade.c).
 * Operators that changed in between are rewritten, in subgraphs and functions too; what cannot be
 * is an error, after which the edit can only be freed. */
int pare_edit_opset(struct pare_edit *e, int64_t version, struct pare_err *err);
int64_t pare_edit_version(const struct pare_edit *e);

/* The same as a new model; the version must not be lower than the model's. */
int pare_model_raise_opset(const struct pare_model *m, int64_t version, struct pare_model **raised,
                           struct pare_err *err);

/* Import the operator set of another domain. */
int pare_edit_import(struct pare_edit *e, const char *domain, int64_t version,
                     struct pare_err *err);

/* ---- initializers ---------------------------------------------------------------------------- */

/* Add an initializer of this name. */
int pare_edit_constant(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                       struct pare_err *err);

/* Add an initializer called `base`, or base + ".1", ".2", ... if that is taken. */
int pare_edit_add_constant(struct pare_edit *e, const char *base, const struct pare_tensor *t,
                           const char **name, struct pare_err *err);

/* Replace the constant of this name, made by an initializer, a Constant node or nodes that compute
 * it, by an initializer with the contents of t. */
int pare_edit_set_constant(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                           struct pare_err *err);
int pare_edit_drop_constant(struct pare_edit *e, const char *name, struct pare_err *err);

/* Drop the shape that the file declares for a value (value_info). */
int pare_edit_forget_shape(struct pare_edit *e, const char *name, struct pare_err *err);

/* Declare dimension 0 of inputs and outputs, where it is 1, as the free dimension `name`, and drop
 * the shapes that the file declares for other values. */
int pare_edit_free_batch(struct pare_edit *e, const char *name, struct pare_err *err);

/* The new model accepts any batch where 1 is declared (struct pare_model: any_batch). */
void pare_edit_any_batch(struct pare_edit *e);

/* ---- nodes, named by a value that they make -------------------------------------------------- */

#define PARE_EDIT_INPUTS 9
#define PARE_EDIT_OUTPUTS 3
#define PARE_EDIT_ATTRS 4
#define PARE_EDIT_LISTS 3

struct pare_edit_node {
    const char *type, *name;
    const char *domain;               /* NULL: the standard operators */
    const char *in[PARE_EDIT_INPUTS]; /* "": an absent input; NULL ends the list */
    const char *out;
    const char *more[PARE_EDIT_OUTPUTS - 1]; /* further outputs; NULL ends the list */
    int axis;                                /* attribute "axis"; -1: the node has none */
    struct {
        const char *name; /* NULL ends the list */
        int64_t v;
    } attr[PARE_EDIT_ATTRS]; /* integer attributes */
    struct {
        const char *name; /* NULL ends the list */
        const int64_t *v;
        int n;
    } list[PARE_EDIT_LISTS]; /* attributes that are lists of integers */
};

/* Insert a node after the nodes that make its inputs. */
int pare_edit_insert(struct pare_edit *e, const struct pare_edit_node *n, struct pare_err *err);

/* Rename the output `value` to `name` at the node that makes it.  Consumers of `value` are not
 * changed: another node has to make it. */
int pare_edit_rename(struct pare_edit *e, const char *value, const char *name,
                     struct pare_err *err);

/* Set input k of the node that makes `value`; inputs between its last one and k become absent. */
int pare_edit_rewire(struct pare_edit *e, const char *value, int k, const char *name,
                     struct pare_err *err);

/* Remove the node that makes `value`. */
int pare_edit_remove(struct pare_edit *e, const char *value, struct pare_err *err);

/* ---- nodes of the original model's graph, or of a clone of it -------------------------------- */

/* Is the node one of the file's main graph, so that it can be edited?  Nodes of functions, which
 * loading inlines, are not. */
bool pare_model_has_node(const struct pare_model *m, const struct pare_node *n);

/* Set input i; inputs between the node's last one and i become absent. */
int pare_edit_set_input(struct pare_edit *e, const struct pare_node *n, int i, const char *name,
                        struct pare_err *err);

/* Remove input i; the following inputs move up.  An i out of range is ignored. */
int pare_edit_drop_input(struct pare_edit *e, const struct pare_node *n, int i,
                         struct pare_err *err);

/* Insert type(output 0 of n, with) after n.  Consumers of the output read the new node's result. */
int pare_edit_append(struct pare_edit *e, const struct pare_node *n, const char *type,
                     const char *with, struct pare_err *err);

/* Set an attribute. */
int pare_edit_set_int(struct pare_edit *e, const struct pare_node *n, const char *attr, int64_t v,
                      struct pare_err *err);
int pare_edit_set_ints(struct pare_edit *e, const struct pare_node *n, const char *attr,
                       const int64_t *v, int count, struct pare_err *err);

/* The edit of the graph that has the node n: e, or that of a body of If, Loop or Scan of g, at any
 * depth; nodes can be inserted, renamed, rewired and removed there.  Initializers are added to e.
 * *at is valid until pare_edit_opset(); NULL: g and its bodies do not have the node. */
int pare_edit_of_node(struct pare_edit *e, const struct pare_graph *g, const struct pare_node *n,
                      struct pare_edit **at, struct pare_err *err);

/* ---- passes over the whole graph ------------------------------------------------------------- */

/* Replace the nodes by those of g, a clone of the original model's graph that was changed: values
 * with an id of the original keep their names, and computed values that became constants are
 * written as initializers.  Sweeps. */
int pare_edit_set_graph(struct pare_edit *e, const struct pare_graph *g, struct pare_err *err);

/* Remove nodes, initializers and declared shapes that no output depends on. */
int pare_edit_sweep(struct pare_edit *e, struct pare_err *err);

/* Fuse DequantizeLinear - operator - QuantizeLinear into int8 operators (qoperator.c).  *n: number
 * of operators fused. */
int pare_edit_qoperator(struct pare_edit *e, int *n, struct pare_err *err);

#endif
