/* cost_samples.h - measured times by key, channel counts and format; interpolation between them.
 *
 * As a file: JSON lines {"key": "...", "cin": 16, "cout": 32, "format": "int8", "us": 12.5}.
 */
#ifndef PARE_SEARCH_COST_SAMPLES_H
#define PARE_SEARCH_COST_SAMPLES_H

#include "../base/map.h"

struct pare_cost_sample {
    int64_t cin, cout;
    double us; /* sum of n measurements */
    int n;
};

/* The samples of one key and format, and the function that is fitted to them:
 * a + b * cin + c * cout + d * cin * cout, with counts relative to the largest ones. */
struct pare_cost_curve {
    const char *key, *format;
    struct pare_cost_sample *s;
    int n, cap;
    double scale_in, scale_out, base[4];
    double line[2]; /* the same by absolute errors, without cin: for small times with much noise */
    bool fitted;
};

struct pare_cost_samples {
    struct pare_arena *arena;
    struct pare_cost_curve **curve; /* in the order in which they were added */
    int n, cap;
    struct pare_map keys;
};

/* Add a measurement; those of the same counts are averaged. */
int pare_cost_samples_add(struct pare_cost_samples *c, const char *key, const char *format,
                          const struct pare_cost_sample *s, struct pare_err *err);

/* NULL: there are none. */
struct pare_cost_curve *pare_cost_samples_find(const struct pare_cost_samples *c, const char *key,
                                               const char *format);

/* Fit the functions; call it after the last pare_cost_samples_add(). */
void pare_cost_samples_fit(struct pare_cost_samples *c);

/* The time at any counts: that of a sample, or the fitted function times the mean ratio of samples
 * to it, weighted by closeness.  Never negative. */
double pare_cost_curve_at(const struct pare_cost_curve *c, int64_t cin, int64_t cout);

/* The line a + b * cout. */
double pare_cost_curve_line(const struct pare_cost_curve *c, int64_t cout);

/* Read lines of text or of a file; the message of an error has the line's number. */
int pare_cost_samples_parse(struct pare_cost_samples *c, const char *text, size_t len,
                            struct pare_err *err);
int pare_cost_samples_read(struct pare_cost_samples *c, const char *path, struct pare_err *err);

/* Write all samples.  Readers always see a complete file. */
int pare_cost_samples_write(const struct pare_cost_samples *c, const char *path,
                            struct pare_err *err);

/* Minimize the sum of weight[i] * (x[i] . w - y[i])^2 with a small ridge; x is (n, k), k <= 8.  The
 * second one drops terms until no w is negative. */
void pare_cost_solve(const double *x, const double *y, const double *weight, int n, int k,
                     double *w);
void pare_cost_solve_positive(const double *x, const double *y, const double *weight, int n, int k,
                              double *w);

#endif
