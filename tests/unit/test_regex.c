/* test_regex.c - regular expressions for names, against regcomp of the C library. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/regex.h"

#define ROUNDS 20000

static unsigned seed = 7;

static unsigned below(unsigned n)
{
    seed = seed * 1103515245U + 12345U;
    return (seed >> 16) % n;
}

/* A random pattern of a few signs, most of them valid; never many repeats of repeats, which regcomp
 * takes minutes for, and no ^ or $ in a repeat, which it forgets the second time. */
static void random_pattern(char *text, size_t size)
{
    static const char *const item[] = { "a",     "b", ".", "[ab]", "[^a]", "[b-c]",  "\\.",
                                        "(a|b)", "c", "(", ")",    "|",    "(ab*)+", "[]a]" };
    static const char *const many[] = { "*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}", "{0,}" };
    unsigned n = 1 + below(6);

    *text = '\0';
    for (unsigned i = 0; i < n; i++) {
        strncat(text, item[below(sizeof(item) / sizeof(item[0]))], size - strlen(text) - 1);
        if (!below(3))
            strncat(text, many[below(sizeof(many) / sizeof(many[0]))], size - strlen(text) - 1);
    }
}

static void random_name(char *text)
{
    unsigned n = below(7);

    for (unsigned i = 0; i < n; i++)
        text[i] = "aabbc.]"[below(7)];
    text[n] = '\0';
}

/* All of the name, by regcomp: -1 when the pattern is none. */
static int by_library(const char *pattern, const char *name)
{
    char whole[200];
    regex_t re;
    int yes;

    snprintf(whole, sizeof(whole), "^(%s)$", pattern);
    if (regcomp(&re, pattern, REG_EXTENDED))
        return -1;
    regfree(&re);
    if (regcomp(&re, whole, REG_EXTENDED))
        return -1;
    yes = !regexec(&re, name, 0, NULL, 0);
    regfree(&re);
    return yes;
}

static void same_as_library(void **state)
{
    char pattern[100], name[16];
    struct pare_err err;
    int n_valid = 0, n_match = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        int want;

        random_pattern(pattern, sizeof(pattern));
        random_name(name);
        want = by_library(pattern, name);
        if (want < 0 || pare_regex_check(pattern, &err)) /* only one accepts ^* and similar */
            continue;
        if (pare_regex_match(pattern, name) != (want > 0))
            fail_msg("'%s' and '%s': the library says %s", pattern, name, want ? "yes" : "no");
        n_valid++;
        n_match += want;
    }
    assert_true(n_valid > ROUNDS / 2);
    assert_true(n_match > ROUNDS / 50);
}

static void known(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool yes;
    } list[] = {
        { "a|ab", "ab", true },
        { "", "", true },
        { "", "a", false },
        { "conv\\d", "conv1", true },
        { "conv\\d", "convx", false },
        { "\\w+\\.\\d\\s?", "layer_1.0 ", true },
        { "\\D\\W\\S", "a-b", true },
        { "[\\d_]+", "1_2", true },
        { "[\\d_]+", "1d2", false },
        { "[\\]-]+", "]-]", true },
        { "[a\\-z]", "b", false },
        { "[^\\w]", "-", true },
        { "[]d[:digit:]]+", "]d7", true },
        { "[[:alpha:]-]+", "a-b", true },
        { "[a-]", "-", true },
        { "(x{2}){3}", "xxxxxx", true },
        { "(x{2}){3}", "xxxxx", false },
        { "x{2,3}", "xxxx", false },
        { "(a+b+c+d+e+)+", "abcdeabcde", true },
        { "(a|b|c|)d", "d", true },
        { "a^b", "ab", false },
        { "^a$", "a", true },
        { "(^a|b)c", "bc", true },
        { "()*a", "a", true },
        { "(a*)*+?b", "aaab", true },
        { ".", "\xff", true },
        { "x", "\xff", false },
        { "[\xc0-\xff]", "\xe9", true },
        { "(", "(", false }, /* none */
        { "a|b)|(c", "a)", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (pare_regex_match(list[i].pattern, list[i].name) != list[i].yes)
            fail_msg("'%s' and '%s'", list[i].pattern, list[i].name);
}

/* Each would keep one that tries all ways, or glibc's regcomp, busy for ages. */
static void no_long_work(void **state)
{
    char name[4001];

    (void)state;
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_false(pare_regex_match("(a*)*(a*)*(a*)*(a*)*(a*)*(a*)*(a*)*b", name));
    assert_false(pare_regex_match("((((((((a|a)+)+)+)+)+)+)+)+b", name));
    assert_false(pare_regex_match("\x1d$\x1d*++++++", name));
    assert_true(pare_regex_match("a*++++++++++++++++++++++++++++++", name));
    assert_true(pare_regex_match("(((((((((((a?)?)?)?)?)?)?)+)+)+)*)*", name));
}

static void refused(void **state)
{
    static const struct {
        const char *pattern, *why;
    } list[] = {
        { "a(b", "is not a regular expression: ( without )" },
        { "a)b", "is not a regular expression: ) without (" },
        { "*a", "is not a regular expression: nothing to repeat" },
        { "a|+", "is not a regular expression: nothing to repeat" },
        { "a\\", "is not a regular expression: \\ at the end" },
        { "a[b", "is not a regular expression: [ without ], or an invalid set" },
        { "[b-a]", "is not a regular expression: [ without ], or an invalid set" },
        { "[[:no:]]", "is not a regular expression: [ without ], or an invalid set" },
        { "[[.a.]]", "is not a regular expression: [ without ], or an invalid set" },
        { "a{x}", "is not a regular expression: { needs a repeat count, as in {2} or {1,3}" },
        { "a{2", "is not a regular expression: { without }" },
        { "a{3,2}", "is not a regular expression: {m,n} needs the smaller number first" },
        { "a{1001}", "has a repeat count above 1000" },
        { "(.)\\1", "has a back reference \\1, which is not supported" },
        { "\\bconv", "has \\b, supported are \\d \\w \\s \\D \\W \\S" },
        { "((a{10}){10}){11}", "is too long with its repeats expanded, at most 1000 states" },
        { "(|){1000}", "is too long with its repeats expanded, at most 1000 states" },
    };
    char want[200];

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        struct pare_err err = { 0 };

        assert_int_not_equal(pare_regex_check(list[i].pattern, &err), 0);
        snprintf(want, sizeof(want), "the pattern '%s': %s", list[i].pattern, list[i].why);
        assert_string_equal(err.msg, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_library),
        cmocka_unit_test(known),
        cmocka_unit_test(no_long_work),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
