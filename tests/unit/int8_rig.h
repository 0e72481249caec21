/* int8_rig.h - fixture for tests of int8 kernels: quantized graphs against reference kernels. */
#ifndef PARE_TESTS_INT8_RIG_H
#define PARE_TESTS_INT8_RIG_H

#include "make_model.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "plan/plan.h"

struct rig {
    struct build b;
    struct pare_rng r;
    struct pare_tensor x;
    const char *xs, *xz; /* scale and zero point of the input */
    float x_scale;
    const char *real; /* the float value quantized last, and its scale */
    float real_scale;
    bool long_sums; /* int8 kernels accept the graph on machines without VNNI, too */
};

static inline int64_t random_between(struct rig *g, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pare_rng_below(&g->r, (uint64_t)(hi - lo + 1));
}

static inline void rig_begin(struct rig *g, uint64_t seed)
{
    memset(g, 0, sizeof(*g));
    g->b.opset = 13;
    pare_rng_init(&g->r, seed);
}

/* A scalar 8-bit constant. */
static inline const char *zero_point(struct rig *g, int dtype, int zero)
{
    uint8_t byte = (uint8_t)zero;

    return build_const(&g->b, dtype, 0, NULL, &byte);
}

/* Random bytes as the graph's input, with scale and zero point; returns the dequantized value. */
static inline const char *dequantized_input(struct rig *g, int dtype, int zero, int rank,
                                            const int64_t *dim)
{
    const char *x = build_input(&g->b, dtype, rank, dim);

    g->x = build_tensor(dtype, rank, dim);
    for (int64_t i = 0; i < pare_numel(&g->x); i++)
        ((uint8_t *)g->x.data)[i] = (uint8_t)pare_rng_next(&g->r);
    g->x_scale = (float)(0.01 + 0.1 * pare_rng_uniform(&g->r));
    g->xs = build_scalar(&g->b, g->x_scale);
    g->xz = zero_point(g, dtype, zero);
    return build_node(&g->b, "DequantizeLinear", NAMES(x, g->xs, g->xz), NOTHING);
}

static inline const char *quantize(struct rig *g, const char *x, float scale, int dtype, int zero)
{
    g->real = x;
    g->real_scale = scale;
    return build_node(&g->b, "QuantizeLinear",
                      NAMES(x, build_scalar(&g->b, scale), zero_point(g, dtype, zero)), NOTHING);
}

static inline const char *dequantize(struct rig *g, const char *x, float scale, int dtype, int zero)
{
    return build_node(&g->b, "DequantizeLinear",
                      NAMES(x, build_scalar(&g->b, scale), zero_point(g, dtype, zero)), NOTHING);
}

/* int8 weights with output channels on axis `axis`, and a bias of int32 or float; returns both
 * dequantized.  The scale is one number or one per channel. */
static inline const char *quantized_weights(struct rig *g, int rank, const int64_t *dim, int axis,
                                            const char **bias)
{
    int64_t n = 1, O = dim[axis];
    bool each = random_between(g, 0, 1);
    int8_t *w, *zero = pare_alloc(pool, (size_t)O, 1);
    float *s = pare_alloc(pool, (size_t)O, sizeof(*s)), *xs = pare_alloc(pool, (size_t)O, 4);
    int32_t *b = pare_alloc(pool, (size_t)O, 4), *none = pare_alloc(pool, (size_t)O, 4);
    const char *q, *scale;

    for (int i = 0; i < rank; i++)
        n *= dim[i];
    w = pare_alloc(pool, (size_t)n, 1);
    for (int64_t i = 0; i < n; i++)
        w[i] = (int8_t)random_between(g, -128, 127);
    for (int64_t i = 0; i < O; i++) {
        s[i] = each || !i ? (float)(0.001 + 0.01 * pare_rng_uniform(&g->r)) : s[0];
        xs[i] = g->x_scale * s[i];
        b[i] = (int32_t)random_between(g, -20000, 20000);
    }
    q = build_const(&g->b, PARE_I8, rank, dim, w);
    scale = build_floats(&g->b, each, &O, s);
    if (bias && random_between(g, 0, 1))
        *bias = build_node(&g->b, "DequantizeLinear",
                           NAMES(build_const(&g->b, PARE_I32, 1, &O, b),
                                 build_floats(&g->b, 1, &O, xs),
                                 build_const(&g->b, PARE_I32, 1, &O, none)),
                           at_int("axis", 0));
    else if (bias) {
        for (int64_t i = 0; i < O; i++)
            xs[i] *= (float)b[i];
        *bias = build_floats(&g->b, 1, &O, xs);
    }
    return build_node(&g->b, "DequantizeLinear",
                      NAMES(q, scale, build_const(&g->b, PARE_I8, each, &O, zero)),
                      at_int("axis", axis));
}

