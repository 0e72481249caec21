/* slow_sync.c - a disk that never gets done: loaded before the C library, fsync() waits. */
#include <unistd.h>

int fsync(int fd)
{
    (void)fd;
    sleep(30);
    return 0;
}
