/* norm.h - shared by normalization operators; their attributes for kernels. */
#ifndef PARE_OP_NN_NORM_H
#define PARE_OP_NN_NORM_H

#include "../op.h"

/* ---- attributes, once shapes are inferred ------------------------------------------------- */

double pare_bn_epsilon(const struct pare_node *n);

/* Whether this BatchNormalization normalizes with the statistics of its batch.  Kernels that use
 * the mean and variance inputs must not take such nodes. */
bool pare_bn_trains(const struct pare_node *n);

/* Whether statistics are per channel.  False only for opset 7's spatial = 0, where they are per
 * element of (C, D1, ...). */
bool pare_bn_per_channel(const struct pare_node *n);

double pare_layer_norm_epsilon(const struct pare_node *n);
int pare_layer_norm_axis(const struct pare_node *n); /* in [0, rank]: the first normalized axis */
double pare_instance_norm_epsilon(const struct pare_node *n);
double pare_group_norm_epsilon(const struct pare_node *n);
int64_t pare_group_norm_groups(const struct pare_node *n);

/* Whether scale and bias are per channel (opset 21) or per group (opset 18). */
bool pare_group_norm_per_channel(const struct pare_node *n);

/* ---- for operators ------------------------------------------------------------------------ */

/* Mean and population variance of n elements, in two passes. */
void pare_moments(const float *x, int64_t n, double *mean, double *var);

double pare_row_sum(const float *x, int64_t n);
double pare_row_squares(const float *x, int64_t n, double mean); /* sum of (x - mean)^2 */

/* dy/dx of y = (sum |x|^p)^(1/p): sign(x) (|x| / y)^(p - 1); 0 where y is. */
double pare_norm_slope(float x, double y, double p);

/* Fail unless in[i] is of a floating-point type. */
int pare_norm_float(const struct pare_node *n, int i, const char *name, struct pare_err *err);

/* Fail unless in[i] is a list of `count` floating-point numbers; `name` is its name in messages. */
int pare_norm_param(const struct pare_node *n, int i, const char *name, int64_t count,
                    struct pare_err *err);

/* *inner is the product of the axes from `from` on; fewer axes than `from` is an error.  So is a
 * product of all axes that overflows, even if one of them is 0, so that later products cannot. */
int pare_norm_inner(const struct pare_tensor *x, int from, int64_t *inner, struct pare_err *err);

/* Gradients.  Of xhat = (x - mean) inv_std with the moments of n elements, and g = dL/dxhat,
 *     dL/dx = inv_std (g - mean of g - xhat * mean of (g xhat)).
 * sum[0] += sum of g, sum[1] += sum of g xhat, over a row of n. */
void pare_norm_sums(const float *x, const float *g, int64_t n, const double m[2], double sum[2]);

/* gx += f[0] g + f[1] (x - f[2]) + f[3], over a row of n. */
void pare_norm_add(const float *x, const float *g, float *gx, int64_t n, const float f[4]);

/* The gradients of y = xhat * scale + bias for channels that share their moments.  Channel c has
 * scale[c * step]; gx, gscale and gbias may be NULL. */
struct pare_norm_group {
    const float *x, *gy, *scale; /* x, gy and gx are (channels, inner) */
    float *gx, *gscale, *gbias;
    int64_t channels, inner, step;
    double epsilon;
};
void pare_norm_group_back(const struct pare_norm_group *g);

/* Callbacks of an operator that normalizes over the axes from `axis` on.  The moments depend on all
 * channels of the input.  If only the last axis is normalized, channels of the input that are
 * constant are removed, and channels of the result that are not needed, each without the other;
 * shrink() inserts the constants before the node and selects channels after it.  A channel of the
 * result with scale 0 is constant. */
void pare_norm_row_ties(const struct pare_node *n, int axis, struct pare_ties *t);
void pare_norm_row_shrink(const struct pare_node *n, struct pare_shrunk *s);
float pare_norm_row_constant(const struct pare_node *n, const struct pare_needed *s, int k,
                             int axis, int64_t i);

/* infer() of the global pools: every spatial axis becomes 1. */
int pare_infer_global_pool(struct pare_node *n, struct pare_err *err);

/* Whether a Dropout node always copies, outside of training. */
bool pare_dropout_copies(const struct pare_node *n);

#endif
