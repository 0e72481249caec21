/* pattern.c - regular expressions that whole names must match. */
#include "pattern.h"

#include <ctype.h>
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

/* What {m,n} multiplies the work by. */
static long repeat(const char *p)
{
    char *end;
    long m = strtol(p + 1, &end, 10), n = m;

    if (*end == ',')
        n = strtol(end + 1, &end, 10);
    n = n > m ? n : m;
    return n > 1 ? n : 1;
}

/* The pattern as regcomp wants it, with \d spelled out; text has room for `size`. */
static int spell(const char *pattern, char *text, size_t size, struct pare_err *err)
{
    size_t n = 0, len;
    long times = 1;

    if (strlen(pattern) > PARE_PATTERN_MAX)
        return pare_fail(err, PARE_ELIMIT, "is too long, at most %d letters", PARE_PATTERN_MAX);
    for (const char *p = pattern; *p; p += len) {
        bool digit = p[0] == '\\' && p[1] == 'd';

        len = *p == '[' ? (size_t)(skip_bracket(p) - p) : p[0] == '\\' && p[1] ? 2 : 1;
        if (p[0] == '\\' && isdigit((unsigned char)p[1]))
            return pare_fail(err, PARE_EUNSUPPORTED, "refers back with \\%c", p[1]);
        if (*p == '{' && repeat(p) <= PARE_PATTERN_REPEAT)
            times *= repeat(p);
        else if (*p == '{')
            times = PARE_PATTERN_REPEAT + 1;
        if (times > PARE_PATTERN_REPEAT)
            return pare_fail(err, PARE_ELIMIT, "repeats too much, at most %d times in all",
                             PARE_PATTERN_REPEAT);
        n += (size_t)snprintf(text + n, size - n, "%.*s", digit ? (int)strlen(DIGIT) : (int)len,
                              digit ? DIGIT : p);
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
