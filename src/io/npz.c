/* npz.c - numpy's .npz: named tensors in a zip file. */
#include "npz.h"

#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "file.h"
#include "npy.h"
#include "../base/arena.h"

#define MAX_ENTRIES 65536

/* ---- reading ------------------------------------------------------------------ */

/* What the directory says of an entry, checked before anything is allocated for it. */
static int check_entry(zip_t *z, zip_uint64_t i, zip_stat_t *st, size_t *left, struct pare_err *err)
{
    const zip_uint64_t need = ZIP_STAT_NAME | ZIP_STAT_SIZE;

    if (zip_stat_index(z, i, 0, st) || (st->valid & need) != need)
        return pare_fail(err, PARE_EFORMAT, "entry %llu cannot be read: %s", (unsigned long long)i,
                         zip_strerror(z));
    if (st->size > *left)
        return pare_fail(err, PARE_ELIMIT,
                         "entry '%s' has %llu bytes, at most %zu are handled in a file", st->name,
                         (unsigned long long)st->size, PARE_IO_QUOTA);
    *left -= (size_t)st->size;
    return 0;
}

static int read_entry(struct pare_arena *a, zip_t *z, zip_uint64_t i, const zip_stat_t *st,
                      struct pare_tensor *t, struct pare_err *err)
{
    zip_uint64_t at = 0;
    zip_file_t *f = zip_fopen_index(z, i, 0);
    char *p = NULL, more;
    int rc = 0;

    if (!f)
        return pare_fail(err, PARE_EFORMAT, "%s", zip_strerror(z));
    p = pare_alloc_raw(a, (size_t)st->size, 1);
    if (!p)
        rc = pare_fail(err, PARE_ENOMEM, "no memory for %llu bytes", (unsigned long long)st->size);
    while (!rc && at < st->size) {
        zip_int64_t n = zip_fread(f, p + at, st->size - at);

        if (n <= 0)
            rc = pare_fail(err, PARE_EFORMAT, "%s",
                           n < 0 ? zip_file_strerror(f) : "shorter than the file says");
        else
            at += (zip_uint64_t)n;
    }
    /* The check sum is looked at when the end is read. */
    if (!rc && zip_fread(f, &more, 1) != 0)
        rc = pare_fail(err, PARE_EFORMAT, "longer than the file says, or its check sum is wrong");
    if (!rc)
        rc = pare_npy_parse(a, p, (size_t)st->size, t, err);
    zip_fclose(f);
    return rc;
}

static int read_entries(struct pare_arena *a, zip_t *z, struct pare_named **list, int *n,
                        struct pare_err *err)
{
    zip_int64_t count = zip_get_num_entries(z, 0);
    size_t left = PARE_IO_QUOTA;

    if (count < 0 || count > MAX_ENTRIES)
        return pare_fail(err, PARE_ELIMIT, "the file has %lld entries, at most %d are handled",
                         (long long)count, MAX_ENTRIES);
    *list = pare_alloc(a, (size_t)count, sizeof(**list));
    if (!*list)
        return pare_fail(err, PARE_ENOMEM, "no memory for %lld entries", (long long)count);
    for (*n = 0; *n < count; ++*n) {
        struct pare_named *e = *list + *n;
        zip_stat_t st;
        size_t len;

        zip_stat_init(&st);
        PARE_TRY(check_entry(z, (zip_uint64_t)*n, &st, &left, err));
        len = strlen(st.name);
        if (len < 4 || strcmp(st.name + len - 4, ".npy") != 0)
            return pare_fail(err, PARE_EUNSUPPORTED, "entry '%s' is not a .npy", st.name);
        e->name = pare_strndup(a, st.name, len - 4);
        if (!e->name)
            return pare_fail(err, PARE_ENOMEM, "no memory for a name");
        PARE_TRY(pare_at(err, read_entry(a, z, (zip_uint64_t)*n, &st, &e->t, err), "entry '%s'",
                         e->name));
    }
    return 0;
}

static int open_failed(int code, struct pare_err *err)
{
    zip_error_t e;

    zip_error_init_with_code(&e, code);
    pare_fail(err, PARE_EIO, "cannot open: %s", zip_error_strerror(&e));
    zip_error_fini(&e);
    return PARE_EIO;
}

int pare_npz_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                  struct pare_err *err)
{
    int code = 0, rc;
    zip_t *z = zip_open(path, ZIP_RDONLY, &code);

    *n = 0;
    if (!z)
        return pare_at(err, open_failed(code, err), "%s", path);
    rc = read_entries(a, z, list, n, err);
    zip_discard(z);
    return pare_at(err, rc, "%s", path);
}

/* ---- writing ------------------------------------------------------------------ */

static int add_entry(struct pare_arena *a, zip_t *z, const struct pare_named *e,
                     struct pare_err *err)
{
    const char *name = pare_sprintf(a, "%s.npy", e->name);
    const void *bytes;
    zip_source_t *src;
    zip_int64_t i;
    size_t len;

    if (!name)
        return pare_fail(err, PARE_ENOMEM, "no memory for a name");
    PARE_TRY(pare_npy_pack(a, &e->t, &bytes, &len, err));
    src = zip_source_buffer(z, bytes, len, 0);
    i = src ? zip_file_add(z, name, src, ZIP_FL_ENC_UTF_8) : -1;
    if (i < 0) {
        zip_source_free(src);
        return pare_fail(err, PARE_EIO, "cannot add '%s': %s", name, zip_strerror(z));
    }
    /* 1980, the first year a zip file knows: the time of writing is nobody's business. */
    if (zip_set_file_compression(z, (zip_uint64_t)i, ZIP_CM_STORE, 0) ||
        zip_file_set_dostime(z, (zip_uint64_t)i, 0, 0x21, 0))
        return pare_fail(err, PARE_EIO, "cannot add '%s': %s", name, zip_strerror(z));
    return 0;
}

static int write_entries(struct pare_arena *a, const char *path, const struct pare_named *list,
                         int n, struct pare_err *err)
{
    int code = 0, rc = 0;
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);

    if (!z)
        return open_failed(code, err);
    for (int i = 0; i < n && !rc; i++)
        rc = add_entry(a, z, &list[i], err);
    if (rc) {
        zip_discard(z);
    } else if (zip_close(z)) {
        rc = pare_fail(err, PARE_EIO, "cannot write: %s", zip_strerror(z));
        zip_discard(z);
    }
    return rc;
}

int pare_npz_write(const char *path, const struct pare_named *list, int n, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    const char *tmp = a ? pare_sprintf(a, "%s.%ld.tmp", path, (long)getpid()) : NULL;
    int rc = tmp ? 0 : pare_fail(err, PARE_ENOMEM, "no memory for an array");

    if (!rc)
        rc = write_entries(a, tmp, list, n, err);
    if (!rc)
        rc = pare_file_commit(tmp, path, err);
    if (rc && tmp)
        unlink(tmp);
    pare_arena_free(a);
    return pare_at(err, rc, "%s", path);
}
