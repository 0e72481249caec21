/* omp_spin.c - shorten the time that OpenMP threads spin while waiting.
 *
 * Threads of GNU OpenMP spin for long between parallel regions; if another process needs the core,
 * everything slows down: each parallel region costs two spins.  A short spin, of some 40 us, is
 * enough to bridge the single-threaded steps between regions, so that an idle machine loses
 * nothing.  libgomp reads GOMP_SPINCOUNT before main(), so it is set earlier, in .preinit_array,
 * unless the user has set it.
 *
 * setenv() does not work that early, and the kernel's environment has no room for another entry.
 * So an entry that only shells use is replaced until main() restores it: neither this process nor
 * its children ever see the change.  Executing the command again with the variable set would do the
 * same, but doubles the time that the command needs to start.
 */
#include "omp_spin.h"

#include <stddef.h>
#include <string.h>

static char **borrowed, *original; /* the replaced entry, and its text */

void pare_omp_spin_restore(void)
{
    if (borrowed)
        *borrowed = original;
    borrowed = NULL;
}

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
    static char spin[] = "GOMP_SPINCOUNT=1000";

    (void)argc, (void)argv;
    if (find_variable(env, "OMP_WAIT_POLICY") || find_variable(env, "GOMP_SPINCOUNT"))
        return;
    for (size_t i = 0; !borrowed && i < sizeof(replaceable) / sizeof(*replaceable); i++)
        borrowed = find_variable(env, replaceable[i]);
    if (borrowed) {
        original = *borrowed;
        *borrowed = spin;
    }
}

__attribute__((section(".preinit_array"), used)) static void (*const hook)(int, char **,
                                                                           char **) = set_spin;
#endif
