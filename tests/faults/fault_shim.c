/* fault_shim.c - preloaded library that makes one system call or allocation fail.
 *
 *     LD_PRELOAD=fault_shim.so FAULT_AT=3 FAULT_KIND=full FAULT_HIT=file pare ...
 *
 * Call number FAULT_AT fails as FAULT_KIND specifies, and the name of its function is written to
 * the file FAULT_HIT, which is not created if there are fewer calls.  The number of calls is
 * written to the file FAULT_COUNT.  Counted calls: open for writing, write, fsync and close of
 * files opened for writing, rename, mkdir; descriptors 0, 1 and 2 and folders are not counted.
 *     full     ENOSPC
 *     io       EIO
 *     short    a write accepts only half of its bytes; no other call fails
 *     intr     EINTR, writes only
 *     memory   malloc, calloc, realloc and posix_memalign called by Pare or by the libraries that
 *              read and write file formats return NULL
 *     kernels  the same, called by oneDNN and the C++ library
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

/* Called at every intercepted call, so the variable is looked up once; threads that race store the
 * same value. */
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

/* Counts a call and tells whether it must fail; if so, writes its name to FAULT_HIT by system calls
 * that are not intercepted. */
static bool must_fail(const char *name)
{
    const char *at = getenv("FAULT_AT"), *to = getenv("FAULT_HIT");
    int fd;

    if (!at || ++calls != strtol(at, NULL, 10))
        return false;
    fd = to ? (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd >= 0) {
        (void)!syscall(SYS_write, fd, name, strlen(name));
        syscall(SYS_close, fd);
    }
    return true;
}

static bool is_file_fault(void)
{
    return is_kind("full") || is_kind("io");
}

static int fail(void)
{
    errno = is_kind("full") ? ENOSPC : EIO;
    return -1;
}

/* A regular file opened for writing. */
static bool is_counted(int fd)
{
    struct stat st;
    long flags;

    if (fd <= 2 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return false;
    flags = syscall(SYS_fcntl, fd, F_GETFL);
    return (flags & O_ACCMODE) != O_RDONLY;
}

EXPORT ssize_t write(int fd, const void *data, size_t n)
{
    if (!is_kind("memory") && !is_kind("kernels") && is_counted(fd) && must_fail("write")) {
        if (is_kind("short") && n > 1) {
            n /= 2;
        } else if (is_kind("intr")) {
            errno = EINTR;
            return -1;
        } else if (is_file_fault()) {
            return fail();
        }
    }
    return syscall(SYS_write, fd, data, n);
}

/* No test cuts the power, so data need not reach the disk; that saves time. */
EXPORT int fsync(int fd)
{
    if (is_file_fault() && is_counted(fd) && must_fail("fsync"))
        return fail();
    return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

/* Descriptors that open() returned for writing; closing a duplicate of one is not counted. */
static bool opened[1024];

EXPORT int close(int fd)
{
    bool mine = fd >= 0 && fd < 1024 && opened[fd];
    bool fails = is_file_fault() && mine && is_counted(fd) && must_fail("close");
    int rc = (int)syscall(SYS_close, fd);

    if (mine)
        opened[fd] = false;
    return fails ? fail() : rc;
}

EXPORT int rename(const char *from, const char *to)
{
    if (is_file_fault() && must_fail("rename"))
        return fail();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    if (is_file_fault() && must_fail("rename"))
        return fail();
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    if (is_file_fault() && must_fail("mkdir"))
        return fail();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    int fd;

    if (is_file_fault() && (flags & O_ACCMODE) != O_RDONLY && strncmp(path, "/dev/", 5) != 0 &&
        strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0 && must_fail("open"))
        return fail();
    fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && fd < 1024)
        opened[fd] = (flags & O_ACCMODE) != O_RDONLY;
    return fd;
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_at(dir, path, flags, mode);
}

/* Write the number of calls, for a first run. */
__attribute__((destructor)) static void write_count(void)
{
    const char *to = getenv("FAULT_COUNT");
    char text[32];
    int fd = to ? (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

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

/* Is the caller in one of these libraries?  dladdr() would take most of the time of a command, so
 * its answers are cached: each entry holds a caller's address, and the answer in its lowest bit. */
static bool is_called_by(const void *caller, const char *const *library)
{
    static _Atomic uintptr_t cache[4096];
    uintptr_t address = (uintptr_t)caller, slot = (address >> 2) % 4096, entry = cache[slot];
    bool found = false;
    Dl_info info;

    if (entry >> 1 == address)
        return entry & 1;
    if (dladdr(caller, &info) && info.dli_fname)
        for (; *library && !found; library++)
            found = strstr(info.dli_fname, *library) != NULL;
    cache[slot] = address << 1 | found;
    return found;
}

/* Allocations of the thread library and the dynamic linker do not fail: that ends the process. */
static bool allocation_fails(const void *caller)
{
    static const char *const formats[] = { "/pare",   "/libjansson", "/libprotobuf-c",
                                           "/libpng", "/libjpeg",    "/libz.",
                                           NULL };
    static const char *const kernels[] = { "/libdnnl", "/libstdc++", NULL };
    const char *const *library = is_kind("kernels") ? kernels : formats;
    static _Thread_local bool inside;
    bool fails;

    if (inside || !(is_kind("memory") || is_kind("kernels")))
        return false;
    inside = true;
    fails = is_called_by(caller, library) && must_fail("malloc");
    inside = false;
    if (fails)
        errno = ENOMEM;
    return fails;
}

EXPORT void *malloc(size_t n)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

EXPORT int posix_memalign(void **p, size_t align, size_t n)
{
    if (allocation_fails(__builtin_return_address(0)))
        return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}

EXPORT void *realloc(void *p, size_t n)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}
#endif
