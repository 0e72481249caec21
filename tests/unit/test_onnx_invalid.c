/* test_onnx_invalid.c - damaged, malformed and hostile ONNX files give an error. */
#include "onnx_make.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Expects a message of one line that starts with the place of the error. */
static void expect_message(const struct pare_err *err, const char *where)
{
    size_t n = strlen(err->msg);

    assert_int_not_equal(err->code, 0);
    if (strncmp(err->msg, where, strlen(where)) || strncmp(err->msg + strlen(where), ": ", 2))
        fail_msg("expected '%s' at the start of: %s", where, err->msg);
    assert_true(n > 0 && err->msg[n - 1] != '.');
    assert_null(strpbrk(err->msg, "\n\r\t\033"));
}

static void expect_refused(struct bin file, const char *want)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (!pare_model_parse(file.p, file.n, NULL, &m, &err))
        fail_msg("accepted; expected: %s", want);
    assert_null(m);
    expect_message(&err, "model");
    if (!strstr(err.msg, want))
        fail_msg("got '%s', expected '%s'", err.msg, want);
}

static struct bin zero_bytes(unsigned field, size_t n)
{
    return blob(field, pare_alloc(pool, n, 1), n);
}

static struct bin attr(const char *name, int type, struct bin more)
{
    return msg(5, CAT(text(1, name), more, num(20, type)));
}

static struct bin valid_model(void)
{
    struct bin branch = CAT(node("Relu", "r", "x", "b"), output("b", PARE_F32, "2,3"));

    return model(CAT(node("Add", "add", "x,w", "s"),
                     node_with("If", "if", "c", "y",
                               CAT(attr("then_branch", 5, msg(6, branch)),
                                   attr("else_branch", 5, msg(6, branch)))),
                     node_with("Constant", "k", "", "c", attr("value_int", 2, num(3, 1))),
                     text(2, "g"), initializer("w", PARE_F32, "2,3", zero_bytes(9, 24)),
                     initializer("t", PARE_I64, "2", CAT(num(7, 1), num(7, 2))),
                     input("x", PARE_F32, "N,3"), output("y", PARE_F32, "2,3")));
}

/* ---- the wire format ---------------------------------------------------------------- */

static void test_files_that_are_not_models(void **state)
{
    (void)state;
    expect_refused(NOTHING, "is empty, not an ONNX model");
    expect_refused((struct bin){ (unsigned char *)"PK\3\4\24\0\0\0\10\10\0\0", 12 }, "zip archive");
    expect_refused((struct bin){ (unsigned char *)"{\"a\": [1, 2]}", 13 }, "is not an ONNX model");
    expect_refused((struct bin){ (unsigned char *)"version https://git-lfs", 23 },
                   "Git LFS pointer");
    expect_refused(num(1, 8), "has no graph");
    expect_refused(CAT(num(1, 8), tag(7, 2), varint(1000)), "exceeds the message that contains it");
    expect_refused(CAT(num(1, 8), tag(7, 2), varint(UINT64_MAX)),
                   "exceeds the message that contains it");
    expect_refused(CAT(num(1, 8), num(7, 3)), "another wire type than in the schema");
    expect_refused(CAT(num(1, 8), msg(7, NOTHING), msg(7, NOTHING)), "appears twice");
    expect_refused(CAT(tag(3, 3), tag(3, 4)), "a wire type that ONNX does not use");
    expect_refused(CAT(num(1, 8), msg(7, blob(2, "a\0b", 3))), "zero byte");
    expect_refused(CAT(num(1, 8), msg(7, msg(5, blob(4, "abcde", 5)))),
                   "a list ends inside a number");
    expect_refused(CAT(num(1, 8), msg(7, msg(5, blob(7, "\x80\x80", 2)))),
                   "a list ends inside a number");
    expect_refused(CAT(num(1, 14), msg(7, NOTHING)), "IR version 14 is newer than 13");
}

