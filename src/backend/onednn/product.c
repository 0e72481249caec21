/* product.c - a matrix product for whoever needs one outside of plans. */
#include "onednn.h"

int pare_product(const float *a, int64_t m, const float *b, int64_t n, int64_t k, float *c)
{
    dnnl_status_t s;

    if (m <= 0 || n <= 0)
        return 0;
    s = dnnl_sgemm('N', 'T', m, n, k, 1, a, k, b, k, 0, c, n);
    return s == dnnl_success ? 0 : PARE_ENOMEM;
}
