/* resnet20.c - the residual network with 20 layers for CIFAR. */
#include "resnet.h"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    return pare_resnet(n, x, 16, 3, 3);
}

const struct pare_network pare_network_resnet20 = {
    .name = "resnet20",
    .doc = "ResNet with 20 layers and 16 to 64 channels, for images like CIFAR's",
    .least = 1,
    .scales = true,
    .build = build,
};
