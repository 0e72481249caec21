/* layer_filter.c - select layers by name or regular expression for an analysis. */
#include "layer_filter.h"

#include <string.h>

#include "../base/options.h"
#include "../base/regex.h"

static bool matches_layer(const char *listed, const char *layer)
{
    return !strncmp(listed, "re:", 3) ? pare_regex_match(listed + 3, layer)
                                      : !strcmp(listed, layer);
}

bool pare_layer_filter(const struct pare_strs *list, const char *layer)
{
    for (int i = 0; i < list->n; i++)
        if (matches_layer(list->v[i], layer))
            return true;
    return !list->n;
}

int pare_layer_filter_check(const struct pare_strs *list, const char *const *layer, int n,
                            const char *what, struct pare_err *err)
{
    for (int i = 0; i < list->n; i++) {
        const char *s = list->v[i], *near;
        bool found = false;

        if (!strncmp(s, "re:", 3))
            PARE_TRY(pare_regex_check(s + 3, err));
        for (int k = 0; k < n && !found; k++)
            found = matches_layer(s, layer[k]);
        near = found ? NULL : pare_nearest(s, layer, n);
        if (!found)
            return pare_fail(err, PARE_ECONFIG, "'%.80s' matches no layer that %s%s%.80s%s", s,
                             what, near ? " (did you mean '" : "", near ? near : "",
                             near ? "'?)" : "");
    }
    return 0;
}
