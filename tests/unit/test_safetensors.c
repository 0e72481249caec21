/* test_safetensors.c - .safetensors: round trips, hostile headers, failing writes. */
#include "file_rig.h"

#include <signal.h>
#include <sys/resource.h>

#include "io/file.h"
#include "io/safetensors.h"
#include "tensor/compare.h"
#include "tensor/tensor.h"

static const struct pare_tolerance exact = { 0, 0 };

static int setup(void **state)
{
    (void)state;
    return make_folder("x.safetensors");
}

/* Parses a file with this header and `len` bytes of data, at an odd address so that the sanitizer
 * finds misaligned reads. */
static int parse(const char *header, size_t len, struct pare_safetensors *st)
{
    size_t n = strlen(header);
    unsigned char *p = (unsigned char *)pare_alloc(arena, n + len + 9, 1) + 1;

    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < len; i++)
        p[8 + n + i] = (unsigned char)(i & 1);
    err.code = 0;
    return pare_safetensors_parse(arena, p, n + 8 + len, st, &err);
}

static void test_round_trip_of_every_type(void **state)
{
    static const enum pare_dtype types[] = { PARE_BOOL, PARE_F32, PARE_U8,  PARE_F64, PARE_F16,
                                             PARE_BF16, PARE_I8,  PARE_I16, PARE_U16, PARE_I32,
                                             PARE_U32,  PARE_I64, PARE_U64 };
    static const int64_t dims[] = { 3, 1, 5 };
    struct pare_named list[52];
    struct pare_meta meta[] = { { "epoch", "3" }, { "words", "größer \"quoted\"\n" } };
    struct pare_safetensors st = { list, 52, meta, 2 }, back;
    const void *first, *second;
    size_t n, m;

    (void)state;
    for (int i = 0; i < 52; i++) {
        struct pare_tensor *t = &list[i].t;

        list[i].name = pare_sprintf(arena, "t%d.weight", i);
        assert_int_equal(pare_tensor_new(arena, t, types[i % 13], i % 4, dims, &err), 0);
        for (size_t k = 0; k < (size_t)pare_numel(t) * pare_dtype_size(t->dtype); k++)
            ((char *)t->data)[k] = (char)(t->dtype == PARE_BOOL ? k & 1 : k % 60);
    }
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(pare_safetensors_read(arena, path, &back, &err), 0);
    assert_int_equal(back.n_tensors, 52);
    for (int i = 0; i < 52; i++) {
        assert_string_equal(back.tensor[i].name, list[i].name);
        assert_int_equal(pare_tensor_compare(&back.tensor[i].t, &list[i].t, exact, &err), 0);
    }
    assert_int_equal(back.n_meta, 2);
    assert_string_equal(back.meta[1].key, "words");
    assert_string_equal(back.meta[1].value, meta[1].value);

    assert_int_equal(pare_file_read(arena, path, &first, &n, &err), 0);
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(pare_file_read(arena, path, &second, &m, &err), 0);
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
}

static void test_empty_tensors_and_files(void **state)
{
    static const int64_t none[] = { 0, 4 };
    struct pare_named list[] = { { "none", { 0 } }, { "", { 0 } } };
    struct pare_safetensors st = { list, 2, NULL, 0 }, back;

    (void)state;
    assert_int_equal(pare_tensor_new(arena, &list[0].t, PARE_F32, 2, none, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &list[1].t, PARE_I64, 0, none, &err), 0);
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(pare_safetensors_read(arena, path, &back, &err), 0);
    assert_int_equal(back.n_tensors, 2);
    assert_int_equal(back.tensor[0].t.dim[0], 0);
    st.n_tensors = 0;
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(pare_safetensors_read(arena, path, &back, &err), 0);
    assert_int_equal(back.n_tensors, 0);
}

/* As other tools write files: blanks after the header, tensors in any order. */
static void test_files_from_other_tools(void **state)
{
    struct pare_safetensors st;

    (void)state;
    assert_int_equal(parse("{\"b\":{\"shape\":[2],\"data_offsets\":[4,8],\"dtype\":\"I16\"},"
                           "\"__metadata__\":{\"format\":\"pt\"},"
                           "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}     ",
                           8, &st),
                     0);
    assert_int_equal(st.n_tensors, 2);
    assert_string_equal(st.tensor[0].name, "b");
    assert_int_equal(((int16_t *)st.tensor[0].t.data)[1], 256);
    assert_string_equal(st.meta[0].value, "pt");
    assert_int_equal(parse("{}", 0, &st), 0);
}

