/* version.c - version and binary interface of the library. */
#include <pare/base.h>

#define TEXT(x) #x
#define VERSION_TEXT(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

/* The VERSION file, the macros of base.h and the linked library agree. */
_Static_assert(sizeof(PARE_VERSION) ==
                   sizeof(VERSION_TEXT(PARE_VERSION_MAJOR, PARE_VERSION_MINOR, PARE_VERSION_PATCH)),
               "base.h has another version than the VERSION file");

const char *pare_version(void)
{
    return PARE_VERSION;
}

unsigned pare_abi(void)
{
    return PARE_ABI;
}
