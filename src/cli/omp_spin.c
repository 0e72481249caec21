/* omp_spin.c - shorten the time that OpenMP threads spin while waiting.
 *
 * Threads of GNU OpenMP spin for long between parallel regions; if another process needs the core,
 * everything slows down (a LeNet step took 17 times as long).  With a short spin it takes 2-3 times
 * as long, and an idle machine loses nothing.  libgomp reads its settings before main(), so they
 * are set earlier, in .preinit_array, unless the user has set them.
 *
 * setenv() does not work that early: the C library is not initialized and later uses the
 * environment of the kernel.  That has no room for another entry, so one that only shells use is
 * replaced.
 */
#include <stddef.h>
#include <string.h>

#if defined(__linux__) && defined(__GLIBC__) && !defined(PARE_ASAN) && !defined(PARE_TSAN)
static char **find_variable(char **env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++)
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return env;
    return NULL;
}

static void set_spin(int argc, char **argv, char **env)
{
    static const char *const replaceable[] = { "_", "OLDPWD", "SHLVL", "LS_COLORS" };
    static char spin[] = "GOMP_SPINCOUNT=10000";

    (void)argc, (void)argv;
    if (find_variable(env, "OMP_WAIT_POLICY") || find_variable(env, "GOMP_SPINCOUNT"))
        return;
    for (size_t i = 0; i < sizeof(replaceable) / sizeof(*replaceable); i++) {
        char **line = find_variable(env, replaceable[i]);

        if (line) {
            *line = spin;
            return;
        }
    }
}

__attribute__((section(".preinit_array"), used)) static void (*const hook)(int, char **,
                                                                           char **) = set_spin;
#endif
