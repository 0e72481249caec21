/* norm.c - what normalisations share; not an operator itself. */
#include "norm.h"

void pare_moments(const float *x, int64_t n, double *mean, double *var)
{
    double sum = 0, squares = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - *mean;

        squares += d * d;
    }
    *var = squares / (double)n;
}

int pare_norm_float(const struct pare_node *n, int i, const char *name, struct pare_err *err)
{
    enum pare_dtype d = n->in[i]->t.dtype;

    if (d == PARE_F32 || d == PARE_F64 || d == PARE_F16 || d == PARE_BF16)
        return 0;
    return pare_fail(err, PARE_ESHAPE, "%s is %s, expected floating-point numbers", name,
                     pare_dtype_name(d));
}

int pare_norm_param(const struct pare_node *n, int i, const char *name, int64_t count,
                    struct pare_err *err)
{
    const struct pare_tensor *t = &n->in[i]->t, *x = &n->in[0]->t;
    char bt[PARE_SHAPE_TEXT], bx[PARE_SHAPE_TEXT];

    PARE_TRY(pare_norm_float(n, i, name, err));
    if (t->rank != 1 || t->dim[0] != count)
        return pare_fail(err, PARE_ESHAPE, "X is %s but %s is %s, expected (%lld)",
                         pare_shape_text(x, bx, sizeof(bx)), name,
                         pare_shape_text(t, bt, sizeof(bt)), (long long)count);
    return 0;
}

int pare_norm_inner(const struct pare_tensor *x, int from, int64_t *inner, struct pare_err *err)
{
    int64_t all = 1;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank < from)
        return pare_fail(err, PARE_ESHAPE, "X is %s, expected at least %d dimensions",
                         pare_shape_text(x, buf, sizeof(buf)), from);
    *inner = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        if (x->dim[i] && all > INT64_MAX / x->dim[i])
            return pare_fail(err, PARE_ELIMIT, "X is %s, larger than can be handled",
                             pare_shape_text(x, buf, sizeof(buf)));
        all *= x->dim[i] ? x->dim[i] : 1;
        if (i >= from)
            *inner *= x->dim[i];
    }
    return 0;
}

int pare_infer_global_pool(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor *y = &n->out[0]->t;
    int64_t inner;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    pare_like(y, &n->in[0]->t);
    for (int i = 2; i < y->rank; i++)
        y->dim[i] = 1;
    return 0;
}

void pare_ties_norm(const struct pare_node *n, int params, struct pare_ties *t)
{
    const struct pare_tensor *x = &n->in[0]->t;

    for (int i = 0; i < x->rank; i++)
        pare_tie(t, n->in[0], i, n->out[0], i);
    for (int i = 1; i <= params && i < n->n_in && x->rank > 1; i++)
        if (n->in[i])
            pare_tie(t, n->in[i], 0, n->out[0], 1);
}
