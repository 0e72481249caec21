/* clock.h - time for measurements. */
#ifndef PARE_BASE_CLOCK_H
#define PARE_BASE_CLOCK_H

double pare_now(void); /* seconds of a clock that never jumps */

#endif
