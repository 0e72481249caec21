/* layer.h - layers of a graph (nodes with constant weights), under the names of the author.
 *
 * The name of a layer is the first of these that exists, made unique by a number:
 *   - the weight's name without ".weight", or the bias's without ".bias": layer1.0.conv1
 *   - the scope in the node's name: /layer1/layer1.0/conv1/Conv is layer1.0.conv1
 *   - the node's name
 *   - its type and index: Conv_3
 */
#ifndef PARE_GRAPH_LAYER_H
#define PARE_GRAPH_LAYER_H

#include "graph.h"

struct pare_layer_info {
    const char *name;          /* the name in a config_list; unique */
    const char *type;          /* ONNX type: "Conv" */
    const char *torch;         /* PyTorch type: "Conv2d" */
    struct pare_node *node;    /* the node with the weights */
    struct pare_node *add;     /* the Add with the bias of a MatMul; NULL: none */
    struct pare_value *weight; /* the node's input: an initializer, or computed from one */
    struct pare_value *bias;   /* NULL: none */
    struct pare_value *in;     /* input of the layer; NULL: all inputs are constant */
    struct pare_value *out;    /* output of the layer: of `add` if there is one, the first one of
                                * a recurrent layer that exists */
    int64_t params;            /* trained elements; a shared weight counts once */
    double macs;               /* multiply-accumulates of a run; -1: shapes are unknown */
    bool shared;               /* an earlier layer uses the same weight */
    int channels;              /* 1 + axis of the weight's channels, if the operator names none */
    const char *body;          /* path of the body that it is in, "If_0/then": `in` and `out` are
                                * NULL, since values of bodies are not observed; NULL: main graph */
};

/* The layers of a graph with inferred shapes, in the order of its nodes, including those in bodies
 * whose weights are constants of the graph; their names start with the path of the body. */
int pare_layers(struct pare_arena *a, const struct pare_graph *g, struct pare_layer_info **list,
                int *n, struct pare_err *err);

/* The same, followed by nodes without weights, for example activations: weight and bias are NULL.
 * Quantizers can select these too. */
int pare_layers_all(struct pare_arena *a, const struct pare_graph *g, struct pare_layer_info **list,
                    int *n, struct pare_err *err);

/* Find a layer by name; if there is none, the error names the most similar name. */
int pare_find_layer(const struct pare_layer_info *list, int n, const char *name,
                    const struct pare_layer_info **layer, struct pare_err *err);

/* Trained elements that belong to no layer, for example a position embedding: floating-point
 * initializers with more than one element that neither a layer nor a setting uses. */
int pare_loose_params(const struct pare_graph *g, const struct pare_layer_info *list, int n,
                      int64_t *count, struct pare_err *err);

/* Whether it is a convolution or a linear layer: sums of products of input and weight. */
bool pare_layer_is_product(const struct pare_layer_info *l);

/* Multiply-accumulates of a node; -1: shapes are unknown. */
double pare_node_macs(const struct pare_node *n);

/* The initializer (or result of a constant node) that a constant was computed from. */
const struct pare_value *pare_value_root(const struct pare_value *v);

#endif
