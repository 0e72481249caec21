/* graph.h - nodes and values, shape inference, and the plain evaluator.
 *
 * A graph as loaded is a description: values have the shapes that the file declares, constants
 * have data, nothing else has.  Whoever wants to run or measure it clones it, sets the shapes of
 * the inputs and infers; a clone shares names, attributes and constants with its original.
 */
#ifndef PARE_GRAPH_GRAPH_H
#define PARE_GRAPH_GRAPH_H

#include "../base/map.h"
#include "../op/operator.h"

struct pare_graph {
    struct pare_arena *arena; /* what its parts are allocated from */
    const char *name;
    const struct pare_graph *outer; /* the graph around it; NULL for the main one */
    int n_nodes, n_values, n_in, n_out;
    struct pare_node **node;   /* in an order in which every input is made before its use */
    struct pare_value **value; /* value[i]->id == i */
    struct pare_value **in, **out;
    struct pare_map names; /* values by name */
    bool late; /* large constants behind 8-bit integers are made by pare_value_load, if at all */
    int cap_nodes, cap_values;
};

/* ---- building: src/onnx/ does ---------------------------------------------- */

struct pare_graph *pare_graph_new(struct pare_arena *a, const struct pare_graph *outer,
                                  struct pare_err *err);

/* The value of that name in this graph; created when there is none.  NULL on error. */
struct pare_value *pare_graph_value(struct pare_graph *g, const char *name, struct pare_err *err);

/* The value of that name here or in a graph around; NULL when there is none. */
struct pare_value *pare_graph_find(const struct pare_graph *g, const char *name);

/* Whoever used `from` uses `to` from now on, but for the node that makes `to`. */
void pare_graph_redirect(struct pare_graph *g, struct pare_value *from, struct pare_value *to);

/* The node that consumes v, if there is only one and it reads v once; else NULL.  An output of the
 * graph has consumers outside: NULL. */
struct pare_node *pare_graph_only_consumer(const struct pare_graph *g, const struct pare_value *v);

/* A node with room for its inputs and outputs, at the end of the list.  NULL on error. */
struct pare_node *pare_graph_add(struct pare_graph *g, int n_in, int n_out, struct pare_err *err);

/* Move a node of the graph to position `to` in g->node[]; ids follow. */
void pare_graph_move(struct pare_graph *g, const struct pare_node *n, int to);

/* Put the nodes in an order that runs; a cycle is an error that names one of its nodes. */
int pare_graph_order(struct pare_graph *g, struct pare_err *err);

/* ---- inference and evaluation ----------------------------------------------- */

/* A copy whose values can be given shapes and data of their own. */
struct pare_graph *pare_graph_clone(struct pare_arena *a, const struct pare_graph *g,
                                    struct pare_err *err);

/* Check the node against its operator's `in`: number of inputs, presence, element types. */
int pare_node_check(const struct pare_node *n, struct pare_err *err);

/* A constant's bytes, aligned: copied out of the file, or made, when they are not there. */
int pare_value_load(struct pare_arena *a, struct pare_value *v, struct pare_err *err);

/* Infer the shapes of all values, and compute all values that do not depend on the inputs.
 * Input values must have their shapes set.  A value whose shape depends on data gets
 * dtype PARE_NONE, and so does all that depends on it.  The first node that cannot run is an
 * error; with `lenient` it is skipped like a data-dependent one,
 * unless there was no memory. */
int pare_graph_infer(struct pare_graph *g, bool lenient, struct pare_err *err);

/* Check the node, then infer(): sets the shapes of its outputs. */
int pare_node_infer(struct pare_node *n, struct pare_err *err);

/* forward() into outputs that have memory, with those conversions. */
int pare_node_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* All its outputs have contents already. */
bool pare_node_known(const struct pare_node *n);

/* Check, infer, allocate outputs from c->results, run forward(), converting float16 and the like
 * where the operator does not handle them. */
int pare_node_eval(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* Evaluate all nodes that are not known yet, one after the other. */
int pare_graph_eval(struct pare_graph *g, struct pare_ctx *c, struct pare_err *err);

/* Free dimensions of a graph's inputs: the first gets `batch`, others 1. */
void pare_graph_bind(struct pare_graph *g, int64_t batch);

/* pare_ctx.call for the plain evaluator. */
int pare_graph_call(struct pare_ctx *c, const struct pare_graph *g, struct pare_node *site,
                    struct pare_err *err);

#endif
