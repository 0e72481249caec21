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

/* All arenas together, and what was given back can be taken again. */
static void test_memory(void **state)
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

/* One arena has less than it wants, and says so once. */
static void test_arena_limit(void **state)
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

static void test_elements(void **state)
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

/* Names of every length up to some words, so that each way through the hash is taken. */
static void test_names(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_map m = { 0 };
    struct pare_err err = { 0 };
    static char place[5000];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        const char *name = pare_sprintf(a, "%.*s%d", i % 40,
                                        "0123456789012345678901234567890123456789", i);

        assert_null(pare_map_get(&m, name));
        assert_int_equal(pare_map_set(&m, a, name, place + i, &err), 0);
    }
    for (int i = 0; i < 5000; i++) {
        const char *name = pare_sprintf(a, "%.*s%d", i % 40,
                                        "0123456789012345678901234567890123456789", i);

        assert_ptr_equal(pare_map_get(&m, name), place + i);
    }
    assert_null(pare_map_get(&m, ""));
    pare_arena_free(a);
}

static void test_join(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    const char *const word[] = { "one", "", "three" };

    (void)state;
    assert_string_equal(pare_join(a, word, 3, ", "), "one, , three");
    assert_string_equal(pare_join(a, word, 1, ", "), "one");
    assert_string_equal(pare_join(a, word, 0, ", "), "");
    pare_arena_free(a);
}

static void refused(const struct pare_model *m, const char *path, const char *why)
{
    struct pare_err err = { 0 };

    assert_int_not_equal(pare_model_target(m, path, &err), 0);
    if (!strstr(err.msg, why))
        fail_msg("said '%s', not '%s'", err.msg, why);
}

/* Output overwrites neither a model nor its external data, whatever its name. */
static void test_target(void **state)
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
    refused(m, path, "holds the model that is being saved");
    refused(m, data, "holds weights of the model that is being saved");
    refused(m, link_to, "holds weights of the model that is being saved");
    refused(m, dir, "is not a regular file");
    assert_int_equal(pare_model_target(m, other, &err), 0);
    assert_int_not_equal(pare_model_save(m, path, &opts, &err), 0);
    unlink(link_to);

    /* A link in the place of the output is replaced; what it led to stays. */
    assert_int_equal(symlink("../victim", other), 0);
    assert_int_equal(pare_model_save(m, other, NULL, &err), 0);
    assert_int_equal(lstat(other, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    pare_model_free(m);
    unlink(other);
    unlink(path);
    unlink(data);
    assert_int_equal(rmdir(dir), 0); /* and nothing is left */
}

/* The pipe has no writer: opening it must not block. */
static void test_pipe(void **state)
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
        cmocka_unit_test(test_arena_limit), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_elements),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_join),        cmocka_unit_test(test_target),
        cmocka_unit_test(test_pipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
