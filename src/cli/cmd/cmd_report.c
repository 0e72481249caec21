/* cmd_report.c - pare report: an HTML page from run records of pare compress. */
#include <string.h>

#include "../cli.h"
#include "../../base/arena.h"
#include "../../io/file.h"
#include "../../report/report.h"

#define MOST_RUNS 8

struct report {
    const char *output;
};

static const struct pare_opt report_opts[] = { PARE_TEXT("output", offsetof(struct report, output),
                                                         "FILE", "write the page to FILE",
                                                         "report.html"),
                                               PARE_OPT_END };

static int read_run(struct pare_cli *c, const char *path, struct pare_run_file *to,
                    struct pare_err *err)
{
    struct pare_json *root = pare_alloc(c->arena, 1, sizeof(*root));
    const void *bytes;
    size_t len;

    if (!root)
        return pare_no_memory(err, "for %s", path);
    PARE_TRY(pare_at(err, pare_file_read_most(c->arena, path, PARE_JSON_BYTES, &bytes, &len, err),
                     "%s", path));
    PARE_TRY(pare_at(err, pare_json_parse(c->arena, bytes, len, root, err), "%s", path));
    *to = (struct pare_run_file){ path, root };
    return 0;
}

static int cmd_report_run(struct pare_cli *c, struct pare_err *err)
{
    const struct report *o = c->opts;
    struct pare_run_file runs[MOST_RUNS];
    const char *page;
    size_t len;

    for (int i = 0; i < c->n_args; i++)
        PARE_TRY(read_run(c, c->arg[i], &runs[i], err));
    PARE_TRY(pare_report(runs, c->n_args, c->arena, &page, &len, err));
    PARE_TRY(pare_file_write(o->output, page, len, err));
    printf("%s: report\n", o->output);
    return 0;
}

const struct pare_command pare_command_report = {
    .name = "report",
    .doc = "Write an HTML report of one compression, or compare several.",
    .usage = "[options] RUN.json... [-o FILE]",
    .more = "RUN.json is the run record that 'pare compress' writes.  The page is a single\n"
            "file that loads nothing from elsewhere: tables, and charts if scripts are\n"
            "enabled.",
    .example = "pare report run.json -o report.html",
    .opts = report_opts,
    .size = sizeof(struct report),
    .min_args = 1,
    .max_args = MOST_RUNS,
    .writes = (const char *const[]){ "output", NULL },
    .run = cmd_report_run,
    .no_model = true,
};
