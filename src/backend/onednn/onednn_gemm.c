/* onednn_gemm.c - matrix products of float32 and of int8 by oneDNN's GEMM. */
#include "onednn.h"

int pare_sgemm(const struct pare_sgemm *p)
{
    dnnl_status_t s;

    if (p->M <= 0 || p->N <= 0)
        return 0;
    s = dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->M, p->N, p->K, 1, p->a, p->lda, p->b,
                   p->ldb, p->add ? 1 : 0, p->c, p->ldc);
    return s == dnnl_success ? 0 : PARE_ENOMEM;
}

int pare_onednn_int8(const struct pare_onednn_int8 *p, struct pare_err *err)
{
    char tb = p->tb ? 'T' : 'N';
    int64_t ldb = p->tb ? p->K : p->N;
    int32_t none = 0;

    if (!p->is_signed)
        return pare_dnnl(err,
                         dnnl_gemm_u8s8s32('N', tb, 'F', p->M, p->N, p->K, 1, p->x, p->K,
                                           (uint8_t)p->zero, p->w, ldb, 0, 0, p->acc, p->N, &none),
                         "product");
    return pare_dnnl(err,
                     dnnl_gemm_s8s8s32('N', tb, 'F', p->M, p->N, p->K, 1, p->x, p->K,
                                       (int8_t)p->zero, p->w, ldb, 0, 0, p->acc, p->N, &none),
                     "product");
}
