/* det.c - Det: determinants of square matrices, by elimination with partial pivoting. */
#include <math.h>

#include "../shape/movement.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank < 2 || x->dim[x->rank - 1] != x->dim[x->rank - 2])
        return pare_fail(err, PARE_ESHAPE, "square matrices are expected, found %s",
                         pare_shape_text(x, buf, sizeof(buf)));
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank - 2, x->dim, err);
}

/* Overwrites the n x n matrix a. */
static double determinant(double *a, int64_t n)
{
    double det = 1;

    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;

        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
                best = i;
        if (a[best * n + k] == 0)
            return 0;
        for (int64_t j = k; best != k && j < n; j++) {
            double keep = a[k * n + j];

            a[k * n + j] = a[best * n + j];
            a[best * n + j] = keep;
        }
        det *= best == k ? a[k * n + k] : -a[k * n + k];
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t j = n - 1; j >= k; j--)
                a[i * n + j] -= a[k * n + j] * (a[i * n + k] / a[k * n + k]);
    }
    return det;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t side = x->dim[x->rank - 1], count = pare_numel(y);
    double *a = count ? pare_alloc_raw(c->scratch, (size_t)(side * side), sizeof(*a)) : NULL;

    if (count && !a)
        return pare_no_memory(err, "for a matrix of %lld rows", (long long)side);
    for (int64_t i = 0; i < count; i++) {
        double det;

        for (int64_t k = 0; k < side * side; k++)
            a[k] = pare_get(x, i * side * side + k);
        det = determinant(a, side);
        PARE_TRY(pare_convert(y->dtype, (char *)y->data + (size_t)i * pare_dtype_size(y->dtype),
                              PARE_F64, &det, 1, err));
    }
    return 0;
}

/* Gauss-Jordan: a becomes the identity and inv its inverse; false if a is singular. */
static bool invert(double *a, double *inv, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++)
        inv[i] = i % (n + 1) == 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        double pivot;

        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
                best = i;
        pivot = a[best * n + k];
        if (pivot == 0)
            return false;
        for (int64_t j = 0; j < n; j++) {
            double p = a[best * n + j] / pivot, q = inv[best * n + j] / pivot;

            a[best * n + j] = a[k * n + j], a[k * n + j] = p;
            inv[best * n + j] = inv[k * n + j], inv[k * n + j] = q;
        }
        for (int64_t i = 0; i < n; i++) {
            double by = i == k ? 0 : a[i * n + k];

            for (int64_t j = 0; by != 0 && j < n; j++) {
                a[i * n + j] -= by * a[k * n + j];
                inv[i * n + j] -= by * inv[k * n + j];
            }
        }
    }
    return true;
}

/* The cofactor (i, j) of x: the signed determinant without row i and column j. */
static double cofactor(const float *x, int64_t n, int64_t i, int64_t j, double *a)
{
    double sign = (i + j) % 2 ? -1 : 1, *to = a;

    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++)
            if (r != i && c != j)
                *to++ = (double)x[r * n + c];
    return sign * determinant(a, n - 1);
}

/* d det / d x[i, j] is the cofactor (i, j), which is det times element (j, i) of the inverse; for a
 * singular matrix each cofactor is computed. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    const float *gy = pare_f32(&n->out[0]->grad), *det = pare_f32(&n->out[0]->t);
    int64_t side = x->dim[x->rank - 1], count = pare_numel(&n->out[0]->t);
    double *a = count ? pare_alloc_raw(c->scratch, (size_t)(side * side), 2 * sizeof(*a)) : NULL;
    double *inv = a ? a + side * side : NULL;

    if (count && !a)
        return pare_no_memory(err, "for a matrix of %lld rows", (long long)side);
    for (int64_t m = 0; n->in[0]->grad.data && gy && m < count; m++) {
        const float *from = pare_f32(x) + m * side * side;
        float *to = pare_f32_mut(&n->in[0]->grad) + m * side * side;
        bool whole;

        for (int64_t k = 0; k < side * side; k++)
            a[k] = (double)from[k];
        whole = invert(a, inv, side);
        for (int64_t k = 0; k < side * side; k++) {
            int64_t i = k / side, j = k % side;

            to[k] += gy[m] * (float)(whole ? (double)det[m] * inv[j * side + i]
                                           : cofactor(from, side, i, j, a));
        }
    }
    return 0;
}

const struct pare_op pare_op_det = {
    .type = "Det",
    .doc = "Determinants of square matrices.",
    .since = 11,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .flags = PARE_OP_FLOAT_ONLY,
};
