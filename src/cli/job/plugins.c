/* plugins.c - plugins of --plugin: shared objects, and Python files through the host program. */
#include "plugins.h"

#include <string.h>

#include <pare/session.h>

static bool is_python(const char *path)
{
    size_t n = strlen(path);

    return n >= 3 && !strcmp(path + n - 3, ".py");
}

static int load_python(const struct pare_host *host, struct pare_registry *g, const char *path,
                       struct pare_err *err)
{
    if (!host || !host->load_plugin)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "%s: is a plugin in Python, which this program cannot load; run the same "
                         "command as 'python3 -m pare ...'",
                         path);
    return pare_at(err, host->load_plugin(host->user, g, path, err), "%s", path);
}

int pare_plugins_load(const struct pare_cli *c, struct pare_registry *g,
                      const struct pare_strs *plugin, struct pare_err *err)
{
    for (int i = 0; i < plugin->n; i++)
        PARE_TRY(is_python(plugin->v[i]) ? load_python(c->host, g, plugin->v[i], err)
                                         : pare_plugin_load(g, plugin->v[i], err));
    return 0;
}
