/* cli.h - the command descriptor, one call of a command, and helpers for text, tables and JSON.
 *
 * A command is one file cmd_<name>.c with one descriptor at its end, and one line in commands.def.
 * Its options are an option table (see <pare/option.h>), which both parses the command line and
 * prints the help.
 *
 * Results go to stdout, everything else to stderr.  Exit codes: 0 success, 1 failure, 2 usage
 * error, 3 a bound is missed (enum pare_exit).
 */
#ifndef PARE_CLI_CLI_H
#define PARE_CLI_CLI_H

#include <stdio.h>

#include <pare/command.h>

#include "../base/option_groups.h"
#include "../io/file.h"
#include "resource_limits.h"

/* Estimate of a model after a command, for --dry-run: changed in memory, without data. */
struct pare_estimate {
    struct pare_arena *arena; /* outlives the model */
    struct pare_model *model;
    double bytes; /* size of its file */
};

struct pare_command;

/* Exit codes of the command. */
enum pare_exit { PARE_EXIT_OK, PARE_EXIT_FAILURE, PARE_EXIT_USAGE, PARE_EXIT_MISSED };

/* One call of a command. */
struct pare_cli {
    struct pare_arena *arena; /* freed after the command */
    const void *opts;         /* the command's option struct, filled in */
    const char *const *arg;   /* arguments that are not options */
    int n_args;
    bool usage;               /* the error is a usage error: exit code 2 */
    bool missed;              /* the error is a bound that does not hold: exit code 3 */
    bool incomplete;          /* something is missing: print the usage line after the error */
    struct pare_given *given; /* options of the command's option groups, unparsed */
    int n_given;
    const struct pare_command *cmd;
    const struct pare_setting *set; /* options of the command's own table that are given */
    int n_set;
    struct pare_given *texts; /* all options with a text value, in the order given */
    int n_texts;
    struct json_t **result; /* if not NULL, store the result here instead of printing it */
    bool in_recipe;         /* a step: what the user should know about the data was said before */
    const char *journal;    /* file for the training history so far, or NULL */
    struct pare_resource_limits limits;
    const struct pare_host *host; /* of pare_main(); steps of a recipe have it, too; or NULL */
    bool keep_training_mode;      /* --keep-training-mode, for pare_cli_load() */
    bool widen;                   /* pare_load_opts.widen, for pare_cli_load() */
    struct pare_dist *dist; /* MPI processes that share the work, see dist/dist.h; NULL: only one */
};

/* Is the option of the command's own table given, as --name, --no-name or --name=value? */
bool pare_cli_is_set(const struct pare_cli *c, const char *name);

struct pare_command {
    const char *name, *doc;      /* one sentence */
    const char *usage;           /* follows "pare <name>" in the usage line */
    const char *more;            /* further paragraphs for the long help, or NULL */
    const char *example;         /* command lines, for help and manual page; or NULL */
    const char *const *first;    /* options of the short help, ends with NULL; NULL: all */
    const struct pare_opt *opts; /* a list of texts is given as --input a --input b */
    size_t size;                 /* of the option struct */
    int min_args, max_args;      /* max_args -1: any number */
    int (*run)(struct pare_cli *c, struct pare_err *err);

    /* Find errors before a recipe runs: open files and data, but do no work.  NULL: only options
     * are checked. */
    int (*check)(struct pare_cli *c, struct pare_err *err);

    /* Estimate the resulting model for --dry-run; NULL: cannot be estimated. */
    int (*estimate)(struct pare_cli *c, struct pare_estimate *g, struct pare_err *err);

    /* Option groups of optimizers, pruners, data, ...; NULL: none. */
    int (*groups)(struct pare_arena *a, struct pare_option_group **group, int *n,
                  struct pare_err *err);

    /* Names of the options that name output files, ending with NULL; NULL: none. */
    const char *const *writes;

    bool brief;    /* does little work and loads no model: has no common options */
    bool no_model; /* loads no model: has no --keep-training-mode */

    bool shared; /* MPI processes share the work; if false, only the first process runs */

    /* Words for completing the first argument: the i-th, or NULL after the last.  A NULL pointer:
     * the argument is a file. */
    const char *(*word)(int i);
    const char *only_words; /* "network": the argument must be one of them; NULL: any */
};

extern const struct pare_command *const pare_commands[]; /* ends with NULL */

/* Options that all commands have, except those that make no sense for this one; offsets are those
 * of struct pare_cli. */
const struct pare_opt *pare_common_opts(const struct pare_command *cmd);

const struct pare_command *pare_find_command(const char *name);

/* Fail with a usage error. */
int pare_misuse(struct pare_cli *c, struct pare_err *err, const char *fmt, ...) PARE_PRINTF(3, 4);

