/* det.c - Det: determinants of square matrices, by elimination with the largest pivot. */
#include <math.h>

#include "movement.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank < 2 || x->dim[x->rank - 1] != x->dim[x->rank - 2])
        return pare_fail(err, PARE_ESHAPE, "square matrices are expected, found %s",
                         pare_shape_text(x, buf, sizeof(buf)));
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank - 2, x->dim, err);
}

/* Destroys the n x n matrix a. */
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
    double *a = pare_alloc_raw(c->scratch, (size_t)(side * side), sizeof(*a));

    if (!a)
        return pare_fail(err, PARE_ENOMEM, "no memory for a matrix of %lld rows", (long long)side);
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

const struct pare_op pare_op_det = {
    .abi = PARE_ABI,
    .type = "Det",
    .doc = "Determinants of square matrices.",
    .since = 11,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
};
