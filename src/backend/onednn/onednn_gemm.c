/* onednn_gemm.c - matrix products of float32 and of int8 by oneDNN's GEMM. */
#include "onednn.h"

#include <stdatomic.h>

#include "../../base/team.h"

#define UNIT 16     /* rows or columns */
#define SMALL 65536 /* multiplications that one thread does */

static bool product(const struct pare_sgemm *p)
{
    return dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->M, p->N, p->K, 1, p->a, p->lda, p->b,
                      p->ldb, p->add ? 1 : 0, p->c, p->ldc) == dnnl_success;
}

/* Parts of the rows or of the columns of a product, in units of UNIT. */
struct parts {
    const struct pare_sgemm *p;
    bool rows;
    int64_t units, n;
    atomic_bool failed;
};

static void run_parts(void *arg, int64_t begin, int64_t end, int thread)
{
    struct parts *j = arg;
    const int64_t size = j->rows ? j->p->M : j->p->N, last = j->units * end / j->n * UNIT;
    const int64_t from = j->units * begin / j->n * UNIT, to = last < size ? last : size;
    struct pare_sgemm p = *j->p;

    (void)thread;
    if (to <= from)
        return;
    if (j->rows) {
        p.M = to - from;
        p.a += p.ta ? from : from * p.lda;
        p.c += from * p.ldc;
    } else {
        p.N = to - from;
        p.b += p.tb ? from * p.ldb : from;
        p.c += from;
    }
    if (!product(&p))
        atomic_store(&j->failed, true);
}

/* In a team, parts of the product run on its threads: oneDNN would use OpenMP's. */
int pare_sgemm(const struct pare_sgemm *p)
{
    const int threads = pare_team_threads();
    struct parts j = { .p = p, .rows = p->M >= p->N, .n = threads };

    if (p->M <= 0 || p->N <= 0)
        return 0;
    if (threads < 2)
        return product(p) ? 0 : PARE_ENOMEM;
    j.units = ((j.rows ? p->M : p->N) + UNIT - 1) / UNIT;
    if (p->M * p->N * p->K < SMALL)
        j.n = 1;
    pare_parallel((int)j.n, j.n, run_parts, &j);
    return atomic_load(&j.failed) ? PARE_ENOMEM : 0;
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
