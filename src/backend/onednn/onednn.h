/* onednn.h - what the oneDNN kernels share.  Only this folder includes dnnl headers. */
#ifndef PARE_BACKEND_ONEDNN_ONEDNN_H
#define PARE_BACKEND_ONEDNN_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "../backend.h"

struct pare_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* A oneDNN status as an error; 0 stays 0. */
int pare_dnnl(struct pare_err *err, dnnl_status_t s, const char *what);

/* Memory of a tensor of rank 1 to 5 in one of the plan's layouts: float32, int32 or 8 bits. */
bool pare_dnnl_md(dnnl_memory_desc_t *md, const struct pare_tensor *t, int block);

/* Which block a descriptor is: 1, 8 or 16; 0 when it is something else. */
int pare_dnnl_block(const dnnl_memory_desc_t *md, const struct pare_tensor *t);

/* Constant data that is to be brought into the layout a primitive wants. */
struct pare_pack {
    const dnnl_memory_desc_t *have, *want;
    const void *data;   /* need not be aligned */
    const float *scale; /* a factor for each index of the axes in `mask`; NULL: none */
    int64_t n_scales;
    int mask;
};

/* The result is in memory of the backend's arena. */
int pare_dnnl_pack(struct pare_backend *b, const struct pare_pack *k, dnnl_memory_t *packed,
                   struct pare_err *err);

/* The same constant data, for another primitive. */
int pare_dnnl_share(struct pare_backend *b, dnnl_memory_t have, dnnl_memory_t *shared,
                    struct pare_err *err);

/* oneDNN's own scratchpads belong to the thread that made the primitive.  Attributes say that ours
 * come from the step's working memory: the bytes, for match(), and for init() the memory; NULL
 * when it needs none. */
bool pare_dnnl_user_scratch(dnnl_primitive_attr_t attr);
size_t pare_dnnl_scratch_bytes(const_dnnl_primitive_desc_t pd);
int pare_dnnl_scratch(struct pare_backend *b, const_dnnl_primitive_desc_t pd,
                      const struct pare_step *s, dnnl_memory_t *scratch, struct pare_err *err);

/* The ends of a primitive: the step's first input and its result. */
int pare_dnnl_ends(struct pare_backend *b, const_dnnl_primitive_desc_t pd,
                   const struct pare_step *s, dnnl_memory_t *src, dnnl_memory_t *dst,
                   struct pare_err *err);

/* Its bias, which stays where it is. */
int pare_dnnl_bias(struct pare_backend *b, const_dnnl_primitive_desc_t pd, const float *data,
                   dnnl_memory_t *bias, struct pare_err *err);

/* What a step had; any of them may be NULL. */
void pare_dnnl_drop(const dnnl_memory_t *mem, int n, dnnl_primitive_t prim,
                    dnnl_primitive_desc_t pd);

#endif
