/* csv.h - rows of a CSV file with a header: RFC 4180; comma, semicolon or tab. */
#ifndef PARE_DATA_CSV_H
#define PARE_DATA_CSV_H

#include <pare/pare.h>

struct pare_csv {
    struct pare_arena *arena;
    const char *at, *end;
    char separator;
    int64_t line; /* of the last row, from 1 */
    int64_t next; /* line after it */
    char *text;   /* the cells of the last row, each with a zero byte after it */
    size_t room;
    const char **cell; /* (n) of the last row */
    int n, cap;
    const char *const *name; /* (n_names) header, without surrounding blanks */
    int n_names;
};

/* Read the header.  `separator` 0: found in the header.  `bytes` must outlive the reader;
 * everything else is in the arena. */
int pare_csv_open(struct pare_csv *c, struct pare_arena *a, const void *bytes, size_t len,
                  char separator, struct pare_err *err);

/* Read the next row, which has as many cells as the header; lines without text are skipped.
 * *more is false at the end. */
int pare_csv_row(struct pare_csv *c, bool *more, struct pare_err *err);

/* The column with this name, where the case does not matter; -1: none. */
int pare_csv_find(const struct pare_csv *c, const char *name);

#endif
