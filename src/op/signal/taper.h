/* taper.h - windows for the analysis of signals, sums of cosines; shared by the *Window operators.
 */
#ifndef PARE_OP_SIGNAL_TAPER_H
#define PARE_OP_SIGNAL_TAPER_H

#include "fft.h"

struct pare_taper {
    int64_t output_datatype, periodic;
};
extern const struct pare_opt pare_taper_attrs[];

/* Fail unless numbers of that element type can be written. */
int pare_signal_type(int64_t type, struct pare_err *err);

/* (size), where size is input 0. */
int pare_taper_infer(struct pare_node *n, struct pare_err *err);

/* w[k] = a[0] - a[1] cos(2 pi k / N) + a[2] cos(4 pi k / N), where N is the size, one less if
 * the window is symmetric.  A symmetric window of size 1 is 1. */
int pare_taper_forward(struct pare_node *n, const double a[3], struct pare_err *err);

/* The members that the descriptors share. */
#define PARE_TAPER_OP(name, text)                                                                 \
    .type = name, .doc = text, .since = 17, .in = "I", .min_out = 1, .max_out = 1,                \
    .attrs = pare_taper_attrs, .attr_size = sizeof(struct pare_taper), .infer = pare_taper_infer, \
    .forward = forward, .settings = PARE_IN(0)

#endif
