/* report.h - HTML report of a compression, as one self-contained page.
 *
 * The page has every number as text, in tables; where a browser runs scripts, Chart.js draws some
 * of them.  It loads no other resources.
 */
#ifndef PARE_REPORT_REPORT_H
#define PARE_REPORT_REPORT_H

#include "../base/json.h"

/* A record that `pare compress` wrote (run.json), and a title for it. */
struct pare_run_file {
    const char *name;
    const struct pare_json *run;
};

/* The page of one record, or a comparison of several.  The text is in the arena. */
int pare_report(const struct pare_run_file *run, int n, struct pare_arena *a, const char **page,
                size_t *len, struct pare_err *err);

#endif
