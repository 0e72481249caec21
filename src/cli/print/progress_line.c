/* progress_line.c - a line on stderr for work of more than a second: done, total, rate. */
#include "progress_line.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../base/clock.h"

#define DELAY 1    /* seconds that work takes before it is shown */
#define REDRAW 0.2 /* seconds */

void pare_progress_line_start(struct pare_progress_line *l, bool quiet)
{
    const char *term = getenv("TERM");

    *l = (struct pare_progress_line){ .on = !quiet && isatty(STDERR_FILENO) &&
                                            strcmp(term ? term : "", "dumb") != 0 };
}

/* "observe 12/64  5.3/s  0:10 left". */
bool pare_progress_line_show(void *user, const struct pare_progress *p)
{
    struct pare_progress_line *l = user;
    double now = pare_now(), rate = p->seconds > 0 ? (double)p->done / p->seconds : 0;
    char text[PARE_NUM_TEXT];
    long left = rate > 0 && p->total ? (long)((double)(p->total - p->done) / rate + 0.5) : 0;

    if (!l->on || p->seconds < DELAY || now - l->drawn < REDRAW)
        return true;
    l->drawn = now;
    fprintf(stderr, "\r\033[K%s %lld", p->what, (long long)p->done);
    if (p->total)
        fprintf(stderr, "/%lld", (long long)p->total);
    if (rate > 0 && rate < 1000)
        fprintf(stderr, "  %.3g/s", rate);
    else if (rate > 0)
        fprintf(stderr, "  %s/s", pare_count_text(rate, text, sizeof(text)));
    if (rate > 0 && p->total)
        fprintf(stderr, "  %ld:%02ld left", left / 60, left % 60);
    fflush(stderr);
    return true;
}

void pare_progress_line_end(struct pare_progress_line *l)
{
    if (l->drawn > 0)
        fputs("\r\033[K", stderr);
    l->drawn = 0;
}
