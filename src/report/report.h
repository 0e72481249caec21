/* report.h - what a compression did, as one page that needs nothing else.
 *
 * The page has every number as text, in tables; where a browser runs scripts, Chart.js draws some
 * of them.  It loads nothing.
 */
#ifndef PARE_REPORT_REPORT_H
#define PARE_REPORT_REPORT_H

#include "../base/json.h"

/* A record as `pare compress` writes it (run.json), and what to call it. */
struct pare_run_file {
    const char *name;
    const struct pare_json *run;
};

/* The page of one record, or of several beside each other.  The text is in the arena. */
int pare_report(const struct pare_run_file *run, int n, struct pare_arena *a, const char **page,
                size_t *len, struct pare_err *err);

#endif
