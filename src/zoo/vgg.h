/* vgg.h - the layers that VGG networks share. */
#ifndef PARE_ZOO_VGG_H
#define PARE_ZOO_VGG_H

#include "zoo_layers.h"

/* features.0, features.1, ...: 3x3 convolutions with width[i] channels, each with batch
 * normalization and Relu; a width of 0 is a 2x2 max pooling. */
struct pare_flow pare_vgg(struct pare_net *n, struct pare_flow x, const int64_t *width, int count,
                          bool bias);

#endif
