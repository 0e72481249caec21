/* vgg16_cifar.c - VGG-16 with batch normalization and one linear layer, for small images:
 * Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014.
 */
#include "vgg.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    static const int64_t width[] = { 64, 64,  0,   128, 128, 0,   256, 256, 256,
                                     0,  512, 512, 512, 0,   512, 512, 512, 0 }; /* 0: pool */

    x = pare_vgg(n, x, width, sizeof(width) / sizeof(*width), true);
    x = pare_net_average(n, x, "avgpool");
    x = pare_net_flatten(n, x, "flatten");
    return pare_net_linear(n, x, "classifier", n->classes);
}

const struct pare_network pare_network_vgg16_cifar = {
    .name = "vgg16-cifar",
    .doc = "VGG-16 with batch normalization, for images like CIFAR's",
    .least = 32,
    .scales = true,
    .build = build,
};
