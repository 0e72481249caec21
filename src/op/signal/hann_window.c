/* hann_window.c - HannWindow: 0.5 - 0.5 cos(2 pi k / N). */
#include "taper.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return pare_taper_forward(n, (const double[]){ 0.5, 0.5, 0 }, err);
}

const struct pare_op pare_op_hann_window = { PARE_TAPER_OP("HannWindow",
                                                           "Hann window of a given length.") };
