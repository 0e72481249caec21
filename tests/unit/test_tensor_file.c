/* test_tensor_file.c - files of named tensors: the same list in every format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "io/tensor_file.h"
#include "tensor/compare.h"

static struct pare_arena *arena;
static struct pare_err err;
static char dir[32], path[64];

static const char *const endings[] = { "pth", "pt", "bin", "safetensors", "npz", "NPZ" };
#define N_ENDINGS (sizeof(endings) / sizeof(*endings))

static int setup(void **state)
{
    (void)state;
    strncpy(dir, "/tmp/pare_st_XXXXXX", sizeof(dir) - 1);
    arena = pare_arena_new(1 << 12);
    return mkdtemp(dir) && arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return rmdir(dir);
}

static void expect_same_list(const struct pare_named *got, int n, const struct pare_named *want,
                             int n_want)
{
    static const struct pare_tolerance exact = { 0, 0 };

    assert_int_equal(n, n_want);
    for (int i = 0; i < n; i++) {
        assert_string_equal(got[i].name, want[i].name);
        assert_int_equal(pare_tensor_compare(&got[i].t, &want[i].t, exact, &err), 0);
    }
}

static float one[4] = { 1, 0, 0, 1 };
static uint16_t half[2] = { 0x3c00, 0 };
static int64_t count[1] = { 7 };
static struct pare_named list[] = {
    { "features.0.conv.weight", { PARE_F32, 2, { 2, 2 }, one } },
    { "features.0.conv.bias", { PARE_F16, 1, { 2 }, half } },
    { "fc.weight", { PARE_I64, 0, { 0 }, count } },
};

static void test_every_format(void **state)
{
    struct pare_named *got;
    char other[64];
    int n;

    (void)state;
    for (size_t i = 0; i < 2 * N_ENDINGS; i++) {
        bool masks = i % 2;

        snprintf(path, sizeof(path), "%s/x.%s", dir, endings[i / 2]);
        assert_int_equal(pare_tensor_file_check(path, &err), 0);
        if ((masks ? pare_masks_write : pare_tensor_file_write)(path, list, 3, &err) ||
            (masks ? pare_masks_read : pare_tensor_file_read)(arena, path, &got, &n, &err))
            fail_msg("%s", err.msg);
        expect_same_list(got, n, list, 3);
        /* The format does not depend on the name. */
        snprintf(other, sizeof(other), "%s/other", dir);
        assert_int_equal(rename(path, other), 0);
        assert_true(pare_tensor_file_looks(other));
        assert_int_equal(pare_tensor_file_read(arena, other, &got, &n, &err), 0);
        expect_same_list(got, n, list, 3);
        unlink(other);
    }
}

static void test_masks_in_other_formats(void **state)
{
    struct pare_named *pth, *got;
    int n, k;

    (void)state;
    assert_int_equal(pare_masks_read(arena, "golden/masks.pth", &pth, &n, &err), 0);
    assert_int_equal(n, 3);
    snprintf(path, sizeof(path), "%s/x.npz", dir);
    assert_int_equal(pare_masks_write(path, pth, n, &err), 0);
    assert_int_equal(pare_masks_read(arena, path, &got, &k, &err), 0);
    expect_same_list(got, k, pth, n);
    unlink(path);
    assert_int_equal(pare_masks_read(arena, "golden/state.pth", &got, &k, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "the mask '1.running_mean' is named neither"));
}

static void test_other_files_are_refused(void **state)
{
    struct pare_named *got, bad = { "x", { PARE_F32, 2, { 2, 2 }, one } };
    int n;

    (void)state;
    assert_int_equal(pare_tensor_file_write("model.h5", list, 3, &err), PARE_ECONFIG);
    assert_string_equal(err.msg,
                        "model.h5: the name should end in .pth, .pt, .bin, .safetensors or .npz");
    assert_int_equal(pare_masks_write("model.h5", list, 3, &err), PARE_ECONFIG);
    assert_int_equal(pare_tensor_file_check(".npz", &err), PARE_ECONFIG);
    assert_int_equal(pare_tensor_file_read(arena, "models/add.onnx", &got, &n, &err), PARE_EFORMAT);
    assert_non_null(strstr(err.msg, "models/add.onnx: not a file of named tensors"));
    assert_false(pare_tensor_file_looks("models/add.onnx"));
    assert_false(pare_tensor_file_looks("/nonexistent"));
    assert_int_equal(pare_tensor_file_read(arena, "/nonexistent", &got, &n, &err), PARE_EIO);
    assert_int_equal(pare_tensor_file_read(arena, "golden", &got, &n, &err), PARE_EIO);
    assert_int_equal(pare_tensor_file_read(arena, "golden/legacy.pth", &got, &n, &err),
                     PARE_EUNSUPPORTED);
    assert_int_equal(pare_masks_write("x.npz", &bad, 1, &err), PARE_ECONFIG);
    assert_int_equal(access("x.npz", F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_format, setup, teardown),
        cmocka_unit_test_setup_teardown(test_masks_in_other_formats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
