/* memory_file.h - bytes in memory as a named file, for functions that open files. */
#ifndef PARE_FUZZ_MEMORY_FILE_H
#define PARE_FUZZ_MEMORY_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory_file {
    int fd;
    char path[64];
};

static inline struct memory_file memory_file(const void *data, size_t size)
{
    struct memory_file f = { .fd = memfd_create("fuzz", MFD_CLOEXEC) };

    if (f.fd < 0 || (size && write(f.fd, data, size) != (ssize_t)size))
        abort();
    snprintf(f.path, sizeof(f.path), "/proc/self/fd/%d", f.fd);
    return f;
}

#endif
