/* test_pickle.c - hostile pickles give an error, and nothing is executed. */
#include "arena_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pickle.h"

static struct pare_pickle got;

/* Parses a copy at the end of an allocation, so that the sanitizer finds a read past the end. */
static int parse(const void *bytes, size_t len)
{
    void *p = malloc(len ? len : 1);
    int rc;

    assert_non_null(p);
    memcpy(p, bytes, len);
    err.code = 0;
    err.msg[0] = '\0';
    rc = pare_pickle_parse(arena, p, len, &got, &err);
    free(p);
    return rc;
}

struct text {
    const char *s;
    size_t len;
};
/* clang-format off */
#define T(s) { s, sizeof(s) - 1 }
/* clang-format on */
#define TEXT1(c) "X\1\0\0\0" c
#define STORAGE(type, key, n) "(X\7\0\0\0storagectorch\n" type "\n" TEXT1(key) "X\3\0\0\0cpu" n "tQ"
#define FLOATS STORAGE("FloatStorage", "0", "K\6")
#define TENSOR(storage, offset, sizes, strides) \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset sizes strides "\211}tR"
#define HUGE_INT "\212\10\377\377\377\377\377\377\377\177"

static void test_plain_data(void **state)
{
    static const char bytes[] =
        "\200\2}(" TEXT1("a") "K\377" TEXT1("b") "M\0\2" TEXT1("c") "J\377\377\377\377" TEXT1(
            "d") "\212\2\0\200" TEXT1("e") "G?\370\0\0\0\0\0\0" TEXT1("f") "\210N\212\0u.";
    const struct pare_pickled *v;

    (void)state;
    assert_int_equal(parse(bytes, sizeof(bytes) - 1), 0);
    assert_int_equal(got.root.kind, PARE_PICKLED_DICT);
    assert_int_equal(got.root.items->n, 14);
    v = got.root.items->item;
    assert_int_equal(v[1].i, 255);
    assert_int_equal(v[3].i, 512);
    assert_int_equal(v[5].i, -1);
    assert_int_equal(v[7].i, -32768);
    assert_true(v[9].f == 1.5);
    assert_int_equal(v[11].kind, PARE_PICKLED_BOOL);
    assert_int_equal(v[12].kind, PARE_PICKLED_NONE);
    assert_int_equal(v[13].i, 0);
}

static void test_tensors(void **state)
{
    static const char bytes[] = "\200\2]q\0(" TENSOR(
        FLOATS, "K\1", "K\2K\2\206",
        "K\1K\3\206") "ctorch._utils\n_rebuild_parameter\n" TENSOR(FLOATS, "K\0", "K\0\205",
                                                                   "K\1\205") "\210}\207Re.";
    const struct pare_strided *s;

    (void)state;
    if (parse(bytes, sizeof(bytes) - 1))
        fail_msg("%s", err.msg);
    assert_int_equal(got.n_storages, 1);
    assert_int_equal(got.storage[0]->reach, 6);
    assert_int_equal(got.root.items->n, 2);
    s = got.root.items->item[0].tensor;
    assert_int_equal(s->stride[1], 3);
    assert_int_equal(got.root.items->item[1].kind, PARE_PICKLED_TENSOR);
}

