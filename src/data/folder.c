/* folder.c - list the files of a folder, sorted by name. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "source.h"
#include "../base/arena.h"
#include "../base/limits.h"

bool pare_is_dir(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool pare_is_file(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode);
}

const char *pare_file_in(struct pare_arena *a, const char *dir, const char *name)
{
    const char *p = pare_sprintf(a, "%s/%s", dir, name);

    return p && pare_is_file(p) ? p : NULL;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int pare_dir_list(struct pare_arena *a, const char *dir, const char *const **names, int *n,
                  struct pare_err *err)
{
    DIR *d = opendir(dir);
    const char **list = NULL;
    int cap = 0, rc = 0;

    *n = 0;
    if (!d)
        return pare_fail(err, PARE_EIO, "cannot open: %s", strerror(errno));
    for (struct dirent *e = readdir(d); e && !rc; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        if (*n == PARE_FOLDER_FILES) {
            rc = pare_fail(err, PARE_ELIMIT, "more than %d files, which is the limit",
                           PARE_FOLDER_FILES);
            break;
        }
        list = pare_grow(a, list, *n, &cap, sizeof(*list));
        if (!list || !(list[*n] = pare_strdup(a, e->d_name)))
            rc = pare_no_memory(err, "for %d names", *n);
        else
            ++*n;
    }
    closedir(d);
    if (!rc && *n)
        qsort(list, (size_t)*n, sizeof(*list), by_bytes);
    *names = list;
    return rc;
}
