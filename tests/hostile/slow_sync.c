/* slow_sync.c - preloaded library that simulates a disk that hangs: fsync() waits. */
#include <unistd.h>

int fsync(int fd)
{
    (void)fd;
    sleep(30);
    return 0;
}
