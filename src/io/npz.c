/* npz.c - NumPy's .npz format: named tensors in a zip archive. */
#include "npz.h"

#include <string.h>

#include "file.h"
#include "npy.h"
#include "zip_read.h"
#include "zip_store.h"
#include "../base/arena.h"
#include "../base/map.h"

/* ---- reading ------------------------------------------------------------------ */

static int read_entry(struct pare_arena *a, const struct pare_zip *z, const struct pare_zip_item *e,
                      struct pare_tensor *t, struct pare_err *err)
{
    char *p = pare_alloc_raw(a, (size_t)e->size, 1);

    if (!p)
        return pare_no_memory(err, "for %llu bytes", (unsigned long long)e->size);
    PARE_TRY(pare_zip_read(z, e, p, (size_t)e->size, err));
    return pare_npy_parse(a, p, (size_t)e->size, t, err);
}

static int read_entries(struct pare_arena *a, const struct pare_zip *z, struct pare_named **list,
                        int *n, struct pare_err *err)
{
    *list = pare_alloc(a, (size_t)z->n, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for %d entries", z->n);
    for (*n = 0; *n < z->n; ++*n) {
        const char *name = z->item[*n].name;
        struct pare_named *e = *list + *n;
        size_t len = strlen(name);

        if (len < 4 || strcmp(name + len - 4, ".npy") != 0)
            return pare_fail(err, PARE_EUNSUPPORTED, "entry '%.128s' is not a .npy", name);
        e->name = pare_strndup(a, name, len - 4);
        if (!e->name)
            return pare_no_memory(err, "for a name");
        PARE_TRY(
            pare_at(err, read_entry(a, z, &z->item[*n], &e->t, err), "entry '%.128s'", e->name));
    }
    return 0;
}

int pare_npz_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                  struct pare_err *err)
{
    struct pare_zip z;
    int rc = pare_zip_open(path, &z, err);

    *n = 0;
    if (!rc)
        rc = pare_zip_check(&z, err);
    if (!rc)
        rc = read_entries(a, &z, list, n, err);
    pare_zip_close(&z);
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