/* Truncated at each byte, and with each byte changed: an error or a model, no crash. */
static void test_damaged_files_do_not_crash(void **state)
{
    struct bin file = valid_model();

    (void)state;
    for (size_t n = 0; n <= file.n; n++) {
        struct pare_model *m = NULL;
        struct pare_err err = { 0 };
        unsigned char *exact = malloc(n ? n
                                        : 1); /* so that the sanitizer finds a read past the end */

        memcpy(exact, file.p, n);
        if (pare_model_parse(exact, n, NULL, &m, &err))
            expect_message(&err, "model");
        else
            pare_model_free(m);
        free(exact);
    }
    for (size_t i = 0; i < file.n * 4; i++) {
        static const unsigned char flip[4] = { 0x01, 0x80, 0xff, 0x08 };
        struct pare_model *m = NULL;
        struct pare_err err = { 0 };

        file.p[i / 4] ^= flip[i % 4];
        if (pare_model_parse(file.p, file.n, NULL, &m, &err))
            expect_message(&err, "model");
        else
            pare_model_free(m);
        file.p[i / 4] ^= flip[i % 4];
    }
}

static void test_deep_nesting_is_refused(void **state)
{
    struct bin graph = NOTHING, type = NOTHING;

    (void)state;
    for (int i = 0; i < 400; i++) {
        graph = msg(1, CAT(text(4, "If"), msg(5, CAT(text(1, "b"), msg(6, graph)))));
        type = msg(4, msg(1, type));
    }
    expect_refused(CAT(num(1, 8), msg(7, graph)), "more than 100 messages inside each other");
    expect_refused(CAT(num(1, 8), msg(7, msg(11, CAT(text(1, "x"), msg(2, type))))),
                   "more than 100 messages inside each other");
}

/* 10,000 levels, written from the inside out into one buffer. */
static void test_very_deep_nesting_is_refused(void **state)
{
    size_t cap = 200000, at = cap;
    unsigned char *buf = pare_alloc(pool, cap, 1);

    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct bin head = CAT(tag(i % 2 ? 4 : 1, 2), varint(cap - at));

        at -= head.n;
        memcpy(buf + at, head.p, head.n);
    }
    expect_refused(CAT(num(1, 8), msg(7, msg(11, CAT(text(1, "x"), blob(2, buf + at, cap - at))))),
                   "more than 100 messages inside each other");
}

/* ---- tensors ---------------------------------------------------------------------------- */

static void test_malformed_tensors(void **state)
{
    (void)state;
    expect_refused(model(initializer("w", PARE_F32, "2,3", zero_bytes(9, 10))),
                   "initializer 'w': raw_data has 10 bytes, shape (2, 3) of float32 needs 24");
    expect_refused(model(initializer("w", PARE_F32, "2,3", zero_bytes(9, 28))),
                   "raw_data has 28 bytes");
    expect_refused(model(initializer("w", PARE_F32, "2", zero_bytes(4, 4))),
                   "initializer 'w': float_data has 1 elements, shape (2) of float32 needs 2");
    expect_refused(model(initializer("w", PARE_I8, "2", num(5, 1))), "int32_data has 1 elements");
    expect_refused(model(initializer("w", PARE_STR, "2", text(6, "a"))),
                   "string_data has 1 elements");
    expect_refused(model(initializer("w", PARE_I4, "3", zero_bytes(9, 3))), "raw_data has 3 bytes");
    expect_refused(model(initializer("w", PARE_F32, "2,-3", zero_bytes(9, 24))),
                   "initializer 'w': dimension 1 is -3, must not be negative");
    expect_refused(model(initializer("w", PARE_F32, "4294967296,4294967296", zero_bytes(9, 16))),
                   "more than 1099511627776 elements");
    expect_refused(model(initializer("w", PARE_F32, "9223372036854775807,3", zero_bytes(9, 16))),
                   "more than 1099511627776 elements");
    expect_refused(model(initializer("w", PARE_F32, "4611686018427387904,8,0", NOTHING)),
                   "more than 1099511627776 elements");
    expect_refused(model(initializer("w", PARE_F32, "1000000000000", NOTHING)),
                   "needs 1000000000000");
    expect_refused(model(initializer("", PARE_F32, "1", zero_bytes(9, 4))),
                   "initializer 0 has no name");
    expect_refused(model(node_with("Constant", "k", "", "c",
                                   attr("value", 4, msg(5, tensor("", 1, "3", zero_bytes(9, 4)))))),
                   "node 'k' (Constant): attribute 'value': raw_data has 4 bytes");
    expect_refused(model(node("Constant", "k", "", "c")),
                   "node 'k' (Constant): a Constant without");
}

