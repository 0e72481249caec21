/* mobilenetv2_cifar.c - MobileNetV2 with two strides less, for small images:
 * Sandler, Howard, Zhu, Zhmoginov, Chen, "MobileNetV2: inverted residuals and linear bottlenecks",
 * 2018.  Names are torchvision's.
 */
#include <stdio.h>

#include "zoo_layers.h"

/* The nearest multiple of 8 of the scaled channels, at least 8, and not less than 0.9 of them. */
static int64_t scaled(const struct pare_net *n, int64_t channels)
{
    double want = (double)channels * n->width;
    int64_t wide = (int64_t)(want + 4) / 8 * 8;

    if (wide < 8)
        return 8;
    return (double)wide < 0.9 * want ? wide + 8 : wide;
}

/* Convolution, normalization and ReLU6: name.0, name.1, name.2. */
static struct pare_flow unit(struct pare_net *n, struct pare_flow x, const char *name,
                             struct pare_conv c)
{
    c.pad = (c.kernel - 1) / 2;
    x = pare_net_conv(n, x, pare_net_name(n, "%s.0", name), c);
    x = pare_net_batch_norm(n, x, pare_net_name(n, "%s.1", name));
    return pare_net_relu6(n, x, pare_net_name(n, "%s.2", name));
}

/* 1x1 expansion, 3x3 depthwise, 1x1 projection; a residual connection if the shapes agree. */
static struct pare_flow block(struct pare_net *n, struct pare_flow x, int at, int64_t expand,
                              struct pare_conv last)
{
    int64_t wide = x.c * expand, stride = last.stride;
    struct pare_flow y = x;
    char name[64];
    int part = 0;

    if (expand != 1) {
        snprintf(name, sizeof(name), "features.%d.conv.%d", at, part++);
        y = unit(n, y, name, (struct pare_conv){ .out = wide, .kernel = 1 });
    }
    snprintf(name, sizeof(name), "features.%d.conv.%d", at, part++);
    y = unit(n, y, name,
             (struct pare_conv){ .out = wide, .kernel = 3, .stride = stride, .group = wide });
    last.stride = 1;
    y = pare_net_conv(n, y, pare_net_name(n, "features.%d.conv.%d", at, part), last);
    y = pare_net_batch_norm(n, y, pare_net_name(n, "features.%d.conv.%d", at, part + 1));
    if (stride == 1 && x.c == last.out)
        y = pare_net_sum(n, y, x, pare_net_name(n, "features.%d.add", at));
    return y;
}

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    static const struct {
        int64_t expand, out, blocks, stride;
    } stage[] = { { 1, 16, 1, 1 }, { 6, 24, 2, 1 },  { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
                  { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
    int64_t last;
    int at = 1;

    n->init = PARE_INIT_VISION;
    x = unit(n, x, "features.0", (struct pare_conv){ .out = scaled(n, 32), .kernel = 3 });
    for (size_t i = 0; i < sizeof(stage) / sizeof(*stage); i++)
        for (int64_t b = 0; b < stage[i].blocks; b++)
            x = block(n, x, at++, stage[i].expand,
                      (struct pare_conv){ .out = scaled(n, stage[i].out),
                                          .kernel = 1,
                                          .stride = b ? 1 : stage[i].stride });
    last = n->width > 1 ? scaled(n, 1280) : 1280;
    x = unit(n, x, "features.18", (struct pare_conv){ .out = last, .kernel = 1 });
    x = pare_net_average(n, x, "avgpool");
    x = pare_net_flatten(n, x, "flatten");
    x = pare_net_dropout(n, x, "classifier.0", 0.2f);
    return pare_net_linear(n, x, "classifier.1", n->classes);
}

const struct pare_network pare_network_mobilenetv2_cifar = {
    .name = "mobilenetv2-cifar",
    .doc = "MobileNetV2 with three strides of 2, for images like CIFAR's",
    .least = 1,
    .scales = true,
    .build = build,
};
