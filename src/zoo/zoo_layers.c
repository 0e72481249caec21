/* zoo_layers.c - layers of the zoo's networks, with PyTorch's names and initial weights. */
#include "zoo_layers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "../tensor/tensor.h"

int64_t pare_net_wide(const struct pare_net *n, int64_t channels)
{
    int64_t wide = (int64_t)((double)channels * n->width + 0.5);

    return wide > 1 ? wide : 1;
}

const char *pare_net_name(struct pare_net *n, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(n->name, sizeof(n->name), fmt, ap);
    va_end(ap);
    return n->name;
}

/* ---- parameters ------------------------------------------------------------------------ */

const char *pare_net_uniform(struct pare_net *n, const char *name, int rank, const int64_t *dim,
                             double bound)
{
    struct pare_tensor t;
    const char *made = pare_builder_weight(n->make, name, rank, dim, &t);

    for (int64_t i = 0, all = made ? pare_numel(&t) : 0; i < all; i++)
        pare_f32_mut(&t)[i] = (float)(bound * (2 * pare_rng_uniform(&n->rng) - 1));
    return made;
}

/* timm truncates the normal distribution at +-2, which is 100 standard deviations of 0.02. */
const char *pare_net_normal(struct pare_net *n, const char *name, int rank, const int64_t *dim,
                            double std)
{
    struct pare_tensor t;
    const char *made = pare_builder_weight(n->make, name, rank, dim, &t);

    for (int64_t i = 0, all = made ? pare_numel(&t) : 0; i < all; i++)
        pare_f32_mut(&t)[i] = (float)(std * pare_rng_normal(&n->rng));
    return made;
}

const char *pare_net_fill(struct pare_net *n, const char *name, int rank, const int64_t *dim,
                          float v)
{
    struct pare_tensor t;
    const char *made = pare_builder_weight(n->make, name, rank, dim, &t);

    for (int64_t i = 0, all = made ? pare_numel(&t) : 0; i < all; i++)
        pare_f32_mut(&t)[i] = v;
    return made;
}

static const char *filter(struct pare_net *n, const char *name, const int64_t *dim, double bound)
{
    double fan_out = (double)(dim[0] * dim[2] * dim[3]);

    if (n->init == PARE_INIT_VISION || n->init == PARE_INIT_RESNET)
        return pare_net_normal(n, name, 4, dim, sqrt(2 / fan_out));
    return pare_net_uniform(n, name, 4, dim, bound);
}

static const char *matrix(struct pare_net *n, const char *name, const int64_t *dim, double bound)
{
    if (n->init == PARE_INIT_VISION)
        return pare_net_normal(n, name, 2, dim, 0.01);
    if (n->init == PARE_INIT_VIT)
        return pare_net_normal(n, name, 2, dim, 0.02);
    return pare_net_uniform(n, name, 2, dim, bound);
}

/* ---- layers with parameters ---------------------------------------------------------------- */

static int64_t window(int64_t size, int64_t kernel, int64_t stride, int64_t pad)
{
    return (size + 2 * pad - kernel) / stride + 1;
}

struct pare_flow pare_net_conv(struct pare_net *n, struct pare_flow x, const char *name,
                               struct pare_conv c)
{
    int64_t group = c.group ? c.group : 1, stride = c.stride ? c.stride : 1;
    int64_t dim[4] = { c.out, x.c / group, c.kernel, c.kernel };
    double bound = 1 / sqrt((double)(dim[1] * dim[2] * dim[3]));
    bool zero = n->init == PARE_INIT_VISION || n->init == PARE_INIT_RESNET;
    char part[160];
    const char *w, *b = NULL;

    snprintf(part, sizeof(part), "%s.weight", name);
    w = filter(n, part, dim, bound);
    snprintf(part, sizeof(part), "%s.bias", name);
    if (c.bias)
        b = pare_net_uniform(n, part, 1, &c.out, zero ? 0 : bound);
    x.value = pare_builder_node(n->make, "Conv", name, x.value, w, b, NULL);
    pare_builder_ints(n->make, "kernel_shape", 2, (int64_t[]){ c.kernel, c.kernel });
    pare_builder_ints(n->make, "strides", 2, (int64_t[]){ stride, stride });
    pare_builder_ints(n->make, "pads", 4, (int64_t[]){ c.pad, c.pad, c.pad, c.pad });
    pare_builder_ints(n->make, "dilations", 2, (int64_t[]){ 1, 1 });
    pare_builder_int(n->make, "group", group);
    x.c = c.out;
    x.h = window(x.h, c.kernel, stride, c.pad);
    x.w = window(x.w, c.kernel, stride, c.pad);
    return x;
}

