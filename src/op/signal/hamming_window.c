/* hamming_window.c - HammingWindow: 25 / 46 - 21 / 46 cos(2 pi k / N). */
#include "taper.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return pare_taper_forward(n, (const double[]){ 25 / 46., 21 / 46., 0 }, err);
}

const struct pare_op pare_op_hamming_window = {
    PARE_TAPER_OP("HammingWindow", "Hamming window of a given length.")
};
