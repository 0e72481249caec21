/* conv_fold.c - a BatchNormalization behind a convolution as part of its weights. */
#include "conv_fold.h"

#include <math.h>
#include <string.h>

#include "../../op/norm.h"

bool pare_conv_folds(const struct pare_node *n)
{
    if (strcmp(n->type, "BatchNormalization") || pare_bn_trains(n) || !pare_bn_per_channel(n))
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_const(n->in[i]) || !pare_is_f32(n->in[i]))
            return false;
    return true;
}

int pare_conv_fold(struct pare_backend *b, const struct pare_node *conv, const struct pare_node *bn,
                   float *scale, float *bias, struct pare_err *err)
{
    struct pare_value *given = conv->n_in > 2 ? conv->in[2] : NULL;
    int64_t channels = conv->in[1]->t.dim[0];
    const float *p[5] = { NULL };

    for (int i = 0; i < 5; i++) {
        struct pare_value *v = i == 4 ? given : bn ? bn->in[i + 1] : NULL;

        p[i] = v ? pare_const_f32(b, v, err) : NULL;
        if (v && !p[i])
            return err->code;
    }
    for (int64_t k = 0; k < channels; k++) {
        double s = 1, t = p[4] ? (double)p[4][k] : 0;

        if (bn) {
            s = (double)p[0][k] / sqrt((double)p[3][k] + pare_bn_epsilon(bn));
            t = s * (t - (double)p[2][k]) + (double)p[1][k];
        }
        scale[k] = (float)s;
        bias[k] = (float)t;
    }
    return 0;
}
