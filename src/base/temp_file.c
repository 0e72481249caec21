/* temp_file.c - temporary files that are renamed when complete; cleanup after killed processes. */
#include "temp_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void pare_temp_hold(int fd)
{
    (void)flock(fd, LOCK_EX | LOCK_NB); /* without locks, the process id must do */
}

/* The process id in the name of a temporary file, or 0. */
static long process_of(const char *entry, const char *prefix)
{
    size_t len = strlen(prefix);
    char *end;
    long number;

    if (strncmp(entry, prefix, len) != 0 || entry[len] < '1' || entry[len] > '9')
        return 0;
    number = strtol(entry + len, &end, 10);
    if (*end == '-')
        end += 1 + strspn(end + 1, "0123456789abcdef");
    return number <= INT_MAX && !strcmp(end, ".tmp") ? number : 0;
}

static bool is_held(int dir, const char *entry)
{
    int fd = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    bool held;

    if (fd < 0)
        return true;
    held = fstat(fd, &st) || !S_ISREG(st.st_mode) ||
           (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    close(fd);
    return held;
}

void pare_temp_sweep(int dir, const char *prefix)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d && fd >= 0)
        close(fd);
    while (d && (e = readdir(d))) {
        long number = process_of(e->d_name, prefix);

        if (number && kill((pid_t)number, 0) && errno == ESRCH && !is_held(dir, e->d_name))
            unlinkat(dir, e->d_name, 0);
    }
    if (d)
        closedir(d);
}

void pare_temp_sweep_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX], prefix[PATH_MAX];
    int dir;

    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    snprintf(prefix, sizeof(prefix), "%s.", slash ? slash + 1 : path);
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    pare_temp_sweep(dir, prefix);
    close(dir);
}
