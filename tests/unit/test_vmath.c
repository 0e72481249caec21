/* test_vmath.c - the float32 functions of vmath.h against libm in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/simd.h"
#include "tensor/vmath.h"

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2));
}

/* One loop per function, so that the vectorized code is tested. */
/* clang-format off */
#define FUNCTIONS(X)                                                                           \
    X(pare_expf, exp, 1e-7)                                                                    \
    X(pare_expm1f, expm1, 1.5e-7)                                                              \
    X(pare_sigmoidf, sigmoid, 2.5e-7)                                                          \
    X(pare_tanhf, tanh, 1.5e-7)                                                                \
    X(pare_logf, log, 1e-7)                                                                    \
    X(pare_softplusf, softplus, 2.5e-7)                                                        \
    X(pare_erff, erf, 1.5e-7)                                                                  \
    X(pare_geluf, gelu, 5e-7)
/* clang-format on */
#define X(f, ref, tol)                                              \
    PARE_SIMD static void loop_##f(const float *x, float *y, int n) \
    {                                                               \
        for (int i = 0; i < n; i++)                                 \
            y[i] = f(x[i]);                                         \
    }
FUNCTIONS(X)
#undef X

static const struct function {
    const char *name;
    void (*loop)(const float *x, float *y, int n);
    double (*ref)(double x), tol;
} functions[] = {
#define X(f, ref, tol) { #f, loop_##f, ref, tol },
    FUNCTIONS(X)
#undef X
};

#define N_FUNCTIONS (sizeof(functions) / sizeof(*functions))

static void expect_close(const struct function *f, float x, float got)
{
    double want = f->ref((double)x), size = fabs(want);
    double absolute = size < 1e-36 ? 1e-42 : 0; /* denormal floats have fewer digits */

    if (size < 1e-36 && f->ref == gelu)
        absolute = 1e-6 * size + 2e-44;
    if (isnan(want) ? isnan(got) : isinf((float)want) && got == (float)want)
        return;
    if (fabs((double)got - want) <= f->tol * size + absolute)
        return;
    print_error("%s(%.9g) is %.9g, expected %.9g\n", f->name, (double)x, (double)got, want);
    fail();
}

/* Floats at equal distances of their bit patterns (so over all magnitudes), and the interesting
 * range in equal steps. */
static void test_functions_match_libm(void **state)
{
    static float x[4096], y[4096];

    (void)state;
    for (size_t k = 0; k < N_FUNCTIONS; k++)
        for (uint32_t block = 0; block < 256; block++) {
            for (uint32_t i = 0; i < 4096; i++) {
                uint32_t at = block * 4096 + i;

                x[i] = block < 128 ? pare_unbits(at * 8191) : ((float)at - 786432.0f) * 7.7e-5f;
            }
            functions[k].loop(x, y, 4096);
            for (int i = 0; i < 4096; i++)
                expect_close(&functions[k], x[i], y[i]);
        }
}

static void test_special_values(void **state)
{
    static const float x[] = { 0,         -0.0f,     INFINITY,   -INFINITY, NAN,     -NAN,  FLT_MAX,
                               -FLT_MAX,  FLT_MIN,   -FLT_MIN,   1e-45f,    -1e-45f, 1,     -1,
                               88.72283f, 88.72284f, -87.33655f, -103.97f,  -104.1f, 89.1f, 0.625f,
                               0.9f,      4,         15,         -15 };
    enum { N = sizeof(x) / sizeof(*x) };
    float y[N];

    (void)state;
    for (size_t k = 0; k < N_FUNCTIONS; k++) {
        functions[k].loop(x, y, N);
        for (int i = 0; i < N; i++)
            if (functions[k].ref != gelu || x[i] != -INFINITY)
                expect_close(&functions[k], x[i], y[i]);
    }
    assert_true(pare_geluf(-INFINITY) == 0); /* libm's product would be NaN */
    assert_true(pare_expf(0) == 1);
    assert_true(signbit(pare_tanhf(-0.0f)) && signbit(pare_erff(-0.0f)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_match_libm),
        cmocka_unit_test(test_special_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
