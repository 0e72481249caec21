/* report_files.h - the report's CSS, JavaScript and Chart.js, embedded by the build. */
#ifndef PARE_REPORT_REPORT_FILES_H
#define PARE_REPORT_REPORT_FILES_H

#include "../data/embedded.h"

/* The style, the script, Chart.js's license, and Chart.js itself or a placeholder. */
enum { PARE_STYLE, PARE_SCRIPT, PARE_LICENSE, PARE_CHARTS, PARE_REPORT_FILES };
extern const struct pare_embedded pare_report_files[PARE_REPORT_FILES];

#define PARE_NO_CHARTS 16 /* bytes; a shorter file is the placeholder */

#endif
