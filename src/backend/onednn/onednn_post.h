/* onednn_post.h - post-ops as oneDNN primitive attributes. */
#ifndef PARE_BACKEND_ONEDNN_ONEDNN_POST_H
#define PARE_BACKEND_ONEDNN_ONEDNN_POST_H

#include "onednn.h"

#include "../fuse/post_ops.h"

/* A new primitive attribute with these post-ops and a user scratchpad; the caller destroys it, also
 * after false. */
bool pare_post_attr(const struct pare_post *p, dnnl_primitive_attr_t *attr);

#endif
