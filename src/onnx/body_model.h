/* body_model.h - a body of If, Loop or Scan as a model of its own, for analyses of channels.
 *
 * Inside of a body, layers follow each other as in the main graph.  What crosses the border of the
 * body is an input or an output of the model, so its channels are frozen.
 */
#ifndef PARE_ONNX_BODY_MODEL_H
#define PARE_ONNX_BODY_MODEL_H

#include "../graph/free_dims.h"
#include "model.h"

struct pare_body_model {
    struct pare_model *model;  /* shares the memory of the model around it and holds a reference to
                                * it; NULL: the node is part of a function */
    struct pare_tensor *given; /* shapes of its inputs as in the graph that it was made from */
};

/* Body b of node n of the graph g: m's main graph with shapes, which may have other[].  A captured
 * value is an initializer of the new model if it is the same in every run and for all sizes, else
 * an input after those of the body.  A dimension is free if its size in g->other[] differs. */
int pare_body_model_new(struct pare_arena *a, const struct pare_model *m,
                        const struct pare_graph *g, const struct pare_node *n, int b,
                        struct pare_body_model *out, struct pare_err *err);

/* Put the graph of `edited`, which was made from `body` by edits, into the place of the body in m.
 * Initializers that changed become initializers of the main graph.  *out holds references to m and
 * to both others. */
int pare_body_model_replace(const struct pare_model *m, const struct pare_node *n, int b,
                            const struct pare_model *body, const struct pare_model *edited,
                            struct pare_model **out, struct pare_err *err);

/* ---- body_graphs.c --------------------------------------------------------------------------- */

/* A body at any depth, with a graph for questions about channels. */
struct pare_body_graph {
    const char *path; /* "If_0/then" */
    struct pare_model *model;
    struct pare_graph *g; /* of struct pare_all_sizes; a normalization is one node in it */
    struct pare_body_graph *next;
};

/* The bodies of g, m's main graph with shapes, that have layers, outer ones first; without bodies
 * that have no model.  The list is in the arena; the models must be freed. */
int pare_body_graphs_new(struct pare_arena *a, const struct pare_model *m,
                         const struct pare_graph *g, struct pare_body_graph **list,
                         struct pare_err *err);
void pare_body_graphs_free(struct pare_body_graph *list);

#endif
