/* vgg7.c - three pairs of convolutions, each followed by a halving, and a layer of neurons:
 * Li, Liu, "Ternary weight networks", 2016.
 */
#include "layers.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    static const int64_t width[] = { 128, 128, 0, 256, 256, 0, 512, 512, 0 }; /* 0: pool */
    int at = 0;

    n->init = PARE_INIT_VISION;
    for (size_t i = 0; i < sizeof(width) / sizeof(*width); i++) {
        struct pare_conv c = { .out = pare_net_wide(n, width[i]), .kernel = 3, .pad = 1 };

        if (!width[i]) {
            x = pare_net_max_pool(n, x, pare_net_name(n, "features.%d", at++), 2);
            continue;
        }
        x = pare_net_conv(n, x, pare_net_name(n, "features.%d", at), c);
        x = pare_net_batch_norm(n, x, pare_net_name(n, "features.%d", at + 1));
        x = pare_net_relu(n, x, pare_net_name(n, "features.%d", at + 2));
        at += 3;
    }
    x = pare_net_flatten(n, x, "flatten");
    x = pare_net_linear(n, x, "classifier.0", pare_net_wide(n, 1024));
    x = pare_net_relu(n, x, "classifier.1");
    return pare_net_linear(n, x, "classifier.2", n->classes);
}

const struct pare_network pare_network_vgg7 = {
    .name = "vgg7",
    .doc = "six convolutions with batch normalisation and two layers of neurons",
    .least = 8,
    .scales = true,
    .build = build,
};
