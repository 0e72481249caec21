/* zoo_layers.h - layers of the zoo's networks, with PyTorch's names and initial weights. */
#ifndef PARE_ZOO_ZOO_LAYERS_H
#define PARE_ZOO_ZOO_LAYERS_H

#include "../base/rng.h"
#include "../onnx/builder.h"
#include "zoo.h"

/* Initialization of the following layers.  fan_in is the number of products summed for one output,
 * fan_out the number of filters times the size of a filter's window.
 *   default  weight and bias uniform in +-1/sqrt(fan_in): nn.Conv2d and nn.Linear
 *   vision   torchvision: convolutions normal, std sqrt(2 / fan_out); Linear normal, std 0.01;
 *            biases 0
 *   resnet   convolutions as vision, Linear as default
 *   vit      timm: Linear normal, std 0.02; biases 0; convolutions as default
 */
enum pare_init { PARE_INIT_DEFAULT, PARE_INIT_VISION, PARE_INIT_RESNET, PARE_INIT_VIT };

/* A network under construction. */
struct pare_net {
    struct pare_builder *make;
    struct pare_rng rng;
    enum pare_init init;
    int64_t classes;
    double width;   /* see pare_net_wide */
    char name[128]; /* result of the last pare_net_name() */
};

/* The value between two layers: (N, c, h, w), or (N, c) if h is 0. */
struct pare_flow {
    const char *value;
    int64_t c, h, w;
};

struct pare_conv {
    int64_t out, kernel, stride, pad, group; /* 0: stride 1, group 1 */
    bool bias;
};

/* "layer1.0.conv1"; valid until the next call. */
const char *pare_net_name(struct pare_net *n, const char *fmt, ...) PARE_PRINTF(2, 3);

/* The channels of a hidden layer, scaled by the network's width; at least 1. */
int64_t pare_net_wide(const struct pare_net *n, int64_t channels);

/* `name` is the module's: its parameters are name.weight, name.bias, ... */
struct pare_flow pare_net_conv(struct pare_net *n, struct pare_flow x, const char *name,
                               struct pare_conv c);
struct pare_flow pare_net_batch_norm(struct pare_net *n, struct pare_flow x, const char *name);
struct pare_flow pare_net_linear(struct pare_net *n, struct pare_flow x, const char *name,
                                 int64_t out);
struct pare_flow pare_net_max_pool(struct pare_net *n, struct pare_flow x, const char *name,
                                   int64_t size);
struct pare_flow pare_net_average(struct pare_net *n, struct pare_flow x, const char *name);
struct pare_flow pare_net_flatten(struct pare_net *n, struct pare_flow x, const char *name);
struct pare_flow pare_net_sum(struct pare_net *n, struct pare_flow a, struct pare_flow b,
                              const char *name);

/* Operators that keep the shape and need no attributes: "Relu", "Sigmoid", ... */
struct pare_flow pare_net_apply(struct pare_net *n, struct pare_flow x, const char *op,
                                const char *name);
struct pare_flow pare_net_relu(struct pare_net *n, struct pare_flow x, const char *name);
struct pare_flow pare_net_relu6(struct pare_net *n, struct pare_flow x, const char *name);
struct pare_flow pare_net_dropout(struct pare_net *n, struct pare_flow x, const char *name,
                                  float part);

/* Randomly initialized or constant parameters, by their full name. */
const char *pare_net_uniform(struct pare_net *n, const char *name, int rank, const int64_t *dim,
                             double bound);
const char *pare_net_normal(struct pare_net *n, const char *name, int rank, const int64_t *dim,
                            double std);
const char *pare_net_fill(struct pare_net *n, const char *name, int rank, const int64_t *dim,
                          float v);

#endif