static const struct {
    struct text p;
    const char *message;
} bad[] = {
    { T(""), "not a pickle" },
    { T("hello"), "not a pickle" },
    { T("\200"), "ends within" },
    { T("\200\1."), "protocol 1" },
    { T("\200\6."), "protocol 6" },
    { T("\200\2"), "ends within" },
    { T("\200\2."), "the stack is empty" },
    { T("\200\2(."), "the stack is empty" },
    { T("\200\2NN."), "left on the stack" },
    { T("\200\2N.."), "has data after its end" },
    { T("\200\2cos\nsystem\n(X\2\0\0\0lstR."), "uses os.system" },
    { T("\200\2cbuiltins\neval\n"), "uses builtins.eval" },
    { T("\200\2cnt\n\33[2Jsystem\n"), "uses nt.?[2Jsystem" },
    { T("\200\4\214\5posix\214\6system\223."), "uses posix.system" },
    { T("\200\2ctorch\nUntypedStorage\n"), "uses torch.UntypedStorage" },
    { T("\200\2ctorch._utils\n_rebuild_tensor\n"), "torch._utils._rebuild_tensor," },
    { T("\200\2ccollections\nOrderedDict"), "ends within" },
    { T("\200\4N\214\6system\223."), "the name of a global is not a string" },
    { T("\200\2ccollections\nOrderedDict\n]\205R."), "has arguments" },
    { T("\200\2ccollections\nOrderedDict\n]R."), "calls something other than a global" },
    { T("\200\2ctorch\nFloatStorage\n)R."), "calls something other than a global" },
    { T("\200\2N)R."), "calls something other than a global" },
    { T("\200\2X\377\377\377\377a"), "ends within" },
    { T("\200\2\212\11123456789."), "more than 64 bits" },
    { T("\200\2K\1q\1."), "not have the next number" },
    { T("\200\2r\0\0\0\0"), "nothing to memoize" },
    { T("\200\2(q\0"), "nothing to memoize" },
    { T("\200\2h\0"), "was not made" },
    { T("\200\2Nq\0j\377\377\377\377"), "was not made" },
    { T("\200\2t"), "no mark" },
    { T("\200\2N\206"), "too little for a tuple" },
    { T("\200\2(N\206"), "too little for a tuple" },
    { T("\200\2NNs"), "no dict" },
    { T("\200\2]NNs"), "no dict" },
    { T("\200\2}(Nu"), "a key has no value" },
    { T("\200\2}Na"), "no list" },
    { T("\200\2](Ne(a"), "the stack is empty" },
    { T("\200\2N}b"), "no dict" },
    { T("\200\2NQ"), "a storage does not consist" },
    { T("\200\2" STORAGE("FloatStorage", "\1", "K\6") "."), "a storage does not consist" },
    { T("\200\2" STORAGE("FloatStorage", "0", "J\377\377\377\377") "."), "a storage does not" },
    { T("\200\2(" STORAGE("FloatStorage", "0", "K\6") STORAGE("FloatStorage", "0", "K\7")),
      "storage '0' is described in two ways" },
    { T("\200\2(" STORAGE("FloatStorage", "0", "K\6") STORAGE("IntStorage", "0", "K\6")),
      "storage '0' is described in two ways" },
    { T("\200\2" TENSOR("N", "K\0", ")", ")")), "a tensor does not consist of" },
    { T("\200\2" TENSOR(FLOATS, "N", ")", ")")), "a tensor does not consist of" },
    { T("\200\2" TENSOR(FLOATS, "K\0", ")", "K\1\205")), "a tensor does not consist of" },
    { T("\200\2" TENSOR(FLOATS, "K\0", "N\205", "K\1\205")), "is not a count" },
    { T("\200\2" TENSOR(FLOATS, "K\0", "J\377\377\377\377\205", "K\1\205")), "not a count" },
    { T("\200\2" TENSOR(FLOATS, "K\0", "K\1\205", "J\377\377\377\377\205")), "not a count" },
    { T("\200\2" TENSOR(FLOATS, "K\0", "K\7\205", "K\1\205")), "shape (7) does not lie" },
    { T("\200\2" TENSOR(FLOATS, "K\1", "K\6\205", "K\1\205")), "does not lie inside" },
    { T("\200\2" TENSOR(FLOATS, "K\6", ")", ")")), "does not lie inside" },
    { T("\200\2" TENSOR(FLOATS, HUGE_INT, "K\2\205", "K\1\205")), "does not lie inside" },
    { T("\200\2" TENSOR(FLOATS, "K\0", "K\3\205", HUGE_INT "\205")), "does not lie inside" },
    { T("\200\2" TENSOR(FLOATS, "K\0", HUGE_INT HUGE_INT "\206", "K\0K\0\206")), "" },
    { T("\200\2" TENSOR(FLOATS, "K\0", HUGE_INT "\205", "K\0\205")), "" },
    { T("\200\2" TENSOR(FLOATS, "K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t",
                        "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")),
      "9 dimensions" },
    { T("\200\2ctorch._utils\n_rebuild_parameter\nN\210}\207R"), "a parameter does not" },
};