/* ---- comparing ------------------------------------------------------------------------- */

static struct {
    int64_t same, all;
    double worst;
} totals;

static inline bool has_kernel(const struct pare_plan *p, const char *kernel)
{
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->step[i]->kernel->name, kernel))
            return true;
    return false;
}

static inline struct pare_tensor run_model(const struct pare_model *m, const struct rig *g,
                                           bool reference, int threads, const char *kernel)
{
    struct pare_plan_opts o = { .reference = reference, .threads = threads };
    struct pare_tensor out, copy;
    const char *without[] = { kernel, NULL };
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_build(m,
                        &(struct pare_plan_build){ .opts = &o,
                                                   .without = threads ? NULL : without },
                        &p, &err))
        fail_msg("%s", err.msg);
    if (kernel && threads && !has_kernel(p, kernel) &&
        !(!pare_has_onednn && pare_is_onednn_kernel(kernel)) &&
        !(has_kernel(p, "conv_int8_exact") && !p->backend.vnni) &&
        !(has_kernel(p, "conv_depthwise_int8") && !strcmp(kernel, "conv_int8")) &&
        (p->backend.vnni || g->long_sums))
        fail_msg("the plan does not use %s", kernel);
    memset(p->memory, 0xff, p->memory_bytes);
    if (pare_plan_execute(p, &g->x, &out, &err))
        fail_msg("%s", err.msg);
    copy = build_copy(&out);
    pare_plan_free(p);
    return copy;
}

/* The float values before the last quantization, by the reference kernels. */
static inline struct pare_tensor float_values(const struct rig *g)
{
    struct pare_plan_opts o = { .reference = true, .threads = 1 };
    struct pare_tensor out[2], copy;
    struct build with = g->b;
    struct pare_model *m;
    struct pare_plan *p;
    struct pare_err err;

    build_output(&with, g->real);
    m = build_model(&with);
    if (pare_plan_make(m, &o, &p, &err) || pare_plan_execute(p, &g->x, out, &err))
        fail_msg("%s", err.msg);
    copy = build_copy(&out[1]);
    pare_plan_free(p);
    pare_model_free(m);
    return copy;
}

/* Is the value so close to a half step that float32 may round either way? */
static inline bool near_half(const struct rig *g, const struct pare_tensor *real, int64_t i)
{
    double v = pare_get(real, i) / (double)g->real_scale;

    return fabs(v - floor(v) - 0.5) < 1e-3;
}

/* Expects that no element differs by more than `step` from the reference kernels' result, and with
 * step 1 only near half steps; with that kernel on 1 and 2 threads, and (threads 0) without it. */
static inline void check_kernel(struct rig *g, const char *kernel, uint64_t seed, double step)
{
    struct pare_model *m = build_model(&g->b);
    struct pare_tensor want = run_model(m, g, true, 1, NULL), real = { 0 };
    bool rounded;

    if (g->real)
        real = float_values(g);
    rounded = real.data && pare_numel(&real) == pare_numel(&want) && step == 1;

    for (int threads = kernel ? 0 : 1; threads <= 2; threads++) {
        struct pare_tensor got = run_model(m, g, false, threads, kernel);

        for (int64_t i = 0; i < pare_numel(&want); i++) {
            double d = fabs(pare_get(&got, i) - pare_get(&want, i));

            if (!(d <= step) || (d > 0 && rounded && !near_half(g, &real, i)))
                fail_msg("seed %llu: element %lld is %g, expected %g", (unsigned long long)seed,
                         (long long)i, pare_get(&got, i), pare_get(&want, i));
            totals.same += threads && d == 0;
            totals.all += threads > 0;
        }
    }
    pare_model_free(m);
}

static inline void report_equal(const char *what, double least)
{
    print_message("%s: %.4f %% of %lld elements equal\n", what,
                  100.0 * (double)totals.same / (double)totals.all, (long long)totals.all);
    assert_true((double)totals.same >= least * (double)totals.all);
    memset(&totals, 0, sizeof(totals));
}

/* An output scale with which most results do not saturate. */
static inline float output_scale(const struct rig *g, double products)
{
    return (float)((double)g->x_scale * 0.006 * 74 * 74 * sqrt(products) / 40);
}

#endif
