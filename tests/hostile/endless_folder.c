/* endless_folder.c - preloaded library that simulates a damaged file system: a folder called
 * "endless" has infinitely many files. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static DIR *endless;

DIR *opendir(const char *name)
{
    DIR *(*real)(const char *), *d;
    void *symbol = dlsym(RTLD_NEXT, "opendir");
    size_t n = strlen(name);

    memcpy(&real, &symbol, sizeof(real));
    d = real(name);
    if (n >= 7 && !strcmp(name + n - 7, "endless"))
        endless = d;
    else if (d == endless) /* the memory of a folder that was closed */
        endless = NULL;
    return d;
}

struct dirent *readdir(DIR *d)
{
    static struct dirent e;
    static unsigned count;
    struct dirent *(*real)(DIR *);
    void *symbol;

    if (endless && d == endless) {
        snprintf(e.d_name, sizeof(e.d_name), "%u", count++);
        return &e;
    }
    symbol = dlsym(RTLD_NEXT, "readdir");
    memcpy(&real, &symbol, sizeof(real));
    return real(d);
}
