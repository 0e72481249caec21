/* latency.h - median and spread of measured times, and whether the machine was busy. */
#ifndef PARE_CLI_PRINT_LATENCY_H
#define PARE_CLI_PRINT_LATENCY_H

#include "../cli.h"

#define PARE_BUSY_SHARE 0.9 /* with less of the processor, times are not those of the model */

struct pare_latency {
    double median, p10, p90; /* seconds; percentiles */
};

/* Sorts the n times. */
struct pare_latency pare_latency_of(double *t, int n);

/* "826 us (810 us to 850 us)": the median, 10th to 90th percentile. */
const char *pare_latency_text(const struct pare_latency *l, char *buf, size_t size);

/* The part of the time that the measuring thread had the processor: CPU time by elapsed time. */
struct pare_cpu_share {
    double wall, cpu; /* when measuring started */
};
struct pare_cpu_share pare_cpu_share_start(void);
double pare_cpu_share_since(const struct pare_cpu_share *s);

/* Print a line if it had less than PARE_BUSY_SHARE. */
void pare_busy_print(double share);

#endif
