/* version.c - pare_version(): the number in the VERSION file. */
#include <pare/pare.h>

const char *pare_version(void)
{
    return PARE_VERSION;
}