/* PyTorch's momentum 0.1 is the weight of the new statistics, ONNX's 0.9 that of the old ones. */
struct pare_flow pare_net_batch_norm(struct pare_net *n, struct pare_flow x, const char *name)
{
    static const char *const part[] = { "weight", "bias", "running_mean", "running_var" };
    const char *v[4];

    for (int i = 0; i < 4; i++) {
        char full[160];

        snprintf(full, sizeof(full), "%s.%s", name, part[i]);
        v[i] = pare_net_fill(n, full, 1, &x.c, i == 0 || i == 3 ? 1.0f : 0.0f);
    }
    x.value = pare_builder_node(n->make, "BatchNormalization", name, x.value, v[0], v[1], v[2],
                                v[3], NULL);
    pare_builder_float(n->make, "epsilon", 1e-5f);
    pare_builder_float(n->make, "momentum", 0.9f);
    return x;
}

struct pare_flow pare_net_linear(struct pare_net *n, struct pare_flow x, const char *name,
                                 int64_t out)
{
    int64_t dim[2] = { out, x.c };
    double bound = 1 / sqrt((double)x.c);
    bool zero = n->init == PARE_INIT_VISION || n->init == PARE_INIT_VIT;
    char part[160];
    const char *w, *b;

    snprintf(part, sizeof(part), "%s.weight", name);
    w = matrix(n, part, dim, bound);
    snprintf(part, sizeof(part), "%s.bias", name);
    b = pare_net_uniform(n, part, 1, &out, zero ? 0 : bound);
    x.value = pare_builder_node(n->make, "Gemm", name, x.value, w, b, NULL);
    pare_builder_float(n->make, "alpha", 1);
    pare_builder_float(n->make, "beta", 1);
    pare_builder_int(n->make, "transB", 1);
    x.c = out;
    return x;
}

/* ---- layers without parameters ------------------------------------------------------------ */

struct pare_flow pare_net_max_pool(struct pare_net *n, struct pare_flow x, const char *name,
                                   int64_t size)
{
    x.value = pare_builder_node(n->make, "MaxPool", name, x.value, NULL);
    pare_builder_ints(n->make, "kernel_shape", 2, (int64_t[]){ size, size });
    pare_builder_ints(n->make, "strides", 2, (int64_t[]){ size, size });
    x.h /= size;
    x.w /= size;
    return x;
}

struct pare_flow pare_net_average(struct pare_net *n, struct pare_flow x, const char *name)
{
    x.value = pare_builder_node(n->make, "GlobalAveragePool", name, x.value, NULL);
    x.h = x.w = 1;
    return x;
}

struct pare_flow pare_net_flatten(struct pare_net *n, struct pare_flow x, const char *name)
{
    x.value = pare_builder_node(n->make, "Flatten", name, x.value, NULL);
    pare_builder_int(n->make, "axis", 1);
    x.c *= x.h * x.w;
    x.h = x.w = 0;
    return x;
}

struct pare_flow pare_net_sum(struct pare_net *n, struct pare_flow a, struct pare_flow b,
                              const char *name)
{
    a.value = pare_builder_node(n->make, "Add", name, a.value, b.value, NULL);
    return a;
}

struct pare_flow pare_net_apply(struct pare_net *n, struct pare_flow x, const char *op,
                                const char *name)
{
    x.value = pare_builder_node(n->make, op, name, x.value, NULL);
    return x;
}

struct pare_flow pare_net_relu(struct pare_net *n, struct pare_flow x, const char *name)
{
    return pare_net_apply(n, x, "Relu", name);
}

struct pare_flow pare_net_relu6(struct pare_net *n, struct pare_flow x, const char *name)
{
    char part[160];
    const char *low, *high;

    snprintf(part, sizeof(part), "%s.min", name);
    low = pare_builder_number(n->make, part, 0);
    snprintf(part, sizeof(part), "%s.max", name);
    high = pare_builder_number(n->make, part, 6);
    x.value = pare_builder_node(n->make, "Clip", name, x.value, low, high, NULL);
    return x;
}

struct pare_flow pare_net_dropout(struct pare_net *n, struct pare_flow x, const char *name,
                                  float part)
{
    char full[160];
    const char *ratio;

    snprintf(full, sizeof(full), "%s.p", name);
    ratio = pare_builder_number(n->make, full, part);
    x.value = pare_builder_node(n->make, "Dropout", name, x.value, ratio, NULL);
    return x;
}
