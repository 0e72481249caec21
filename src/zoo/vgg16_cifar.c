/* vgg16_cifar.c - VGG-16 with batch normalisation and one Linear, for small pictures:
 * Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014.
 */
#include "layers.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    static const int64_t width[] = { 64, 64,  0,   128, 128, 0,   256, 256, 256,
                                     0,  512, 512, 512, 0,   512, 512, 512, 0 }; /* 0: pool */
    int at = 0;

    n->init = PARE_INIT_VISION;
    for (size_t i = 0; i < sizeof(width) / sizeof(*width); i++) {
        struct pare_conv c = { .out = pare_net_wide(n, width[i]),
                               .kernel = 3,
                               .pad = 1,
                               .bias = true };

        if (!width[i]) {
            x = pare_net_max_pool(n, x, pare_net_name(n, "features.%d", at++), 2);
            continue;
        }
        x = pare_net_conv(n, x, pare_net_name(n, "features.%d", at), c);
        x = pare_net_batch_norm(n, x, pare_net_name(n, "features.%d", at + 1));
        x = pare_net_relu(n, x, pare_net_name(n, "features.%d", at + 2));
        at += 3;
    }
    x = pare_net_average(n, x, "avgpool");
    x = pare_net_flatten(n, x, "flatten");
    return pare_net_linear(n, x, "classifier", n->classes);
}

const struct pare_network pare_network_vgg16_cifar = {
    .name = "vgg16-cifar",
    .doc = "VGG-16 with batch normalisation, for pictures like CIFAR's",
    .least = 32,
    .scales = true,
    .build = build,
};
