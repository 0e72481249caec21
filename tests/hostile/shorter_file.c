/* shorter_file.c - preloaded library that truncates a file called "cut.bin" shortly after it was
 * mapped. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t), *p;
    void *symbol = dlsym(RTLD_NEXT, "mmap");
    char link[64], path[4096];
    ssize_t len;

    memcpy(&real, &symbol, sizeof(real));
    p = real(at, n, prot, flags, fd, offset);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = fd < 0 ? 0 : readlink(link, path, sizeof(path) - 1);
    if (len > 8 && !memcmp(path + len - 8, "/cut.bin", 8)) {
        path[len] = '\0';
        if (truncate(path, 0))
            perror(path);
    }
    return p;
}