#define T(dtype, shape, at) \
    "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" at "}}"

static void test_hostile_headers(void **state)
{
    static const struct {
        const char *header;
        size_t len;
        const char *message;
    } bad[] = {
        { "", 0, "does not start" },
        { "[]", 0, "does not start" },
        { "{", 0, "not JSON" },
        { "{} x", 0, "not JSON" },
        { "{}", 1, "1 bytes at the end belong to no tensor" },
        { "{\"w\":3}", 0, "tensor 'w': not an object" },
        { "{\"w\":{}}", 0, "not an object" },
        { "{\"w\\u0000x\":{}}", 0, "not JSON" },
        { "{\"\xff\":{}}", 0, "not JSON" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
          "not an object" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "not JSON" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4, "data_offsets" },
        { T("\"F31\"", "[1]", "[0,4]"), 4, "the dtype 'F31' is not supported" },
        { T("7", "[1]", "[0,4]"), 4, "dtype is missing" },
        { T("\"F32\"", "1", "[0,4]"), 4, "the shape is missing" },
        { T("\"F32\"", "[1.0]", "[0,4]"), 4, "dimension 0 of the shape" },
        { T("\"F32\"", "[-1]", "[0,4]"), 4, "dimension 0 of the shape" },
        { T("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 dimensions" },
        { T("\"F32\"", "[9223372036854775807,9223372036854775807]", "[0,4]"), 4, "" },
        { T("\"F32\"", "[4611686018427387904,4]", "[0,0]"), 0, "" },
        { T("\"F32\"", "[99999999999999999999]", "[0,4]"), 4, "not JSON" },
        { T("\"F32\"", "[1]", "[0]"), 4, "data_offsets" },
        { T("\"F32\"", "[1]", "[0,4,8]"), 4, "data_offsets" },
        { T("\"F32\"", "[1]", "[0,4.0]"), 4, "data_offsets" },
        { T("\"F32\"", "[1]", "{}"), 4, "data_offsets" },
        { T("\"F32\"", "[1]", "[4,0]"), 4, "[4, 0]" },
        { T("\"F32\"", "[1]", "[-4,0]"), 4, "[-4, 0]" },
        { T("\"F32\"", "[1]", "[0,8]"), 4, "the file has 4 bytes of data" },
        { T("\"F32\"", "[1]", "[0,9223372036854775807]"), 4, "the file has 4 bytes" },
        { T("\"F32\"", "[2]", "[0,4]"), 4, "4 bytes of data where the shape needs 8" },
        { T("\"F32\"", "[1]", "[4,8]"), 8, "the data has a hole at byte 0" },
        { T("\"F32\"", "[1]", "[0,4]"), 8, "4 bytes at the end" },
        { "{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
          6, "two tensors at byte 2" },
        { "{\"__metadata__\":[]}", 0, "__metadata__ is not an object" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "'a' of __metadata__ is not a string" },
        { "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "not JSON" },
    };
    struct pare_safetensors st;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_not_equal(parse(bad[i].header, bad[i].len, &st), 0);
        if (!strstr(err.msg, bad[i].message))
            fail_msg("%s: \"%s\", expected \"%s\"", bad[i].header, err.msg, bad[i].message);
    }
}

static void test_hostile_lengths(void **state)
{
    static const uint64_t bad[] = { 3, 1 << 26, UINT32_MAX, INT64_MAX, UINT64_MAX };
    unsigned char buf[10] = { 0, 0, 0, 0, 0, 0, 0, 0, '{', '}' };
    struct pare_safetensors st;
    char *deep = pare_alloc(arena, 100001, 1);

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        for (int k = 0; k < 8; k++)
            buf[k] = (unsigned char)(bad[i] >> (8 * k));
        assert_int_equal(pare_safetensors_parse(arena, buf, 10, &st, &err), PARE_EFORMAT);
    }
    for (size_t n = 0; n < 8; n++)
        assert_int_equal(pare_safetensors_parse(arena, buf, n, &st, &err), PARE_EFORMAT);
    memcpy(deep, "{\"a\":", 5);
    memset(deep + 5, '[', 100000 - 5);
    assert_int_equal(parse(deep, 0, &st), PARE_EFORMAT);
}

