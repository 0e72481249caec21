/* resnet.h - the layers that residual networks share. */
#ifndef PARE_ZOO_RESNET_H
#define PARE_ZOO_RESNET_H

#include "zoo_layers.h"

/* A 3x3 convolution to `width` channels, then stages layer1, layer2, ... of `blocks` basic blocks
 * each; every stage but the first doubles the channels and halves height and width.  Then global
 * average pooling and a linear layer "fc". */
struct pare_flow pare_resnet(struct pare_net *n, struct pare_flow x, int64_t width, int stages,
                             int blocks);

#endif
