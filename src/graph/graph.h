/* graph.h - graphs of nodes and values, shape inference, and the reference evaluator.
 *
 * A graph as loaded is a description: values have the shapes that the file declares, and only
 * constants have data.  To run or measure it, clone it, set the shapes of the inputs and infer.  A
 * clone shares names, attributes and constants with its original.
 */
#ifndef PARE_GRAPH_GRAPH_H
#define PARE_GRAPH_GRAPH_H

#include "../base/map.h"
#include "../op/operator.h"

#define PARE_OTHER_SIZES 2

struct pare_graph {
    struct pare_arena *arena; /* of nodes, values and lists */
    const char *name;
    const struct pare_graph *outer; /* the enclosing graph; NULL for the main graph */
    int n_nodes, n_values, n_in, n_out;
    struct pare_node **node;   /* topologically sorted: every input is produced before its use */
    struct pare_value **value; /* value[i]->id == i */
    struct pare_value **in, **out;
    const struct pare_tensor *in_type, *out_type; /* as the file declares them; NULL: unknown */
    struct pare_map names;                        /* values by name */
    bool is_body; /* of a model that was made of a body (onnx/body_model.h): the last `captured`
                   * inputs are values that the body captures */
    int captured;
    bool late;  /* large dequantized constants are computed by pare_value_load() on first use */
    int failed; /* nodes that a lenient pare_graph_infer() skipped, except data-dependent ones; with
                   those of bodies that may run */

    /* The same graph with shapes for other sizes of free dimensions, with the same ids of nodes and
     * values (free_dims.h); NULL: none. */
    const struct pare_graph *other[PARE_OTHER_SIZES];
    int cap_nodes, cap_values;
};

/* ---- building, by src/onnx/ --------------------------------------------------------------- */

struct pare_graph *pare_graph_new(struct pare_arena *a, const struct pare_graph *outer,
                                  struct pare_err *err);

/* The value of that name in this graph; created if absent.  NULL on error. */
struct pare_value *pare_graph_value(struct pare_graph *g, const char *name, struct pare_err *err);

/* Whether an image input has its channels second or last: what the nodes after it expect, else
 * what its sizes look like (input_layout.c). */
enum pare_layout pare_graph_layout(const struct pare_graph *g, const struct pare_value *in);

/* The value of that name in this graph or an enclosing one; NULL: none. */
struct pare_value *pare_graph_find(const struct pare_graph *g, const char *name);

/* Make all consumers of `from`, also in bodies, consume `to`, except the node that makes `to`. */
void pare_graph_redirect(struct pare_graph *g, struct pare_value *from, struct pare_value *to);

/* The node that consumes v, if there is only one and it reads v once; else NULL.  An output of the
 * graph has consumers outside: NULL. */
struct pare_node *pare_graph_only_consumer(const struct pare_graph *g, const struct pare_value *v);

/* How many inputs of nodes and outputs of graphs are v, also in bodies. */
int pare_graph_count_uses(const struct pare_graph *g, const struct pare_value *v);

/* Append a node with room for its inputs and outputs.  NULL on error. */
struct pare_node *pare_graph_add(struct pare_graph *g, int n_in, int n_out, struct pare_err *err);

/* Move a node of the graph to position `to` in g->node[]; ids follow. */
void pare_graph_move(struct pare_graph *g, const struct pare_node *n, int to);

/* Remove nodes without an operator that no output of the graph depends on, and nodes that depend on
 * those.  The nodes are sorted. */
int pare_graph_drop_unknown(struct pare_graph *g, struct pare_err *err);

/* Sort the nodes topologically; a cycle is an error that names one of its nodes. */
int pare_graph_order(struct pare_graph *g, struct pare_err *err);

/* ---- inference and evaluation ----------------------------------------------- */

/* A copy whose values have shapes and data of their own. */
struct pare_graph *pare_graph_clone(struct pare_arena *a, const struct pare_graph *g,
                                    struct pare_err *err);

/* Check the node against its operator's `in`: number of inputs, presence, element types. */
int pare_node_check(const struct pare_node *n, struct pare_err *err);

/* Make a constant's bytes available, aligned: copy them from the file or compute them if needed. */
int pare_value_load(struct pare_arena *a, struct pare_value *v, struct pare_err *err);

/* Infer the shapes of all values, and compute all values that do not depend on the inputs, whose
 * shapes must be set.  A value whose shape depends on data gets dtype PARE_NONE, and so do all
 * values that depend on it.  The first node that cannot run is an error; with `lenient` it is
 * skipped like a data-dependent one, except when out of memory. */
int pare_graph_infer(struct pare_graph *g, bool lenient, struct pare_err *err);

/* Calls of pare_graph_infer() in this process.  For tests. */
int64_t pare_infer_count(void);

/* Check the node, then infer() the shapes of its outputs. */
int pare_node_infer(struct pare_node *n, struct pare_err *err);

/* Run forward() into outputs that have memory, with the conversions of pare_node_eval(). */
int pare_node_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* Whether all its outputs have contents. */
bool pare_node_known(const struct pare_node *n);

/* Check, infer, allocate outputs from c->results and run forward(), converting float16 and other
 * types that the operator does not support. */
int pare_node_eval(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* Evaluate all nodes without known results, in order. */
int pare_graph_eval(struct pare_graph *g, struct pare_ctx *c, struct pare_err *err);

/* Set free dimensions of the graph's inputs: the first to `batch`, others to 1. */
void pare_graph_bind(struct pare_graph *g, int64_t batch);

/* ---- bodies: the graphs of If, Loop, Scan (bodies.c) ----------------------------------------- */

/* Body i of the node, NULL after the last; *label, if not NULL: "then", "else", "body". */
struct pare_graph *pare_node_body(const struct pare_node *n, int i, const char **label);

/* pare_ctx.call and pare_ctx.declared.  A clone's bodies belong to it; they keep loaded constants
 * from one call to the next. */
int pare_graph_call(struct pare_ctx *c, const struct pare_graph *body, const struct pare_tensor *in,
                    int n_in, struct pare_tensor *out, int n_out, struct pare_err *err);
void pare_graph_declared(const struct pare_graph *body, bool input, int i, struct pare_tensor *t);

/* Let the graph, a body, and the bodies in it read `to` instead of `from`, one of its inputs or a
 * value around it. */
void pare_graph_replace(struct pare_graph *g, const struct pare_value *from, struct pare_value *to);

/* Forget constants that were loaded into memory that is about to be freed. */
void pare_bodies_unload(const struct pare_node *n);

#endif
