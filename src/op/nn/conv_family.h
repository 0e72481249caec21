/* conv_family.h - the three sums of convolutions and their gradients.
 *
 * With output position o, tap k and the input position i(o, k) that the tap reads (window.h), of
 * sample n, group g, its input channel c and its output channel m,
 *     gather     y[n, m, o]       += sum over c, k of  w[m, c, k] x[n, c, i(o, k)]
 *     scatter    x[n, c, i(o, k)] += sum over m of     w[m, c, k] y[n, m, o]
 *     correlate  w[m, c, k]       += sum over n, o of  x[n, c, i(o, k)] y[n, m, o]
 * Each is linear in both operands, and each pair gives the gradients of the third.  Conv gathers;
 * ConvTranspose scatters: it is a convolution whose x is its output and whose y is its input.
 */
#ifndef PARE_OP_NN_CONV_FAMILY_H
#define PARE_OP_NN_CONV_FAMILY_H

#include "window.h"

/* One tap in a pair of planes.  Row (d, h), d < n[0] and h < n[1], has n[2] outputs, from
 *     y + d * y_step[0] + h * y_step[1]  on; they read every stride-th input from
 *     x + d * x_step[0] + h * x_step[1]  on. */
struct pare_tap {
    int64_t n[3], x, y, x_step[2], y_step[2];
};

/* x is (N, group * C, x_plane), y is (N, group * M, y_plane), w is (group * M, C, taps). */
struct pare_conv {
    int64_t N, group, C, M, x_plane, y_plane, taps, stride;
    struct pare_tap *tap;
    int threads; /* of the sums; set by the caller, 0: one */
};

/* The window is that of the convolution; x and w are its input and its kernel.  Memory comes from
 * the arena. */
int pare_conv_start(struct pare_conv *c, const struct pare_window *w, const struct pare_tensor *x,
                    const struct pare_tensor *kernel, struct pare_arena *a, struct pare_err *err);

void pare_conv_gather(const struct pare_conv *c, const float *x, const float *w, float *y);
void pare_conv_scatter(const struct pare_conv *c, const float *y, const float *w, float *x);
void pare_conv_correlate(const struct pare_conv *c, const float *x, const float *y, float *w);

/* Set every element of y to its channel's bias, 0 if b is NULL; and the gradient of the bias. */
void pare_conv_fill(const struct pare_tensor *y, const struct pare_value *b);
void pare_conv_fill_back(const struct pare_value *y, const struct pare_value *b);

/* Axis relations of in[0] (N, C, ...), in[w] (M, C / group, ...) and out[0] (N, M, ...): the
 * channels of both are (group, channel in the group), and the groups are virtual axis 0 of the
 * node.  Inputs after w that are lists of M elements have the output channels. */
void pare_conv_ties(const struct pare_node *n, int w, struct pare_ties *t);

#endif
