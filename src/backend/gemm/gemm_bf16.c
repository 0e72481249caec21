/* gemm_bf16.c - matrix products whose operands are rounded to bf16, with float32 sums, of computed
 * matrices.
 *
 * Both operands are rounded to pairs along the axis that is summed over, and op(B) is packed.  A
 * transposed A stays in columns of pairs; then A' B is computed in parts of the sum, so that the
 * columns of a part stay in the cache.
 */
#include "gemm_bf16.h"

#include "gemm_packed_matrix.h"

#define DEPTH 256 /* pairs of a part of the sum */

bool pare_gemm_bf16_can(const struct pare_backend *b, const struct pare_sgemm *p)
{
    return b->bf16 && b->block >= 8 && p->N % b->block == 0 && p->ldc == p->N && p->M > 0 &&
           p->N > 0 && p->K > 0;
}

size_t pare_gemm_bf16_work(const struct pare_sgemm *p)
{
    return (size_t)(pare_bf16_half(p->K) * (p->M + 2 * p->N));
}

/* n rows of k elements as pairs along them; or, zipped, k rows of n elements as pairs of rows. */
struct operand {
    const float *from;
    bool zip;
    int64_t stride, n, k;
};

static void round_operand(int threads, const struct operand *o, float *to)
{
    const int64_t half = pare_bf16_half(o->k);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < (o->zip ? half : o->n); i++) {
        const float *row = o->from + (o->zip ? 2 * i : i) * o->stride;

        if (o->zip)
            pare_bf16_zip(row, 2 * i + 1 < o->k ? row + o->stride : NULL, o->n, to + i * o->n);
        else
            pare_bf16_pairs(row, o->k, to + i * half);
    }
}

/* Pack pairs of rows k, k + 1, ... of B, `some` of them, straight from its floats. */
static void pack_zipped(const struct pare_backend *b, const struct pare_sgemm *p, int64_t k,
                        int64_t some, float *to)
{
    const int64_t blocks = p->N / b->block;

#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < some; i++) {
        const int64_t row = 2 * (k + i);
        const float *x = p->b + row * p->ldb, *y = row + 1 < p->K ? x + p->ldb : NULL;

        for (int64_t c = 0; c < blocks; c += 2) {
            const int64_t at = c * b->block, width = (c + 1 < blocks ? 2 : 1) * b->block;

            pare_bf16_zip(x + at, y ? y + at : NULL, width,
                          to + pare_packed_gemm_at(some, blocks, b->block, i, at));
        }
    }
}

void pare_gemm_bf16(const struct pare_backend *b, const struct pare_sgemm *p, const float *bias,
                    float *work)
{
    const int64_t half = pare_bf16_half(p->K),
                  depth = p->ta && !p->tb && half > DEPTH ? DEPTH : half;
    const struct operand left = { p->a, p->ta, p->lda, p->M, p->K };
    const struct operand right = { p->b, false, p->ldb, p->N, p->K };
    float *x = work, *w = x + half * p->M, *packed = w + half * p->N;

    round_operand(b->threads, &left, x);
    if (p->tb)
        round_operand(b->threads, &right, w);
    for (int64_t k = 0; k < half; k += depth) {
        const int64_t some = half - k < depth ? half - k : depth;
        const struct pare_packed_gemm_weights pairs = { w, some, p->N, true }; /* if p->tb */
        struct pare_packed_gemm g = pare_packed_gemm_matrix(p->M, some, p->N, b->block);

        g.x = x + (p->ta ? k * p->M : k);
        g.x_row = p->ta ? 1 : half;
        g.x_step = p->ta ? p->M : 0;
        g.w = packed;
        g.y = p->c;
        g.start = k || p->add ? p->c : NULL;
        g.bias = k ? NULL : bias;
        g.bf16 = true;
        if (p->tb)
            pare_packed_gemm_pack(b, &pairs, packed);
        else
            pack_zipped(b, p, k, some, packed);
        pare_packed_gemm_multiply(b, &g, NULL, NULL);
    }
}
