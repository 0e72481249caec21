/* progress_line.h - a line on stderr for work of more than a second: done, total, rate. */
#ifndef PARE_CLI_PRINT_PROGRESS_LINE_H
#define PARE_CLI_PRINT_PROGRESS_LINE_H

#include "../cli.h"

struct pare_progress_line {
    bool on;      /* stderr is a terminal and --quiet is not given */
    double drawn; /* time of the last redraw; 0: there is no line */
};

void pare_progress_line_start(struct pare_progress_line *l, bool quiet);

/* A pare_progress_fn; `user` is the struct pare_progress_line. */
bool pare_progress_line_show(void *user, const struct pare_progress *p);

/* Erase the line, if there is one: before anything else is printed. */
void pare_progress_line_end(struct pare_progress_line *l);

#endif