static void test_bools_are_0_or_1(void **state)
{
    unsigned char buf[128] = { 0 };
    const char *h = T("\"BOOL\"", "[2]", "[0,2]");
    size_t n = strlen(h);
    struct pare_safetensors st;

    (void)state;
    buf[0] = (unsigned char)n;
    memcpy(buf + 8, h, n);
    buf[8 + n + 1] = 1;
    assert_int_equal(pare_safetensors_parse(arena, buf, n + 10, &st, &err), 0);
    buf[8 + n + 1] = 2;
    assert_int_equal(pare_safetensors_parse(arena, buf, n + 10, &st, &err), PARE_EFORMAT);
    assert_string_equal(err.msg, "tensor 'w': element 1 is 2, a BOOL is 0 or 1");
}

static void test_flipped_bits_do_not_crash(void **state)
{
    struct pare_tensor t;
    struct pare_named list[] = { { "a", { 0 } }, { "b", { 0 } } };
    struct pare_meta meta[] = { { "k", "v" } };
    struct pare_safetensors st = { list, 2, meta, 1 }, back;
    static const int64_t dims[] = { 2, 2 };
    const void *bytes;
    unsigned char *p;
    size_t n;

    (void)state;
    assert_int_equal(pare_tensor_new(arena, &t, PARE_F32, 2, dims, &err), 0);
    list[0].t = t;
    assert_int_equal(pare_tensor_new(arena, &t, PARE_BOOL, 1, dims, &err), 0);
    list[1].t = t;
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(pare_file_read(arena, path, &bytes, &n, &err), 0);
    p = pare_alloc(arena, n, 1);
    memcpy(p, bytes, n);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct pare_mark m = pare_mark(arena);

            p[i] ^= (unsigned char)(1 << bit);
            (void)pare_safetensors_parse(arena, p, n, &back, &err);
            p[i] ^= (unsigned char)(1 << bit);
            pare_reset(arena, m);
        }
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(pare_safetensors_parse(arena, p, i, &back, &err), 0);
}

static void test_lists_that_cannot_be_written(void **state)
{
    static float x[1];
    struct pare_named list[] = { { "a", { PARE_F32, 1, { 1 }, x } },
                                 { "a", { PARE_F32, 1, { 1 }, x } } };
    struct pare_safetensors st = { list, 2, NULL, 0 };

    (void)state;
    assert_int_equal(pare_safetensors_write(path, &st, &err), PARE_ECONFIG);
    list[1].name = "__metadata__";
    assert_int_equal(pare_safetensors_write(path, &st, &err), PARE_ECONFIG);
    list[1].name = "\xff";
    assert_int_equal(pare_safetensors_write(path, &st, &err), PARE_EFORMAT);
    list[1].name = "b";
    list[1].t.dtype = PARE_STR;
    assert_int_equal(pare_safetensors_write(path, &st, &err), PARE_EUNSUPPORTED);
    st.n_tensors = 1;
    assert_int_equal(pare_safetensors_write("/nonexistent/x", &st, &err), PARE_EIO);
    assert_non_null(strstr(err.msg, "/nonexistent/x: cannot create"));
    assert_int_equal(access(path, F_OK), -1);
}

/* A full disk: an error, the old file is unchanged, no temporary file is left. */
static void test_full_disk(void **state)
{
    static float x[100000] = { 1, 2, 3 };
    struct pare_named one = { "w", { PARE_F32, 1, { 2 }, x } };
    struct pare_safetensors st = { &one, 1, NULL, 0 }, back;
    struct rlimit old, small;

    (void)state;
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 5000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    one.t.dim[0] = 100000;
    assert_int_equal(pare_safetensors_write(path, &st, &err), PARE_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(err.msg, "cannot write"));
    assert_int_equal(pare_safetensors_read(arena, path, &back, &err), 0);
    assert_int_equal(back.tensor[0].t.dim[0], 2);
    assert_true(pare_f32(&back.tensor[0].t)[1] == 2);
}

/* A temporary file of a killed process with the same process id is replaced. */
static void test_stale_temporary_file_is_replaced(void **state)
{
    struct pare_safetensors st = { 0 };
    char tmp[128];
    FILE *f;

    (void)state;
    snprintf(tmp, sizeof(tmp), "%s.%ld.tmp", path, (long)getpid());
    f = fopen(tmp, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(access(tmp, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip_of_every_type, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_tensors_and_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_from_other_tools, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_lengths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bools_are_0_or_1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flipped_bits_do_not_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists_that_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_temporary_file_is_replaced, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
