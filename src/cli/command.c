/* command.c - pare_main(), the whole command line: find the command, parse, run, report. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "../base/sized.h"
#include "../dist/dist.h"
#include "print/screen.h"
#include "cli.h"

#define COMMAND(name) extern const struct pare_command pare_command_##name;
#include "cmd/commands.def"
#undef COMMAND

const struct pare_command *const pare_commands[] = {
#define COMMAND(name) &pare_command_##name,
#include "cmd/commands.def"
#undef COMMAND
    NULL
};

const struct pare_command *pare_find_command(const char *name)
{
    for (int i = 0; pare_commands[i]; i++)
        if (!strcmp(pare_commands[i]->name, name))
            return pare_commands[i];
    return NULL;
}

int pare_misuse(struct pare_cli *c, struct pare_err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    c->usage = true;
    return err->code = PARE_ECONFIG;
}

static int unknown_command(const char *name)
{
    const char *names[64];
    char hint[PARE_HINT_TEXT];
    int n = 0;

    for (; n < 64 && pare_commands[n]; n++)
        names[n] = pare_commands[n]->name;
    pare_put_error();
    fprintf(stderr, "unknown %s '", name[0] == '-' ? "option" : "command");
    pare_put_clean(stderr, name);
    fprintf(stderr, "'%s\n",
            pare_cli_hint(name, names, n, "; 'pare help' lists them", hint, sizeof(hint)));
    return 2;
}

/* Only the first MPI process prints to stdout. */
static int join_processes(const struct pare_command *cmd, struct pare_cli *c, struct pare_err *err)
{
    if (!cmd->shared)
        return 0;
    PARE_TRY(pare_dist_open(&c->dist, err));
    if (pare_dist_rank(c->dist) && !freopen("/dev/null", "w", stdout))
        return pare_fail(err, PARE_EIO, "/dev/null: %s", strerror(errno));
    return 0;
}

static enum pare_exit exit_code(const struct pare_cli *c, int rc)
{
    if (!rc)
        return PARE_EXIT_OK;
    return c->usage ? PARE_EXIT_USAGE : c->missed ? PARE_EXIT_MISSED : PARE_EXIT_FAILURE;
}

static void put_usage(const struct pare_command *cmd)
{
    fprintf(stderr, "usage: pare %s ", cmd->name);
    pare_put_after(stderr, cmd->usage, (int)(strlen("usage: pare  ") + strlen(cmd->name)));
    fprintf(stderr, "\n");
}

/* Print the error and end all MPI processes: the others may be waiting for this one. */
static void report_error(struct pare_cli *c, const struct pare_err *err)
{
    char note[PARE_RESOURCE_LIMITS_TEXT];

    fflush(stdout);
    if (pare_dist_reports(c->dist)) {
        pare_put_error();
        if (pare_dist_rank(c->dist))
            fprintf(stderr, "process %d: ", pare_dist_rank(c->dist));
        pare_put_after(stderr, err->msg, (int)strlen("pare: "));
        fprintf(stderr, "%s\n",
                pare_resource_limits_note(&c->limits, err->code, note, sizeof(note)));
        if (c->incomplete)
            put_usage(c->cmd);
        fflush(stderr);
    }
    pare_dist_end_all(c->dist, exit_code(c, err->code));
}

static int run_command(const struct pare_command *cmd, int argc, char **argv,
                       const struct pare_host *host)
{
    struct pare_cli c = { .arena = pare_arena_new(1 << 16), .host = host };
    struct pare_err err = { 0 };
    enum pare_help_wish help = PARE_HELP_NONE;
    int rc = c.arena ? join_processes(cmd, &c, &err) : pare_fail(&err, PARE_ENOMEM, "no memory");

    if (!rc)
        rc = pare_cli_parse(cmd, argc, argv, &c, &help, &err);
    if (!rc && !cmd->brief) {
        rc = pare_resource_limits_start(&c.limits, &err);
        c.usage = rc == PARE_ECONFIG;
    }
    if (!rc)
        rc = help ? pare_help_command(cmd, help == PARE_HELP_ALL, c.arena, &err)
                  : cmd->run(&c, &err);
    /* A full disk or a closed pipe is only detected when the buffer is written. */
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = pare_fail(&err, PARE_EIO, "cannot write the result: %s", strerror(errno));
    if (rc)
        report_error(&c, &err);
    pare_resource_limits_end();
    pare_dist_close(c.dist);
    pare_arena_free(c.arena);
    return exit_code(&c, rc);
}

int pare_main(int argc, char **argv, const struct pare_host *host)
{
    const struct pare_command *cmd = argc < 2 ? NULL : pare_find_command(argv[1]);
    struct pare_host known;
    struct pare_err err = { 0 };

    if (pare_sized_copy(&known, sizeof(known), host, &err)) {
        fprintf(stderr, "pare: %s\n", err.msg);
        return 1;
    }
    if (pare_dist_env_rank() && !(cmd && cmd->shared))
        return 0; /* the first process does it alone */
    if (argc < 2) {
        pare_help_all(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("pare %s\n", pare_version());
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        pare_help_all(stdout);
        return 0;
    }
    return cmd ? run_command(cmd, argc - 2, argv + 2, &known) : unknown_command(argv[1]);
}
