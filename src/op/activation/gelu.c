/* gelu.c - Gelu: y = x P(N(0, 1) < x), exactly or by its tanh approximation. */
#include "../math/elementwise.h"

struct gelu {
    const char *approximate;
};

static const struct pare_opt gelu_attrs[] = {
    PARE_CHOICE("approximate", offsetof(struct gelu, approximate),
                "tanh: use the tanh approximation; none: the error function", "none", "none|tanh"),
    PARE_OPT_END
};

static bool by_tanh(const struct pare_node *n)
{
    return ((const struct gelu *)n->attr)->approximate[0] == 't';
}

PARE_SIMD static void map(const struct pare_node *n, const float *x, float *y, int64_t count)
{
    if (by_tanh(n)) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = pare_gelu_tanhf(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = pare_geluf(x[i]);
    }
}

PARE_SIMD static void dmap(const struct pare_node *n, const float *x, const float *y,
                           const float *gy, float *gx, int64_t count)
{
    (void)y;
    if (by_tanh(n)) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            gx[i] += gy[i] * pare_gelu_tanh_slopef(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            gx[i] += gy[i] * pare_gelu_slopef(x[i]);
    }
}

static double gelu(const struct pare_node *n, double x)
{
    const double root = 0.79788456080286536; /* sqrt(2 / pi) */

    if (by_tanh(n))
        return 0.5 * x * (1 + tanh(root * (x + 0.044715 * x * x * x)));
    return 0.5 * x * erfc(-x * 0.70710678118654752);
}

PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, gelu(n, x)))

const struct pare_op pare_op_gelu = {
    PARE_UNARY_OP("Gelu", 20, "Gaussian error linear unit."),
    .types = PARE_T_FLOATS,
    .attrs = gelu_attrs,
    .attr_size = sizeof(struct gelu),
    .torch = "GELU",
};
