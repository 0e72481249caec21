/* layer.h - the layers of a graph, under the names their author gave them.
 *
 * A layer is a node with constant weights.  Its name is the first of these that exists, made
 * unique with a number:
 *   - the weight's name without ".weight", or the bias's without ".bias": layer1.0.conv1
 *   - the scope in the node's name: /layer1/layer1.0/conv1/Conv is layer1.0.conv1
 *   - the node's name
 *   - its type and index: Conv_3
 */
#ifndef PARE_GRAPH_LAYER_H
#define PARE_GRAPH_LAYER_H

#include "graph.h"

struct pare_layer_info {
    const char *name;          /* what a config may say; no two layers share one */
    const char *type;          /* in ONNX: "Conv" */
    const char *torch;         /* in PyTorch: "Conv2d" */
    struct pare_node *node;    /* the node with the weights */
    struct pare_node *add;     /* of a MatMul: the Add with its bias, or NULL */
    struct pare_value *weight; /* as the node gets it: perhaps computed from an initializer */
    struct pare_value *bias;   /* or NULL */
    struct pare_value *in;     /* what enters the layer; NULL when all of it is constant */
    struct pare_value *out;    /* what leaves the layer, behind `add` */
    int64_t params;            /* trained elements; those of a weight used twice count once */
    double macs;               /* multiply-accumulates of a run; -1 when shapes are not known */
    bool shared;               /* an earlier layer uses the same weight */
};

/* The layers of a graph whose shapes are inferred, in the order of its nodes. */
int pare_layers(struct pare_arena *a, const struct pare_graph *g, struct pare_layer_info **list,
                int *n, struct pare_err *err);

/* The same, followed by the nodes that have no weights, such as activations: weight and bias are
 * NULL.  Quantizers look at these too. */
int pare_layers_all(struct pare_arena *a, const struct pare_graph *g, struct pare_layer_info **list,
                    int *n, struct pare_err *err);

/* By name; an error that names the nearest one when there is none. */
int pare_find_layer(const struct pare_layer_info *list, int n, const char *name,
                    const struct pare_layer_info **layer, struct pare_err *err);

/* Trained elements that belong to no layer, such as a position embedding: floating-point
 * initializers with more than one element that no layer uses. */
int pare_loose_params(const struct pare_graph *g, const struct pare_layer_info *list, int n,
                      int64_t *count, struct pare_err *err);

/* Multiply-accumulates of a node; 0 when it has none, -1 when its shapes are not known. */
double pare_node_macs(const struct pare_node *n);

/* The initializer (or result of a constant node) behind a constant that was computed from it. */
const struct pare_value *pare_value_root(const struct pare_value *v);

#endif
