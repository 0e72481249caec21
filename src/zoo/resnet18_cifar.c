/* resnet18_cifar.c - ResNet-18 without its first strides, for small images. */
#include "resnet.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    return pare_resnet(n, x, 64, 4, 2);
}

const struct pare_network pare_network_resnet18_cifar = {
    .name = "resnet18-cifar",
    .doc = "ResNet-18 with a 3x3 stem and no pooling, for images like CIFAR's",
    .least = 1,
    .scales = true,
    .build = build,
};
