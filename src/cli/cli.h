/* cli.h - what a command is, and what commands share.
 *
 * A command is one file cmd_<name>.c with one descriptor at its bottom, and one line in
 * commands.def.  Its options are a table like any other (see <pare/plugin.h>): the same lines
 * parse the command line and print the help.
 *
 * Results go to stdout, everything else to stderr.  Exit codes: 0 ok, 1 failed, 2 usage.
 */
#ifndef PARE_CLI_CLI_H
#define PARE_CLI_CLI_H

#include <stdio.h>

#include <pare/plugin.h>

#include "../base/option_groups.h"
#include "resource_limits.h"

/* A model as it would be, for plans: changed as a command would, but with no data. */
struct pare_guess {
    struct pare_arena *arena; /* outlives the model */
    struct pare_model *model;
    double bytes; /* of its file */
};

struct pare_command;

/* One call of a command. */
struct pare_cli {
    struct pare_arena *arena; /* lives as long as the process's one command */
    const void *opts;         /* the command's option struct, filled in */
    const char *const *arg;   /* what is not an option */
    int n_args;
    bool usage;               /* the error is the user's: exit code 2 */
    struct pare_given *given; /* options that belong to the command's parts */
    int n_given;
    const struct pare_command *cmd;
    struct pare_given *said; /* all options that are texts, in the order in which they came */
    int n_said;
    struct json_t **keep; /* who called wants the result itself, not printed: here; else NULL */
    const char *journal;  /* file that has the history of a training so far, or NULL */
    struct pare_resource_limits guard; /* limits of memory and time */
    struct pare_dist *dist; /* the processes that work on it, see dist/dist.h; NULL: only this */
};

struct pare_command {
    const char *name, *doc;      /* one sentence */
    const char *usage;           /* what follows "pare <name>" */
    const char *more;            /* further paragraphs for `pare help <name>`, or NULL */
    const struct pare_opt *opts; /* a list of texts takes one per occurrence: --input a --input b */
    size_t size;                 /* of the option struct */
    int min_args, max_args;      /* max_args -1: any number */
    int (*run)(struct pare_cli *c, struct pare_err *err);

    /* Everything that can be known to be wrong before any work is done; NULL: only options are
     * looked at. */
    int (*check)(struct pare_cli *c, struct pare_err *err);

    /* What would become of a model, roughly; NULL: nothing that can be foreseen. */
    int (*guess)(struct pare_cli *c, struct pare_guess *g, struct pare_err *err);

    /* Parts that bring options of their own, such as optimizers; NULL: none. */
    int (*parts)(struct pare_arena *a, struct pare_option_group **part, int *n,
                 struct pare_err *err);

    /* Options that name files which it writes, the last NULL; NULL: none. */
    const char *const *writes;

    bool brief; /* no work that memory or time would have to be limited for */

    /* Several processes (mpirun) can share the work; else the first one does it. */
    bool shared;

    /* What the first argument may be, for completion: the i-th word, NULL past the last.  NULL
     * itself: a file. */
    const char *(*word)(int i);
};

extern const struct pare_command *const pare_commands[]; /* ends with NULL */

const struct pare_command *pare_find_command(const char *name);

/* An error in what the user typed. */
int pare_misuse(struct pare_cli *c, struct pare_err *err, const char *fmt, ...) PARE_PRINTF(3, 4);

/* Fill in c from the command's arguments.  *help is set when -h or --help is among them. */
int pare_cli_parse(const struct pare_command *cmd, int argc, char **argv, struct pare_cli *c,
                   bool *help, struct pare_err *err);

/* The same from names and values, as a recipe has them.  g are texts; a list of texts takes one per
 * occurrence. */
struct pare_call {
    const struct pare_command *cmd;
    const struct pare_given *given;
    int n_given;
    const char *const *arg;
    int n_args;
};
int pare_cli_fill(const struct pare_call *k, struct pare_cli *c, struct pare_err *err);

/* The command's option of that name, its own or of its parts; NULL: none. */
int pare_cli_option(const struct pare_command *cmd, struct pare_arena *a, const char *name,
                    const struct pare_opt **o, struct pare_err *err);

/* " (did you mean 'x'?)" when one of the names is near, else `otherwise`; in buf. */
const char *pare_cli_hint(const char *typed, const char *const *names, int n, const char *otherwise,
                          char *buf, size_t size);
#define PARE_HINT_TEXT 160

/* The letter that stands for an option, or 0: -o is --output. */
char pare_cli_letter(const char *option);

/* Help, on stdout: of all commands, of one. */
void pare_help_all(FILE *f);
int pare_help_command(const struct pare_command *cmd, struct pare_arena *a, struct pare_err *err);

/* ---- text ------------------------------------------------------------------------ */

#define PARE_NUM_TEXT 32

/* All write into buf and return it. */
const char *pare_count_text(double v, char *buf, size_t size);  /* 980, 9.41K, 11.7M; - for < 0 */
const char *pare_whole_text(int64_t v, char *buf, size_t size); /* 11,689,512 */
const char *pare_bytes_text(double v, char *buf, size_t size);  /* 44.6 MB */
const char *pare_percent_text(double part, double whole, char *buf, size_t size); /* 6.5% */
const char *pare_time_text(double seconds, char *buf, size_t size);               /* 1.83 ms */

/* Print text from a file without what could steer a terminal. */
void pare_put_clean(FILE *f, const char *s);

bool pare_ends_in(const char *s, const char *ending);

/* ---- tables ----------------------------------------------------------------------- */

struct pare_table;

/* `align` has a letter for each column: l or r.  The first row is the heading. */
struct pare_table *pare_table_new(struct pare_arena *a, const char *align);
/* One text per column, copied; NULL is empty. */
void pare_table_row(struct pare_table *t, const char *cell, ...);
void pare_table_cells(struct pare_table *t, const char *const *cell);
void pare_table_print(const struct pare_table *t, FILE *f);
void pare_table_plain(const struct pare_table *t, FILE *f); /* one without a heading */

/* ---- JSON ------------------------------------------------------------------------- */

struct json_t;

/* Print it on stdout and drop it.  NULL means that it could not be built. */
int pare_json_print(struct json_t *j, struct pare_err *err);

/* As text in the arena, with line breaks or without; NULL: no memory. */
const char *pare_json_dump(struct pare_arena *a, const struct json_t *j, bool lines);

/* A command's result: the same, or it goes to who called the command and keeps it. */
int pare_json_result(struct pare_cli *c, struct json_t *j, struct pare_err *err);
/* A file of our own that an earlier run left: NULL when it is not there, no regular file, larger
 * than PARE_JSON_BYTES, or no JSON. */
struct json_t *pare_json_read(const char *path);
struct json_t *pare_json_dims(const struct pare_tensor *t); /* a shape; null when unknown */
struct json_t *pare_json_whole(double v);     /* a count; null when below 0, that is not known */
struct json_t *pare_json_text(const char *s); /* with ? for what is not UTF-8 */
struct json_t *pare_json_real(double v);      /* null when not finite */

#endif
