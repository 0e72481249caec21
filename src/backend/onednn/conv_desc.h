/* conv_desc.h - a convolution's geometry as oneDNN wants it. */
#ifndef PARE_BACKEND_ONEDNN_CONV_DESC_H
#define PARE_BACKEND_ONEDNN_CONV_DESC_H

#include "onednn.h"

#include "../../op/nn/window.h"

struct pare_conv_sides {
    dnnl_dims_t stride, dilate, begin, end;
};
void pare_conv_sides(const struct pare_window *w, struct pare_conv_sides *g);

/* (O, I, k...) with the group as an axis of its own in front, when there are several. */
struct pare_tensor pare_conv_weight(const struct pare_tensor *w, int64_t group);

/* Row-major memory of those. */
int pare_conv_weight_md(const struct pare_tensor *w, int64_t group, dnnl_memory_desc_t *md,
                        struct pare_err *err);

/* Memory of (O, I, height, width) in blocks, see blocked_filters.h. */
int pare_conv_laid_md(const struct pare_tensor *w, int block, dnnl_memory_desc_t *md,
                      struct pare_err *err);

/* A tensor whose layout oneDNN may choose. */
void pare_dnnl_any(dnnl_memory_desc_t *md, const struct pare_tensor *t);

/* oneDNN's own plain loops, which are far slower than anything else here. */
bool pare_dnnl_slow(const_dnnl_primitive_desc_t pd);

#endif
