/* lenet.c - LeNet-5 as in PyTorch's and NNI's examples:
 * LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
 */
#include "zoo_layers.h"

/* Two 5x5 windows and two poolings need 16 pixels; smaller images get a padding of 2. */
static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    int64_t pad = x.h < 16 || x.w < 16 ? 2 : 0;

    x = pare_net_conv(
        n, x, "conv1",
        (struct pare_conv){ .out = pare_net_wide(n, 20), .kernel = 5, .pad = pad, .bias = true });
    x = pare_net_relu(n, x, "relu1");
    x = pare_net_max_pool(n, x, "pool1", 2);
    x = pare_net_conv(
        n, x, "conv2",
        (struct pare_conv){ .out = pare_net_wide(n, 50), .kernel = 5, .pad = pad, .bias = true });
    x = pare_net_relu(n, x, "relu2");
    x = pare_net_max_pool(n, x, "pool2", 2);
    x = pare_net_flatten(n, x, "flatten");
    x = pare_net_linear(n, x, "fc1", pare_net_wide(n, 500));
    x = pare_net_relu(n, x, "relu3");
    return pare_net_linear(n, x, "fc2", n->classes);
}

const struct pare_network pare_network_lenet = {
    .name = "lenet",
    .doc = "LeNet-5: two convolutions and two linear layers, for small images",
    .least = 4,
    .scales = true,
    .build = build,
};
