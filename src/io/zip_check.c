/* zip_check.c - check the directory of a zip archive before unpacking.
 *
 * Entries are never unpacked to files; names that lead out of the archive are still errors, since
 * the next program may unpack them.  Sizes come from the archive's directory; zip bombs are
 * detected by ratios beyond deflate's, or by overlapping entries.
 */
#include "zip_read.h"

#include <string.h>

#include "../base/limits.h"

#define LOCAL_HEADER 30 /* bytes of an entry's local header, without its name */

enum { STORED = 0, DEFLATED = 8 };

struct check {
    const struct pare_zip *zip;
    uint64_t used, grown; /* bytes of the archive; bytes that unpacking adds */
};

static int check_name(const struct pare_zip *z, const struct pare_zip_item *e, struct pare_err *err)
{
    const char *name = e->name;

    if (!*name || *name == '/')
        return pare_fail(err, PARE_EFORMAT, "entry '%.128s' is not named relative to the archive",
                         name);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/\\");

        if ((n == 2 && p[0] == '.' && p[1] == '.') || p[n] == '\\')
            return pare_fail(err, PARE_EFORMAT, "entry '%.128s' leads out of the archive", name);
        p += n + (p[n] == '/');
    }
    if (pare_zip_find(z, name) != e)
        return pare_fail(err, PARE_EFORMAT, "two entries are named '%.128s'", name);
    return 0;
}

static int check_size(struct check *c, const struct pare_zip_item *e, struct pare_err *err)
{
    const bool packed = e->method != STORED;

    if (e->encrypted)
        return pare_fail(err, PARE_EUNSUPPORTED, "entry '%.128s' is encrypted", e->name);
    if (packed && e->method != DEFLATED)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "entry '%.128s' is compressed by method %d, only deflate is supported",
                         e->name, e->method);
    if (e->packed > c->zip->len || (!packed && e->size != e->packed))
        return pare_fail(err, PARE_EFORMAT,
                         "entry '%.128s' claims %llu bytes, compressed to %llu, in a file of %zu",
                         e->name, (unsigned long long)e->size, (unsigned long long)e->packed,
                         c->zip->len);
    if (packed && e->size / PARE_MAX_RATIO > e->packed)
        return pare_fail(err, PARE_EFORMAT,
                         "entry '%.128s' claims that %llu bytes unpack to %llu, more than deflate "
                         "can do",
                         e->name, (unsigned long long)e->packed, (unsigned long long)e->size);
    c->used += LOCAL_HEADER + strlen(e->name) + e->packed;
    if (c->used > c->zip->len)
        return pare_fail(
            err, PARE_EFORMAT,
            "the entries up to '%.128s' have %llu bytes in a file of %zu: they overlap", e->name,
            (unsigned long long)c->used, c->zip->len);
    c->grown += packed ? e->size : 0;
    if (c->grown > PARE_MAX_GROWTH)
        return pare_fail(
            err, PARE_ELIMIT,
            "the entries up to '%.128s' unpack to %llu bytes, at most %zu are supported", e->name,
            (unsigned long long)c->grown, PARE_MAX_GROWTH);
    return 0;
}

int pare_zip_check(const struct pare_zip *z, struct pare_err *err)
{
    struct check c = { .zip = z };

    for (int i = 0; i < z->n; i++) {
        PARE_TRY(check_name(z, &z->item[i], err));
        PARE_TRY(check_size(&c, &z->item[i], err));
    }
    return 0;
}
