/* json.h - JSON parser and writer: a tree in an arena, with the line of each value for messages. */
#ifndef PARE_BASE_JSON_H
#define PARE_BASE_JSON_H

#include <pare/pare.h>

enum pare_json_kind {
    PARE_JSON_NULL,
    PARE_JSON_BOOL,
    PARE_JSON_INT,
    PARE_JSON_REAL,
    PARE_JSON_STR,
    PARE_JSON_LIST,
    PARE_JSON_OBJECT,
};

struct pare_json {
    enum pare_json_kind kind;
    int line;               /* from 1 */
    const char *key;        /* of a member of an object, else NULL */
    bool yes;               /* BOOL */
    int64_t whole;          /* INT */
    double num;             /* INT and REAL; finite */
    const char *str;        /* STR; UTF-8 without embedded zeros */
    struct pare_json *item; /* LIST and OBJECT: n members, in text order */
    int n;
};

/* Parse strict JSON: no comments, no NaN, no duplicate keys, no trailing text.  The message
 * begins with line and column. */
int pare_json_parse(struct pare_arena *a, const char *text, size_t len, struct pare_json *root,
                    struct pare_err *err);

/* A string in JSON syntax, with quotes; NULL: no memory.  Invalid UTF-8 becomes "?". */
const char *pare_json_quoted(struct pare_arena *a, const char *text);

/* A tree as JSON text on one line; NULL: no memory. */
const char *pare_json_write(struct pare_arena *a, const struct pare_json *v);

/* The member of an object; NULL if v is NULL, is not an object, or has no such member. */
const struct pare_json *pare_json_get(const struct pare_json *v, const char *key);

const char *pare_json_kind_name(enum pare_json_kind k); /* "a list", "an object", ... */

#endif
