/* test_onnx_bad.c - invalid files, by accident or on purpose: an error, no crash. */
#include "onnx_make.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* The message is one line that starts with where it happened. */
static void check_sentence(const struct pare_err *err, const char *where)
{
    size_t n = strlen(err->msg);

    assert_int_not_equal(err->code, 0);
    if (strncmp(err->msg, where, strlen(where)) || strncmp(err->msg + strlen(where), ": ", 2))
        fail_msg("does not start with '%s': %s", where, err->msg);
    assert_true(n > 0 && err->msg[n - 1] != '.');
    assert_null(strpbrk(err->msg, "\n\r\t\033"));
}

static void refused(struct bin file, const char *want)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (!pare_model_parse(file.p, file.n, NULL, &m, &err))
        fail_msg("accepted; expected: %s", want);
    assert_null(m);
    check_sentence(&err, "model");
    if (!strstr(err.msg, want))
        fail_msg("got '%s', expected '%s'", err.msg, want);
}

static struct bin blank(unsigned field, size_t n)
{
    return blob(field, pare_alloc(pool, n, 1), n);
}

static struct bin attr(const char *name, int type, struct bin more)
{
    return msg(5, CAT(text(1, name), more, num(20, type)));
}

static struct bin sound(void)
{
    struct bin branch = CAT(node("Relu", "r", "x", "b"), output("b", PARE_F32, "2,3"));

    return model(CAT(node("Add", "add", "x,w", "s"),
                     node_with("If", "if", "c", "y",
                               CAT(attr("then_branch", 5, msg(6, branch)),
                                   attr("else_branch", 5, msg(6, branch)))),
                     node_with("Constant", "k", "", "c", attr("value_int", 2, num(3, 1))),
                     text(2, "g"), initializer("w", PARE_F32, "2,3", blank(9, 24)),
                     initializer("t", PARE_I64, "2", CAT(num(7, 1), num(7, 2))),
                     input("x", PARE_F32, "N,3"), output("y", PARE_F32, "2,3")));
}

/* ---- the wire format ---------------------------------------------------------------- */

static void test_no_model(void **state)
{
    (void)state;
    refused(NOTHING, "is empty, not an ONNX model");
    refused((struct bin){ (unsigned char *)"PK\3\4\24\0\0\0\10\10\0\0", 12 }, "zip archive");
    refused((struct bin){ (unsigned char *)"{\"a\": [1, 2]}", 13 }, "is not an ONNX model");
    refused((struct bin){ (unsigned char *)"version https://git-lfs", 23 }, "Git LFS pointer");
    refused(num(1, 8), "has no graph");
    refused(CAT(num(1, 8), tag(7, 2), varint(1000)), "exceeds the message that contains it");
    refused(CAT(num(1, 8), tag(7, 2), varint(UINT64_MAX)), "exceeds the message that contains it");
    refused(CAT(num(1, 8), num(7, 3)), "another wire type than in the schema");
    refused(CAT(num(1, 8), msg(7, NOTHING), msg(7, NOTHING)), "appears twice");
    refused(CAT(tag(3, 3), tag(3, 4)), "a wire type that ONNX does not use");
    refused(CAT(num(1, 8), msg(7, blob(2, "a\0b", 3))), "zero byte");
    refused(CAT(num(1, 8), msg(7, msg(5, blob(4, "abcde", 5)))), "a list ends inside a number");
    refused(CAT(num(1, 8), msg(7, msg(5, blob(7, "\x80\x80", 2)))), "a list ends inside a number");
    refused(CAT(num(1, 14), msg(7, NOTHING)), "IR version 14 is newer than 13");
}

/* Cut anywhere, and with any byte changed: an error or a model, never a crash. */
static void test_damaged(void **state)
{
    struct bin file = sound();

    (void)state;
    for (size_t n = 0; n <= file.n; n++) {
        struct pare_model *m = NULL;
        struct pare_err err = { 0 };
        unsigned char *exact = malloc(n ? n : 1); /* so that the sanitizer sees one too many */

        memcpy(exact, file.p, n);
        if (pare_model_parse(exact, n, NULL, &m, &err))
            check_sentence(&err, "model");
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
            check_sentence(&err, "model");
        else
            pare_model_free(m);
        file.p[i / 4] ^= flip[i % 4];
    }
}

