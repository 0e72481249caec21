/* post_ops_apply.c - vector loops for post-ops, by instruction set. */
#include "post_ops_apply.h"

#include "../../base/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "../simd/vec512.h"
#include "post_ops_loops.h"
#include "../simd/vec_end.h"

#include "../simd/vec256.h"
#include "post_ops_loops.h"
#include "../simd/vec_end.h"
#endif

#include "../simd/vec_plain.h"
#include "post_ops_loops.h"
#include "../simd/vec_end.h"

static void apply(const struct pare_post_op *p, const struct pare_post_area *a)
{
#if defined(__x86_64__)
    if (a->n % 16 == 0 && __builtin_cpu_supports("avx512f")) {
        apply_avx512(p, a);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        apply_avx2(p, a);
        return;
    }
#endif
    apply_plain(p, a);
}

void pare_post_ops_run(const struct pare_post_op *post, int n_post, const struct pare_post_area *a)
{
    enum { PIECE = 1024 }; /* fits in the L1 cache */
    struct pare_post_area part = *a;

    if (a->rows > 1 || n_post < 2) {
        for (int i = 0; i < n_post; i++)
            apply(&post[i], a);
        return;
    }
    for (int64_t at = 0; at < a->n; at += PIECE) {
        part.y = a->y + at;
        part.sum = a->sum ? a->sum + at : a->sum;
        part.n = a->n - at < PIECE ? a->n - at : PIECE;
        for (int i = 0; i < n_post; i++)
            apply(&post[i], &part);
    }
}
