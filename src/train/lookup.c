/* lookup.c - find a loss, optimizer or schedule by name. */
#include "lookup.h"

#include <stdio.h>
#include <string.h>

#include "../base/options.h"

int pare_lookup(const char *what, const char *name, const char *const *names, int n, int *i,
                struct pare_err *err)
{
    const char *near = pare_nearest(name, names, n);
    char list[256] = "";
    size_t used = 0;

    for (*i = 0; *i < n; ++*i)
        if (!strcmp(names[*i], name))
            return 0;
    if (near)
        return pare_fail(err, PARE_ECONFIG, "there is no %s '%s' (did you mean '%s'?)", what, name,
                         near);
    for (int k = 0; k < n && used < sizeof(list); k++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", k ? ", " : "", names[k]);
    return pare_fail(err, PARE_ECONFIG, "there is no %s '%s', only %s", what, name, list);
}
