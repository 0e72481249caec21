/* crash.c - the end of the process at once: a sentence, and nothing half written is left.
 *
 * Models are mapped.  When somebody makes such a file shorter, or its disk fails, the next look at
 * a page that is gone is a signal, SIGBUS, wherever that happens to be; nothing can go on from
 * there.  Likewise with oneDNN when it gets no memory: it throws, and nobody in C catches, or it
 * writes there all the same.
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

#define MOST_FILES 4096 /* that are looked at among the open ones */
#define NEAR_NULL 65536 /* what structs that are not there have their fields at */

/* ---- what is left ---------------------------------------------------------------------------- */

/* Is this a file that we were about to rename?  Their names have the process's number. */
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

/* They are open until they get their names, so the process's open files tell which.  Without
 * opendir(), which asks for memory. */
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

/* ---- pages that are gone --------------------------------------------------------------------- */

/* A line of /proc/self/maps: "7f00-7f20 r--p 00000000 fe:00 1234   /folder/name".  The name is what
 * is wanted, if the address is there. */
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

/* Whose page it is, in `line`; NULL: nobody's. */
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

/* One thread ends the process; others that come here meanwhile wait for it. */
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

/* It happens again, and is the crash that it is. */
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
             "pare: %s: a part of the file is gone that was there: it was made shorter while it "
             "was read, or its disk fails; unfinished files were removed\n",
             name);
    end_by_signal(text);
}

/* ---- libraries without memory ---------------------------------------------------------------- */

static const char *limit; /* --max-memory, as the user gave it */

static void describe(char *text, size_t size)
{
    snprintf(text, size,
             "pare: a library gave up, most likely for lack of memory%s%s%s; unfinished files were "
             "removed\n",
             limit ? " (--max-memory is " : "", limit ? limit : "", limit ? ")" : "");
}

static void on_terminate(void)
{
    char text[256];

    describe(text, sizeof(text));
    pare_crash_exit(text);
}

/* std::set_terminate() of the library that oneDNN brings along, if it does. */
static void catch_throws(void)
{
    typedef void (*handler)(void);
    handler (*set)(handler);
    void *symbol = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");

    memcpy(&set, &symbol, sizeof(set));
    if (symbol)
        set(on_terminate);
}

/* Where oneDNN does not look whether it got memory. */
static void on_null(int signal, siginfo_t *info, void *unused)
{
    char text[256];

    (void)unused;
    if ((uintptr_t)info->si_addr >= NEAR_NULL) {
        let_crash(signal);
        return;
    }
    describe(text, sizeof(text));
    end_by_signal(text);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void catch_signal(int signal, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    sigemptyset(&a.sa_mask);
    sigaction(signal, &a, NULL);
}

void pare_crash_handlers_install(const char *max_memory)
{
    static char memory[1 << 16]; /* cli/job/train_job.c has the reason for a stack of its own */
    const stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };

    limit = max_memory;
    sigaltstack(&stack, NULL);
    catch_signal(SIGBUS, on_lost_page);
    catch_throws();
    if (max_memory) /* else a null pointer is a bug like any other */
        catch_signal(SIGSEGV, on_null);
}