static void test_hostile_pickles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_not_equal(parse(bad[i].p.s, bad[i].p.len), 0);
        if (!err.code || !err.msg[0] || !strstr(err.msg, bad[i].message))
            fail_msg("case %zu: \"%s\", expected \"%s\"", i, err.msg, bad[i].message);
    }
}

/* Every other opcode is refused with its code, and with its name if Python has one. */
static void test_every_opcode(void **state)
{
    static const char known[] = "().GJKMNQRX]abcehjqrstu}\200\205\206\207\210\211\212\214\223\224"
                                "\225";
    char code[16];

    (void)state;
    for (int i = 0; i < 256; i++) {
        unsigned char p[] = { 0x80, 2, (unsigned char)i };

        (void)parse(p, 3);
        snprintf(code, sizeof(code), "opcode 0x%02x", (unsigned)i);
        if (!i || !strchr(known, i))
            assert_non_null(strstr(err.msg, code));
        else
            assert_null(strstr(err.msg, code));
    }
    assert_int_equal(parse("\200\2i", 3), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "opcode 0x69 (INST) at byte 2"));
    assert_int_equal(parse("\200\2\201", 3), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "(NEWOBJ)"));
}

static void test_limits(void **state)
{
    const size_t n = PARE_PICKLE_MAX + 1;
    char *p = malloc(n);

    (void)state;
    assert_non_null(p);
    memset(p, '(', n);
    p[0] = '\200';
    p[1] = '\2';
    assert_int_equal(parse(p, n), PARE_ELIMIT);
    assert_non_null(strstr(err.msg, "a pickle of 16777217 bytes"));
    assert_int_equal(parse(p, n - 1), PARE_ELIMIT);
    assert_non_null(strstr(err.msg, "on its stack"));
    p[2] = ']';
    for (size_t i = 3; i + 1 < n; i += 2) {
        p[i] = ')';
        p[i + 1] = 'a';
    }
    assert_int_equal(parse(p, n - 1), PARE_ELIMIT);
    assert_non_null(strstr(err.msg, "objects"));
    free(p);
}

/* A truncated pickle is an error; one with a changed bit is an error or is read. */
static void test_truncated_and_flipped_pickles(void **state)
{
    static const char bytes[] = "\200\2ccollections\nOrderedDict\nq\0)Rq\1(" TEXT1("a")
        TENSOR(FLOATS, "K\1", "K\2K\2\206q\2", "K\1K\3\206")
            TEXT1("b") "}(" TEXT1("c") "Nu" TEXT1("d") "](K\1K\2eu}b.";
    unsigned char p[sizeof(bytes) - 1];

    (void)state;
    memcpy(p, bytes, sizeof(p));
    if (parse(p, sizeof(p)))
        fail_msg("%s", err.msg);
    for (size_t n = 0; n < sizeof(p); n++) {
        assert_int_not_equal(parse(p, n), 0);
        assert_true(err.code && err.msg[0]);
    }
    for (size_t i = 0; i < 8 * sizeof(p); i++) {
        struct pare_mark m = pare_mark(arena);

        p[i / 8] ^= (unsigned char)(1 << i % 8);
        if (parse(p, sizeof(p)))
            assert_true(err.code && err.msg[0]);
        p[i / 8] ^= (unsigned char)(1 << i % 8);
        pare_reset(arena, m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_pickles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_opcode, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_and_flipped_pickles, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
