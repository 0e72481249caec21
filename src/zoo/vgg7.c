/* vgg7.c - three pairs of convolutions, each followed by a pooling, and two linear layers:
 * Li, Liu, "Ternary weight networks", 2016.
 */
#include "vgg.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    static const int64_t width[] = { 128, 128, 0, 256, 256, 0, 512, 512, 0 }; /* 0: pool */

    x = pare_vgg(n, x, width, sizeof(width) / sizeof(*width), false);
    x = pare_net_flatten(n, x, "flatten");
    x = pare_net_linear(n, x, "classifier.0", pare_net_wide(n, 1024));
    x = pare_net_relu(n, x, "classifier.1");
    return pare_net_linear(n, x, "classifier.2", n->classes);
}

const struct pare_network pare_network_vgg7 = {
    .name = "vgg7",
    .doc = "six convolutions with batch normalization and two linear layers",
    .least = 8,
    .scales = true,
    .build = build,
};
