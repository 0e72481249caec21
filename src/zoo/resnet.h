/* resnet.h - what residual networks share. */
#ifndef PARE_ZOO_RESNET_H
#define PARE_ZOO_RESNET_H

#include "zoo_layers.h"

/* Stages layer1, layer2, ... of `blocks` basic blocks each, on top of a 3x3 convolution to `width`
 * channels; every stage but the first doubles the channels and halves the picture.  Then the
 * average and a Linear "fc". */
struct pare_flow pare_resnet(struct pare_net *n, struct pare_flow x, int64_t width, int stages,
                             int blocks);

#endif
