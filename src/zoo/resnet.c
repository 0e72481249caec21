/* resnet.c - residual networks for small images:
 * He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015, section 4.2.
 *
 * Where a stage changes the shape, the shortcut is a 1x1 convolution (their option B), whose
 * channels can be pruned like any other's.
 */
#include "resnet.h"

#include <stdio.h>

/* Basic block: conv - norm - relu - conv - norm, plus the block's input, relu. */
static struct pare_flow block(struct pare_net *n, struct pare_flow x, const char *at, int64_t out,
                              int64_t stride)
{
    struct pare_conv first = { .out = out, .kernel = 3, .stride = stride, .pad = 1 };
    struct pare_conv second = { .out = out, .kernel = 3, .pad = 1 };
    struct pare_conv shortcut = { .out = out, .kernel = 1, .stride = stride };
    struct pare_flow y = x;

    y = pare_net_conv(n, y, pare_net_name(n, "%s.conv1", at), first);
    y = pare_net_batch_norm(n, y, pare_net_name(n, "%s.bn1", at));
    y = pare_net_relu(n, y, pare_net_name(n, "%s.relu1", at));
    y = pare_net_conv(n, y, pare_net_name(n, "%s.conv2", at), second);
    y = pare_net_batch_norm(n, y, pare_net_name(n, "%s.bn2", at));
    if (x.c != out || stride != 1) {
        x = pare_net_conv(n, x, pare_net_name(n, "%s.downsample.0", at), shortcut);
        x = pare_net_batch_norm(n, x, pare_net_name(n, "%s.downsample.1", at));
    }
    y = pare_net_sum(n, y, x, pare_net_name(n, "%s.add", at));
    return pare_net_relu(n, y, pare_net_name(n, "%s.relu2", at));
}

struct pare_flow pare_resnet(struct pare_net *n, struct pare_flow x, int64_t width, int stages,
                             int blocks)
{
    n->init = PARE_INIT_RESNET;
    width = pare_net_wide(n, width);
    x = pare_net_conv(n, x, "conv1", (struct pare_conv){ .out = width, .kernel = 3, .pad = 1 });
    x = pare_net_batch_norm(n, x, "bn1");
    x = pare_net_relu(n, x, "relu");
    for (int s = 0; s < stages; s++, width *= 2)
        for (int b = 0; b < blocks; b++) {
            char at[32];

            snprintf(at, sizeof(at), "layer%d.%d", s + 1, b);
            x = block(n, x, at, width, s && !b ? 2 : 1);
        }
    x = pare_net_average(n, x, "avgpool");
    x = pare_net_flatten(n, x, "flatten");
    return pare_net_linear(n, x, "fc", n->classes);
}