static void test_deep(void **state)
{
    struct bin graph = NOTHING, type = NOTHING;

    (void)state;
    for (int i = 0; i < 400; i++) {
        graph = msg(1, CAT(text(4, "If"), msg(5, CAT(text(1, "b"), msg(6, graph)))));
        type = msg(4, msg(1, type));
    }
    refused(CAT(num(1, 8), msg(7, graph)), "more than 100 messages inside each other");
    refused(CAT(num(1, 8), msg(7, msg(11, CAT(text(1, "x"), msg(2, type))))),
            "more than 100 messages inside each other");
}

/* 10,000 levels, written from the inside out into one buffer. */
static void test_deeper(void **state)
{
    size_t cap = 200000, at = cap;
    unsigned char *buf = pare_alloc(pool, cap, 1);

    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct bin head = CAT(tag(i % 2 ? 4 : 1, 2), varint(cap - at));

        at -= head.n;
        memcpy(buf + at, head.p, head.n);
    }
    refused(CAT(num(1, 8), msg(7, msg(11, CAT(text(1, "x"), blob(2, buf + at, cap - at))))),
            "more than 100 messages inside each other");
}

/* ---- tensors ---------------------------------------------------------------------------- */

static void test_tensors(void **state)
{
    (void)state;
    refused(model(initializer("w", PARE_F32, "2,3", blank(9, 10))),
            "initializer 'w': raw_data has 10 bytes, shape (2, 3) of float32 needs 24");
    refused(model(initializer("w", PARE_F32, "2,3", blank(9, 28))), "raw_data has 28 bytes");
    refused(model(initializer("w", PARE_F32, "2", blank(4, 4))),
            "initializer 'w': float_data has 1 elements, shape (2) of float32 needs 2");
    refused(model(initializer("w", PARE_I8, "2", num(5, 1))), "int32_data has 1 elements");
    refused(model(initializer("w", PARE_STR, "2", text(6, "a"))), "string_data has 1 elements");
    refused(model(initializer("w", PARE_I4, "3", blank(9, 3))), "raw_data has 3 bytes");
    refused(model(initializer("w", PARE_F32, "2,-3", blank(9, 24))),
            "initializer 'w': dimension 1 is -3, must not be negative");
    refused(model(initializer("w", PARE_F32, "4294967296,4294967296", blank(9, 16))),
            "more than 1099511627776 elements");
    refused(model(initializer("w", PARE_F32, "9223372036854775807,3", blank(9, 16))),
            "more than 1099511627776 elements");
    refused(model(initializer("w", PARE_F32, "4611686018427387904,8,0", NOTHING)),
            "more than 1099511627776 elements");
    refused(model(initializer("w", PARE_F32, "1000000000000", NOTHING)), "needs 1000000000000");
    refused(model(initializer("", PARE_F32, "1", blank(9, 4))), "initializer 0 has no name");
    refused(model(node_with("Constant", "k", "", "c",
                            attr("value", 4, msg(5, tensor("", 1, "3", blank(9, 4)))))),
            "node 'k' (Constant): attribute 'value': raw_data has 4 bytes");
    refused(model(node("Constant", "k", "", "c")), "node 'k' (Constant): a Constant without");
}

static struct bin sparse(const char *dims, const char *n, const char *idx_dims, int64_t at)
{
    int64_t *list2 = pare_alloc(pool, 2, sizeof(*list2));

    list2[0] = at;
    return msg(15, CAT(msg(1, tensor("s", PARE_F32, n, blank(9, 4))),
                       msg(2, tensor("", PARE_I64, idx_dims,
                                     blob(9, list2, strchr(idx_dims, '2') ? 16 : 8))),
                       list(3, dims, 1)));
}

static void test_sparse(void **state)
{
    (void)state;
    refused(model(sparse("2,3", "1", "1", 6)), "sparse initializer 's': index 0 is outside");
    refused(model(sparse("2,3", "1", "1", -1)), "index 0 is outside");
    refused(model(sparse("2,3", "1", "1,2", 2)), "index 0 is outside");
    refused(model(sparse("2,3", "1", "2", 0)), "indices must be int64");
    refused(model(sparse("2,3,4", "1", "1,2", 0)), "indices must be int64");
    refused(model(sparse("-2,3", "1", "1", 0)), "negative dimension");
    refused(model(sparse("9223372036854775807,9", "1", "1", 0)),
            "more than 1099511627776 elements");
    refused(model(msg(15, msg(1, tensor("s", 1, "1", blank(9, 4))))), "indices are missing");
}

