/* npy.c - NumPy's .npy format: one tensor in a file.
 *
 *     "\x93NUMPY"  major  minor  header length (2 bytes; 4 from version 2 on, little endian)
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  blanks up to a newline
 *     the elements
 *
 * The header is a Python dictionary with exactly these three keys, in any order; anything else is
 * an error.
 */
#include "npy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "../base/arena.h"
#include "../tensor/tensor.h"

static const struct {
    enum pare_dtype dtype;
    const char *descr;
} types[] = {
    { PARE_F32, "<f4" }, { PARE_F64, "<f8" }, { PARE_F16, "<f2" }, { PARE_I8, "|i1" },
    { PARE_U8, "|u1" },  { PARE_I16, "<i2" }, { PARE_U16, "<u2" }, { PARE_I32, "<i4" },
    { PARE_U32, "<u4" }, { PARE_I64, "<i8" }, { PARE_U64, "<u8" }, { PARE_BOOL, "|b1" },
};
#define N_TYPES (sizeof(types) / sizeof(*types))

/* ---- the header --------------------------------------------------------------- */

struct text {
    const char *p, *end;
};

static int malformed(struct pare_err *err, const char *what)
{
    return pare_fail(err, PARE_EFORMAT, "the .npy header is malformed: %s", what);
}

static void skip_blanks(struct text *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t'))
        s->p++;
}

/* Skip blanks and c; false if another character follows. */
static bool take_char(struct text *s, char c)
{
    skip_blanks(s);
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool take_word(struct text *s, const char *word)
{
    size_t n = strlen(word);

    skip_blanks(s);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

static int parse_quoted(struct text *s, char *buf, size_t size, struct pare_err *err)
{
    char quote;
    size_t n = 0;

    skip_blanks(s);
    if (s->p == s->end || (*s->p != '\'' && *s->p != '"'))
        return malformed(err, "a quoted string was expected");
    for (quote = *s->p++; s->p < s->end && *s->p != quote; s->p++) {
        if (n + 1 >= size || !isprint((unsigned char)*s->p))
            return malformed(err, "a string is too long or not printable");
        buf[n++] = *s->p;
    }
    buf[n] = '\0';
    if (s->p == s->end)
        return malformed(err, "a quoted string does not end");
    s->p++;
    return 0;
}

/* (), (3,) or (2, 3) */
static int parse_shape(struct text *s, struct pare_tensor *t, struct pare_err *err)
{
    if (!take_char(s, '('))
        return malformed(err, "'shape' is not a tuple");
    for (t->rank = 0; !take_char(s, ')'); t->rank++) {
        int64_t d = 0;

        if (t->rank == PARE_MAX_RANK)
            return pare_fail(err, PARE_ELIMIT, "the array has more than %d dimensions",
                             PARE_MAX_RANK);
        if (s->p == s->end || !isdigit((unsigned char)*s->p))
            return malformed(err, "a dimension is not a number");
        for (; s->p < s->end && isdigit((unsigned char)*s->p); s->p++) {
            if (d > (INT64_MAX - 9) / 10)
                return malformed(err, "a dimension is too large");
            d = d * 10 + (*s->p - '0');
        }
        take_char(s, 'L'); /* Python 2's long integers */
        t->dim[t->rank] = d;
        if (!take_char(s, ',') && (s->p == s->end || *s->p != ')'))
            return malformed(err, "'shape' does not end");
    }
    return 0;
}

static int parse_descr(struct text *s, struct pare_tensor *t, struct pare_err *err)
{
    char buf[64] = "";
    size_t i = 0;

    skip_blanks(s);
    if (s->p < s->end && *s->p == '[')
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the array has records, not numbers: save one array for each field");
    PARE_TRY(parse_quoted(s, buf, sizeof(buf), err));
    if (buf[0] == '=' || (buf[0] == '<' && !strcmp(buf + 2, "1")))
        buf[0] = buf[0] == '=' ? '<' : '|';
    while (i < N_TYPES && strcmp(types[i].descr, buf) != 0)
        i++;
    if (!strcmp(buf, "|O") || !strcmp(buf, "O"))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the array holds Python objects, which are not read: save numbers, as in "
                         "np.savez(FILE, x=x.astype('float32')), and items of different lengths "
                         "as one .npy file each, in a folder");
    if (i == N_TYPES)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the array's type is '%s', only little-endian numbers and booleans are "
                         "handled: convert it, as in x.astype('float32')",
                         buf);
    t->dtype = types[i].dtype;
    return 0;
}

