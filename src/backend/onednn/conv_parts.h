/* conv_parts.h - a oneDNN convolution as several primitives of one thread each.
 *
 * oneDNN's threads are OpenMP's, and a parallel region ends when all of them have arrived.  A
 * convolution whose result is cut into parts of images, channels or rows that are contiguous in
 * memory runs on the threads of pare_parallel() instead: one primitive per part.
 */
#ifndef PARE_BACKEND_ONEDNN_CONV_PARTS_H
#define PARE_BACKEND_ONEDNN_CONV_PARTS_H

#include "onednn.h"

struct pare_conv_part {
    int64_t image, images;     /* of input and result */
    int64_t channel, channels; /* of the result */
    int64_t row, rows;         /* of the result: the first spatial axis */
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_stream_t stream;
    dnnl_memory_t src, dst, weights, bias, scratch;
};

struct pare_conv_parts {
    int n;
    struct pare_conv_part *part;
};

/* How a result may be cut. */
enum pare_conv_cut {
    PARE_CUT_NOT,
    PARE_CUT_CHANNELS, /* blocked layouts */
    PARE_CUT_ROWS,     /* channels last */
};

/* Parts without primitives for a result of this shape: images if there are enough for the threads,
 * else as `cut` says, in units of `unit` channels or rows; one part if the threads would have very
 * different shares.  False: out of memory. */
bool pare_conv_parts(struct pare_conv_parts *p, struct pare_backend *b, const struct pare_tensor *y,
                     enum pare_conv_cut cut, int64_t unit);

/* A primitive that is created between these two uses one thread. */
int pare_conv_parts_begin(const struct pare_conv_parts *p);
void pare_conv_parts_end(int threads);

/* Scratch memory of all parts. */
size_t pare_conv_parts_bytes(const struct pare_conv_parts *p);

/* Create the primitives, with memory at these bytes of input and result, for part k. */
int pare_conv_part_init(struct pare_conv_parts *p, int k, const struct pare_step *s,
                        struct pare_backend *b, const size_t at[2], struct pare_err *err);

int pare_conv_parts_run(const struct pare_conv_parts *p, const struct pare_backend *b,
                        struct pare_err *err);

void pare_conv_parts_destroy(struct pare_conv_parts *p); /* descriptors, too */

#endif
