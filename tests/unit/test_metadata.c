/* test_metadata.c - hashes, the JSON writer, and metadata in models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/sha256.h"
#include "onnx/model.h"

static const char *sha256_of(const char *part, int times)
{
    static char text[PARE_SHA256_TEXT];
    struct pare_sha256 s;

    pare_sha256_init(&s);
    for (int i = 0; i < times; i++)
        pare_sha256_add(&s, part, strlen(part));
    pare_sha256_text(&s, text);
    return text;
}

/* The examples of FIPS 180-2, and lengths around the end of a block. */
static void test_sha256(void **state)
{
    (void)state;
    assert_string_equal(sha256_of("", 1),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(sha256_of("abc", 1),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_string_equal(sha256_of("aaaaaaaaaa", 100000),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for (int n = 54; n < 67; n++) { /* at once and byte by byte */
        char whole[80], first[PARE_SHA256_TEXT];

        memset(whole, 'x', (size_t)n);
        whole[n] = '\0';
        snprintf(first, sizeof(first), "%s", sha256_of(whole, 1));
        assert_string_equal(first, sha256_of("x", n));
    }
}

static void test_json_round_trip(void **state)
{
    static const char text[] =
        "{\"a\":[1,-2,2.5,true,false,null],\"b\":{\"q\\\"\":\"\\n<\"},\"e\":[]}";
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_json root, twice;
    struct pare_err err = { 0 };

    (void)state;
    assert_int_equal(pare_json_parse(a, text, strlen(text), &root, &err), 0);
    assert_string_equal(pare_json_write(a, &root), text);
    assert_int_equal(pare_json_parse(a, "[0.1]", 5, &twice, &err), 0);
    assert_string_equal(pare_json_write(a, &twice), "[0.1]");
    assert_null(pare_json_get(&root, "c"));
    assert_int_equal(pare_json_get(&root, "a")->n, 6);
    assert_null(pare_json_get(NULL, "a"));
    pare_arena_free(a);
}

static void test_model_metadata(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    int64_t chw[3] = { 1, 8, 8 };
    struct pare_model *m, *again;
    struct pare_err err = { 0 };
    void *bytes;
    size_t len;

    (void)state;
    assert_int_equal(pare_model_new("mlp", chw, 10, 0, &m, &err), 0);
    assert_null(pare_model_noted(m, "pare.x"));
    assert_int_equal(pare_model_note(m, "pare.x", "one", &err), 0);
    assert_int_equal(pare_model_note(m, "pare.y", "two", &err), 0);
    assert_int_equal(pare_model_note(m, "pare.x", "three", &err), 0);
    assert_int_equal(pare_model_pack(m, a, &bytes, &len, &err), 0);
    assert_int_equal(pare_model_parse(bytes, len, NULL, &again, &err), 0);
    assert_string_equal(pare_model_noted(again, "pare.x"), "three");
    assert_string_equal(pare_model_noted(again, "pare.y"), "two");
    pare_model_free(again);
    pare_model_free(m);
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_model_metadata),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
