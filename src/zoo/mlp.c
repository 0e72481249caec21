/* mlp.c - a multilayer perceptron with two hidden layers. */
#include "zoo_layers.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    x = pare_net_flatten(n, x, "flatten");
    x = pare_net_linear(n, x, "fc1", pare_net_wide(n, 256));
    x = pare_net_relu(n, x, "relu1");
    x = pare_net_linear(n, x, "fc2", pare_net_wide(n, 128));
    x = pare_net_relu(n, x, "relu2");
    return pare_net_linear(n, x, "fc3", n->classes);
}

const struct pare_network pare_network_mlp = {
    .name = "mlp",
    .doc = "multilayer perceptron with hidden layers of 256 and 128",
    .least = 1,
    .scales = true,
    .build = build,
};
