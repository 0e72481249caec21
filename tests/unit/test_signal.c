/* test_signal.c - DFT, STFT, windows and MelWeightMatrix: values, gradients and refusals. */
#include "grad_rows.h"

#include "op/signal/fft.h"

#define PI 3.14159265358979323846

/* Transforms of many lengths, forward and inverse, against the definition. */
static void test_fft_of_any_length(void **state)
{
    static const int64_t lengths[] = { 1,  2,  3,  4,  5,  6,  7,   8,   9,   12,
                                       15, 16, 17, 31, 32, 97, 100, 400, 512, 1009 };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    for (size_t l = 0; l < 2 * sizeof(lengths) / sizeof(*lengths); l++) {
        int64_t n = lengths[l / 2];
        double *x = pare_alloc(a, (size_t)n, 16), *y = pare_alloc(a, (size_t)n, 16), worst = 0;
        double sign = l % 2 ? 1 : -1;
        struct pare_fft f;
        struct pare_err err;

        assert_true(a && x && y);
        for (int64_t i = 0; i < 2 * n; i++)
            y[i] = x[i] = pare_rng_uniform(&r) - 0.5;
        assert_int_equal(pare_fft_init(&f, n, a, &err), 0);
        pare_fft_run(&f, y, l % 2);
        for (int64_t k = 0; k < n; k++) {
            double re = 0, im = 0;

            for (int64_t j = 0; j < n; j++) {
                double t = sign * 2 * PI * (double)(j * k % n) / (double)n;

                re += x[2 * j] * cos(t) - x[2 * j + 1] * sin(t);
                im += x[2 * j] * sin(t) + x[2 * j + 1] * cos(t);
            }
            worst = fmax(worst, fmax(fabs(re - y[2 * k]), fabs(im - y[2 * k + 1])));
        }
        if (!(worst < 1e-12 * (double)(n + 10)))
            fail_msg("length %lld: error of %g", (long long)n, worst);
    }
    pare_arena_free(a);
}

static void test_gradients(void **state)
{
    static const struct row rows[] = {
        { "DFT", 17, "2,5,2", NULL, 0, { 0 } },
        { "DFT", 17, "2,4,1", "onesided=1", 0, { 0 } },
        { "DFT", 17, "2,5,1", "onesided=1", 0, { 0 } },
        { "DFT", 17, "2,5,2 #7", "inverse=1", 0, { 0 } },
        { "DFT", 20, "2,5,3,2 #4 #1", NULL, 0, { 0 } },
        { "DFT", 20, "6,2,1", NULL, 0, { 0 } },
        { "DFT", 20, "2,4,2", "inverse=1 onesided=1", 0, { 0 } },
        { "DFT", 20, "2,4,2 #7", "inverse=1 onesided=1", 0, { 0 } },
        { "DFT", 20, "2,2,2 #8", "inverse=1 onesided=1", 0, { 0 } },
        { "DFT", 20, "2,4,1", "inverse=1", 0, { 0 } },
        { "STFT", 17, "2,11,1 #3 4", NULL, 0, { 0 } },
        { "STFT", 17, "2,11,1 #2 5 #5", "onesided=0", 0, { 0 } },
        { "STFT", 17, "1,8,2 #4 - #4", "onesided=0", 0, { 0 } },
        { "STFT", 17, "2,9 #4 - #3", NULL, 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };

    (void)state;
    check_rows(rows);
}

/* numpy.fft.irfft([1+2j, 3+4j, 5+6j]), and with n=5; imaginary parts that cannot occur are
 * ignored. */
static void test_inverse_of_half_spectra(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "DFT", 20);
    op_in(&f, PARE_F32, "1,3,2", LIST(1, 2, 3, 4, 5, 6));
    op_attr(&f, "inverse", "1");
    op_attr(&f, "onesided", "1");
    op_expect(&f, 0, PARE_F32, "(1, 4, 1)", LIST(3, -3, 0, 1));
    op_end(&f);
    op_begin(&f, "DFT", 20);
    op_in(&f, PARE_F64, "1,3,2", LIST(1, 2, 3, 4, 5, 6));
    op_in(&f, PARE_I64, "", LIST(5));
    op_attr(&f, "inverse", "1");
    op_attr(&f, "onesided", "1");
    op_expect(&f, 0, PARE_F64, "(1, 5, 1)",
              LIST(3.4, -3.97958863, 1.18929283, -1.49486564, 1.88516144));
    op_end(&f);
}

static void test_windows(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "HannWindow", 17);
    op_in(&f, PARE_I32, "", LIST(4));
    op_expect(&f, 0, PARE_F32, "(4)", LIST(0, 0.5, 1, 0.5));
    op_end(&f);
    op_begin(&f, "HammingWindow", 17);
    op_in(&f, PARE_I64, "", LIST(1));
    op_attr(&f, "periodic", "0");
    op_expect(&f, 0, PARE_F32, "(1)", LIST(1));
    op_end(&f);
    op_begin(&f, "BlackmanWindow", 17);
    op_in(&f, PARE_I64, "", LIST(3));
    op_attr(&f, "periodic", "0");
    op_attr(&f, "output_datatype", "6");
    op_expect(&f, 0, PARE_I32, "(3)", LIST(0, 1, 0));
    op_end(&f);
    op_begin(&f, "HannWindow", 17);
    op_in(&f, PARE_I64, "", LIST(-1));
    op_expect_error(&f, "the size of the window is -1");
    op_begin(&f, "HannWindow", 17);
    op_in(&f, PARE_I64, "", LIST(4));
    op_attr(&f, "output_datatype", "8");
    op_expect_error(&f, "output_datatype is 8, must be a numeric type");
}

static void test_wrong_inputs_are_errors(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "DFT", 17);
    op_in(&f, PARE_F32, "1,2,2", LIST(1, 2, 3, 4));
    op_attr(&f, "onesided", "1");
    op_expect_error(
        &f, "the input (1, 2, 2) is complex; onesided needs a real signal, whose last axis has "
            "size 1");
    op_begin(&f, "DFT", 17);
    op_in(&f, PARE_F32, "1,2,1", LIST(1, 2));
    op_in(&f, PARE_I64, "", LIST(4e18));
    op_expect_error(&f, "the length of the transform is 4000000000000000000, must be positive");
    op_begin(&f, "STFT", 17);
    op_in(&f, PARE_F32, "1,4,1", LIST(1, 2, 3, 4));
    op_in(&f, PARE_I64, "", LIST(0));
    op_in_none(&f);
    op_in(&f, PARE_I64, "", LIST(2));
    op_expect_error(&f, "frames of 2 elements in steps of 0 do not fit a signal of 4");
    op_begin(&f, "STFT", 17);
    op_in(&f, PARE_F32, "1,4,1", LIST(1, 2, 3, 4));
    op_in(&f, PARE_I64, "", LIST(1));
    op_in(&f, PARE_F32, "2", LIST(1, 1));
    op_in(&f, PARE_I64, "", LIST(3));
    op_expect_error(&f, "the window has 2 elements but frame_length is 3, expected the same");
    op_begin(&f, "MelWeightMatrix", 17);
    for (int i = 0; i < 3; i++)
        op_in(&f, PARE_I64, "", LIST(16));
    op_in(&f, PARE_F32, "", LIST(2));
    op_in(&f, PARE_F32, "", LIST(9));
    op_expect_error(
        &f, "bands from 2 to 9 Hz at 16 samples per second, expected ascending frequencies up "
            "to half the rate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fft_of_any_length),       cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_inverse_of_half_spectra), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_wrong_inputs_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
