/* test_npy.c - .npy and .npz: round trips, every kind of malformed header, flipped bytes. */
#include "arena_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/npy.h"
#include "io/npz.h"
#include "tensor/compare.h"
#include "tensor/tensor.h"

static const struct pare_tolerance exact = { 0, 0 };

/* A file of format `major` with this dictionary and these data bytes. */
static size_t make_npy(char *buf, int major, const char *dict, const void *data, size_t len)
{
    size_t head = strlen(dict), start = major == 1 ? 10 : 12;

    memset(buf, 0, start);
    memcpy(buf, "\x93NUMPY", 6);
    buf[6] = (char)major;
    buf[8] = (char)(head & 255);
    buf[9] = (char)(head >> 8);
    memcpy(buf + start, dict, head);
    if (len)
        memcpy(buf + start + head, data, len);
    return start + head + len;
}

static void test_round_trip_of_every_type(void **state)
{
    static const enum pare_dtype types[] = { PARE_F32, PARE_F64, PARE_F16, PARE_I8,
                                             PARE_U8,  PARE_I16, PARE_U16, PARE_I32,
                                             PARE_U32, PARE_I64, PARE_U64, PARE_BOOL };
    static const int64_t dims[] = { 2, 3, 5 };

    (void)state;
    for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
        for (int rank = 0; rank < 4; rank++) {
            struct pare_tensor t, back;
            const void *bytes;
            size_t len;

            assert_int_equal(pare_tensor_new(arena, &t, types[k], rank, dims, &err), 0);
            for (size_t i = 0; i < (size_t)pare_numel(&t) * pare_dtype_size(types[k]); i++)
                ((char *)t.data)[i] = types[k] == PARE_BOOL ? (char)(i & 1) : (char)(i % 60);
            assert_int_equal(pare_npy_pack(arena, &t, &bytes, &len, &err), 0);
            assert_int_equal(((size_t)len - (size_t)pare_numel(&t) * pare_dtype_size(types[k])) %
                                 64,
                             0);
            assert_int_equal(pare_npy_parse(arena, bytes, len, &back, &err), 0);
            assert_int_equal(pare_tensor_compare(&back, &t, exact, &err), 0);
        }
}

static void test_bfloat16_becomes_float32(void **state)
{
    static const int64_t dims[] = { 2 };
    struct pare_tensor t, back;
    const void *bytes;
    size_t len;

    (void)state;
    assert_int_equal(pare_tensor_new(arena, &t, PARE_BF16, 1, dims, &err), 0);
    ((uint16_t *)t.data)[1] = pare_f32_to_bf16(-2.5f);
    assert_int_equal(pare_npy_pack(arena, &t, &bytes, &len, &err), 0);
    assert_int_equal(pare_npy_parse(arena, bytes, len, &back, &err), 0);
    assert_int_equal(back.dtype, PARE_F32);
    assert_true(pare_f32(&back)[1] == -2.5f);
}

/* numpy: [[1, 2, 3], [4, 5, 6]] in Fortran order is stored 1 4 2 5 3 6. */
static void test_fortran_order_is_converted(void **state)
{
    static const int8_t stored[] = { 1, 4, 2, 5, 3, 6 }, want[] = { 1, 2, 3, 4, 5, 6 };
    struct pare_tensor t;
    char buf[256];
    size_t len = make_npy(buf, 2, "{\"shape\": (2, 3), 'fortran_order': True, 'descr': '|i1'}\n",
                          stored, 6);

    (void)state;
    assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), 0);
    assert_int_equal(t.rank, 2);
    assert_memory_equal(t.data, want, 6);
}

static void test_malformed_headers_are_errors(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{'descr': '|i1'}",
        "{'descr': '|i1', 'shape': (1,)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '|i1', 'descr': '|i1', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|i1', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': 1}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (4000000000,4000000000,4000000000)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|i1, 'fortran_order': False, 'shape': (1,)}",
    };
    struct pare_tensor t;
    char buf[512];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        size_t len = make_npy(buf, 1, bad[i], "\x01", 1);

        err.msg[0] = '\0';
        if (!pare_npy_parse(arena, buf, len, &t, &err))
            fail_msg("accepted: %s", bad[i]);
        assert_true(err.msg[0] != '\0');
    }
}

