/* test_report.c - the HTML report: numbers, escaping of text from files, incomplete records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "report/report.h"

#define EVIL "</script><img src=x onerror=alert(1)>\\\"'&"

static const char run_text[] =
    "{\"format\": \"pare run 1\", \"recipe\": {\"model\": \"" EVIL "\", \"steps\": []},"
    " \"recipe_sha256\": \"ab\", \"seed\": 3, \"data\": \"" EVIL "\","
    " \"versions\": {\"pare\": \"" EVIL "\"},"
    " \"input\": {\"path\": \"" EVIL "\", \"bytes\": 5138853, \"parameters\": 1281866,"
    "  \"macs\": 9610240, \"accuracy\": 0.986111111, \"seconds\": 0.000196741999},"
    " \"output\": {\"path\": \"b\", \"bytes\": 350176, \"parameters\": 327548,"
    "  \"macs\": 2495172, \"accuracy\": 0.98, \"seconds\": 4.88e-05},"
    " \"steps\": [{\"step\": \"" EVIL "\", \"model\": {\"bytes\": 1000, \"accuracy\": 0.5},"
    "  \"result\": {\"history\": [{\"epoch\": 1, \"loss\": 2.5, \"top1\": 0.25}]}},"
    "  {\"step\": \"sensitivity\", \"result\": {\"sensitivity\":"
    "   {\"" EVIL "\": {\"0.5\": 0.75, \"0.9\": 0.125}}}}],"
    " \"layers\": [{\"name\": \"" EVIL "\", \"type\": \"" EVIL "\", \"why\": \"" EVIL "\","
    "  \"before\": {\"shape\": [4, 3], \"parameters\": 12, \"macs\": 12}, \"after\": null,"
    "  \"weights\": {\"range\": 1, \"before\": [1, 2, 1], \"after\": [0, 4, 0]}}]}";

static int make_report(struct pare_arena *a, const char *text, int n, const char **page,
                       struct pare_err *err)
{
    struct pare_json *root = pare_alloc(a, 1, sizeof(*root));
    struct pare_run_file run[2] = { { "first <run>", root }, { "second", root } };
    size_t len;

    assert_int_equal(pare_json_parse(a, text, strlen(text), root, err), 0);
    return pare_report(run, n, a, page, &len, err);
}

static int count_text(const char *page, const char *what)
{
    int n = 0;

    for (const char *p = strstr(page, what); p; p = strstr(p + 1, what))
        n++;
    return n;
}

static void test_formatted_numbers(void **state)
{
    static const char *const want[] = {
        "data-v=\"0.986111111\">98.61 %",
        "data-v=\"5138853\">5.14 MB",
        "data-v=\"350176\">350 KB",
        "data-v=\"1281866\">1.28M",
        "data-v=\"2495172\">2.50M",
        "data-v=\"0.000196741999\">197 \xc2\xb5s",
        "data-v=\"4.88e-05\">48.8 \xc2\xb5s",
        "14.7\xc3\x97",
        "{\"x\":0.5,\"y\":0.75}",
        "data-v=\"2.5\">2.5",
    };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };
    const char *page;

    (void)state;
    assert_int_equal(make_report(a, run_text, 1, &page, &err), 0);
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        if (!strstr(page, want[i]))
            fail_msg("the page does not contain: %s", want[i]);
    assert_true(strlen(page) < 1000000);
    pare_arena_free(a);
}

static void test_text_is_escaped(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };
    const char *page;

    (void)state;
    for (int n = 1; n <= 2; n++) {
        assert_int_equal(make_report(a, run_text, n, &page, &err), 0);
        assert_int_equal(count_text(page, "<img"), 0);
        assert_true(count_text(page, "&lt;img src=x") > 5);
        assert_true(count_text(page, "\\u003cimg") > 0);
        assert_int_equal(count_text(page, "<script"), count_text(page, "</script>"));
        assert_null(strstr(page, "first <run>"));
    }
    pare_arena_free(a);
}

/* Missing members and members of other types do not crash the report. */
static void test_incomplete_records(void **state)
{
    static const char *const good[] = {
        "{\"format\": \"pare run 1\"}",
        "{\"format\": \"pare run 1\", \"steps\": 3, \"layers\": {\"a\": 1}, \"input\": []}",
        "{\"format\": \"pare run 1\", \"steps\": [1, null, {\"step\": 2, \"model\": 3}],"
        " \"layers\": [1, {\"name\": 2, \"weights\": {\"before\": [\"x\"], \"after\": []}}]}",
        "{\"format\": \"pare run 1\", \"steps\": [{\"step\": \"sensitivity\","
        " \"result\": {\"sensitivity\": {\"a\": 1, \"b\": {\"x\": []}}, \"history\": [1]}}]}",
    };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_err err = { 0 };
    const char *page;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_int_equal(make_report(a, good[i], 1, &page, &err), 0);
    assert_int_not_equal(make_report(a, "{\"format\": \"other\"}", 1, &page, &err), 0);
    assert_int_not_equal(make_report(a, "[]", 1, &page, &err), 0);
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formatted_numbers),
        cmocka_unit_test(test_text_is_escaped),
        cmocka_unit_test(test_incomplete_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
