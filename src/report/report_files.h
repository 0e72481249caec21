/* report_files.h - what a report is made of, which the build turns into C. */
#ifndef PARE_REPORT_REPORT_FILES_H
#define PARE_REPORT_REPORT_FILES_H

#include "../data/embedded.h"

/* The style, the script, Chart.js's licence, and Chart.js itself or a few bytes in its place. */
enum { PARE_STYLE, PARE_SCRIPT, PARE_LICENCE, PARE_CHARTS, PARE_REPORT_FILES };
extern const struct pare_embedded pare_report_files[PARE_REPORT_FILES];

#define PARE_NO_CHARTS 16 /* a file of fewer bytes is no Chart.js */

#endif