static struct bin sparse_initializer(const char *dims, const char *n, const char *idx_dims,
                                     int64_t at)
{
    int64_t *list2 = pare_alloc(pool, 2, sizeof(*list2));

    list2[0] = at;
    return msg(15, CAT(msg(1, tensor("s", PARE_F32, n, zero_bytes(9, 4))),
                       msg(2, tensor("", PARE_I64, idx_dims,
                                     blob(9, list2, strchr(idx_dims, '2') ? 16 : 8))),
                       list(3, dims, 1)));
}

static void test_malformed_sparse_tensors(void **state)
{
    (void)state;
    expect_refused(model(sparse_initializer("2,3", "1", "1", 6)),
                   "sparse initializer 's': index 0 is outside");
    expect_refused(model(sparse_initializer("2,3", "1", "1", -1)), "index 0 is outside");
    expect_refused(model(sparse_initializer("2,3", "1", "1,2", 2)), "index 0 is outside");
    expect_refused(model(sparse_initializer("2,3", "1", "2", 0)), "indices must be int64");
    expect_refused(model(sparse_initializer("2,3,4", "1", "1,2", 0)), "indices must be int64");
    expect_refused(model(sparse_initializer("-2,3", "1", "1", 0)), "negative dimension");
    expect_refused(model(sparse_initializer("9223372036854775807,9", "1", "1", 0)),
                   "more than 1099511627776 elements");
    expect_refused(model(msg(15, msg(1, tensor("s", 1, "1", zero_bytes(9, 4))))),
                   "indices are missing");
}

/* ---- graphs ------------------------------------------------------------------------------- */

static void test_malformed_graphs(void **state)
{
    struct bin x = input("x", PARE_F32, "2"), w = initializer("w", PARE_F32, "1", zero_bytes(9, 4));

    (void)state;
    expect_refused(model(CAT(node("Relu", "n", "missing", "y"), x)),
                   "node 'n' (Relu): input 'missing' is not made by a node and is not an input or "
                   "initializer");
    expect_refused(model(CAT(node("Relu", "", "missing", "y"), x)), "node 'Relu_0' (Relu): input");
    expect_refused(model(CAT(node("Relu", "n", "x", "y"), x, output("z", PARE_F32, "2"))),
                   "output 'z' is not made by a node");
    expect_refused(model(CAT(node("Relu", "a", "x", "y"), node("Relu", "b", "x", "y"), x)),
                   "node 'b' (Relu): output 'y' is defined twice");
    expect_refused(model(CAT(node("Relu", "a", "x", "x"), x)), "output 'x' is defined twice");
    expect_refused(model(CAT(w, w)), "initializer 'w' is defined twice");
    expect_refused(model(CAT(x, x)), "input 'x' is defined twice");
    expect_refused(model(CAT(node("Add", "a", "x,q", "p"), node("Relu", "b", "p", "q"), x)),
                   "the graph has a cycle");
    expect_refused(model(CAT(node("Relu", "self", "y", "y"))),
                   "node 'self' (Relu) depends on its own output");
    expect_refused(CAT(num(1, 8), msg(7, CAT(node("Relu", "n", "x", "y"), x))),
                   "does not state the version of the standard operators");
    expect_refused(model(CAT(node_with("If", "if", "x", "y",
                                       attr("then_branch", 5,
                                            msg(6, node("Relu", "in", "gone", "r")))),
                             x)),
                   "node 'if' (If): attribute 'then_branch': node 'in' (Relu): input 'gone'");
}

