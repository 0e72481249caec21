/* command.h - the command `pare` inside another program.
 *
 *     char *words[] = { "pare", "prune", "m.onnx", "--sparsity", "0.5", "-o", "o.onnx", NULL };
 *     int code = pare_main(7, words, NULL);
 *
 * The only part of the library that prints.  It is for a program that adds something to the command
 * and then ends, like `python -m pare`: the command sets signal handlers and limits of the process,
 * and a timeout or a failure in the middle of a file ends the process.
 */
#ifndef PARE_COMMAND_H
#define PARE_COMMAND_H

#include <pare/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the program adds to the command. */
struct pare_host {
    size_t size; /* sizeof(struct pare_host), or 0 */

    /* Add the algorithms of a plugin in Python, --plugin x.py, to the registry.  NULL: such plugins
     * are an error.  One command may load the same file more than once, into different registries,
     * which it frees: what the descriptors point to must stay valid until pare_main() returns. */
    int (*load_plugin)(void *user, struct pare_registry *g, const char *path, struct pare_err *err);
    void *user;
};

/* Run the command with the arguments of main(), argv[0] included.  Results go to stdout, everything
 * else to stderr; both are flushed.  `host` may be NULL.  Returns the exit code: 0 success, 1
 * failure, 2 usage error, 3 a bound is missed. */
PARE_API int pare_main(int argc, char **argv, const struct pare_host *host);

#ifdef __cplusplus
}
#endif

#endif
