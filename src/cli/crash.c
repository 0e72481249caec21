/* crash.c - exit at once with a message and remove unfinished files.
 *
 * Models are mapped.  If such a file is truncated, or its disk fails, the next access to a missing
 * page raises SIGBUS anywhere in the program, and nothing can continue from there.  The same holds
 * when oneDNN runs out of memory: it throws an exception that C cannot catch, or writes to NULL.
 */
#include "crash.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_FILES 4096 /* file descriptors that are checked */
#define NEAR_NULL 65536 /* addresses below are fields of a NULL struct */

/* ---- unfinished files ------------------------------------------------------------------------ */

/* Is this a temporary file of this process?  The names contain the process ID. */
static bool is_ours(const char *path)
{
    const char *name = strrchr(path, '/');
    char dot[32], dash[32];
    size_t n = name ? strlen(name) : 0;

    snprintf(dot, sizeof(dot), ".%ld.tmp", (long)getpid());
    snprintf(dash, sizeof(dash), "/.pare-%ld-", (long)getpid());
    return n > 4 && !strcmp(name + n - 4, ".tmp") &&
           ((n > strlen(dot) && !strcmp(name + n - strlen(dot), dot)) ||
            !strncmp(name, dash, strlen(dash)));
}

/* Temporary files are open until they are renamed, so the open files are searched.  opendir() would
 * allocate memory. */
static void remove_unfinished(void)
{
    char link[sizeof("/proc/self/fd/") + 16], path[PATH_MAX];

    for (int fd = 3; fd < MOST_FILES; fd++) {
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (n <= 0)
            continue;
        path[n] = '\0';
        if (is_ours(path))
            unlink(path);
    }
}

_Noreturn void pare_crash_exit(const char *text)
{
    remove_unfinished();
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
    _exit(1);
}

/* ---- lost pages ------------------------------------------------------------------------------ */

/* The file name in a line of /proc/self/maps, "7f00-7f20 r--p 00000000 fe:00 1234   /folder/name",
 * if its range contains the address; else NULL. */
static const char *name_at(char *line, uintptr_t address)
{
    char *end = NULL, *name;
    uintptr_t from = strtoul(line, &end, 16);
    uintptr_t to = *end == '-' ? strtoul(end + 1, NULL, 16) : 0;

    if (address < from || address >= to)
        return NULL;
    name = strrchr(line, '/');
    return name && name[1] ? name + 1 : NULL;
}

/* Name of the file mapped at the address, in `line`; NULL: none. */
static const char *file_at(uintptr_t address, char *line, size_t room)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const char *name = NULL;
    char buf[4096];
    size_t n = 0;
    ssize_t got;

    while (fd >= 0 && !name && (got = read(fd, buf, sizeof(buf))) > 0)
        for (ssize_t i = 0; i < got && !name; i++) {
            if (buf[i] != '\n') {
                line[n] = buf[i];
                n += n + 1 < room;
                continue;
            }
            line[n] = '\0';
            n = 0;
            name = name_at(line, address);
        }
    if (fd >= 0)
        close(fd);
    return name;
}

/* The first thread that gets here ends the process; the others wait. */
static _Noreturn void end_by_signal(char *text)
{
    static atomic_flag ending = ATOMIC_FLAG_INIT;

    while (atomic_flag_test_and_set(&ending))
        pause();
    for (char *p = text; p[1]; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    pare_crash_exit(text);
}

/* Return to the faulting instruction with the default action, which dumps core. */
static void let_crash(int signal)
{
    struct sigaction usual = { .sa_handler = SIG_DFL };

    sigaction(signal, &usual, NULL);
}

static void on_lost_page(int signal, siginfo_t *info, void *unused)
{
    char line[PATH_MAX + 128], text[PATH_MAX + 256];
    const char *name = file_at((uintptr_t)info->si_addr, line, sizeof(line));

    (void)unused;
    if (!name) {
        let_crash(signal);
        return;
    }
    snprintf(text, sizeof(text),
             "pare: %s: a part of the file disappeared: it was truncated while in use, or its "
             "disk failed; unfinished files were removed\n",
             name);
    end_by_signal(text);
}

/* ---- libraries out of memory ----------------------------------------------------------------- */

static const char *limit; /* value of --max-memory, or NULL */

static void describe_no_memory(char *text, size_t size)
{
    snprintf(text, size,
             "pare: a library failed, most likely out of memory%s%s%s; unfinished files were "
             "removed\n",
             limit ? " (--max-memory is " : "", limit ? limit : "", limit ? ")" : "");
}

static void on_terminate(void)
{
    char text[256];

    describe_no_memory(text, sizeof(text));
    pare_crash_exit(text);
}

/* std::set_terminate(), if oneDNN has loaded the C++ library. */
static void catch_throws(void)
{
#ifdef PARE_STATIC
    (void)on_terminate; /* without oneDNN nothing throws */
#else
    typedef void (*handler)(void);
    handler (*set)(handler);
    void *symbol = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");

    memcpy(&set, &symbol, sizeof(set));
    if (symbol)
        set(on_terminate);
#endif
}

/* oneDNN does not check every allocation. */
static void on_null(int signal, siginfo_t *info, void *unused)
{
    char text[256];

    (void)unused;
    if ((uintptr_t)info->si_addr >= NEAR_NULL) {
        let_crash(signal);
        return;
    }
    describe_no_memory(text, sizeof(text));
    end_by_signal(text);
}

/* ---- installation ---------------------------------------------------------------------------- */

static void catch_signal(int signal, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    sigemptyset(&a.sa_mask);
    sigaction(signal, &a, NULL);
}

void pare_crash_handlers_install(const char *max_memory)
{
    static char memory[1 << 16]; /* job/train_job.c explains why a separate stack is needed */
    const stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };

    limit = max_memory;
    sigaltstack(&stack, NULL);
    catch_signal(SIGBUS, on_lost_page);
    catch_throws();
    if (max_memory) /* otherwise a NULL access is a bug */
        catch_signal(SIGSEGV, on_null);
}