static struct bin function_def(const char *name, struct bin body)
{
    return msg(25, CAT(text(1, name), text(4, "a"), text(5, "b"), body, text(10, "my")));
}

static struct bin function_call(const char *f, const char *in, const char *out)
{
    return msg(7, CAT(text(1, in), text(2, out), text(4, f), text(7, "my")));
}

static struct bin with_functions(const char *first, struct bin functions)
{
    return CAT(num(1, 8),
               msg(7, CAT(node_with(first, "n", "x", "y", text(7, "my")), input("x", 1, "2"))),
               opset("", 13), opset("my", 1), functions);
}

static void test_malformed_functions(void **state)
{
    struct bin bomb = NOTHING;

    (void)state;
    expect_refused(with_functions("f", function_def("f", function_call("f", "a", "b"))),
                   "functions call each other more than 64 deep");
    expect_refused(with_functions("f", function_def("f", NOTHING)),
                   "output 'b' is not made by any of its nodes");
    expect_refused(with_functions("f", CAT(function_def("f", NOTHING), function_def("f", NOTHING))),
                   "function 'f' is defined twice");
    expect_refused(with_functions("f", function_def("f", function_call("Relu", "x", "b"))),
                   "input 'x' is not made by a node");
    for (int i = 0; i < 40; i++) { /* 2^40 nodes */
        char *name = pare_sprintf(pool, "f%d", i), *next = pare_sprintf(pool, "f%d", i + 1);

        bomb = CAT(bomb, function_def(name, CAT(function_call(next, "a", "t"),
                                                function_call(next, "t", "b"))));
    }
    expect_refused(with_functions("f0", bomb), "function calls expand to more than");
}

/* Control characters in names are replaced, and long names are truncated. */
static void test_names_in_messages(void **state)
{
    char *longer = pare_alloc(pool, 100001, 1);

    (void)state;
    memset(longer, 'n', 100000);
    expect_refused(model(node("Relu", "a\033[2J\nb", "gone", "y")), "node 'a?[2J?b' (Relu)");
    expect_refused(model(node("Relu", longer, "gone", "y")), "node 'nnnnn");
}

/* ---- files ------------------------------------------------------------------------------- */

static char folder[64], outside_path[80];

static int make_folder(void **state)
{
    snprintf(folder, sizeof(folder), "/tmp/pare-test-XXXXXX");
    if (make_pool(state) || !mkdtemp(folder))
        return 1;
    snprintf(outside_path, sizeof(outside_path), "%s.out", folder);
    return 0;
}

static const char *path_in_folder(const char *name)
{
    return pare_sprintf(pool, "%s/%s", folder, name);
}

static int remove_folder(void **state)
{
    static const char *const names[] = { "m.onnx", "w.bin", "link.bin", "hard.bin", "sub/w.bin" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unlink(path_in_folder(names[i]));
    unlink(path_in_folder("dir"));
    rmdir(path_in_folder("sub"));
    unlink(outside_path);
    drop_pool(state);
    return rmdir(folder);
}

static void write_file(const char *path, struct bin b)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    if (b.n)
        assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
}

static void expect_load_error(const char *path, const char *want)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (!pare_model_load(path, &m, &err))
        fail_msg("accepted; expected: %s", want);
    expect_message(&err, path);
    if (!strstr(err.msg, want))
        fail_msg("got '%s', expected '%s'", err.msg, want);
}

static void test_unreadable_paths(void **state)
{
    (void)state;
    expect_load_error(folder, "is a directory, not a file");
    expect_load_error(path_in_folder("none.onnx"), "cannot be opened: No such file or directory");
    expect_load_error("/dev/null", "is a device or pipe");
    write_file(path_in_folder("m.onnx"), NOTHING);
    expect_load_error(path_in_folder("m.onnx"), "is empty, not an ONNX model");
}