static int parse_header(struct text *s, struct pare_tensor *t, bool *fortran, struct pare_err *err)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    unsigned seen = 0;

    if (!take_char(s, '{'))
        return malformed(err, "it is not a dictionary");
    while (!take_char(s, '}')) {
        char key[32];
        unsigned k = 0;

        PARE_TRY(parse_quoted(s, key, sizeof(key), err));
        while (k < 3 && strcmp(key, keys[k]) != 0)
            k++;
        if (k == 3 || (seen & 1u << k) || !take_char(s, ':'))
            return malformed(err, "a key is unknown, repeated or without a value");
        seen |= 1u << k;
        *fortran = k == 1 ? take_word(s, "True") : *fortran;
        if (k == 0)
            PARE_TRY(parse_descr(s, t, err));
        else if (k == 2)
            PARE_TRY(parse_shape(s, t, err));
        else if (!*fortran && !take_word(s, "False"))
            return malformed(err, "'fortran_order' is neither True nor False");
        if (!take_char(s, ',') && (s->p == s->end || *s->p != '}'))
            return malformed(err, "the dictionary does not end");
    }
    skip_blanks(s);
    if (seen != 7)
        return malformed(err, "'descr', 'fortran_order' or 'shape' is missing");
    return s->p == s->end ? 0 : malformed(err, "there is more after the dictionary");
}

/* ---- reading ------------------------------------------------------------------ */

/* Element (i, j, k) of a Fortran array is at i + d0 (j + d1 k). */
static void from_fortran(const struct pare_tensor *t, const char *src, size_t size)
{
    int64_t idx[PARE_MAX_RANK] = { 0 }, stride[PARE_MAX_RANK], n = pare_numel(t), at = 0;

    for (int k = 0; k < t->rank; k++)
        stride[k] = k ? stride[k - 1] * t->dim[k - 1] : 1;
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)t->data + (size_t)i * size, src + (size_t)at * size, size);
        for (int k = t->rank - 1; k >= 0; k--) {
            at += stride[k];
            if (++idx[k] < t->dim[k])
                break;
            at -= stride[k] * idx[k];
            idx[k] = 0;
        }
    }
}

/* Where the header starts, and its length, from the fixed part before it. */
static int preamble(const unsigned char *b, size_t len, size_t *start, size_t *head,
                    struct pare_err *err)
{
    if (len > 1 && b[0] == 0x80 && b[1] < 16) /* the version of the protocol */
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "is a Python pickle, which is not read: save it with np.save()");
    if (len < 10 || memcmp(b, "\x93NUMPY", 6) != 0)
        return pare_fail(err, PARE_EFORMAT, "not a .npy file");
    if (b[6] < 1 || b[6] > 3)
        return pare_fail(err, PARE_EUNSUPPORTED, ".npy format %d.%d, 1 to 3 are supported", b[6],
                         b[7]);
    *start = b[6] == 1 ? 10 : 12;
    *head = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1 && len >= 12)
        *head |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (*start > len || *head > len - *start)
        return malformed(err, "its length is beyond the file");
    if (*head > PARE_NPY_HEADER)
        return pare_fail(err, PARE_ELIMIT,
                         "the .npy header has %zu bytes, at most %d are supported", *head,
                         PARE_NPY_HEADER);
    return 0;
}

int pare_npy_header(const void *bytes, size_t len, struct pare_tensor *t, struct pare_npy_layout *l,
                    struct pare_err *err)
{
    const char *b = bytes;
    size_t start = 0, head = 0;
    struct text s;

    *t = (struct pare_tensor){ .rank = 0 };
    *l = (struct pare_npy_layout){ 0 };
    PARE_TRY(preamble(bytes, len, &start, &head, err));
    s = (struct text){ b + start, b + start + head };
    PARE_TRY(parse_header(&s, t, &l->fortran, err));
    l->start = start + head;
    return pare_tensor_size(t, NULL, &l->bytes, err);
}

int pare_npy_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_tensor *t,
                   struct pare_err *err)
{
    const char *b = bytes;
    struct pare_npy_layout l;
    size_t size;

