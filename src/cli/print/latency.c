/* latency.c - median and spread of measured times, and whether the machine was busy. */
#include "latency.h"

#include <stdlib.h>

#include "../../base/clock.h"
#include "screen.h"

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The q-quantile of the sorted times, interpolated. */
static double quantile(const double *t, int n, double q)
{
    double at = q * (n - 1);
    int i = (int)at;

    return i + 1 < n ? t[i] + (at - i) * (t[i + 1] - t[i]) : t[n - 1];
}

struct pare_latency pare_latency_of(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), by_time);
    return (struct pare_latency){ quantile(t, n, 0.5), quantile(t, n, 0.1), quantile(t, n, 0.9) };
}

const char *pare_latency_text(const struct pare_latency *l, char *buf, size_t size)
{
    char med[PARE_NUM_TEXT], lo[PARE_NUM_TEXT], hi[PARE_NUM_TEXT];

    snprintf(buf, size, "%s (%s to %s)", pare_time_text(l->median, med, sizeof(med)),
             pare_time_text(l->p10, lo, sizeof(lo)), pare_time_text(l->p90, hi, sizeof(hi)));
    return buf;
}

struct pare_cpu_share pare_cpu_share_start(void)
{
    return (struct pare_cpu_share){ pare_now(), pare_thread_now() };
}

double pare_cpu_share_since(const struct pare_cpu_share *s)
{
    double wall = pare_now() - s->wall;

    return wall > 0 ? (pare_thread_now() - s->cpu) / wall : 1;
}

void pare_busy_print(double share)
{
    char text[160];

    if (share < PARE_BUSY_SHARE)
        snprintf(text, sizeof(text),
                 "latency is unreliable: the machine was busy, measuring had the processor for "
                 "%.0f%% of the time",
                 100 * share);
    if (share < PARE_BUSY_SHARE)
        pare_put_paragraph(stdout, text);
}
