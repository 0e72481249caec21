/* csv.c - rows of a CSV file with a header: RFC 4180; comma, semicolon or tab. */
#include "csv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../base/arena.h"
#include "../base/limits.h"

/* The separator is the one that occurs most often in the header, outside of quotes. */
static char find_separator(const char *s, const char *end)
{
    static const char list[] = ",;\t";
    int count[3] = { 0 }, best = 0;
    bool quoted = false;

    for (; s < end && (quoted || (*s != '\n' && *s != '\r')); s++) {
        const char *k = *s ? strchr(list, *s) : NULL;

        quoted ^= *s == '"';
        if (k && !quoted)
            count[k - list]++;
    }
    for (int i = 1; i < 3; i++)
        best = count[i] > count[best] ? i : best;
    return list[best];
}

static int put(struct pare_csv *c, size_t *used, char byte, struct pare_err *err)
{
    if (*used == c->room) {
        size_t room = c->room ? 2 * c->room : 4096;
        char *text = pare_alloc_raw(c->arena, room, 1);

        if (room > PARE_CSV_LINE)
            return pare_fail(err, PARE_ELIMIT, "line %lld: more than %d bytes, which is the limit",
                             (long long)c->line, PARE_CSV_LINE);
        if (!text)
            return pare_no_memory(err, "for a line of a table");
        if (*used)
            memcpy(text, c->text, *used);
        c->text = text;
        c->room = room;
    }
    c->text[(*used)++] = byte;
    return 0;
}

/* One cell up to its separator or the end of the line, which is not consumed. */
static int read_cell(struct pare_csv *c, size_t *used, struct pare_err *err)
{
    bool quoted = c->at < c->end && *c->at == '"';

    c->at += quoted;
    while (c->at < c->end) {
        char byte = *c->at;

        if (!byte)
            return pare_fail(err, PARE_EFORMAT, "line %lld: a zero byte: this is not a text file",
                             (long long)c->next);
        if (quoted && byte == '"') {
            if (c->at + 1 < c->end && c->at[1] == '"') {
                c->at++; /* "" is a quote */
            } else {
                quoted = false;
                c->at++;
                continue;
            }
        } else if (!quoted && (byte == c->separator || byte == '\n' || byte == '\r')) {
            break;
        }
        c->next += byte == '\n';
        PARE_TRY(put(c, used, byte, err));
        c->at++;
    }
    if (quoted)
        return pare_fail(err, PARE_EFORMAT, "line %lld: a quote is not closed", (long long)c->line);
    return put(c, used, '\0', err);
}

static int add_cell(struct pare_csv *c, struct pare_err *err)
{
    if (c->n == PARE_CSV_COLUMNS)
        return pare_fail(err, PARE_ELIMIT, "line %lld: more than %d columns, which is the limit",
                         (long long)c->line, PARE_CSV_COLUMNS);
    c->cell = pare_grow(c->arena, c->cell, c->n, &c->cap, sizeof(*c->cell));
    if (!c->cell)
        return pare_no_memory(err, "for a table");
    c->n++;
    return 0;
}

static void end_line(struct pare_csv *c)
{
    if (c->at < c->end && *c->at == '\r')
        c->at++;
    if (c->at < c->end && *c->at == '\n')
        c->at++;
    c->next++;
}

static int read_line(struct pare_csv *c, struct pare_err *err)
{
    size_t used = 0;

    c->n = 0;
    c->line = c->next;
    for (;;) {
        PARE_TRY(add_cell(c, err));
        PARE_TRY(read_cell(c, &used, err));
        if (c->at == c->end || *c->at != c->separator)
            break;
        c->at++;
    }
    end_line(c);
    for (int i = 0, at = 0; i < c->n; i++) {
        c->cell[i] = c->text + at;
        at += (int)strlen(c->text + at) + 1;
    }
    return 0;
}

static bool is_blank_line(const struct pare_csv *c)
{
    return c->n == 1 && !c->cell[0][strspn(c->cell[0], " \t")];
}

int pare_csv_row(struct pare_csv *c, bool *more, struct pare_err *err)
{
    *more = false;
    while (c->at < c->end) {
        PARE_TRY(read_line(c, err));
        if (is_blank_line(c))
            continue;
        if (c->n_names && c->n != c->n_names)
            return pare_fail(err, PARE_EFORMAT, "line %lld has %d cell%s, the header has %d",
                             (long long)c->line, c->n, c->n == 1 ? "" : "s", c->n_names);
        *more = true;
        return 0;
    }
    return 0;
}

/* A name without surrounding blanks. */
static const char *trimmed(struct pare_arena *a, const char *s)
{
    size_t n;

    s += strspn(s, " \t");
    n = strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    return pare_strndup(a, s, n);
}

static int by_name(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_twice(const struct pare_csv *c, struct pare_err *err)
{
    const char **sorted = pare_alloc(c->arena, (size_t)c->n_names, sizeof(*sorted));

    if (!sorted)
        return pare_no_memory(err, "for a table");
    memcpy(sorted, c->name, (size_t)c->n_names * sizeof(*sorted));
    qsort(sorted, (size_t)c->n_names, sizeof(*sorted), by_name);
    for (int i = 1; i < c->n_names; i++)
        if (sorted[i][0] && !strcasecmp(sorted[i - 1], sorted[i]))
            return pare_fail(err, PARE_EFORMAT, "the header has column '%s' twice", sorted[i]);
    return 0;
}

int pare_csv_open(struct pare_csv *c, struct pare_arena *a, const void *bytes, size_t len,
                  char separator, struct pare_err *err)
{
    const char **name;
    bool more;

    *c = (struct pare_csv){ .arena = a, .at = bytes, .next = 1 };
    c->end = c->at + len;
    if (len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3))
        c->at += 3;
    c->separator = separator ? separator : find_separator(c->at, c->end);
    PARE_TRY(pare_csv_row(c, &more, err));
    if (!more)
        return pare_fail(err, PARE_EFORMAT, "is empty, expected a line with the columns' names");
    name = pare_alloc(a, (size_t)c->n, sizeof(*name));
    for (int i = 0; name && i < c->n; i++) {
        name[i] = trimmed(a, c->cell[i]);
        name = name[i] ? name : NULL;
    }
    if (!name)
        return pare_no_memory(err, "for a table");
    c->name = name;
    c->n_names = c->n;
    return check_twice(c, err);
}

int pare_csv_find(const struct pare_csv *c, const char *name)
{
    for (int i = 0; i < c->n_names; i++)
        if (!strcasecmp(c->name[i], name))
            return i;
    return -1;
}
