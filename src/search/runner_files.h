/* runner_files.h - ort_runner.mjs, embedded by the build. */
#ifndef PARE_SEARCH_RUNNER_FILES_H
#define PARE_SEARCH_RUNNER_FILES_H

#include "../data/embedded.h"

extern const struct pare_embedded pare_runner_files[1];

#endif
