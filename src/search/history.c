/* history.c - NNI's files of a search: search_history.csv, search_result.json; and
 * search_settings.json, which tells whether a folder's history is of the same search. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "search.h"

#include "../base/arena.h"
#include "../base/json.h"
#include "../io/file.h"

#define HEAD "sparsity,performance,config_list\n"
#define NUMBER "%.9g" /* a performance */
#define MOST_BYTES ((size_t)1 << 28)

static const char *file_of(const struct pare_history *h, const char *name)
{
    return pare_sprintf(h->arena, "%s/%s", h->folder, name);
}

/* A text in quotes, with each quote doubled. */
static const char *csv_quoted(struct pare_arena *a, const char *text)
{
    char *out = pare_alloc(a, 2 * strlen(text) + 3, 1), *to = out;

    if (!out)
        return NULL;
    *to++ = '"';
    for (; *text; text++) {
        if (*text == '"')
            *to++ = '"';
        *to++ = *text;
    }
    *to++ = '"';
    return out;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One row: two numbers and a quoted text.  Returns the next row; NULL: not of this form. */
static const char *parse_row(struct pare_history *h, const char *at, struct pare_history_row *row)
{
    char *end, *text, *to;

    row->sparsity = strtod(at, &end);
    if (end == at || *end != ',')
        return NULL;
    at = end + 1;
    row->performance = strtod(at, &end);
    if (end == at || end[0] != ',' || end[1] != '"')
        return NULL;
    at = end + 2;
    text = to = pare_alloc(h->arena, strlen(at) + 1, 1);
    if (!text)
        return NULL;
    for (; *at && (at[0] != '"' || at[1] == '"'); at++) {
        at += *at == '"';
        *to++ = *at;
    }
    row->config = text;
    if (at[0] != '"')
        return NULL;
    at += at[1] == '\r' ? 2 : 1;
    return *at == '\n' ? at + 1 : NULL;
}

static int push(struct pare_history *h, const struct pare_history_row *row, struct pare_err *err)
{
    h->row = pare_grow(h->arena, h->row, h->n, &h->cap, sizeof(*h->row));
    if (!h->row)
        return pare_no_memory(err, "for a search");
    h->row[h->n++] = *row;
    return 0;
}

static int read_text(struct pare_history *h, const char *path, const char **text,
                     struct pare_err *err)
{
    const void *bytes;
    size_t len;

    *text = NULL;
    if (access(path, F_OK))
        return 0;
    PARE_TRY(pare_at(err, pare_file_read_most(h->arena, path, MOST_BYTES, &bytes, &len, err), "%s",
                     path));
    *text = pare_strndup(h->arena, bytes, len);
    return *text ? 0 : pare_no_memory(err, "for a search");
}

static int read_rows(struct pare_history *h, struct pare_err *err)
{
    const char *path = file_of(h, "search_history.csv"), *text, *at;
    struct pare_history_row row;

    if (!path)
        return pare_no_memory(err, "for a search");
    PARE_TRY(read_text(h, path, &text, err));
    if (!text)
        return 0;
    if (strncmp(text, HEAD, strlen(HEAD)) != 0)
        return pare_fail(err, PARE_EFORMAT, "%s: the first line is not " HEAD, path);
    for (at = text + strlen(HEAD); at && *at;) {
        at = parse_row(h, at, &row);
        if (!at)
            return pare_fail(err, PARE_EFORMAT,
                             "%s: row %d is not two numbers and a config_list in quotes", path,
                             h->n + 1);
        PARE_TRY(push(h, &row, err));
    }
    h->old = h->n;
    return 0;
}

int pare_history_open(struct pare_history *h, const char *identity, struct pare_err *err)
{
    const char *path, *text;

    if (!h->folder)
        return 0;
    path = file_of(h, "search_settings.json");
    if (!path)
        return pare_no_memory(err, "for a search");
    if (mkdir(h->folder, 0777) && errno != EEXIST)
        return pare_fail(err, PARE_EIO, "%s: %s", h->folder, strerror(errno));
    PARE_TRY(read_text(h, path, &text, err));
    if (text && strcmp(text, identity) != 0)
        return pare_fail(err, PARE_ECONFIG,
                         "%s: has the history of a search with other settings, model or data; use "
                         "another folder, or delete this one",
                         h->folder);
    if (text)
        return read_rows(h, err);
    return h->writes
               ? pare_at(err, pare_file_write(path, identity, strlen(identity), err), "%s", path)
               : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

int pare_history_find(struct pare_history *h, const char *config, double *performance, bool *found,
                      struct pare_err *err)
{
    *found = h->at < h->old;
    if (!*found)
        return 0;
    if (strcmp(h->row[h->at].config, config) != 0)
        return pare_fail(err, PARE_ECONFIG,
                         "%s/search_history.csv: row %d is not of this search; use another folder, "
                         "or delete this one",
                         h->folder, h->at + 1);
    *performance = h->row[h->at++].performance;
    return 0;
}

/* The whole file is written again: it is short, and complete at any time. */
static int write_rows(struct pare_history *h, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    const char **part = a ? pare_alloc(a, (size_t)h->n + 1, sizeof(*part)) : NULL;
    const char *path = file_of(h, "search_history.csv"), *text = NULL;
    int rc;

    for (int i = 0; part && i < h->n; i++) {
        const char *quoted = csv_quoted(a, h->row[i].config);

        part[i] = quoted ? pare_sprintf(a, "%.6f," NUMBER ",%s\n", h->row[i].sparsity,
                                        h->row[i].performance, quoted)
                         : NULL;
        if (!part[i])
            part = NULL;
    }
    if (part)
        text = pare_join(a, part, h->n, "");
    text = text ? pare_sprintf(a, HEAD "%s", text) : NULL;
    rc = text && path ? pare_at(err, pare_file_write(path, text, strlen(text), err), "%s", path)
                      : pare_no_memory(err, "for a search");
    pare_arena_free(a);
    return rc;
}

double pare_history_round(double performance)
{
    char text[64];

    snprintf(text, sizeof(text), NUMBER, performance);
    return strtod(text, NULL);
}

int pare_history_add(struct pare_history *h, const struct pare_history_row *row,
                     struct pare_err *err)
{
    PARE_TRY(push(h, row, err));
    h->at++;
    return h->folder && h->writes ? write_rows(h, err) : 0;
}

int pare_history_result(const struct pare_history *h, const struct pare_history_row *best,
                        struct pare_err *err)
{
    const char *path, *text;

    if (!h->folder || !h->writes)
        return 0;
    path = file_of(h, "search_result.json");
    text = pare_json_quoted(h->arena, best->config);
    if (text)
        text = pare_sprintf(h->arena, "{\"performance\": " NUMBER ", \"config_list\": %s}\n",
                            best->performance, text);
    return path && text ? pare_at(err, pare_file_write(path, text, strlen(text), err), "%s", path)
                        : pare_no_memory(err, "for a search");
}
