/* onednn_gemm.c - matrix products outside of plans, and of strips, by oneDNN's GEMM. */
#include "onednn.h"

#include <pare/pruner.h>

int pare_product(const float *a, int64_t m, const float *b, int64_t n, int64_t k, float *c)
{
    dnnl_status_t s;

    if (m <= 0 || n <= 0)
        return 0;
    s = dnnl_sgemm('N', 'T', m, n, k, 1, a, k, b, k, 0, c, n);
    return s == dnnl_success ? 0 : PARE_ENOMEM;
}

int pare_product_strip(const struct pare_strip *s)
{
    dnnl_status_t rc = dnnl_sgemm('N', 'T', s->M, s->N, s->K, 1, s->x, s->K, s->w, s->K,
                                  s->add ? 1 : 0, s->y, s->stride);

    return rc == dnnl_success ? 0 : PARE_ENOMEM;
}
