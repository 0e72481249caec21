/* blackman_window.c - BlackmanWindow: 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N). */
#include "taper.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return pare_taper_forward(n, (const double[]){ 0.42, 0.5, 0.08 }, err);
}

const struct pare_op pare_op_blackman_window = {
    PARE_TAPER_OP("BlackmanWindow", "Blackman window of a given length.")
};
