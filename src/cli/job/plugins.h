/* plugins.h - load the plugins of a command. */
#ifndef PARE_CLI_PLUGINS_H
#define PARE_CLI_PLUGINS_H

#include "../cli.h"

/* Add the algorithms of all plugins to the registry: shared objects by the library, files that end
 * in .py by the program that runs the command. */
int pare_plugins_load(const struct pare_cli *c, struct pare_registry *g,
                      const struct pare_strs *plugin, struct pare_err *err);

#endif
