/* preinit.c - make OpenMP's threads give up waiting soon.
 *
 * GNU OpenMP's threads spin between parallel regions for long; when another process needs the
 * core, everything crawls (a LeNet step took 17 times as long).  With a short spin it takes 2-3
 * times as long, and nothing is lost on an idle machine.  The library reads its settings before
 * main(), so they are made before that; whoever set them himself is left alone.
 */
#include <stdlib.h>

#if defined(__linux__) && defined(__GLIBC__) && !defined(PARE_ASAN) && !defined(PARE_TSAN)
static void set_spin(int argc, char **argv, char **env)
{
    (void)argc, (void)argv, (void)env;
    if (!getenv("OMP_WAIT_POLICY"))
        setenv("GOMP_SPINCOUNT", "10000", 0);
}

__attribute__((section(".preinit_array"), used)) static void (*const hook)(int, char **,
                                                                           char **) = set_spin;
#endif
