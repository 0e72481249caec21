/* conv_prologue.h - BatchNormalization, Relu or gates that a Conv applies while reading its input.
 *
 *     x' = max(x s + t, low), s and t by channel
 *
 * This is BatchNormalization, optionally with Relu, ahead of a Conv (DenseNet), and Mul with a gate
 * per channel and image (squeeze and excitation).
 */
#ifndef PARE_BACKEND_FUSE_CONV_PROLOGUE_H
#define PARE_BACKEND_FUSE_CONV_PROLOGUE_H

#include "../backend.h"

struct pare_conv_prologue {
    struct pare_node *node[2]; /* the nodes ahead of the Conv; node[1] may be NULL */
    struct pare_node *conv;
    struct pare_value *x;
    struct pare_value *gate; /* (N or 1, C, 1, ...); NULL: BatchNormalization */
    int gate_block;          /* the layout in which the kernel reads it */
    bool relu;
    int64_t C;
    int block;
    float *scale, *shift; /* by channel, padded with 0; set by pare_conv_prologue_init() */
};

/* Does n begin such a prologue, whose results have no other consumers?  The caller checks whether
 * it supports the Conv. */
bool pare_conv_prologue(const struct pare_match *v, struct pare_node *n,
                        struct pare_conv_prologue *f);

int pare_conv_prologue_init(struct pare_conv_prologue *f, struct pare_backend *b,
                            struct pare_err *err);

/* Apply it to n floats: pixels of one block of channels.  `gate`: the gates of this image, or
 * NULL. */
void pare_conv_prologue_run(const struct pare_conv_prologue *f, const float *gate, int64_t at,
                            const float *x, float *y, int64_t n);

#endif