    PARE_TRY(pare_npy_header(bytes, len, t, &l, err));
    size = l.bytes;
    if (size != len - l.start)
        return pare_fail(err, PARE_EFORMAT, "the array has %zu bytes of data, its shape needs %zu",
                         len - l.start, size);
    PARE_TRY(pare_tensor_alloc(a, t, err));
    if (l.fortran && t->rank > 1)
        from_fortran(t, b + l.start, pare_dtype_size(t->dtype));
    else if (size)
        memcpy(t->data, b + l.start, size);
    for (size_t i = 0; t->dtype == PARE_BOOL && i < size; i++)
        ((unsigned char *)t->data)[i] = ((unsigned char *)t->data)[i] != 0;
    return 0;
}

int pare_npy_read(struct pare_arena *a, const char *path, struct pare_tensor *t,
                  struct pare_err *err)
{
    const void *bytes;
    size_t len;
    int rc = pare_file_read(a, path, &bytes, &len, err);

    if (!rc)
        rc = pare_npy_parse(a, bytes, len, t, err);
    return pare_at(err, rc, "%s", path);
}

/* ---- writing ------------------------------------------------------------------ */

/* The type to write: int4 has one byte per element in memory. */
static enum pare_dtype file_type(enum pare_dtype d)
{
    switch (d) {
    case PARE_BF16: return PARE_F32;
    case PARE_I4: return PARE_I8;
    case PARE_U4: return PARE_U8;
    default: return d;
    }
}

/* Padded so that the data starts at a multiple of 64. */
static size_t write_header(const struct pare_tensor *t, const char *type, char *buf, size_t size)
{
    static const unsigned char start[8] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0 };
    size_t at = sizeof(start) + 2, end;

    at += (size_t)snprintf(buf + at, size - at,
                           "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int i = 0; i < t->rank; i++)
        at += (size_t)snprintf(buf + at, size - at, "%lld,%s", (long long)t->dim[i],
                               i + 1 < t->rank ? " " : "");
    if (t->rank > 1)
        at--; /* only a tuple of one element ends in a comma */
    at += (size_t)snprintf(buf + at, size - at, "), }");
    end = (at + 64) / 64 * 64;
    memset(buf + at, ' ', end - at);
    buf[end - 1] = '\n';
    memcpy(buf, start, sizeof(start));
    buf[8] = (char)((end - 10) & 255);
    buf[9] = (char)((end - 10) >> 8);
    return end;
}

int pare_npy_parts(struct pare_arena *a, const struct pare_tensor *t, struct pare_bytes part[2],
                   struct pare_err *err)
{
    struct pare_tensor f = *t;
    size_t i = 0, size, head;
    char buf[512], *p;

    f.dtype = file_type(t->dtype);
    while (i < N_TYPES && types[i].dtype != f.dtype)
        i++;
    if (i == N_TYPES)
        return pare_fail(err, PARE_EUNSUPPORTED, "a .npy file cannot hold %s",
                         pare_dtype_name(t->dtype));
    PARE_TRY(pare_tensor_size(&f, NULL, &size, err));
    head = write_header(t, types[i].descr, buf, sizeof(buf));
    p = pare_alloc_raw(a, head, 1);
    if (!p)
        return pare_no_memory(err, "for an array");
    memcpy(p, buf, head);
    if (t->dtype == PARE_BF16) {
        PARE_TRY(pare_tensor_alloc(a, &f, err));
        PARE_TRY(pare_convert(f.dtype, f.data, t->dtype, t->data, pare_numel(t), err));
    }
    part[0] = (struct pare_bytes){ p, head };
    part[1] = (struct pare_bytes){ f.data, size };
    return 0;
}

int pare_npy_pack(struct pare_arena *a, const struct pare_tensor *t, const void **bytes,
                  size_t *len, struct pare_err *err)
{
    struct pare_bytes part[2];
    char *p;

    PARE_TRY(pare_npy_parts(a, t, part, err));
    *len = part[0].len + part[1].len;
    p = *len < part[0].len ? NULL : pare_alloc_raw(a, *len, 1);
    if (!p)
        return pare_no_memory(err, "for an array of %zu bytes", part[1].len);
    memcpy(p, part[0].data, part[0].len);
    if (part[1].len)
        memcpy(p + part[0].len, part[1].data, part[1].len);
    *bytes = p;
    return 0;
}

int pare_npy_write(const char *path, const struct pare_tensor *t, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_bytes part[2];
    int rc = a ? pare_npy_parts(a, t, part, err) : pare_no_memory(err, "for an array");

    if (!rc)
        rc = pare_file_write_parts(path, part, 2, err);
    pare_arena_free(a);
    return pare_at(err, rc, "%s", path);
}