/* ---- graphs ------------------------------------------------------------------------------- */

static void test_graphs(void **state)
{
    struct bin x = input("x", PARE_F32, "2"), w = initializer("w", PARE_F32, "1", blank(9, 4));

    (void)state;
    refused(model(CAT(node("Relu", "n", "missing", "y"), x)),
            "node 'n' (Relu): input 'missing' is not made by a node and is not an input or "
            "initializer");
    refused(model(CAT(node("Relu", "", "missing", "y"), x)), "node 'Relu_0' (Relu): input");
    refused(model(CAT(node("Relu", "n", "x", "y"), x, output("z", PARE_F32, "2"))),
            "output 'z' is not made by a node");
    refused(model(CAT(node("Relu", "a", "x", "y"), node("Relu", "b", "x", "y"), x)),
            "node 'b' (Relu): output 'y' is defined twice");
    refused(model(CAT(node("Relu", "a", "x", "x"), x)), "output 'x' is defined twice");
    refused(model(CAT(w, w)), "initializer 'w' is defined twice");
    refused(model(CAT(x, x)), "input 'x' is defined twice");
    refused(model(CAT(node("Add", "a", "x,q", "p"), node("Relu", "b", "p", "q"), x)),
            "the graph has a cycle");
    refused(model(CAT(node("Relu", "self", "y", "y"))),
            "node 'self' (Relu) depends on its own output");
    refused(CAT(num(1, 8), msg(7, CAT(node("Relu", "n", "x", "y"), x))),
            "does not state the version of the standard operators");
    refused(model(CAT(node_with("If", "if", "x", "y",
                                attr("then_branch", 5, msg(6, node("Relu", "in", "gone", "r")))),
                      x)),
            "node 'if' (If): attribute 'then_branch': node 'in' (Relu): input 'gone'");
}

static struct bin function(const char *name, struct bin body)
{
    return msg(25, CAT(text(1, name), text(4, "a"), text(5, "b"), body, text(10, "my")));
}

static struct bin call(const char *f, const char *in, const char *out)
{
    return msg(7, CAT(text(1, in), text(2, out), text(4, f), text(7, "my")));
}

static struct bin with_functions(const char *first, struct bin functions)
{
    return CAT(num(1, 8),
               msg(7, CAT(node_with(first, "n", "x", "y", text(7, "my")), input("x", 1, "2"))),
               opset("", 13), opset("my", 1), functions);
}

static void test_functions(void **state)
{
    struct bin bomb = NOTHING;

    (void)state;
    refused(with_functions("f", function("f", call("f", "a", "b"))),
            "functions call each other more than 64 deep");
    refused(with_functions("f", function("f", NOTHING)),
            "output 'b' is not made by any of its nodes");
    refused(with_functions("f", CAT(function("f", NOTHING), function("f", NOTHING))),
            "function 'f' is defined twice");
    refused(with_functions("f", function("f", call("Relu", "x", "b"))),
            "input 'x' is not made by a node");
    for (int i = 0; i < 40; i++) { /* 2^40 nodes */
        char *name = pare_sprintf(pool, "f%d", i), *next = pare_sprintf(pool, "f%d", i + 1);

        bomb = CAT(bomb, function(name, CAT(call(next, "a", "t"), call(next, "t", "b"))));
    }
    refused(with_functions("f0", bomb), "function calls expand to more than");
}

/* Names from the file must not reach the terminal as they are. */
static void test_names(void **state)
{
    char *longer = pare_alloc(pool, 100001, 1);

    (void)state;
    memset(longer, 'n', 100000);
    refused(model(node("Relu", "a\033[2J\nb", "gone", "y")), "node 'a?[2J?b' (Relu)");
    refused(model(node("Relu", longer, "gone", "y")), "node 'nnnnn");
}

/* ---- files ------------------------------------------------------------------------------- */

static char folder[64], outer[80];

