/* clock.h - time for measurements. */
#ifndef PARE_BASE_CLOCK_H
#define PARE_BASE_CLOCK_H

double pare_now(void);        /* seconds of a clock that never jumps */
double pare_thread_now(void); /* seconds that this thread has run; other programs' do not count */

#endif
