/* omp_spin.c - make OpenMP's threads give up waiting soon.
 *
 * GNU OpenMP's threads spin between parallel regions for long; when another process needs the
 * core, everything crawls (a LeNet step took 17 times as long).  With a short spin it takes 2-3
 * times as long, and nothing is lost on an idle machine.  The library reads its settings before
 * main(), so they are made before that; whoever set them himself is left alone.
 *
 * That early, setenv() is in vain: the C library is not there yet, and later takes the system's
 * list.  There is no room in it for another line, so one that only shells care for makes way.
 */
#include <stddef.h>
#include <string.h>

#if defined(__linux__) && defined(__GLIBC__) && !defined(PARE_ASAN) && !defined(PARE_TSAN)
static char **find(char **env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++)
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return env;
    return NULL;
}

static void set_spin(int argc, char **argv, char **env)
{
    static const char *const useless[] = { "_", "OLDPWD", "SHLVL", "LS_COLORS" };
    static char spin[] = "GOMP_SPINCOUNT=10000";

    (void)argc, (void)argv;
    if (find(env, "OMP_WAIT_POLICY") || find(env, "GOMP_SPINCOUNT"))
        return;
    for (size_t i = 0; i < sizeof(useless) / sizeof(*useless); i++) {
        char **line = find(env, useless[i]);

        if (line) {
            *line = spin;
            return;
        }
    }
}

__attribute__((section(".preinit_array"), used)) static void (*const hook)(int, char **,
                                                                           char **) = set_spin;
#endif
