/* onednn.h - helpers of the oneDNN kernels.  Only this folder includes dnnl headers. */
#ifndef PARE_BACKEND_ONEDNN_ONEDNN_H
#define PARE_BACKEND_ONEDNN_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "../backend.h"

struct pare_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* Convert a oneDNN status to an error; dnnl_success is 0. */
int pare_dnnl(struct pare_err *err, dnnl_status_t s, const char *what);

/* Memory descriptor of a tensor of rank 1 to 5 in one of the plan's layouts: float32, int32 or
 * int8. */
bool pare_dnnl_md(dnnl_memory_desc_t *md, const struct pare_tensor *t, int block);

/* The block of a descriptor: 1, 8 or 16; 0 for any other layout. */
int pare_dnnl_block(const dnnl_memory_desc_t *md, const struct pare_tensor *t);

/* Constant data to be reordered into the layout of a primitive. */
struct pare_pack {
    const dnnl_memory_desc_t *have, *want;
    const void *data;   /* perhaps unaligned */
    const float *scale; /* one factor per index of the axes in `mask`; NULL: none */
    int64_t n_scales;
    int mask;
};

/* Reorder into memory of the backend's arena. */
int pare_dnnl_pack(struct pare_backend *b, const struct pare_pack *k, dnnl_memory_t *packed,
                   struct pare_err *err);

/* The same packed data as an argument of another primitive. */
int pare_dnnl_share(struct pare_backend *b, dnnl_memory_t have, dnnl_memory_t *shared,
                    struct pare_err *err);

/* oneDNN's own scratchpads belong to the thread that created the primitive.  These attributes make
 * primitives use the step's scratch memory instead: its size for match(), its memory object for
 * init(), NULL if the size is 0. */
bool pare_dnnl_user_scratch(dnnl_primitive_attr_t attr);
size_t pare_dnnl_scratch_bytes(const_dnnl_primitive_desc_t pd);
int pare_dnnl_scratch(struct pare_backend *b, const_dnnl_primitive_desc_t pd,
                      const struct pare_step *s, dnnl_memory_t *scratch, struct pare_err *err);

/* Memory objects of the step's first input and of its result. */
int pare_dnnl_ends(struct pare_backend *b, const_dnnl_primitive_desc_t pd,
                   const struct pare_step *s, dnnl_memory_t *src, dnnl_memory_t *dst,
                   struct pare_err *err);

/* Memory object of the bias, which is not copied. */
int pare_dnnl_bias(struct pare_backend *b, const_dnnl_primitive_desc_t pd, const float *data,
                   dnnl_memory_t *bias, struct pare_err *err);

/* Destroy the objects of a step; any of them may be NULL. */
void pare_dnnl_destroy(const dnnl_memory_t *mem, int n, dnnl_primitive_t prim,
                       dnnl_primitive_desc_t pd);

#endif
