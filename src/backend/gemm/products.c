/* products.c - matrix products outside of plans, and of strips. */
#include "../backend.h"

#include <pare/pruner.h>

int pare_product(const float *a, int64_t m, const float *b, int64_t n, int64_t k, float *c)
{
    return pare_sgemm(&(struct pare_sgemm){ .tb = true,
                                            .M = m,
                                            .N = n,
                                            .K = k,
                                            .a = a,
                                            .lda = k,
                                            .b = b,
                                            .ldb = k,
                                            .c = c,
                                            .ldc = n });
}

int pare_product_strip(const struct pare_strip *s)
{
    return pare_sgemm(&(struct pare_sgemm){ .tb = true,
                                            .add = s->add,
                                            .M = s->M,
                                            .N = s->N,
                                            .K = s->K,
                                            .a = s->x,
                                            .lda = s->K,
                                            .b = s->w,
                                            .ldb = s->K,
                                            .c = s->y,
                                            .ldc = s->stride });
}
