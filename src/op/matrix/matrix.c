/* matrix.c - the plain matrix product, and the shapes of numpy's matmul. */
#include "matrix.h"

/* A block of b has this many rows and columns: 32 KB of float32, so that it stays in the L1 cache
 * while all rows of a are multiplied with it. */
enum { BLOCK_K = 64, BLOCK_N = 128 };

/* In the order i, k, j, so that the inner loop runs along rows of b and y.  A b whose columns are
 * not contiguous (a transposed one) is copied block by block first. */
#define MM(name, type)                                                           \
    PARE_SIMD static void name(const struct pare_mm *m)                          \
    {                                                                            \
        type pack[BLOCK_K * BLOCK_N];                                            \
                                                                                 \
        for (int64_t k0 = 0; k0 < m->K; k0 += BLOCK_K)                           \
            for (int64_t j0 = 0; j0 < m->N; j0 += BLOCK_N) {                     \
                int64_t kn = m->K - k0 < BLOCK_K ? m->K - k0 : BLOCK_K;          \
                int64_t jn = m->N - j0 < BLOCK_N ? m->N - j0 : BLOCK_N;          \
                const type *b = (const type *)m->b + k0 * m->bk + j0 * m->bj;    \
                int64_t bs = m->bk;                                              \
                                                                                 \
                if (m->bj != 1) {                                                \
                    for (int64_t j = 0; j < jn; j++)                             \
                        for (int64_t k = 0; k < kn; k++)                         \
                            pack[k * BLOCK_N + j] = b[k * m->bk + j * m->bj];    \
                    b = pack;                                                    \
                    bs = BLOCK_N;                                                \
                }                                                                \
                for (int64_t i = 0; i < m->M; i++) {                             \
                    const type *a = (const type *)m->a + i * m->ai + k0 * m->ak; \
                    type *restrict y = (type *)m->y + i * m->ys + j0;            \
                                                                                 \
                    for (int64_t k = 0; k < kn; k++) {                           \
                        const type *restrict row = b + k * bs;                   \
                        type v = a[k * m->ak];                                   \
                                                                                 \
                        for (int64_t j = 0; j < jn; j++)                         \
                            y[j] += v * row[j];                                  \
                    }                                                            \
                }                                                                \
            }                                                                    \
    }

MM(mm_f32, float)
MM(mm_f64, double)
MM(mm_u32, uint32_t) /* signed products wrap to the same bits, without overflow */
MM(mm_u64, uint64_t)

void pare_mm(enum pare_dtype dtype, const struct pare_mm *m)
{
    switch ((int)dtype) {
    case PARE_F32: mm_f32(m); break;
    case PARE_F64: mm_f64(m); break;
    case PARE_I32:
    case PARE_U32: mm_u32(m); break;
    case PARE_I64:
    case PARE_U64: mm_u64(m); break;
    default: break;
    }
}

/* The last axes of a and b as matrices: a vector a is (1, K), a vector b is (K, 1). */
static void last_two(const struct pare_tensor *t, bool left, int64_t *rows, int64_t *cols)
{
    if (t->rank == 1) {
        *rows = left ? 1 : t->dim[0];
        *cols = left ? t->dim[0] : 1;
    } else {
        *rows = t->dim[t->rank - 2];
        *cols = t->dim[t->rank - 1];
    }
}

/* The axes before the matrices. */
static struct pare_tensor batch_of(const struct pare_tensor *t)
{
    struct pare_tensor b = *t;

    b.rank = t->rank > 2 ? t->rank - 2 : 0;
    return b;
}

int pare_matmul_shape(struct pare_tensor *y, const struct pare_tensor *a,
                      const struct pare_tensor *b, struct pare_err *err)
{
    struct pare_tensor ba = batch_of(a), bb = batch_of(b), r;
    char ta[PARE_SHAPE_TEXT], tb[PARE_SHAPE_TEXT];
    int64_t m, n, k, kb;

    pare_shape_text(a, ta, sizeof(ta));
    pare_shape_text(b, tb, sizeof(tb));
    if (a->rank < 1 || b->rank < 1)
        return pare_fail(err, PARE_ESHAPE, "operands are %s and %s, a scalar is not a matrix", ta,
                         tb);
    last_two(a, true, &m, &k);
    last_two(b, false, &kb, &n);
    if (k != kb)
        return pare_fail(err, PARE_ESHAPE,
                         "operands are %s and %s: the left has %lld columns, the right %lld rows",
                         ta, tb, (long long)k, (long long)kb);
    PARE_TRY(pare_broadcast(&r, &ba, &bb, err));
    if (a->rank > 1)
        r.dim[r.rank++] = m;
    if (b->rank > 1)
        r.dim[r.rank++] = n;
    y->rank = r.rank;
    memcpy(y->dim, r.dim, sizeof(y->dim));
    return 0;
}

struct pare_matmul pare_matmul_plan(const struct pare_tensor *a, const struct pare_tensor *b)
{
    struct pare_tensor ba = batch_of(a), bb = batch_of(b), y = ba;
    const struct pare_tensor *in[2] = { &ba, &bb };
    struct pare_matmul p = { 0 };
    struct pare_err err;
    int64_t kb;

