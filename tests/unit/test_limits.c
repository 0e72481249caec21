/* test_limits.c - memory accounting, colliding names, outputs that must not be overwritten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/map.h"
#include "io/file.h"
#include "onnx/model.h"
#include "tensor/tensor.h"

/* The limit applies to all arenas together; freed memory can be allocated again. */
static void test_memory_limit_of_all_arenas(void **state)
{
    size_t before = pare_memory_used();
    struct pare_arena *a = pare_arena_new(0), *b = pare_arena_new(0);

    (void)state;
    pare_memory_limit(before + (1 << 20));
    assert_non_null(pare_alloc(a, 1, 600000));
    assert_false(pare_memory_refused());
    assert_null(pare_alloc(b, 1, 600000));
    assert_true(pare_memory_refused());
    assert_true(pare_arena_failed(b));
    assert_non_null(pare_alloc(b, 1, 300000));
    pare_arena_free(a);
    assert_non_null(pare_alloc(b, 1, 600000));
    assert_null(pare_alloc(b, 1, SIZE_MAX / 2));
    pare_memory_limit(0);
    assert_false(pare_memory_refused());
    assert_non_null(pare_alloc(b, 4, 1 << 20));
    pare_arena_free(b);
    assert_int_equal(pare_memory_used(), before);
}

/* The limit of one arena; pare_arena_limit() reports the failure once. */
static void test_memory_limit_of_one_arena(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 12);

    (void)state;
    assert_int_equal(pare_arena_limit(a, 1 << 20), 0);
    assert_non_null(pare_alloc(a, 1, 500000));
    assert_null(pare_alloc(a, 1, 600000));
    assert_non_null(pare_alloc(a, 1, 100000)); /* a failure is not sticky */
    assert_int_equal(pare_arena_limit(a, 1 << 20), 0);
    assert_non_null(pare_alloc(a, 1, 600000));
    assert_true(pare_arena_limit(a, 0) > 0);
    assert_non_null(pare_alloc(a, 1, 4 << 20));
    assert_int_equal(pare_arena_limit(a, 0), 0);
    pare_arena_free(a);
}

static void test_element_limit(void **state)
{
    struct pare_tensor t = { .dtype = PARE_U8, .rank = 2, .dim = { 1 << 20, 1 << 20 } };
    struct pare_err err = { 0 };
    int64_t numel;
    size_t bytes;

    (void)state;
    assert_int_equal(pare_tensor_size(&t, &numel, &bytes, &err), 0);
    assert_true(numel == PARE_MAX_ELEMENTS);
    t.dim[0]++;
    assert_int_equal(pare_tensor_size(&t, &numel, &bytes, &err), PARE_ELIMIT);
    t.dim[0] = INT64_MAX;
    t.dim[1] = INT64_MAX;
    assert_int_equal(pare_tensor_size(&t, &numel, &bytes, &err), PARE_ELIMIT);
    t.dim[1] = 0; /* no elements, but strides that do not fit */
    assert_int_equal(pare_tensor_size(&t, &numel, &bytes, &err), PARE_ELIMIT);
}

/* Names of many lengths, so that every branch of the hash function runs. */
static void test_map_with_many_names(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_map m = { 0 };
    struct pare_err err = { 0 };
    static char slot[5000];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        const char *name = pare_sprintf(a, "%.*s%d", i % 40,
                                        "0123456789012345678901234567890123456789", i);

        assert_null(pare_map_get(&m, name));
        assert_int_equal(pare_map_set(&m, a, name, slot + i, &err), 0);
    }
    for (int i = 0; i < 5000; i++) {
        const char *name = pare_sprintf(a, "%.*s%d", i % 40,
                                        "0123456789012345678901234567890123456789", i);

        assert_ptr_equal(pare_map_get(&m, name), slot + i);
    }
    assert_null(pare_map_get(&m, ""));
    pare_arena_free(a);
}

static void test_join_words(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    const char *const word[] = { "one", "", "three" };

    (void)state;
    assert_string_equal(pare_join(a, word, 3, ", "), "one, , three");
    assert_string_equal(pare_join(a, word, 1, ", "), "one");
    assert_string_equal(pare_join(a, word, 0, ", "), "");
    pare_arena_free(a);
}

static void expect_refused(const struct pare_model *m, const char *path, const char *why)
{
    struct pare_err err = { 0 };

    assert_int_not_equal(pare_model_target(m, path, &err), 0);
    if (!strstr(err.msg, why))
        fail_msg("expected '%s' in: %s", why, err.msg);
}

/* Saving overwrites neither the loaded model nor its external data, under any name. */
static void test_outputs_that_must_not_be_overwritten(void **state)
{
    char dir[] = "/tmp/pare_limits_XXXXXX", path[64], data[64], link_to[64], other[64];
    struct pare_save_opts opts = { .external = true, .external_above = 1 };
    struct pare_err err = { 0 };
    struct pare_model *m;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/m.onnx", dir);
    snprintf(data, sizeof(data), "%s/m.onnx.data", dir);
    snprintf(link_to, sizeof(link_to), "%s/link", dir);
    snprintf(other, sizeof(other), "%s/other.onnx", dir);
    assert_int_equal(pare_model_load("models/tiny_cnn.onnx", &m, &err), 0);
    assert_int_equal(pare_model_save(m, path, &opts, &err), 0);
    pare_model_free(m);
    assert_int_equal(stat(data, &st), 0);

    assert_int_equal(symlink("m.onnx.data", link_to), 0);
    assert_int_equal(pare_model_load(path, &m, &err), 0);
    expect_refused(m, path, "holds the model that is being saved");
    expect_refused(m, data, "holds weights of the model that is being saved");
    expect_refused(m, link_to, "holds weights of the model that is being saved");
    expect_refused(m, dir, "is not a regular file");
    assert_int_equal(pare_model_target(m, other, &err), 0);
    assert_int_not_equal(pare_model_save(m, path, &opts, &err), 0);
    unlink(link_to);

    /* A symbolic link at the output path is replaced; its target is not written. */
    assert_int_equal(symlink("../victim", other), 0);
    assert_int_equal(pare_model_save(m, other, NULL, &err), 0);
    assert_int_equal(lstat(other, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    pare_model_free(m);
    unlink(other);
    unlink(path);
    unlink(data);
    assert_int_equal(rmdir(dir), 0); /* no file is left */
}

/* The pipe has no writer: opening it must not block. */
static void test_files_that_are_not_regular_or_too_long(void **state)
{
    char dir[] = "/tmp/pare_limits_XXXXXX", path[64];
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_err err = { 0 };
    const void *bytes;
    size_t len;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pare_file_read(a, path, &bytes, &len, &err), PARE_EIO);
    assert_string_equal(err.msg, "not a regular file");
    unlink(path);
    assert_int_equal(pare_file_write(path, "12345", 5, &err), 0);
    assert_int_equal(pare_file_read_most(a, path, 4, &bytes, &len, &err), PARE_ELIMIT);
    assert_string_equal(err.msg, "the file has 5 bytes, at most 4 are supported");
    assert_int_equal(pare_file_read_most(a, path, 5, &bytes, &len, &err), 0);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_limit_of_one_arena),
        cmocka_unit_test(test_memory_limit_of_all_arenas),
        cmocka_unit_test(test_element_limit),
        cmocka_unit_test(test_map_with_many_names),
        cmocka_unit_test(test_join_words),
        cmocka_unit_test(test_outputs_that_must_not_be_overwritten),
        cmocka_unit_test(test_files_that_are_not_regular_or_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
