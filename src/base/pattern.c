/* pattern.c - regular expressions that whole names must match. */
#include "pattern.h"

#include <ctype.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGIT "[0-9]"

/* Behind the ] of the [ at p; a ] that comes first is a letter like others. */
static const char *skip_bracket(const char *p)
{
    p += p[1] == '^' ? 2 : 1;
    if (*p == ']')
        p++;
    while (*p && *p != ']') {
        if (*p == '[' && p[1] && strchr(".:=", p[1])) { /* [:alpha:] */
            const char stop[] = { p[1], ']', '\0' }, *end = strstr(p + 2, stop);

            p = end ? end + 1 : p;
        }
        p++;
    }
    return *p ? p + 1 : p;
}

/* What the repeat at p multiplies the work by.  Of * and ? there is one copy, but regcomp takes
 * twice as long for each that is around it. */
static long copies(const char *p)
{
    char *end;
    long m, n;

    if (*p != '{')
        return 2;
    m = n = strtol(p + 1, &end, 10);
    if (*end == ',')
        n = strtol(end + 1, &end, 10);
    n = n > m ? n : m < LONG_MAX ? m + 1 : m;
    return n > 1 ? n : 1;
}

/* The letter, [set], \letter, bracket or repeat at p. */
static size_t token(const char *p)
{
    if (*p == '[')
        return (size_t)(skip_bracket(p) - p);
    if (*p == '{')
        return strcspn(p, "}") + (strchr(p, '}') != NULL);
    return p[0] == '\\' && p[1] ? 2 : 1;
}

/* Letters of the pattern with its repeats written out; stops counting beyond PARE_PATTERN_FULL. */
static long full_size(const char *pattern)
{
    long sum[PARE_PATTERN_MAX + 1] = { 0 }, last = 0; /* by depth; of what a repeat is for */
    int depth = 0;

    for (const char *p = pattern; *p && sum[depth] <= PARE_PATTERN_FULL; p += token(p)) {
        if (*p == '(') {
            sum[++depth] = 1;
        } else if (*p == ')' && depth) {
            last = sum[depth--];
            sum[depth] += last;
        } else if (strchr("*?+{", *p)) {
            long n = copies(p) < PARE_PATTERN_FULL ? copies(p) : PARE_PATTERN_FULL + 1;

            sum[depth] += last * (n - 1);
            last *= n;
        } else {
            last = 1;
            sum[depth]++;
        }
    }
    return sum[depth];
}

/* The pattern as regcomp wants it, with \d spelled out; text has room for `size`. */
static int spell(const char *pattern, char *text, size_t size, struct pare_err *err)
{
    size_t n = 0;

    if (strlen(pattern) > PARE_PATTERN_MAX)
        return pare_fail(err, PARE_ELIMIT, "is too long, at most %d letters", PARE_PATTERN_MAX);
    if (full_size(pattern) > PARE_PATTERN_FULL)
        return pare_fail(err, PARE_ELIMIT,
                         "is too long when its repeats are written out, at most %d letters",
                         PARE_PATTERN_FULL);
    for (const char *p = pattern; *p; p += token(p)) {
        bool digit = p[0] == '\\' && p[1] == 'd';

        if (p[0] == '\\' && isdigit((unsigned char)p[1]))
            return pare_fail(err, PARE_EUNSUPPORTED, "refers back with \\%c", p[1]);
        n += (size_t)snprintf(text + n, size - n, "%.*s",
                              digit ? (int)strlen(DIGIT) : (int)token(p), digit ? DIGIT : p);
    }
    text[n] = '\0';
    return 0;
}

static int compile(const char *pattern, regex_t *re, struct pare_err *err)
{
    char text[PARE_PATTERN_MAX * 3 + 1], why[128];
    int rc;

    PARE_TRY(spell(pattern, text, sizeof(text), err));
    rc = regcomp(re, text, REG_EXTENDED);
    if (!rc)
        return 0;
    regerror(rc, re, why, sizeof(why));
    return pare_fail(err, PARE_ECONFIG, "is no regular expression: %s", why);
}

int pare_pattern_check(const char *pattern, struct pare_err *err)
{
    regex_t re;

    PARE_TRY(pare_at(err, compile(pattern, &re, err), "the pattern '%.200s'", pattern));
    regfree(&re);
    return 0;
}

/* POSIX takes the longest of the leftmost matches, so if all can match, all does. */
bool pare_pattern_match(const char *pattern, const char *name)
{
    struct pare_err err;
    regmatch_t at;
    regex_t re;
    bool yes;

    if (compile(pattern, &re, &err))
        return false;
    yes = !regexec(&re, name, 1, &at, 0) && at.rm_so == 0 && (size_t)at.rm_eo == strlen(name);
    regfree(&re);
    return yes;
}
