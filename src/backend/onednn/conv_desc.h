/* conv_desc.h - oneDNN descriptors of convolutions: strides, padding, weights. */
#ifndef PARE_BACKEND_ONEDNN_CONV_DESC_H
#define PARE_BACKEND_ONEDNN_CONV_DESC_H

#include "onednn.h"

#include "../../op/nn/window.h"

struct pare_conv_sides {
    dnnl_dims_t stride, dilate, begin, end;
};
void pare_conv_sides(const struct pare_window *w, struct pare_conv_sides *g);

/* The shape (O, I, k...), with the group as an additional first axis if there are several. */
struct pare_tensor pare_conv_weight(const struct pare_tensor *w, int64_t group);

/* Row-major memory of such weights. */
int pare_conv_weight_md(const struct pare_tensor *w, int64_t group, dnnl_memory_desc_t *md,
                        struct pare_err *err);

/* Blocked memory of (O, I, height, width), see blocked_filters.h. */
int pare_conv_blocked_md(const struct pare_tensor *w, int block, dnnl_memory_desc_t *md,
                         struct pare_err *err);

/* A descriptor whose layout oneDNN chooses (format_tag_any). */
void pare_dnnl_any(dnnl_memory_desc_t *md, const struct pare_tensor *t);

/* Is it oneDNN's reference implementation, which is far slower than any other kernel? */
bool pare_dnnl_is_reference(const_dnnl_primitive_desc_t pd);

#endif