static int make_folder(void **state)
{
    snprintf(folder, sizeof(folder), "/tmp/pare-test-XXXXXX");
    if (make_pool(state) || !mkdtemp(folder))
        return 1;
    snprintf(outer, sizeof(outer), "%s.out", folder);
    return 0;
}

static const char *in_folder(const char *name)
{
    return pare_sprintf(pool, "%s/%s", folder, name);
}

static int drop_folder(void **state)
{
    static const char *const names[] = { "m.onnx", "w.bin", "link.bin", "hard.bin", "sub/w.bin" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unlink(in_folder(names[i]));
    unlink(in_folder("dir"));
    rmdir(in_folder("sub"));
    unlink(outer);
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

static void load_refused(const char *path, const char *want)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    if (!pare_model_load(path, &m, &err))
        fail_msg("accepted; expected: %s", want);
    check_sentence(&err, path);
    if (!strstr(err.msg, want))
        fail_msg("got '%s', expected '%s'", err.msg, want);
}

static void test_paths(void **state)
{
    (void)state;
    load_refused(folder, "is a directory, not a file");
    load_refused(in_folder("none.onnx"), "cannot be opened: No such file or directory");
    load_refused("/dev/null", "is a device or pipe");
    write_file(in_folder("m.onnx"), NOTHING);
    load_refused(in_folder("m.onnx"), "is empty, not an ONNX model");
}

static void external_refused(const char *location, const char *offset, const char *length,
                             const char *want)
{
    write_file(in_folder("m.onnx"),
               model(initializer("w", PARE_F32, "2", external(location, offset, length))));
    load_refused(in_folder("m.onnx"), want);
    load_refused(in_folder("m.onnx"), "initializer 'w': ");
}

static void test_external(void **state)
{
    struct bin data = { pare_alloc(pool, 100, 1), 100 };
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    (void)state;
    write_file(outer, data);
    write_file(in_folder("w.bin"), data);
    mkdir(in_folder("sub"), 0777);
    write_file(in_folder("sub/w.bin"), data);
    assert_int_equal(symlink("w.bin", in_folder("link.bin")), 0);
    assert_int_equal(symlink("/tmp", in_folder("dir")), 0);
    assert_int_equal(link(outer, in_folder("hard.bin")), 0);

    external_refused(outer, "0", "8", "must be beneath the model's folder");
    external_refused("../w.bin", "0", "8", "must be beneath the model's folder");
    external_refused("sub/../../w.bin", "0", "8", "must be beneath the model's folder");
    external_refused("..", "0", "8", "must be beneath the model's folder");
    external_refused("link.bin", "0", "8", "it is or leads through a link");
    external_refused(pare_sprintf(pool, "dir/%s", strrchr(outer, '/') + 1), "0", "8",
                     "it is or leads through a link");
    external_refused("hard.bin", "0", "8", "has 2 names (hard links)");
    external_refused("sub", "0", "8", "is a directory");
    external_refused("none.bin", "0", "8", "No such file or directory");
    external_refused("", "0", "8", "without a location");
    external_refused("w.bin", "96", "8", "needs 8 bytes at 96 of external data file 'w.bin'");
    external_refused("w.bin", "96", NULL, "needs 8 bytes at 96 of external data file 'w.bin'");
    external_refused("w.bin", "18446744073709551615", "8", "of external data file");
    external_refused("w.bin", "18446744073709551616", "8", "must be a whole number");
    external_refused("w.bin", "-4", "8", "must be a whole number");
    external_refused("w.bin", "4x", "8", "must be a whole number");
    external_refused("w.bin", "0", "12", "raw_data has 12 bytes, shape (2) of float32 needs 8");

    write_file(in_folder("m.onnx"),
               model(initializer("w", PARE_F32, "2", external("sub/w.bin", "8", NULL))));
    if (pare_model_load(in_folder("m.onnx"), &m, &err))
        fail_msg("%s", err.msg);
    pare_model_free(m);
    refused(model(initializer("w", PARE_F32, "2", external("sub/w.bin", "8", NULL))),
            "the model has no folder");
}

/* Every allocation fails once. */
static void test_no_memory(void **state)
{
    struct bin file = sound();
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
        cmocka_unit_test_setup_teardown(test_no_model, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_damaged, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_deep, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_deeper, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_tensors, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_sparse, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_graphs, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_functions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_names, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_paths, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_external, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_no_memory, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
