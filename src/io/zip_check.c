/* zip_check.c - check the directory of a zip archive before unpacking.
 *
 * Entries are never unpacked to files; names that lead out of the archive are still errors, since
 * the next program may unpack them.  Sizes come from the archive's directory; zip bombs are
 * detected by ratios beyond deflate's, or by overlapping entries.
 */
#include "zip_check.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "../base/map.h"
#include "file.h"

#define LOCAL_HEADER 30 /* bytes of an entry's local header, without its name */

struct check {
    struct pare_arena *arena;
    struct pare_map names;
    uint64_t used, grown; /* bytes of the archive; bytes that unpacking adds */
    size_t file;
};

static int check_name(struct check *c, const char *name, struct pare_err *err)
{
    if (!*name || *name == '/')
        return pare_fail(err, PARE_EFORMAT, "entry '%.128s' is not named relative to the archive",
                         name);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/\\");

        if ((n == 2 && p[0] == '.' && p[1] == '.') || p[n] == '\\')
            return pare_fail(err, PARE_EFORMAT, "entry '%.128s' leads out of the archive", name);
        p += n + (p[n] == '/');
    }
    if (pare_map_get(&c->names, name))
        return pare_fail(err, PARE_EFORMAT, "two entries are named '%.128s'", name);
    return pare_map_set(&c->names, c->arena, name, c, err);
}

static int check_size(struct check *c, const zip_stat_t *st, struct pare_err *err)
{
    const bool packed = st->comp_method != ZIP_CM_STORE;

    if ((st->valid & ZIP_STAT_ENCRYPTION_METHOD) && st->encryption_method != ZIP_EM_NONE)
        return pare_fail(err, PARE_EUNSUPPORTED, "entry '%.128s' is encrypted", st->name);
    if (packed && st->comp_method != ZIP_CM_DEFLATE)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "entry '%.128s' is compressed by method %d, only deflate is supported",
                         st->name, (int)st->comp_method);
    if (st->comp_size > c->file || (!packed && st->size != st->comp_size))
        return pare_fail(err, PARE_EFORMAT,
                         "entry '%.128s' claims %llu bytes, compressed to %llu, in a file of %zu",
                         st->name, (unsigned long long)st->size, (unsigned long long)st->comp_size,
                         c->file);
    if (packed && st->size / PARE_MAX_RATIO > st->comp_size)
        return pare_fail(err, PARE_EFORMAT,
                         "entry '%.128s' claims that %llu bytes unpack to %llu, more than deflate "
                         "can do",
                         st->name, (unsigned long long)st->comp_size, (unsigned long long)st->size);
    c->used += LOCAL_HEADER + strlen(st->name) + st->comp_size;
    if (c->used > c->file)
        return pare_fail(
            err, PARE_EFORMAT,
            "the entries up to '%.128s' have %llu bytes in a file of %zu: they overlap", st->name,
            (unsigned long long)c->used, c->file);
    c->grown += packed ? st->size : 0;
    if (c->grown > PARE_MAX_GROWTH)
        return pare_fail(
            err, PARE_ELIMIT,
            "the entries up to '%.128s' unpack to %llu bytes, at most %zu are supported", st->name,
            (unsigned long long)c->grown, PARE_MAX_GROWTH);
    return 0;
}

static int check_entries(struct check *c, zip_t *z, zip_uint64_t n, struct pare_err *err)
{
    const zip_uint64_t need = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                              ZIP_STAT_COMP_METHOD;
    zip_stat_t st;

    for (zip_uint64_t i = 0; i < n; i++) {
        zip_stat_init(&st);
        if (zip_stat_index(z, i, 0, &st) || (st.valid & need) != need)
            return pare_fail(err, PARE_EFORMAT, "entry %llu of the archive cannot be read: %s",
                             (unsigned long long)i, zip_strerror(z));
        PARE_TRY(check_name(c, st.name, err));
        PARE_TRY(check_size(c, &st, err));
    }
    return 0;
}

int pare_zip_check(zip_t *z, size_t file, struct pare_err *err)
{
    zip_int64_t n = zip_get_num_entries(z, 0);
    struct check c = { .file = file };
    int rc;

    if (n < 0 || n > PARE_ZIP_ENTRIES)
        return pare_fail(err, PARE_ELIMIT, "the archive has %lld entries, at most %d are supported",
                         (long long)n, PARE_ZIP_ENTRIES);
    c.arena = pare_arena_new(1 << 12);
    rc = c.arena ? check_entries(&c, z, (zip_uint64_t)n, err)
                 : pare_no_memory(err, "to read an archive");
    pare_arena_free(c.arena);
    return rc;
}

int pare_zip_open(const char *path, zip_t **z, size_t *file, struct pare_err *err)
{
    struct pare_file_metadata f;
    unsigned char head[4];
    zip_error_t why;
    int code = 0;

    *z = NULL;
    PARE_TRY(pare_file_look(path, head, sizeof(head), &f, err));
    *file = f.size;
    *z = zip_open(path, ZIP_RDONLY, &code);
    if (*z)
        return pare_zip_check(*z, f.size, err);
    zip_error_init_with_code(&why, code);
    pare_fail(err, PARE_EFORMAT, "cannot open the zip archive: %s", zip_error_strerror(&why));
    zip_error_fini(&why);
    return err->code;
}
