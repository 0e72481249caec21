/* clock.h - monotonic clock and per-thread CPU time. */
#ifndef PARE_BASE_CLOCK_H
#define PARE_BASE_CLOCK_H

double pare_now(void);        /* seconds of the monotonic clock */
double pare_thread_now(void); /* CPU seconds of the calling thread */

#endif
