/* fault_shim.c - preloaded library that makes one system call or allocation fail.
 *
 *     LD_PRELOAD=fault_shim.so FAULT_AT=3 FAULT_KIND=full FAULT_HIT=file pare ...
 *
 * The FAULT_AT-th call that changes files fails as FAULT_KIND says, and FAULT_HIT gets its name; if
 * there are fewer calls, the file is not created.  FAULT_COUNT gets the number of calls.  Counted
 * are open for writing, write, fsync, close of what was written, rename, mkdir; not those on 0, 1,
 * 2 and on folders.
 *     full    ENOSPC        io      EIO
 *     short   a write takes a part; nothing else fails
 *     intr    EINTR, of writes only
 *     memory  malloc and its like say no, when our own code or the formats' libraries ask
 *     kernels the same, when oneDNN and the C++ library ask
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_long calls;

/* Asked for at every call: looked up once.  A race finds the same twice. */
static bool is_kind(const char *kind)
{
    static const char *_Atomic found;
    const char *k = found;

    if (!k) {
        k = getenv("FAULT_KIND");
        k = k ? k : "";
        found = k;
    }
    return !strcmp(k, kind);
}

/* Is this the call?  Says so in the file, without the functions below. */
static bool hit(const char *name)
{
    const char *at = getenv("FAULT_AT"), *to = getenv("FAULT_HIT");
    int fd;

    if (!at || ++calls != strtol(at, NULL, 10))
        return false;
    fd = to ? (int)syscall(SYS_open, to, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd >= 0) {
        (void)!syscall(SYS_write, fd, name, strlen(name));
        syscall(SYS_close, fd);
    }
    return true;
}

static bool of_files(void)
{
    return is_kind("full") || is_kind("io");
}

static int no(void)
{
    errno = is_kind("full") ? ENOSPC : EIO;
    return -1;
}

/* A regular file that may be written. */
static bool counts(int fd)
{
    struct stat st;
    long how;

    if (fd <= 2 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return false;
    how = syscall(SYS_fcntl, fd, F_GETFL);
    return (how & O_ACCMODE) != O_RDONLY;
}

EXPORT ssize_t write(int fd, const void *data, size_t n)
{
    if (!is_kind("memory") && !is_kind("kernels") && counts(fd) && hit("write")) {
        if (is_kind("short") && n > 1) {
            n /= 2;
        } else if (is_kind("intr")) {
            errno = EINTR;
            return -1;
        } else if (of_files()) {
            return no();
        }
    }
    return syscall(SYS_write, fd, data, n);
}

/* No test pulls the plug: what is said to be on the disk may be on its way, which takes no time. */
EXPORT int fsync(int fd)
{
    if (of_files() && counts(fd) && hit("fsync"))
        return no();
    return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

/* What was opened to be written; a duplicate that is only held may be closed as it likes. */
static bool opened[1024];

EXPORT int close(int fd)
{
    bool mine = fd >= 0 && fd < 1024 && opened[fd];
    bool fails = of_files() && mine && counts(fd) && hit("close");
    int rc = (int)syscall(SYS_close, fd);

    if (mine)
        opened[fd] = false;
    return fails ? no() : rc;
}

EXPORT int rename(const char *from, const char *to)
{
    if (of_files() && hit("rename"))
        return no();
    return (int)syscall(SYS_rename, from, to);
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    if (of_files() && hit("rename"))
        return no();
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    if (of_files() && hit("mkdir"))
        return no();
    return (int)syscall(SYS_mkdir, path, mode);
}

static int open_at(int dir, const char *path, int how, mode_t mode)
{
    int fd;

    if (of_files() && (how & O_ACCMODE) != O_RDONLY && strncmp(path, "/dev/", 5) != 0 &&
        strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0 && hit("open"))
        return no();
    fd = (int)syscall(SYS_openat, dir, path, how, mode);
    if (fd >= 0 && fd < 1024)
        opened[fd] = (how & O_ACCMODE) != O_RDONLY;
    return fd;
}

EXPORT int open(const char *path, int how, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, how);
    mode = how & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_at(AT_FDCWD, path, how, mode);
}

EXPORT int openat(int dir, const char *path, int how, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, how);
    mode = how & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_at(dir, path, how, mode);
}

/* Write the number of calls, for a first run. */
__attribute__((destructor)) static void tell(void)
{
    const char *to = getenv("FAULT_COUNT");
    char text[32];
    int fd = to ? (int)syscall(SYS_open, to, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

    if (fd >= 0) {
        snprintf(text, sizeof(text), "%ld\n", (long)calls);
        (void)!syscall(SYS_write, fd, text, strlen(text));
        syscall(SYS_close, fd);
    }
}

/* ---- memory: not with the sanitizer, which has its own allocator ------------------- */
#ifndef PARE_ASAN

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

/* Is the caller in one of these files?  dladdr() takes most of the time of a command, so what it
 * said of a place is kept, in a word: the place, and in its lowest bit the answer. */
static bool is_of(const void *caller, const char *const *who)
{
    static _Atomic uintptr_t known[4096];
    uintptr_t place = (uintptr_t)caller, slot = (place >> 2) % 4096, was = known[slot];
    bool ours = false;
    Dl_info info;

    if (was >> 1 == place)
        return was & 1;
    if (dladdr(caller, &info) && info.dli_fname)
        for (; *who && !ours; who++)
            ours = strstr(info.dli_fname, *who) != NULL;
    known[slot] = place << 1 | ours;
    return ours;
}

/* Threads and the linker end the process when they get none: not theirs. */
static bool asks(const void *caller)
{
    static const char *const formats[] = { "/pare",   "/libjansson", "/libzip", "/libprotobuf-c",
                                           "/libpng", "/libjpeg",    "/libz.",  NULL };
    static const char *const kernels[] = { "/libdnnl", "/libstdc++", NULL };
    const char *const *who = is_kind("kernels") ? kernels : formats;
    static _Thread_local bool inside;
    bool ours;

    if (inside || !(is_kind("memory") || is_kind("kernels")))
        return false;
    inside = true;
    ours = is_of(caller, who) && hit("malloc");
    inside = false;
    if (ours)
        errno = ENOMEM;
    return ours;
}

EXPORT void *malloc(size_t n)
{
    return asks(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    return asks(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

EXPORT int posix_memalign(void **p, size_t align, size_t n)
{
    if (asks(__builtin_return_address(0)))
        return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}

EXPORT void *realloc(void *p, size_t n)
{
    return asks(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}
#endif
