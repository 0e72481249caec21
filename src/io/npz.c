/* npz.c - NumPy's .npz format: named tensors in a zip archive. */
#include "npz.h"

#include <string.h>

#include <zip.h>

#include "file.h"
#include "npy.h"
#include "zip_check.h"
#include "zip_store.h"
#include "../base/arena.h"
#include "../base/map.h"

/* ---- reading ------------------------------------------------------------------ */

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
        rc = pare_no_memory(err, "for %llu bytes", (unsigned long long)st->size);
    while (!rc && at < st->size) {
        zip_int64_t n = zip_fread(f, p + at, st->size - at);

        if (n <= 0)
            rc = pare_fail(err, PARE_EFORMAT, "%s",
                           n < 0 ? zip_file_strerror(f)
                                 : "shorter than the archive's directory says");
        else
            at += (zip_uint64_t)n;
    }
    /* libzip compares the checksum when the end is read. */
    if (!rc && zip_fread(f, &more, 1) != 0)
        rc = pare_fail(err, PARE_EFORMAT,
                       "longer than the archive's directory says, or its checksum is wrong");
    if (!rc)
        rc = pare_npy_parse(a, p, (size_t)st->size, t, err);
    zip_fclose(f);
    return rc;
}

static int read_entries(struct pare_arena *a, zip_t *z, struct pare_named **list, int *n,
                        struct pare_err *err)
{
    zip_int64_t count = zip_get_num_entries(z, 0);

    *list = pare_alloc(a, (size_t)count, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for %lld entries", (long long)count);
    for (*n = 0; *n < count; ++*n) {
        struct pare_named *e = *list + *n;
        zip_stat_t st;
        size_t len;

        zip_stat_init(&st);
        if (zip_stat_index(z, (zip_uint64_t)*n, 0, &st))
            return pare_fail(err, PARE_EFORMAT, "entry %d cannot be read: %s", *n, zip_strerror(z));
        len = strlen(st.name);
        if (len < 4 || strcmp(st.name + len - 4, ".npy") != 0)
            return pare_fail(err, PARE_EUNSUPPORTED, "entry '%.128s' is not a .npy", st.name);
        e->name = pare_strndup(a, st.name, len - 4);
        if (!e->name)
            return pare_no_memory(err, "for a name");
        PARE_TRY(pare_at(err, read_entry(a, z, (zip_uint64_t)*n, &st, &e->t, err), "entry '%.128s'",
                         e->name));
    }
    return 0;
}

int pare_npz_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                  struct pare_err *err)
{
    size_t file;
    zip_t *z;
    int rc = pare_zip_open(path, &z, &file, err);

    *n = 0;
    if (!rc)
        rc = read_entries(a, z, list, n, err);
    if (z)
        zip_discard(z);
    return pare_at(err, rc, "%s", path);
}

/* ---- writing ------------------------------------------------------------------ */

static int make_entries(struct pare_arena *a, const struct pare_named *list, int n,
                        struct pare_zip_entry *entry, struct pare_err *err)
{
    struct pare_map names = { 0 };

    for (int i = 0; i < n; i++) {
        if (pare_map_get(&names, list[i].name))
            return pare_fail(err, PARE_ECONFIG, "two arrays are named '%s'", list[i].name);
        PARE_TRY(pare_map_set(&names, a, list[i].name, entry, err));
        entry[i].name = pare_sprintf(a, "%s.npy", list[i].name);
        if (!entry[i].name)
            return pare_no_memory(err, "for a name");
        PARE_TRY(pare_at(err, pare_npy_parts(a, &list[i].t, entry[i].part, err), "array '%s'",
                         list[i].name));
    }
    return 0;
}

int pare_npz_write(const char *path, const struct pare_named *list, int n, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_zip_entry *entry = a ? pare_alloc(a, (size_t)n, sizeof(*entry)) : NULL;
    int rc = entry ? 0 : pare_no_memory(err, "for %d arrays", n);

    if (!rc)
        rc = make_entries(a, list, n, entry, err);
    if (!rc)
        rc = pare_zip_store(path, entry, n, err);
    pare_arena_free(a);
    return pare_at(err, rc, "%s", path);
}