    last_two(a, true, &p.M, &p.K);
    last_two(b, false, &kb, &p.N);
    pare_broadcast(&y, &ba, &bb, &err); /* infer() has checked that the shapes fit */
    pare_walk_start(&p.walk, &y, in, 2);
    for (int i = 0; i < y.rank; i++) { /* the walk counts matrices, kernels count elements */
        p.walk.stride[0][i] *= p.M * p.K;
        p.walk.stride[1][i] *= p.K * p.N;
    }
    p.batch = p.M && p.N ? pare_numel(&y) : 0;
    return p;
}

void pare_matmul_run(const struct pare_tensor *a, const struct pare_tensor *b,
                     const struct pare_tensor *y)
{
    size_t size = pare_dtype_size(y->dtype);
    struct pare_matmul p;

    if (!pare_numel(y))
        return;
    p = pare_matmul_plan(a, b);
    memset(y->data, 0, (size_t)pare_numel(y) * size);
    for (int64_t i = 0; i < p.batch; i++, pare_walk_next(&p.walk)) {
        struct pare_mm m = {
            .M = p.M,
            .N = p.N,
            .K = p.K,
            .ai = p.K,
            .ak = 1,
            .bk = p.N,
            .bj = 1,
            .ys = p.N,
            .a = (char *)a->data + (size_t)p.walk.at[0] * size,
            .b = (char *)b->data + (size_t)p.walk.at[1] * size,
            .y = (char *)y->data + (size_t)(i * p.M * p.N) * size,
        };

        pare_mm(y->dtype, &m);
    }
}

/* If b has no batch axes, all rows of a are one matrix: two products in total. */
static void merge_rows(struct pare_matmul *p, const struct pare_tensor *a,
                       const struct pare_tensor *b)
{
    if (b->rank > 2 || a->rank < 3)
        return;
    p->M *= p->batch;
    p->batch = p->batch ? 1 : 0;
}

void pare_matmul_backward(const struct pare_node *n)
{
    const struct pare_value *a = n->in[0], *b = n->in[1];
    const float *gy = pare_f32(&n->out[0]->grad);
    struct pare_matmul p;

    if (!gy || (!a->grad.data && !b->grad.data))
        return;
    p = pare_matmul_plan(&a->t, &b->t);
    merge_rows(&p, &a->t, &b->t);
    for (int64_t i = 0; i < p.batch; i++, pare_walk_next(&p.walk)) {
        int64_t at = p.walk.at[0], bt = p.walk.at[1];
        struct pare_mm ga = {
            /* (M, N) (N, K) */
            .M = p.M,
            .N = p.K,
            .K = p.N,
            .ai = p.N,
            .ak = 1,
            .bk = 1,
            .bj = p.N,
            .ys = p.K,
            .a = gy + i * p.M * p.N,
            .b = pare_f32(&b->t) + bt,
        };
        struct pare_mm gb = {
            /* (K, M) (M, N) */
            .M = p.K,
            .N = p.N,
            .K = p.M,
            .ai = 1,
            .ak = p.K,
            .bk = p.N,
            .bj = 1,
            .ys = p.N,
            .a = pare_f32(&a->t) + at,
            .b = gy + i * p.M * p.N,
        };

        if (a->grad.data) {
            ga.y = pare_f32_mut(&a->grad) + at;
            pare_mm(PARE_F32, &ga);
        }
        if (b->grad.data) {
            gb.y = pare_f32_mut(&b->grad) + bt;
            pare_mm(PARE_F32, &gb);
        }
    }
}

double pare_matmul_macs(const struct pare_tensor *a, const struct pare_tensor *b)
{
    struct pare_tensor y = { 0 };
    struct pare_err err;
    int64_t k, n;
    double total;

    if (pare_matmul_shape(&y, a, b, &err))
        return 0;
    last_two(b, false, &k, &n);
    total = (double)k;
    for (int i = 0; i < y.rank; i++)
        total *= (double)y.dim[i];
    return total;
}

void pare_matmul_ties(const struct pare_node *n, int b, struct pare_ties *t)
{
    const struct pare_value *side[2] = { n->in[0], n->in[b] }, *y = n->out[0];
    int rank[2] = { side[0]->t.rank, side[1]->t.rank };
    int rows = rank[0] > 1, cols = rank[1] > 1, batch = y->t.rank - rows - cols;

    if (rank[0] < 1 || rank[1] < 1)
        return;
    (n->op->shrink ? pare_tie_summed : pare_tie)(t, side[0], rank[0] - 1, side[1],
                                                 rank[1] - 1 - cols);
    if (rows)
        pare_tie(t, side[0], rank[0] - 2, y, batch);
    if (cols)
        pare_tie(t, side[1], rank[1] - 1, y, batch + rows);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < rank[k] - 2; i++) {
            int to = batch - (rank[k] - 2) + i;

            if (side[k]->t.dim[i] == y->t.dim[to])
                pare_tie(t, side[k], i, y, to);
        }
}

/* ---- products without factors -------------------------------------------------------------- */

bool pare_product_get(const struct pare_node *n, struct pare_gemm_attrs *a)
{
    bool gemm = pare_node_is(n, &pare_op_gemm);

    *a = gemm ? pare_gemm_get(n) : (struct pare_gemm_attrs){ .alpha = 1, .beta = 1 };
    return gemm || pare_node_is(n, &pare_op_mat_mul);
}

bool pare_is_plain_product(const struct pare_node *n, bool *tb)
{
    struct pare_gemm_attrs a;
    bool product = pare_product_get(n, &a);

    *tb = a.tb;
    return product && a.alpha == 1 && !a.ta && (n->n_in < 3 || !n->in[2] || a.beta == 1);
}
