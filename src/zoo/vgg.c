/* vgg.c - the layers that VGG networks share. */
#include "vgg.h"

struct pare_flow pare_vgg(struct pare_net *n, struct pare_flow x, const int64_t *width, int count,
                          bool bias)
{
    int at = 0;

    n->init = PARE_INIT_VISION;
    for (int i = 0; i < count; i++) {
        struct pare_conv c = { .out = pare_net_wide(n, width[i]),
                               .kernel = 3,
                               .pad = 1,
                               .bias = bias };

        if (!width[i]) {
            x = pare_net_max_pool(n, x, pare_net_name(n, "features.%d", at++), 2);
            continue;
        }
        x = pare_net_conv(n, x, pare_net_name(n, "features.%d", at), c);
        x = pare_net_batch_norm(n, x, pare_net_name(n, "features.%d", at + 1));
        x = pare_net_relu(n, x, pare_net_name(n, "features.%d", at + 2));
        at += 3;
    }
    return x;
}