static void expect_external_error(const char *location, const char *offset, const char *length,
                                  const char *want)
{
    write_file(path_in_folder("m.onnx"),
               model(initializer("w", PARE_F32, "2", external(location, offset, length))));
    expect_load_error(path_in_folder("m.onnx"), want);
    expect_load_error(path_in_folder("m.onnx"), "initializer 'w': ");
}

static void test_hostile_external_data(void **state)
{
    struct bin data = { pare_alloc(pool, 100, 1), 100 };
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    (void)state;
    write_file(outside_path, data);
    write_file(path_in_folder("w.bin"), data);
    mkdir(path_in_folder("sub"), 0777);
    write_file(path_in_folder("sub/w.bin"), data);
    assert_int_equal(symlink("w.bin", path_in_folder("link.bin")), 0);
    assert_int_equal(symlink("/tmp", path_in_folder("dir")), 0);
    assert_int_equal(link(outside_path, path_in_folder("hard.bin")), 0);

    expect_external_error(outside_path, "0", "8", "must be beneath the model's folder");
    expect_external_error("../w.bin", "0", "8", "must be beneath the model's folder");
    expect_external_error("sub/../../w.bin", "0", "8", "must be beneath the model's folder");
    expect_external_error("..", "0", "8", "must be beneath the model's folder");
    expect_external_error("link.bin", "0", "8", "it is or leads through a link");
    expect_external_error(pare_sprintf(pool, "dir/%s", strrchr(outside_path, '/') + 1), "0", "8",
                          "it is or leads through a link");
    expect_external_error("hard.bin", "0", "8", "has 2 names (hard links)");
    expect_external_error("sub", "0", "8", "is a directory");
    expect_external_error("none.bin", "0", "8", "No such file or directory");
    expect_external_error("", "0", "8", "without a location");
    expect_external_error("w.bin", "96", "8", "needs 8 bytes at 96 of external data file 'w.bin'");
    expect_external_error("w.bin", "96", NULL, "needs 8 bytes at 96 of external data file 'w.bin'");
    expect_external_error("w.bin", "18446744073709551615", "8", "of external data file");
    expect_external_error("w.bin", "18446744073709551616", "8", "must be a whole number");
    expect_external_error("w.bin", "-4", "8", "must be a whole number");
    expect_external_error("w.bin", "4x", "8", "must be a whole number");
    expect_external_error("w.bin", "0", "12",
                          "raw_data has 12 bytes, shape (2) of float32 needs 8");

    write_file(path_in_folder("m.onnx"),
               model(initializer("w", PARE_F32, "2", external("sub/w.bin", "8", NULL))));
    if (pare_model_load(path_in_folder("m.onnx"), &m, &err))
        fail_msg("%s", err.msg);
    pare_model_free(m);
    expect_refused(model(initializer("w", PARE_F32, "2", external("sub/w.bin", "8", NULL))),
                   "the model has no folder");
}

/* Each allocation fails once. */
static void test_out_of_memory(void **state)
{
    struct bin file = valid_model();
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };
    void *bytes;
    size_t len;
    int rc = 1;

    (void)state;
    for (int i = 1; rc && i < 1000; i++) {
        pare_oom_countdown = i;
        rc = pare_model_parse(file.p, file.n, NULL, &m, &err);
        if (!rc)
            rc = pare_model_pack(m, pool, &bytes, &len, &err);
        pare_oom_countdown = 0;
        pare_model_free(m);
        m = NULL;
        if (rc)
            assert_int_equal(rc, PARE_ENOMEM);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_that_are_not_models, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_damaged_files_do_not_crash, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_deep_nesting_is_refused, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_very_deep_nesting_is_refused, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_malformed_tensors, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_malformed_sparse_tensors, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_malformed_graphs, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_malformed_functions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_names_in_messages, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_unreadable_paths, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_hostile_external_data, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_out_of_memory, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