static void test_advice_on_arrays_that_are_not_numbers(void **state)
{
    static const char *const bad[][2] = {
        { "'|O'", "Python objects, which are not read: save numbers, as in np.savez(FILE, x=" },
        { "'O'", "items of different lengths as one .npy file each, in a folder" },
        { "'>f4'", "convert it, as in x.astype('float32')" },
        { "'<U3'", "the array's type is '<U3', only little-endian numbers and booleans" },
        { "[('x', '<f4')]", "save one array for each field" },
    };
    struct pare_tensor t;
    char head[128], buf[512];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(head, sizeof(head), "{'descr': %s, 'fortran_order': False, 'shape': (1,)}",
                 bad[i][0]);
        len = make_npy(buf, 1, head, "\x80\x03]q\0.", 6); /* a pickle */
        assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), PARE_EUNSUPPORTED);
        assert_non_null(strstr(err.msg, bad[i][1]));
    }
    assert_int_equal(pare_npy_parse(arena, "\x80\x04]\x94.", 5, &t, &err), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "is a Python pickle, which is not read: save it with np.save"));
}

static void test_truncated_and_other_formats_are_refused(void **state)
{
    static const char dict[] = "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)}";
    struct pare_tensor t;
    char buf[256];
    size_t len = make_npy(buf, 1, dict, "\x01", 1);

    (void)state;
    assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), 0);
    for (size_t n = 0; n < len; n++) /* truncated */
        assert_int_not_equal(pare_npy_parse(arena, buf, n, &t, &err), 0);
    buf[6] = 4;
    assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), PARE_EUNSUPPORTED);
    buf[6] = 1;
    buf[9] = 127;
    assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), PARE_EFORMAT);
}

static void test_huge_dimensions_are_refused(void **state)
{
    struct pare_tensor t;
    char buf[256];
    size_t len = make_npy(buf, 1,
                          "{'descr': '<f4', 'fortran_order': True, "
                          "'shape': (4000000000, 4000000000, 4000000000, 0)}",
                          NULL, 0);

    (void)state;
    assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), PARE_ELIMIT);
    len = make_npy(buf, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (4000000, 0, 3)}",
                   NULL, 0);
    assert_int_equal(pare_npy_parse(arena, buf, len, &t, &err), 0);
    assert_int_equal(pare_numel(&t), 0);
}

/* Errors show with the sanitizers. */
static void test_flipped_bytes_do_not_crash(void **state)
{
    static const char dict[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";
    char buf[256];
    size_t len = make_npy(buf, 1, dict, "123456781234567812345678", 24);

    (void)state;
    for (size_t i = 0; i < len; i++)
        for (int v = 0; v < 256; v++) {
            struct pare_mark m = pare_mark(arena);
            struct pare_tensor t;
            char original = buf[i];

            buf[i] = (char)v;
            (void)pare_npy_parse(arena, buf, len, &t, &err);
            buf[i] = original;
            pare_reset(arena, m);
        }
}

/* ---- .npz --------------------------------------------------------------------------- */

static void write_file(const char *path, const char *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static size_t read_file(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(buf, 1, size, f);
    assert_true(n < size);
    fclose(f);
    return n;
}

static void test_npz_round_trip_and_damage(void **state)
{
    static const int64_t dims[] = { 2, 2 };
    char dir[] = "/tmp/pare_npz_XXXXXX", path[64], buf[4096], again[4096];
    struct pare_named list[2] = { { "conv1.weight", { 0 } }, { "b", { 0 } } }, *back;
    size_t len;
    int n;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/x.npz", dir);
    assert_int_equal(pare_tensor_new(arena, &list[0].t, PARE_F32, 2, dims, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &list[1].t, PARE_I64, 1, dims, &err), 0);
    pare_f32_mut(&list[0].t)[3] = 1.5f;
    pare_i64_mut(&list[1].t)[0] = -7;
    assert_int_equal(pare_npz_write(path, list, 2, &err), 0);
    assert_int_equal(pare_npz_read(arena, path, &back, &n, &err), 0);
    assert_int_equal(n, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(back[i].name, list[i].name);
        assert_int_equal(pare_tensor_compare(&back[i].t, &list[i].t, exact, &err), 0);
    }
    len = read_file(path, buf, sizeof(buf));
    assert_int_equal(pare_npz_write(path, list, 2, &err), 0);
    assert_int_equal(read_file(path, again, sizeof(again)), len);
    assert_memory_equal(buf, again, len);
    for (size_t i = 0; i < len; i++) {
        char original = buf[i];

        buf[i] = (char)(original ^ 0x55);
        write_file(path, buf, len);
        (void)pare_npz_read(arena, path, &back, &n, &err);
        buf[i] = original;
    }
    for (size_t i = 0; i < len; i += 7) {
        write_file(path, buf, i);
        assert_int_not_equal(pare_npz_read(arena, path, &back, &n, &err), 0);
    }
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip_of_every_type, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bfloat16_becomes_float32, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fortran_order_is_converted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed_headers_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_advice_on_arrays_that_are_not_numbers, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_truncated_and_other_formats_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_huge_dimensions_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flipped_bytes_do_not_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_npz_round_trip_and_damage, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
