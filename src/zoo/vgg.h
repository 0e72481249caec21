/* vgg.h - what networks in the manner of VGG share. */
#ifndef PARE_ZOO_VGG_H
#define PARE_ZOO_VGG_H

#include "zoo_layers.h"

/* features.0, features.1, ...: 3x3 convolutions of so many channels, each with its batch
 * normalisation and Relu; where the width is 0, the picture is halved. */
struct pare_flow pare_vgg(struct pare_net *n, struct pare_flow x, const int64_t *width, int count,
                          bool bias);

#endif
