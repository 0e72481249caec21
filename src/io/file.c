/* file.c - read whole files; write files atomically by rename. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/temp_file.h"

bool pare_ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);

    return n >= k && !strcmp(s + n - k, suffix);
}

bool pare_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool pare_same_path(const char *a, const char *b)
{
    return !strcmp(a, b) || pare_same_file(a, b);
}

static int read_all(int fd, char *p, size_t len, struct pare_err *err)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = read(fd, p + at, len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pare_fail(err, PARE_EIO, "cannot read: %s", strerror(errno));
        if (!n)
            return pare_fail(err, PARE_EIO, "the file was truncated while it was read");
        at += (size_t)n;
    }
    return 0;
}

/* Open a regular file within the size limit; the caller closes fd unless it is -1.  O_NONBLOCK:
 * do not wait for the writer of a pipe. */
static int open_file(const char *path, size_t most, int *fd, size_t *len, struct pare_err *err)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return pare_fail(err, PARE_EIO, "cannot open: %s", strerror(errno));
    if (fstat(*fd, &st) || !S_ISREG(st.st_mode))
        return pare_fail(err, PARE_EIO, "not a regular file");
    if ((uintmax_t)st.st_size > most)
        return pare_fail(err, PARE_ELIMIT, "the file has %jd bytes, at most %zu are supported",
                         (intmax_t)st.st_size, most);
    *len = (size_t)st.st_size;
    return 0;
}

void *pare_file_block(struct pare_arena *a, size_t len)
{
    const size_t page = 4096, least = (size_t)1 << 22;
    char *block = pare_alloc_raw(a, len, 1), *from;

    if (!block || len < least)
        return block;
    from = block + (page - (uintptr_t)block % page) % page;
    (void)madvise(from, (len - (size_t)(from - block)) / page * page, MADV_HUGEPAGE);
    return block;
}

int pare_file_read_most(struct pare_arena *a, const char *path, size_t most, const void **data,
                        size_t *len, struct pare_err *err)
{
    int fd, rc = open_file(path, most, &fd, len, err);
    char *p;

    if (rc)
        goto out;
    p = pare_file_block(a, *len);
    *data = p;
    rc = p ? read_all(fd, p, *len, err) : pare_no_memory(err, "for a file of %zu bytes", *len);
out:
    if (fd >= 0)
        close(fd);
    return rc;
}

int pare_file_read(struct pare_arena *a, const char *path, const void **data, size_t *len,
                   struct pare_err *err)
{
    return pare_file_read_most(a, path, PARE_IO_QUOTA, data, len, err);
}

int pare_file_look(const char *path, void *head, size_t room, struct pare_file_metadata *f,
                   struct pare_err *err)
{
    int fd, rc = open_file(path, PARE_IO_QUOTA, &fd, &f->size, err);

    if (!rc) {
        f->head = f->size < room ? f->size : room;
        rc = read_all(fd, head, f->head, err);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int write_all(int fd, const char *p, size_t len, struct pare_err *err)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = write(fd, p + at, len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return pare_fail(err, PARE_EIO, "cannot write: %s", strerror(n ? errno : ENOSPC));
        at += (size_t)n;
    }
    return 0;
}

int pare_file_commit(const char *tmp, const char *path, struct pare_err *err)
{
    int fd, rc = 0;
    struct stat st;

    if (!stat(path, &st) && !S_ISREG(st.st_mode)) /* a device would be replaced by a file */
        return pare_fail(err, PARE_EIO, "exists and is not a regular file");
    fd = open(tmp, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return pare_fail(err, PARE_EIO, "cannot open: %s", strerror(errno));
    if (fsync(fd) && errno != EINVAL && errno != EROFS)
        rc = pare_fail(err, PARE_EIO, "cannot write: %s", strerror(errno));
    if (close(fd) && !rc)
        rc = pare_fail(err, PARE_EIO, "cannot write: %s", strerror(errno));
    if (!rc && rename(tmp, path))
        rc = pare_fail(err, PARE_EIO, "cannot rename: %s", strerror(errno));
    return rc;
}

/* An existing file of this name was left by a killed process with the same process id. */
static int create(const char *tmp, struct pare_err *err)
{
    const int how = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = open(tmp, how, 0666);

    if (fd < 0 && errno == EEXIST && !unlink(tmp))
        fd = open(tmp, how, 0666);
    if (fd < 0)
        pare_fail(err, PARE_EIO, "cannot create: %s", strerror(errno));
    return fd;
}

int pare_file_write_parts(const char *path, const struct pare_bytes *part, int n,
                          struct pare_err *err)
{
    char tmp[PATH_MAX];
    int fd, held, rc = 0;

    if (snprintf(tmp, sizeof(tmp), "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof(tmp))
        return pare_fail(err, PARE_EIO, "the file name is too long");
    pare_temp_sweep_folder(path);
    fd = create(tmp, err);
    if (fd < 0)
        return err->code;
    pare_temp_hold(fd);
    held = dup(fd); /* keep it open: the crash handler removes the process's open temporary files */
    for (int i = 0; i < n && !rc; i++)
        rc = write_all(fd, part[i].data, part[i].len, err);
    if (close(fd) && !rc)
        rc = pare_fail(err, PARE_EIO, "cannot write: %s", strerror(errno));
    if (!rc)
        rc = pare_file_commit(tmp, path, err);
    if (rc)
        unlink(tmp);
    if (held >= 0)
        close(held);
    return rc;
}

int pare_file_write(const char *path, const void *data, size_t len, struct pare_err *err)
{
    return pare_file_write_parts(path, &(struct pare_bytes){ data, len }, 1, err);
}
