/* no_openat2.c - preloaded library that simulates a kernel before 5.6, without openat2(). */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...)
{
    long (*real)(long, ...), arg[6];
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    va_list ap;

    if (number == SYS_openat2) {
        errno = ENOSYS;
        return -1;
    }
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(ap, long);
    va_end(ap);
    memcpy(&real, &symbol, sizeof(real));
    return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
