/* budget_limits.c - budgets as text: "latency=0.5 size=400KB macs=0.6"; lists of methods. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "budget_search.h"

struct unit {
    const char *name;
    double times;
};

/* In microseconds, bytes, multiply-accumulates. */
static const struct unit latency[] = { { "us", 1 }, { "ms", 1e3 }, { "s", 1e6 }, { NULL, 0 } };
static const struct unit size[] = { { "B", 1 },    { "KB", 1e3 }, { "kB", 1e3 },
                                    { "MB", 1e6 }, { "GB", 1e9 }, { NULL, 0 } };
static const struct unit macs[] = { { "K", 1e3 }, { "M", 1e6 }, { "G", 1e9 }, { NULL, 0 } };

static const struct {
    const char *name;
    const struct unit *unit;
} kinds[PARE_BUDGET_KINDS] = { { "latency", latency }, { "size", size }, { "macs", macs } };

static int wrong(const char *word, int len, struct pare_err *err)
{
    return pare_fail(err, PARE_ECONFIG,
                     "budget '%.*s' must be latency, size or macs, = and a part of the original's "
                     "above 0 and below 1, or a number with a unit: latency=0.5, latency=3ms, "
                     "size=400KB, macs=20M",
                     len, word);
}

static int parse_word(const char *word, int len, struct pare_budget_limits *l, struct pare_err *err)
{
    const char *equal = memchr(word, '=', (size_t)len);
    char number[64], *end;
    int kind = 0;
    double x;

    while (equal && kind < PARE_BUDGET_KINDS &&
           (strlen(kinds[kind].name) != (size_t)(equal - word) ||
            strncmp(kinds[kind].name, word, (size_t)(equal - word)) != 0))
        kind++;
    if (!equal || kind == PARE_BUDGET_KINDS || word + len - equal - 1 >= (int)sizeof(number))
        return wrong(word, len, err);
    memcpy(number, equal + 1, (size_t)(word + len - equal - 1));
    number[word + len - equal - 1] = 0;
    x = strtod(number, &end);
    if (end == number || !isfinite(x) || x <= 0)
        return wrong(word, len, err);
    if (!*end) {
        if (x >= 1)
            return wrong(word, len, err);
        l->part[kind] = x;
        l->absolute[kind] = INFINITY;
        return 0;
    }
    for (const struct unit *u = kinds[kind].unit; u->name; u++)
        if (!strcmp(u->name, end)) {
            l->part[kind] = INFINITY;
            l->absolute[kind] = x * u->times;
            return 0;
        }
    return wrong(word, len, err);
}

int pare_budget_limits_parse(const char *text, struct pare_budget_limits *l, struct pare_err *err)
{
    for (int i = 0; i < PARE_BUDGET_KINDS; i++)
        l->part[i] = l->absolute[i] = INFINITY;
    for (const char *p = text ? text : ""; *p;) {
        int len = (int)strcspn(p, " ,");

        if (len)
            PARE_TRY(parse_word(p, len, l, err));
        p += len;
        p += *p != 0;
    }
    return 0;
}

bool pare_budget_has_method(const char *methods, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = methods; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && !strncmp(p, name, len))
            return true;
    return !methods;
}

int pare_budget_check_methods(const char *methods, struct pare_err *err)
{
    for (const char *p = methods; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t len = strcspn(p, ",");

        if (!(len == 8 && !strncmp(p, "channels", 8)) && !(len == 4 && !strncmp(p, "int8", 4)))
            return pare_fail(err, PARE_ECONFIG, "method '%.*s' is unknown; expected channels, int8",
                             (int)len, p);
    }
    return 0;
}
