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

static unsigned random_below(unsigned n)
{
    seed = seed * 1103515245U + 12345U;
    return (seed >> 16) % n;
}

/* A random pattern of a few characters, most of them valid; without repeats of repeats, for which
 * regcomp needs minutes, and without ^ or $ in a repeat, which it handles wrongly. */
static void random_pattern(char *text, size_t size)
{
    static const char *const item[] = { "a",     "b", ".", "[ab]", "[^a]", "[b-c]",  "\\.",
                                        "(a|b)", "c", "(", ")",    "|",    "(ab*)+", "[]a]" };
    static const char *const many[] = { "*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}", "{0,}" };
    unsigned n = 1 + random_below(6);

    *text = '\0';
    for (unsigned i = 0; i < n; i++) {
        strncat(text, item[random_below(sizeof(item) / sizeof(item[0]))], size - strlen(text) - 1);
        if (!random_below(3))
            strncat(text, many[random_below(sizeof(many) / sizeof(many[0]))],
                    size - strlen(text) - 1);
    }
}

static void random_name(char *text)
{
    unsigned n = random_below(7);

    for (unsigned i = 0; i < n; i++)
        text[i] = "aabbc.]"[random_below(7)];
    text[n] = '\0';
}

/* Does regcomp match the whole name?  -1: the pattern is not valid. */
static int match_by_regcomp(const char *pattern, const char *name)
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

static void test_random_patterns_match_regcomp(void **state)
{
    char pattern[100], name[16];
    struct pare_err err;
    int n_valid = 0, n_match = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        int want;

        random_pattern(pattern, sizeof(pattern));
        random_name(name);
        want = match_by_regcomp(pattern, name);
        if (want < 0 || pare_regex_check(pattern, &err)) /* only one accepts ^* and similar */
            continue;
        if (pare_regex_match(pattern, name) != (want > 0))
            fail_msg("'%s' and '%s': regcomp %s", pattern, name,
                     want ? "matches" : "does not match");
        n_valid++;
        n_match += want;
    }
    assert_true(n_valid > ROUNDS / 2);
    assert_true(n_match > ROUNDS / 50);
}

static void test_known_patterns(void **state)
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
        { "(", "(", false }, /* not valid */
        { "a|b)|(c", "a)", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (pare_regex_match(list[i].pattern, list[i].name) != list[i].yes)
            fail_msg("'%s' and '%s': expected %s", list[i].pattern, list[i].name,
                     list[i].yes ? "a match" : "no match");
}

/* Patterns on which backtracking, or glibc's regcomp, takes exponential time. */
static void test_patterns_in_linear_time(void **state)
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

static void test_invalid_patterns_are_errors(void **state)
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
        cmocka_unit_test(test_random_patterns_match_regcomp),
        cmocka_unit_test(test_known_patterns),
        cmocka_unit_test(test_patterns_in_linear_time),
        cmocka_unit_test(test_invalid_patterns_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