/* Is -h or --help among the arguments, or --help-all? */
enum pare_help_wish { PARE_HELP_NONE, PARE_HELP_SHORT, PARE_HELP_ALL };

/* Parse the command's arguments into c. */
int pare_cli_parse(const struct pare_command *cmd, int argc, char **argv, struct pare_cli *c,
                   enum pare_help_wish *help, struct pare_err *err);

/* The same from names and values, for a step of a recipe. */
struct pare_call {
    const struct pare_command *cmd;
    const struct pare_given *given;
    int n_given;
    const char *const *arg;
    int n_args;
    bool keep_training_mode;
};
int pare_cli_fill(const struct pare_call *k, struct pare_cli *c, struct pare_err *err);

/* Find an option of the command or of its groups; *o is NULL if there is none. */
int pare_cli_option(const struct pare_command *cmd, struct pare_arena *a, const char *name,
                    const struct pare_opt **o, struct pare_err *err);

/* Write " (did you mean 'x'?)" into buf if one of the names is similar, else `otherwise`. */
const char *pare_cli_hint(const char *typed, const char *const *names, int n, const char *otherwise,
                          char *buf, size_t size);
#define PARE_HINT_TEXT 160

/* "networks, data or ops": the words of a command that has them. */
const char *pare_cli_words(const struct pare_command *cmd, struct pare_arena *a);

/* The short form of an option: 'o' for "output"; 0: none. */
char pare_cli_letter(const char *option);

/* Print help: for all commands; for one on stdout, in short (one screen) or with all options. */
void pare_help_all(FILE *f);
int pare_help_command(const struct pare_command *cmd, bool all, struct pare_arena *a,
                      struct pare_err *err);

/* ---- text ------------------------------------------------------------------------ */

#define PARE_NUM_TEXT 32

/* All write into buf and return it. */
const char *pare_count_text(double v, char *buf, size_t size);  /* 980, 9.41K, 11.7M; - for < 0 */
const char *pare_whole_text(int64_t v, char *buf, size_t size); /* 11,689,512 */
const char *pare_bytes_text(double v, char *buf, size_t size);  /* 44.6 MB */
const char *pare_percent_text(double part, double whole, char *buf, size_t size); /* 6.5% */
const char *pare_time_text(double seconds, char *buf, size_t size);               /* 1.83 ms */

/* Print text from a file, without control characters that could affect a terminal. */
void pare_put_clean(FILE *f, const char *s);

/* ---- tables ----------------------------------------------------------------------- */

struct pare_table;

/* `align` has one letter per column: l (left) or r (right), in upper case if the column may be left
 * out in a narrow terminal.  The first row is the heading. */
struct pare_table *pare_table_new(struct pare_arena *a, const char *align);
/* One text per column, copied; NULL: empty. */
void pare_table_row(struct pare_table *t, const char *cell, ...);
void pare_table_cells(struct pare_table *t, const char *const *cell);
void pare_table_print(const struct pare_table *t, FILE *f);
void pare_table_plain(const struct pare_table *t, FILE *f); /* without a heading */
void pare_table_wrap(const struct pare_table *t, FILE *f);  /* last column wrapped */

/* ---- width of the terminal -------------------------------------------------------- */

/* Columns of the terminal that f writes to; 0: it is not a terminal. */
int pare_columns(FILE *f);

/* Columns for running text: those of the terminal, but at most 100; 80 elsewhere. */
int pare_text_columns(FILE *f);

/* Print "title: text" and a newline, wrapped and indented by two from the second line. */
void pare_put_wrapped(FILE *f, const char *title, const char *text);

/* ---- JSON ------------------------------------------------------------------------- */

struct json_t;

/* Print to stdout and release.  NULL: it could not be built, which is an out-of-memory error. */
int pare_json_print(struct json_t *j, struct pare_err *err);

/* Text in the arena, indented (`lines`) or on one line; NULL: no memory. */
const char *pare_json_dump(struct pare_arena *a, const struct json_t *j, bool lines);

/* Deliver a command's result: store it in *c->result or print it.  Takes ownership. */
int pare_json_result(struct pare_cli *c, struct json_t *j, struct pare_err *err);

/* Read a JSON file written by an earlier run; NULL: missing, not a regular file, larger than
 * PARE_JSON_BYTES, or not JSON. */
struct json_t *pare_json_read(const char *path);
struct json_t *pare_json_dims(const struct pare_tensor *t); /* a shape; null if unknown */
struct json_t *pare_json_whole(double v);                   /* a count; null if below 0 (unknown) */
struct json_t *pare_json_text(const char *s);               /* invalid UTF-8 becomes ? */
struct json_t *pare_json_real(double v);                    /* null if not finite */

#endif
