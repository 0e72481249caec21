/* conv_prologue.h - what may be done with the input of a convolution while it is read.
 *
 *     x' = max(x s + t, low), s and t by channel
 *
 * This is BatchNormalization, perhaps with Relu, in front of a Conv (DenseNet), and Mul with a gate
 * for each channel of an image (squeeze and excitation).
 */
#ifndef PARE_BACKEND_FUSE_CONV_PROLOGUE_H
#define PARE_BACKEND_FUSE_CONV_PROLOGUE_H

#include "../backend.h"

struct pare_conv_prologue {
    struct pare_node *node[2]; /* the first and, or NULL, the second in front of the Conv */
    struct pare_node *conv;
    struct pare_value *x;
    struct pare_value *gate; /* (N or 1, C, 1, ...); NULL: BatchNormalization */
    int gate_block;          /* the layout that it is wanted in */
    bool relu;
    int64_t C;
    int block;
    float *scale, *shift; /* by channel, padded with 0: pare_conv_prologue_init */
};

/* Does n begin such a run, whose results nobody else reads?  Whether the Conv can be used is not
 * asked. */
bool pare_conv_prologue(const struct pare_match *v, struct pare_node *n,
                        struct pare_conv_prologue *f);

int pare_conv_prologue_init(struct pare_conv_prologue *f, struct pare_backend *b,
                            struct pare_err *err);

/* A block of channels' pixels: n numbers.  `gate` is where an image's gates begin, or NULL. */
void pare_conv_prologue_run(const struct pare_conv_prologue *f, const float *gate, int64_t at,
                            const float *x, float *y, int64_t n);

#endif
